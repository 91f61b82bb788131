// Generates the rules of service level objectives: recording rules for the burn rates of seven windows, and the four multi-window,
// multi-burn-rate alerts of the SRE workbook (chapter 5, table 5-8). Invariants: the id of a generated rule depends only on its objective
// and its window, so its alerts keep their state when the objective changes; an alert reads only recorded burn rates.
import { createHash } from "node:crypto";
import type { RuleGroup } from "../engines/vmalert/rule-files.ts";
import { SECOND_GROUP } from "../engines/vmalert/vmalert-shards.ts";
import { burnRateQuery, type Slo } from "./slo.ts";
import type { RuleBody } from "./alert-rule.ts";

/** The alert fires if the burn rate of both windows is above this. */
export const BURN_RATE_ALERTS = [
  { burnRate: 14.4, long: "1h", short: "5m", severity: "critical" },
  { burnRate: 6, long: "6h", short: "30m", severity: "critical" },
  { burnRate: 3, long: "1d", short: "2h", severity: "warning" },
  { burnRate: 1, long: "3d", short: "6h", severity: "warning" },
] as const;
type BurnRateAlert = (typeof BURN_RATE_ALERTS)[number];

export const BURN_RATE = "slo:burn_rate";
const WINDOWS = [...new Set(BURN_RATE_ALERTS.flatMap(({ long, short }) => [short, long]))];

/** A rule of an objective, in the form of rules that users write. */
export function burnRateRules(slo: Slo): (RuleBody & { readonly id: string })[] {
  return BURN_RATE_ALERTS.map((alert) => ({
    id: ruleId(slo.id, alert.long),
    name: `SLO ${slo.name}: burn rate ${alert.burnRate} over ${alert.long}`,
    severity: alert.severity,
    expr: burnRateExpression(slo.id, alert),
    for: "0s",
    enabled: true,
    labels: {
      ...slo.labels,
      slo: slo.name,
      slo_id: slo.id,
      burn_rate: String(alert.burnRate),
      window: alert.long,
      short_window: alert.short,
    },
    annotations: {
      summary: `The error budget of ${slo.name} is used too fast: burn rate {{ $value | printf "%.1f" }}`,
      description: `Generated for a service level objective of ${slo.objective} %: the burn rate of the last ${alert.long} and of the last ${alert.short} is above ${alert.burnRate}. Change the objective, not this rule.`,
    },
  }));
}

function burnRateExpression(id: string, { burnRate, long, short }: BurnRateAlert): string {
  // The series of senders have a host_id; what vmalert records has none.
  const rate = (window: string): string => `${BURN_RATE}{slo_id="${id}",window="${window}",host_id=""}`;
  return `${rate(long)} > ${burnRate} and ignoring(window) ${rate(short)} > ${burnRate}`;
}

/** A UUID (version 8, RFC 9562) of the objective's id and the window. */
function ruleId(sloId: string, window: string): string {
  const digits = createHash("sha256").update(`${sloId} ${window}`).digest("hex");
  return [digits.slice(0, 8), digits.slice(8, 12), `8${digits.slice(13, 16)}`, `8${digits.slice(17, 20)}`, digits.slice(20, 32)].join("-");
}

/** Burn rates change slowly, and each costs a query over up to three days. */
export function recordingIntervalMs(evaluationIntervalMs: number): number {
  return Math.min(60_000, 4 * evaluationIntervalMs);
}

type RecordedSlo = Pick<Slo, "id" | "orgId" | "definition" | "name" | "labels" | "indicator" | "objective">;

/** The group that records the burn rates of an organisation. `base`: settings of the organisation's other group. */
export function recordingGroup(base: RuleGroup, slos: readonly RecordedSlo[], intervalMs: number): RuleGroup {
  return {
    ...base,
    name: base.name + SECOND_GROUP,
    // Late events would stay invisible in cached results.
    params: { ...base.params, nocache: ["1"] },
    limit: 1,
    intervalMs,
    rules: slos.flatMap((slo) =>
      WINDOWS.map((window) => ({
        record: BURN_RATE,
        expr: burnRateQuery(slo, window),
        labels: { ...slo.labels, slo: slo.name, slo_id: slo.id, window, org_id: slo.orgId },
      })),
    ),
  };
}
