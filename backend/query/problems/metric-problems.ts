// Problems that metrics show now: firing alerts, objectives whose error budget is used too fast, and file systems and volumes that are full
// or will be. One query, as cluster-state.ts.
import { consoleAddress } from "../../client/console-address.ts";
import type { QueryOptions } from "../../admission/query-queue.ts";
import { alertAddress } from "../../client/alert-address.ts";
import type { MetricsStore } from "../../storage/metrics/metric-store.ts";
import { type Cell, type Labels, readCells } from "../kubernetes/cluster-state.ts";
import { percent, type Problem } from "./problem.ts";

const MAX_OF_KIND = 50;
const DAY_S = 86_400;
/** The clock of the evaluator can be ahead. */
const MINUTE_MS = 60_000;
/** A file system that will be full within this time is a problem, once it is three quarters full. */
const FULL_WITHIN_S = 3 * DAY_S;

const DISK = "k8s_cluster_name, k8s_node_name, host_id, node, mountpoint";
const VOLUME = "k8s_cluster_name, k8s_namespace_name, k8s_pod_name, k8s_volume_name";
const used = `sum by (${DISK}) (system_filesystem_usage_bytes{$scope,state="used"}) / sum by (${DISK}) (system_filesystem_usage_bytes{$scope})`;

const COLUMNS = {
  disk: `topk(${MAX_OF_KIND}, ${used} > 0.9)`,
  // The seconds until it is full, at the rate of the last six hours.
  filling: `bottomk(${MAX_OF_KIND}, (sum by (${DISK}) (system_filesystem_usage_bytes{$scope,state="free"}) / sum by (${DISK}) (deriv(system_filesystem_usage_bytes{$scope,state="used"}[6h])) > 0 < ${FULL_WITHIN_S}) and (${used} > 0.75 < 0.9))`,
  volume: `topk(${MAX_OF_KIND}, 1 - max by (${VOLUME}) (k8s_volume_available_bytes{$scope}) / max by (${VOLUME}) (k8s_volume_capacity_bytes{$scope}) > 0.9)`,
  // Senders can write series with this name, but not with this host_id.
  budget: `bottomk(${MAX_OF_KIND}, max by (slo, slo_id) (last_over_time(slo:error_budget_remaining{$scope,host_id="slo"}[15m])))`,
  alert: `limitk(${MAX_OF_KIND}, ALERTS{$scope,alertstate="firing"})`,
  alert_since: `limitk(${10 * MAX_OF_KIND}, ALERTS_FOR_STATE{$scope} and ignoring(alertstate) ALERTS{$scope,alertstate="firing"})`,
} as const;

/** Throws ApiError as MetricsStore.query does. */
export async function findMetricProblems(
  metrics: Pick<MetricsStore, "query">,
  orgId: string,
  atMs: number,
  options: QueryOptions,
): Promise<Problem[]> {
  const { cells } = await readCells(metrics, orgId, { columns: COLUMNS, scope: {}, atMs, options });
  // Senders can write such series, too, with values that are no times.
  const starts = cells.filter(({ column, value }) => column === "alert_since" && value > 0 && value * 1000 <= atMs + MINUTE_MS);
  const sinceS = new Map(starts.map((cell) => [identity(cell.labels), cell.value]));
  const problems = cells.flatMap((cell): Problem[] => {
    switch (cell.column) {
      case "disk":
        return [describeDisk(cell)];
      case "filling":
        return [describeFilling(cell)];
      case "volume":
        return [describeVolume(cell)];
      case "alert":
        // The burn rate alerts of an objective are one problem.
        return cell.labels["slo_id"] ? [] : [describeAlert(cell.labels, sinceS.get(identity(cell.labels)))];
      default:
        return [];
    }
  });
  return [...problems, ...describeObjectives(cells, sinceS)];
}

