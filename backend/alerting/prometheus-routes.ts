// `rules` and `alerts` of the Prometheus HTTP API, which Grafana's alert lists and other clients read. Invariants: a filter that is not
// understood is refused, never ignored; one response of an organisation is built at a time, because it may contain thousands of alerts.
import type { FastifyRequest } from "fastify";
import { FairQueue } from "../admission/fair-queue.ts";
import { readerOf } from "../http/request-identity.ts";
import type { VmalertClient } from "../engines/vmalert/vmalert-client.ts";
import { ApiError } from "../errors.ts";
import type { ResponseBudget } from "../http/response-budget.ts";
import { sendQueued } from "../http/queued-response.ts";
import { parametersOf } from "../http/query-string.ts";
import { bindHandlers, endpoint, type Route, type RouteDeclaration } from "../http/route.ts";
import { objectSchema, optionalSchema, TIME_SCHEMA } from "../http/schemas.ts";
import { liveRules, type LiveRules, STATE_SCHEMA } from "./live-rules.ts";
import { matchesLimits } from "../storage/metrics/series-filters.ts";
import type { Rule } from "./alert-rule.ts";
import type { RuleTable } from "./alert-rule-table.ts";

export interface PrometheusRulesOptions {
  readonly rules: Pick<RuleTable, "list">;
  readonly evaluator: Pick<VmalertClient, "groups">;
  readonly responses: ResponseBudget;
  readonly intervalMs: number;
}

/** All rules of an organisation are one group; the namespace is what Grafana calls the file. */
const FILE = "atherops";
const GROUP = "rules";
const QUEUE_LIMITS = {
  running: 2,
  waitingPerOrg: 64,
  fullMessage: "too many concurrent requests for rules: try again",
  retryAfterS: 1,
};

const names = (description: string) => ({ type: "array", items: { type: "string" }, description });
const RULES_QUERY = optionalSchema({
  type: { type: "string", enum: ["alert", "record"], description: "for record, the list is empty: recording rules are not listed" },
  "rule_name[]": names("only rules with these names; repeatable"),
  "rule_group[]": names("only rules of these groups; repeatable"),
  "file[]": names("only rules of these files; repeatable"),
  exclude_alerts: { type: "boolean", default: false, description: "true: rules without their alerts" },
});

const texts = { type: "object", additionalProperties: { type: "string" } };
const number = { type: "number" };
const ALERT_SCHEMA = objectSchema({
  rule_id: { type: "string", description: "not in Prometheus' own format" },
  labels: texts,
  annotations: texts,
  state: { type: "string", enum: ["pending", "firing"] },
  activeAt: TIME_SCHEMA,
  value: { type: "string" },
});
const RULE_SCHEMA = {
  type: "object",
  required: ["state", "name", "query", "duration", "labels", "annotations", "alerts", "health", "evaluationTime", "lastEvaluation", "type"],
  properties: {
    state: STATE_SCHEMA,
    name: { type: "string" },
    query: { type: "string" },
    duration: { ...number, description: "`for` in seconds" },
    labels: texts,
    annotations: texts,
    alerts: { type: "array", items: ALERT_SCHEMA },
    health: { type: "string", enum: ["ok", "err", "unknown"], description: "unknown: not evaluated yet" },
    lastError: { type: "string" },
    evaluationTime: { ...number, description: "seconds" },
    lastEvaluation: { ...TIME_SCHEMA, description: "year 1: not evaluated yet" },
    type: { const: "alerting" },
  },
  additionalProperties: true,
};
const GROUP_SCHEMA = {
  ...objectSchema({
    name: { const: "rules" },
    file: { const: "atherops" },
    interval: { ...number, description: "seconds between evaluations" },
    rules: { type: "array", items: RULE_SCHEMA },
    evaluationTime: number,
    lastEvaluation: TIME_SCHEMA,
  }),
  additionalProperties: true,
};

function successSchema(data: Record<string, object>): object {
  return objectSchema(["status", "data"], {
    status: { const: "success" },
    data: objectSchema(data),
    warnings: { type: "array", items: { type: "string" }, description: "parts that are missing from the response" },
  });
}

/** At the API's address, they also exist under `/query`, next to the other Prometheus routes. */
export const PROMETHEUS_ROUTES = {
  rules: {
    ...endpoint("GET", "/prometheus/api/v1/rules", "reader", "alerting"),
    summary: "Prometheus HTTP API: the enabled rules with their live state",
    documented: { query: RULES_QUERY, response: { 200: successSchema({ groups: { type: "array", items: GROUP_SCHEMA } }) } },
  },
  alerts: {
    ...endpoint("GET", "/prometheus/api/v1/alerts", "reader", "alerting"),
    limited: "filtered",
    summary: "Prometheus HTTP API: alerts that are pending or firing",
    documented: { response: { 200: successSchema({ alerts: { type: "array", items: ALERT_SCHEMA } }) } },
  },
} as const satisfies Record<string, RouteDeclaration>;

