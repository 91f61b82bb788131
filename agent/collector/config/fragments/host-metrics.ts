// Collects metrics of the machine: processor, memory, disks, file systems, network, load. In a pod, all but the network metrics are read
// from the node's root file system, mounted at `root`. /proc/net always shows the reader's own network namespace, so it would report the
// agent pod's traffic as the node's; the kubelet's k8s.node.network.* metrics replace it.
import type { Component, Fragment } from "./fragment.ts";

export interface HostMetricsInput {
  readonly intervalMs: number;
  /** Path of the machine's root file system: `/`, or its mount point in a pod. */
  readonly root: string;
  /** False in a pod. */
  readonly hasHostNetwork: boolean;
  /** False if `root` contains only /proc and /sys: the sizes would be those of the container. */
  readonly hasFileSystems: boolean;
}

export function hostMetrics({ intervalMs, root, hasHostNetwork, hasFileSystems }: HostMetricsInput): Fragment {
  return {
    receivers: {
      hostmetrics: {
        collection_interval: `${intervalMs}ms`,
        root_path: root,
        scrapers: {
          cpu: {},
          load: {},
          memory: {},
          disk: {},
          ...(hasFileSystems && { filesystem: FILESYSTEM }),
          ...(hasHostNetwork && { network: NETWORK }),
          paging: {},
          processes: {},
        },
      },
    },
    pipelines: [{ id: "metrics/node", receivers: ["hostmetrics"], processors: [] }],
  };
}

/** Excludes mounts of containers, which appear and disappear by the hundred and do not matter for disk usage. */
const FILESYSTEM: Component = {
  exclude_mount_points: {
    match_type: "regexp",
    mount_points: ["^/(dev|proc|sys|run)($|/)", "^/var/lib/(docker|containerd|containers|kubelet|rancher)/", "^/snap/", "^/hostfs/"],
  },
  exclude_fs_types: {
    match_type: "strict",
    fs_types:
      "autofs binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts devtmpfs fusectl hugetlbfs mqueue nsfs overlay proc pstore rpc_pipefs securityfs selinuxfs squashfs sysfs tmpfs tracefs".split(
        " ",
      ),
  },
};
const NETWORK: Component = { exclude: { match_type: "regexp", interfaces: ["^veth", "^cali", "^lxc", "^cni"] } };
