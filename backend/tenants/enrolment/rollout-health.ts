// Decides which nodes of a cluster use its newest remote configuration, which of them are unhealthy, and whether the configuration is the
// cause.
import { createHash } from "node:crypto";
import type { Kysely, Selectable } from "kysely";
import { durationMs } from "../../../common/duration.ts";
import { type ClusterConfig, FULL_QUEUE_PERCENT } from "../../../common/protocol/enrolment.ts";
import { isOnline } from "./heartbeats.ts";
import type { ClusterNodeTable, EnrolmentTables } from "./enrolment-tables.ts";

type ReportedNode = Pick<Selectable<ClusterNodeTable>, "name" | "last_heartbeat" | "collector" | "config_error">;

export interface Rollout {
  readonly clusterId: string;
  readonly percent: number;
  readonly intervalS: number;
  /** Nodes with the configuration that were unhealthy when its stage began. */
  readonly unhealthyBefore: number;
}

/** Share of the nodes with the configuration that may become unhealthy. */
const TOLERATED_SHARE = 0.1;
const SHOWN_NODES = 3;

/** The nodes of a cluster, by name. */
export async function readNodes(db: Kysely<EnrolmentTables>, clusterId: string): Promise<ReportedNode[]> {
  return await db
    .selectFrom("cluster_nodes")
    .select(["name", "last_heartbeat", "collector", "config_error"])
    .where("cluster_id", "=", clusterId)
    .orderBy("name")
    .execute();
}

/** Whether the node belongs to the share: a hash of its name decides, so that a node stays in a share that grows. */
export function isInShare(clusterId: string, node: string, percent: number): boolean {
  return createHash("sha256").update(`${clusterId}/${node}`).digest().readUInt32BE() % 100 < percent;
}

/** The longest heartbeat interval in seconds: while a change of it is rolled out, nodes send heartbeats at either interval. */
export function slowestIntervalS(reportedS: number, ...configs: readonly ClusterConfig[]): number {
  return Math.max(reportedS, ...configs.map(({ intervals }) => (durationMs(intervals?.heartbeat ?? "") ?? 0) / 1000));
}

/**
 * Undefined for a healthy node. If all nodes have the configuration (`percent` 100), there are none to compare with, so problems that can
 * also result from an outage of the backend or from removed nodes do not count.
 */
export function findProblem(node: ReportedNode, { percent, intervalS }: Pick<Rollout, "percent" | "intervalS">, nowMs: number) {
  const { state = "running", queue_percent: queued = 0, failing = [] } = node.collector ?? {};
  const isComparable = percent < 100;
  if (!isOnline(node.last_heartbeat, intervalS, nowMs)) return isComparable ? "offline" : undefined;
  if (state !== "running") return `collector is ${state}`;
  if (node.config_error) return "refuses the configuration";
  if (!isComparable) return undefined;
  if (failing.length > 0) return `${failing.join(" and ")} not delivered`;
  return queued >= FULL_QUEUE_PERCENT ? `disk queue ${queued} % full` : undefined;
}

/**
 * Why the rollout must be stopped; undefined if it continues. Compares with nodes without the configuration, because an outage affects them
 * too.
 */
export function findReason(rollout: Rollout, nodes: readonly ReportedNode[], nowMs: number): string | undefined {
  const { clusterId, percent, unhealthyBefore } = rollout;
  const checked = nodes.map((node) => ({ node, problem: findProblem(node, rollout, nowMs) }));
  const { inside = [], outside = [] } = Object.groupBy(checked, ({ node }) =>
    isInShare(clusterId, node.name, percent) ? "inside" : "outside",
  );
  const unhealthy = inside.filter(({ problem }) => problem !== undefined);
  if (unhealthy.length - unhealthyBefore <= TOLERATED_SHARE * (inside.length - unhealthyBefore)) return undefined;
  const unhealthyOutside = outside.filter(({ problem }) => problem !== undefined).length;
  if (outside.length > 0 && unhealthy.length / inside.length <= unhealthyOutside / outside.length) return undefined;
  const examples = unhealthy.slice(0, SHOWN_NODES).map(({ node, problem }) => `${node.name}: ${problem}`);
  const more = unhealthy.length > SHOWN_NODES ? ", …" : "";
  return `${unhealthy.length} of ${inside.length} nodes with it are unhealthy, ${unhealthyBefore} before (${examples.join(", ")}${more})`;
}
