// Metrics of the machine: processor, memory, disks, file systems, network, load. In a pod they are read from the node's root file
// system, mounted at `root`, but for the network: /proc/net shows the reader's own network namespace, whatever it is mounted as, and
// would pass the agent pod's traffic off as the node's. The kubelet's k8s.node.network.* are the node's.
import type { Component, Fragment } from "./fragment.ts";

export interface HostMetricsInput {
  readonly intervalMs: number;
  /** Where the machine's root file system is: `/`, or in a pod where it is mounted. */
  readonly root: string;
  /** False in a pod. */
  readonly hasHostNetwork: boolean;
  /** False where `root` holds /proc and /sys alone: the sizes would be those of the container. */
  readonly hasFileSystems: boolean;
}

export const NODE_METRICS_PIPELINE = "metrics/node";

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
    pipelines: [{ id: NODE_METRICS_PIPELINE, receivers: ["hostmetrics"], processors: [] }],
  };
}

/** Mounts of containers come and go by the hundred and say nothing of the disk. */
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