/** One problem for each objective that has no budget left, or that uses it too fast. */
function describeObjectives(cells: readonly Cell[], sinceS: ReadonlyMap<string, number>): Problem[] {
  const left = new Map(
    cells.filter(({ column }) => column === "budget").map(({ labels, value }) => [labels["slo_id"] ?? "", { labels, value }]),
  );
  const alerts = cells.filter(({ column, labels }) => column === "alert" && labels["slo_id"]);
  const burning = Map.groupBy(alerts, ({ labels }) => labels["slo_id"] ?? "");
  const spent = [...left].filter(([, { value }]) => value <= 0).map(([id]) => id);
  return [...new Set([...burning.keys(), ...spent])].map((id) => {
    const [fastest] = (burning.get(id) ?? []).toSorted((a, b) => rateOf(b) - rateOf(a));
    const budget = left.get(id);
    const since = fastest && sinceS.get(identity(fastest.labels));
    const name = fastest?.labels["slo"] ?? budget?.labels["slo"] ?? id;
    const isCritical = (budget !== undefined && budget.value <= 0) || fastest?.labels["severity"] === "critical";
    return {
      kind: "slo",
      severity: isCritical ? "critical" : "warning",
      score: isCritical ? 92 : 78,
      title: fastest
        ? `objective ${name} uses its error budget too fast: burn rate above ${rateOf(fastest)}`
        : `the error budget of objective ${name} is used up`,
      detail: fastest && budget && `${percent(Math.max(0, budget.value))} of the budget left`,
      sinceMs: since && since * 1000,
      action: "Objective",
      link: consoleAddress("slos", {}, id),
    };
  });
}

function rateOf({ labels }: Cell): number {
  return Number(labels["burn_rate"] ?? 0);
}

const ADDED = new Set(["__name__", "alertstate", "org_id", "alertgroup"]);

function identity(labels: Labels): string {
  return JSON.stringify(
    Object.entries(labels)
      .filter(([name]) => !ADDED.has(name))
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  );
}

const SCORES: Readonly<Record<string, number>> = { critical: 95, warning: 81 };

function describeAlert(labels: Labels, sinceS: number | undefined): Problem {
  const { alertname = "alert", rule_id: ruleId = "", severity = "info" } = labels;
  const own = Object.fromEntries(Object.entries(labels).filter(([name]) => !ADDED.has(name) && name !== "rule_id"));
  const differing = Object.entries(own).filter(([name]) => name !== "alertname" && name !== "severity");
  const startsAt = sinceS === undefined ? "" : new Date(sinceS * 1000).toISOString();
  return {
    kind: "alert",
    severity: severity === "critical" ? "critical" : "warning",
    score: SCORES[severity] ?? 61,
    title: `alert ${alertname} is firing`,
    detail:
      differing
        .map(([name, value]) => `${name}=${value}`)
        .join(", ")
        .slice(0, 300) || undefined,
    sinceMs: sinceS === undefined ? undefined : sinceS * 1000,
    action: "Alert",
    link: alertAddress({ ruleId, labels: own, startsAt }),
  };
}

function placeOf({ k8s_cluster_name: cluster, k8s_node_name: name, host_id: hostId, node = "" }: Labels): { name: string; link: string } {
  if (name) return { name, link: consoleAddress("entity", { kind: "node", cluster }, name) };
  return { name: node, link: consoleAddress("entity", { kind: "host", host: hostId }, node) };
}

function describeDisk({ labels, value }: Cell): Problem {
  const { name, link } = placeOf(labels);
  const title = `file system ${labels["mountpoint"] ?? ""} of ${name} is ${percent(value)} full`;
  return { kind: "disk", severity: value > 0.95 ? "critical" : "warning", score: value > 0.95 ? 94 : 83, title, action: "Node", link };
}

function describeFilling({ labels, value }: Cell): Problem {
  const { name, link } = placeOf(labels);
  const left = value > DAY_S ? `${Math.round(value / DAY_S)} days` : `${Math.max(1, Math.round(value / 3600))} hours`;
  const title = `file system ${labels["mountpoint"] ?? ""} of ${name} will be full in ${left}`;
  return {
    kind: "disk",
    severity: "warning",
    score: value > DAY_S ? 72 : 86,
    title,
    detail: "at the rate of the last 6 hours",
    action: "Node",
    link,
  };
}

function describeVolume({ labels, value }: Cell): Problem {
  const { k8s_cluster_name: cluster, k8s_namespace_name: namespace = "", k8s_pod_name: pod = "", k8s_volume_name: volume = "" } = labels;
  return {
    kind: "disk",
    severity: value > 0.95 ? "critical" : "warning",
    score: value > 0.95 ? 94 : 83,
    title: `volume ${volume} of pod ${namespace}/${pod} is ${percent(value)} full`,
    action: "Pod",
    link: consoleAddress("entity", { kind: "pod", cluster, namespace }, pod),
  };
}