export function createPrometheusRoutes(options: PrometheusRulesOptions): Route[] {
  const queue = new FairQueue(QUEUE_LIMITS);
  const { responses } = options;
  return bindHandlers(PROMETHEUS_ROUTES, {
    rules: (request, reply) =>
      sendQueued({ queue, responses }, request, reply, async (orgId) => {
        const filter = readFilter(request);
        const enabled = filter.matchesNothing ? [] : await enabledRules(options, orgId);
        const rules = enabled.filter(({ name }) => filter.names?.has(name) ?? true);
        const live = await liveRules({ orgId, rules, enabled: enabled.length, withAlerts: filter.withAlerts }, options.evaluator);
        const groups = live.rules.length === 0 ? [] : [describeGroup(live, options.intervalMs)];
        return { status: "success", data: { groups }, warnings: describeOmitted(live.omitted) };
      }),
    alerts: (request, reply) =>
      sendQueued({ queue, responses }, request, reply, async (orgId) => {
        const rules = await enabledRules(options, orgId);
        const live = await liveRules({ orgId, rules, enabled: rules.length, withAlerts: true }, options.evaluator);
        const { labelLimits } = readerOf(request);
        const alerts = live.rules.flatMap((rule) => rule.alerts).filter(({ labels }) => matchesLimits(labelLimits, labels));
        // The names of other rules are not for a reader with limits.
        return { status: "success", data: { alerts }, warnings: describeOmitted(live.omitted, labelLimits === undefined) };
      }),
  });
}

function describeOmitted(omitted: readonly string[], isNamed = true): readonly [string] | undefined {
  if (omitted.length === 0) return undefined;
  if (!isNamed) return ["too many alerts: some are omitted"];
  const shown = omitted.slice(0, 10).map((name) => JSON.stringify(name));
  const more = omitted.length > shown.length ? ` and ${omitted.length - shown.length} more rules` : "";
  const advice = "request single rules by rule_name[], or aggregate their expressions";
  return [`too many alerts: those of ${shown.join(", ")}${more} are omitted; ${advice}`];
}

function describeGroup({ rules }: LiveRules, intervalMs: number): object {
  const evaluationTime = rules.reduce((sum, rule) => sum + rule.evaluationTime, 0);
  const [lastEvaluation] = rules.map((rule) => rule.lastEvaluation).toSorted((a, b) => Date.parse(b) - Date.parse(a));
  return { name: GROUP, file: FILE, interval: intervalMs / 1000, limit: 0, rules, evaluationTime, lastEvaluation };
}

async function enabledRules({ rules }: Pick<PrometheusRulesOptions, "rules">, orgId: string): Promise<Rule[]> {
  return (await rules.list(orgId)).filter(({ enabled }) => enabled);
}

interface Filter {
  readonly matchesNothing: boolean;
  readonly names: ReadonlySet<string> | undefined;
  readonly withAlerts: boolean;
}

/** Throws ApiError invalid_parameter if a parameter cannot be interpreted, instead of ignoring it. */
function readFilter(request: FastifyRequest): Filter {
  const parameters = parametersOf(request);
  const type = parameters.get("type") ?? "";
  if (!["", "alert", "record"].includes(type)) throw new ApiError("invalid_parameter", "type: must be alert or record");
  for (const name of ["match[]", "group_next_token"])
    if (parameters.get(name)) throw new ApiError("invalid_parameter", `${name}: is not supported; filter by rule_name[]`);
  const excluded = parameters.get("exclude_alerts") ?? "";
  if (!/^(?:|true|false|[01tf])$/i.test(excluded)) throw new ApiError("invalid_parameter", "exclude_alerts: must be true or false");
  // Grafana sends each of them twice, once in Mimir's form.
  const all = (name: string): string[] => [...parameters.getAll(`${name}[]`), ...parameters.getAll(name)].filter((value) => value !== "");
  const includes = (name: string, value: string): boolean => all(name).length === 0 || all(name).includes(value);
  const ruleNames = all("rule_name");
  return {
    matchesNothing: type === "record" || !includes("rule_group", GROUP) || !includes("file", FILE),
    names: ruleNames.length === 0 ? undefined : new Set(ruleNames),
    withAlerts: !/^[1t]/i.test(excluded),
  };
}
