// Reads the live state of rules from the evaluator: of one rule, and of an organisation's rules in Prometheus' format with definition,
// state and alerts. Invariants: state and alerts belong to the current revision of a rule, which is inactive until it is evaluated. Labels
// and annotations that the server sets are omitted. At most MAX_LIVE_ALERTS_BYTES of alerts are read.
import {
  AnswerTooLargeError,
  type LoadedAlert,
  type LoadedGroup,
  type LoadedRule,
  type VmalertClient,
} from "../engines/vmalert/vmalert-client.ts";
import { shownAnnotations } from "./alert-annotations.ts";
import { describeEvaluationError } from "./evaluation-error.ts";
import { MAX_LIVE_ALERTS_BYTES, MAX_NAMED_RULES, MAX_SINGLE_RULE_REQUESTS } from "./alerting-limits.ts";
import { REVISION_ANNOTATION } from "./alert-annotations.ts";
import type { Rule } from "./alert-rule.ts";
import { objectSchema, TIME_SCHEMA } from "../http/schemas.ts";

/** The rule status of the contract; `error` is an addition, present while the rule, or a part of it, cannot be evaluated. */
export interface RuleStatus {
  readonly state: "firing" | "pending" | "inactive";
  /** Instances that are firing now. */
  readonly active_alerts: number;
  /** RFC 3339; absent before the first evaluation. */
  readonly last_eval?: string;
  readonly error?: string;
}

export const STATE_SCHEMA = { type: "string", enum: ["firing", "pending", "inactive"] };
export const STATUS_SCHEMA = objectSchema(["state", "active_alerts"], {
  state: STATE_SCHEMA,
  active_alerts: { type: "integer", minimum: 0, description: "instances that fire now" },
  last_eval: { ...TIME_SCHEMA, description: "absent before the first evaluation" },
  error: {
    type: "string",
    description: "why the rule, or one of its annotations, cannot be evaluated, or why counts of records are late or leave values out",
  },
});

const INACTIVE: RuleStatus = { state: "inactive", active_alerts: 0 };

/** Throws EvaluatorError if the evaluator does not respond; it is not asked about a disabled rule. */
export async function statusOf(rule: Rule, evaluator: Pick<VmalertClient, "groups">): Promise<RuleStatus> {
  if (!rule.enabled) return INACTIVE;
  if (rule.refused !== undefined) return { ...INACTIVE, error: rule.refused };
  const groups = await evaluator.groups({ groups: [rule.orgId], labels: [{ rule_id: rule.id, org_id: rule.orgId }] });
  const loaded = groups.flatMap((group) => group.rules).find((candidate) => isRevisionOf(rule, candidate));
  const status = loaded ? readLiveStatus(rule, loaded) : INACTIVE;
  return rule.uncounted === undefined ? status : { ...status, error: rule.uncounted };
}

/** Whether the loaded rule is the current revision of this rule. */
function isRevisionOf(rule: Rule, loaded: LoadedRule): boolean {
  return loaded.labels?.["rule_id"] === rule.id && loaded.annotations?.[REVISION_ANNOTATION] === String(rule.revision);
}

/** Year 1 is Go's zero time. */
function wasEvaluated({ lastEvaluation }: Pick<LoadedRule, "lastEvaluation">): boolean {
  return new Date(lastEvaluation).getUTCFullYear() > 1;
}

function readLiveStatus({ annotations }: Rule, loaded: LoadedRule): RuleStatus {
  const alerts = loaded.alerts ?? [];
  const firing = alerts.filter((alert) => alert.state === "firing").length;
  const state = firing > 0 ? "firing" : alerts.some((alert) => alert.state === "pending") ? "pending" : "inactive";
  return {
    state,
    active_alerts: firing,
    ...(wasEvaluated(loaded) && { last_eval: new Date(loaded.lastEvaluation).toISOString() }),
    ...(loaded.health === "err" && { error: describeEvaluationError(loaded.lastError ?? "", annotations) }),
  };
}

/** In the format of Prometheus' `GET /api/v1/rules`. */
export type PrometheusRule = ReturnType<typeof describeRule>;
export type PrometheusAlert = ReturnType<typeof describeAlert>;

export interface LiveRules {
  readonly rules: readonly PrometheusRule[];
  /** Rules whose alerts are omitted because there are too many. */
  readonly omitted: readonly string[];
}

export interface LiveRulesQuery {
  readonly orgId: string;
  /** The requested rules, a subset of the `enabled` ones. */
  readonly rules: readonly Rule[];
  readonly enabled: number;
  readonly withAlerts: boolean;
}

const NEVER = "0001-01-01T00:00:00Z";
/** The server sets these; the evaluator's group corresponds to the organisation. */
const SERVER_LABELS = new Set(["alertgroup", "org_id", "rule_id"]);

