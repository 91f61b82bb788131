// Problems of Kubernetes: unhealthy pods, one problem for all pods of a workload, and nodes that are not ready or under pressure.
import { consoleAddress } from "../../client/console-address.ts";
import { quote } from "../changes/change.ts";
import type { GroupRow } from "../kubernetes/groups.ts";
import type { PodRow } from "../kubernetes/pods.ts";
import type { Problem, Problems } from "./problem.ts";

export interface ClusterState {
  readonly pods: readonly PodRow[];
  readonly nodes: readonly GroupRow[];
}

export function findClusterProblems({ pods, nodes }: ClusterState): Problems {
  const unhealthy = pods.filter(({ health }) => health !== "ok");
  const byOwner = Map.groupBy(unhealthy, ({ cluster, namespace, name, owner }) =>
    JSON.stringify([cluster, namespace, owner ? [owner.kind, owner.name] : name]),
  );
  const badNodes = nodes.filter(({ health }) => health === "bad");
  return {
    problems: [...badNodes.map(describeNode), ...[...byOwner.values()].map((members) => describePods(members))],
    totals: { pods: [pods.length, unhealthy.length], nodes: [nodes.length, badNodes.length] },
  };
}

function describeNode({ cluster, name, state, unhealthy_pods: unhealthy, pods }: GroupRow): Problem {
  return {
    kind: "node",
    severity: "critical",
    score: state === "NotReady" || state === "Unknown" ? 97 : 91,
    title: `node ${name} is ${state === "NotReady" ? "not ready" : `in state ${state}`}`,
    detail: unhealthy > 0 ? `${unhealthy} of its ${pods} pods are unhealthy` : `of cluster ${cluster ?? ""}`,
    action: "Node",
    link: consoleAddress("entity", { kind: "node", cluster }, name),
  };
}

/** `members`: unhealthy pods of one workload, the worst first. */
function describePods(members: readonly PodRow[]): Problem {
  const [worst] = members;
  if (!worst) throw new Error("a workload without pods");
  const { namespace, name, owner, state, health, restarts, recent_restarts: recent, last_reason: reason } = worst;
  const isRestarting = state === "Running" && recent > 0;
  const who =
    members.length > 1 && owner ? `${members.length} pods of ${owner.kind} ${namespace}/${owner.name}` : `pod ${namespace}/${name}`;
  const verb = members.length > 1 && owner ? "are" : "is";
  const facts = [
    reason && `last ended with ${reason}`,
    restarts > 0 && `${restarts} restarts${recent > 0 ? `, ${recent} in the last hour` : ""}`,
    worst.memory_share !== undefined && worst.memory_share > 0.9 && `memory at ${Math.round(worst.memory_share * 100)} % of its limit`,
    worst.node && `on ${worst.node}`,
  ];
  return {
    kind: "pod",
    severity: health === "bad" ? "critical" : "warning",
    score: health === "bad" ? 93 : isRestarting ? 66 : 70,
    title: isRestarting
      ? `${who} restarted ${recent === 1 ? "once" : `${recent} times`} in the last hour`
      : `${who} ${verb} in state ${state}`,
    detail: facts.filter(Boolean).join("; ") || undefined,
    ...nextStep(worst),
  };
}

/** The newest lines of the run that ended, or the events of a pod that never ran. */
function nextStep({ cluster, namespace, name, last_run: run }: PodRow): Pick<Problem, "action" | "link"> {
  const labels = [
    ["k8s.cluster.name", cluster],
    ["k8s.namespace.name", namespace],
    ["k8s.pod.name", name],
    ...(run
      ? [
          ["k8s.container.name", run.container],
          ["k8s.container.restart_count", String(run.restart_count)],
        ]
      : []),
  ];
  const q = labels.map(([key, value = ""]) => `label.${key}:${quote(value)}`).join(" ");
  return run
    ? { action: "Last lines", link: consoleAddress("logs", { q, from: "24h" }) }
    : { action: "Events", link: consoleAddress("logs", { q: `source:kubernetes-events ${q}`, from: "24h" }) };
}