/** Throws EvaluatorError if the evaluator does not respond; it is not asked if it should have none of the rules. */
export async function liveRules(query: LiveRulesQuery, evaluator: Pick<VmalertClient, "groups">): Promise<LiveRules> {
  const { groups, omitted } = query.rules.some(({ refused }) => refused === undefined)
    ? await fetchLoadedRules(query, evaluator)
    : { groups: [], omitted: [] };
  const byId = new Map(groups.flatMap(({ rules }) => rules).map((loaded) => [readRuleId(loaded), loaded]));
  return {
    rules: query.rules.map((rule) => describeRule(rule, byId.get(rule.id))),
    omitted,
  };
}

interface Loaded {
  readonly groups: readonly LoadedGroup[];
  readonly omitted: readonly string[];
}

async function fetchLoadedRules(query: LiveRulesQuery, evaluator: Pick<VmalertClient, "groups">): Promise<Loaded> {
  const { orgId, rules, enabled, withAlerts } = query;
  const isByName = rules.length < enabled && rules.length <= MAX_NAMED_RULES;
  const request = { groups: [orgId], ...(isByName && { labels: rules.map(({ id }) => ({ rule_id: id, org_id: orgId })) }) };
  if (withAlerts) {
    try {
      return { groups: await evaluator.groups(request, { bytes: MAX_LIVE_ALERTS_BYTES }), omitted: [] };
    } catch (error) {
      if (!(error instanceof AnswerTooLargeError)) throw error;
    }
  }
  const groups = await evaluator.groups({ ...request, withoutAlerts: true });
  return withAlerts ? await fetchAlertsPerRule(query, groups, evaluator) : { groups, omitted: [] };
}

/** Alerts of as many rules as fit, starting with the rules that have the fewest. */
async function fetchAlertsPerRule(
  { orgId, rules }: LiveRulesQuery,
  groups: readonly LoadedGroup[],
  evaluator: Pick<VmalertClient, "groups">,
): Promise<Loaded> {
  const rulesById = new Map(rules.map((rule) => [rule.id, rule]));
  const active = groups
    .flatMap((group) => group.rules)
    .filter((loaded) => loaded.state !== "inactive" && rulesById.has(readRuleId(loaded)));
  active.sort((a, b) => a.lastSamples - b.lastSamples);
  const budget = { bytes: MAX_LIVE_ALERTS_BYTES };
  const withAlerts = new Map<string, LoadedRule>();
  for (const loaded of active.slice(0, MAX_SINGLE_RULE_REQUESTS)) {
    if (budget.bytes <= 0) break;
    const labels = [{ rule_id: readRuleId(loaded), org_id: orgId }];
    try {
      for (const group of await evaluator.groups({ groups: [orgId], labels }, budget))
        for (const full of group.rules) withAlerts.set(readRuleId(full), full);
    } catch (error) {
      if (!(error instanceof AnswerTooLargeError)) throw error;
    }
  }
  return {
    groups: groups.map((group) => ({ ...group, rules: group.rules.map((loaded) => withAlerts.get(readRuleId(loaded)) ?? loaded) })),
    omitted: active.filter((loaded) => !withAlerts.has(readRuleId(loaded))).map(({ name }) => name),
  };
}

function readRuleId({ labels }: LoadedRule): string {
  return labels?.["rule_id"] ?? "";
}

function describeRule(rule: Rule, evaluated: LoadedRule | undefined) {
  const live = evaluated && isRevisionOf(rule, evaluated) ? evaluated : undefined;
  return {
    state: live?.state === "firing" || live?.state === "pending" ? live.state : "inactive",
    name: rule.name,
    query: rule.expr,
    duration: rule.forMs / 1000,
    keepFiringFor: 0,
    labels: { ...rule.labels, severity: rule.severity },
    annotations: rule.annotations,
    alerts: (live?.alerts ?? []).toSorted(byAge).map((alert) => describeAlert(rule, alert)),
    ...describeHealth(rule, live),
    evaluationTime: live?.evaluationTime ?? 0,
    lastEvaluation: live?.lastEvaluation ?? NEVER,
    type: "alerting" as const,
  };
}

function describeHealth(
  { refused, uncounted, annotations }: Rule,
  live: LoadedRule | undefined,
): { readonly health: "ok" | "err" | "unknown"; readonly lastError?: string } {
  const reason = refused ?? uncounted;
  if (reason !== undefined) return { health: "err", lastError: reason };
  if (live?.health === "err") return { health: "err", lastError: describeEvaluationError(live.lastError ?? "", annotations) };
  return { health: live && wasEvaluated(live) ? "ok" : "unknown" };
}

function describeAlert({ id }: Rule, { labels = {}, annotations = {}, state, activeAt, value }: LoadedAlert) {
  return {
    rule_id: id,
    labels: Object.fromEntries(Object.entries(labels).filter(([name]) => !SERVER_LABELS.has(name))),
    annotations: shownAnnotations(annotations),
    state,
    activeAt,
    value,
  };
}

/** The evaluator returns them in no particular order. */
function byAge(a: LoadedAlert, b: LoadedAlert): number {
  return a.activeAt === b.activeAt ? Number(a.id > b.id) - Number(a.id < b.id) : Date.parse(a.activeAt) - Date.parse(b.activeAt);
}
