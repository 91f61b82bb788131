// Routes of alert rules. Invariants: the organisation is that of the session or the read token. A write is answered once the rule is
// stored, whether or not the evaluator is available. No work is started for a client that has disconnected.
import type { FastifyReply, FastifyRequest } from "fastify";
import { audit } from "../auth/audit-log.ts";
import type { VmalertClient } from "../engines/vmalert/vmalert-client.ts";
import { goneSignal } from "../http/http-client.ts";
import type { ResponseBudget } from "../http/response-budget.ts";
import { bindHandlers, endpoint, type Route, type RouteDeclaration } from "../http/route.ts";
import { NO_CONTENT, objectSchema, optionalSchema, parseUuid } from "../http/schemas.ts";
import { ApiError } from "../errors.ts";
import { FairQueue } from "../admission/fair-queue.ts";
import type { MetricsStore } from "../storage/metrics/metric-store.ts";
import { readTime } from "../storage/page.ts";
import { callerOf, readerOf } from "../http/request-identity.ts";
import { alertHistory, PERIOD_SCHEMA } from "./history.ts";
import type { RuleCheck } from "./rule-check.ts";
import { createPrometheusRoutes, PROMETHEUS_ROUTES } from "./prometheus-routes.ts";
import { DRAFT_SCHEMA, RULE_BODY_SCHEMA, RULE_SCHEMA, ruleObject, type Rule, type SentRule } from "./alert-rule.ts";
import { STATUS_SCHEMA, statusOf } from "./live-rules.ts";
import { notFound, type RuleTable } from "./alert-rule-table.ts";

export interface RuleRoutesOptions {
  readonly rules: RuleTable;
  readonly check: RuleCheck;
  readonly evaluator: Pick<VmalertClient, "groups">;
  readonly metrics: Pick<MetricsStore, "query">;
  readonly responses: ResponseBudget;
  /** Called after each stored change, so that the evaluator gets it immediately. */
  readonly changed: () => void;
  readonly intervalMs: number;
  readonly now?: () => number;
}

/** An answer of the evaluator is as large as the rule's alerts, thousands of them at most. */
const STATUS_QUEUE = {
  running: 8,
  perOrg: 2,
  waitingPerOrg: 1000,
  fullMessage: "too many concurrent requests for the state of rules: try again",
  retryAfterS: 1,
};

type OfRule = { Params: { id: string } };
type HistoryRoute = OfRule & { Querystring: { start?: string; end?: string; limit: number } };

const HISTORY_MS = 24 * 3_600_000;
const HISTORY_QUERY = optionalSchema({
  start: { type: "string", description: "RFC 3339; default: 24 hours before `end`" },
  end: { type: "string", description: "RFC 3339; default: now" },
  limit: { type: "integer", minimum: 1, default: 100, description: "at most 500" },
});

const VALIDATION_SCHEMA = objectSchema(["valid"], {
  valid: { type: "boolean" },
  matching_series: { type: "integer", minimum: 0, description: "for a valid rule: how many series it matches now" },
  message: { type: "string", description: "for an invalid rule: the reason" },
});

const RULE_ROUTES = {
  list: {
    ...endpoint("GET", "/rules", "reader", "alerting"),
    summary: "All rules of the organisation, oldest first",
    documented: { response: { 200: { type: "array", items: RULE_SCHEMA } } },
  },
  create: {
    ...endpoint("POST", "/rules", "admin", "alerting"),
    summary: "Create a rule",
    body: RULE_BODY_SCHEMA,
    documented: { response: { 201: RULE_SCHEMA } },
  },
  validate: {
    ...endpoint("POST", "/rules/validate", "viewer", "alerting"),
    summary: "Validate a rule without storing it, and count the series that it matches now",
    body: DRAFT_SCHEMA,
    documented: { response: { 200: VALIDATION_SCHEMA } },
  },
  replace: {
    ...endpoint("PUT", "/rules/:id", "admin", "alerting"),
    errors: ["conflict"],
    summary: "Replace a whole rule",
    body: RULE_BODY_SCHEMA,
    documented: { response: { 200: RULE_SCHEMA } },
  },
  remove: {
    ...endpoint("DELETE", "/rules/:id", "admin", "alerting"),
    errors: ["conflict"],
    summary: "Delete a rule",
    documented: { response: NO_CONTENT },
  },
  status: {
    ...endpoint("GET", "/rules/:id/status", "reader", "alerting"),
    summary: "The live state of a rule",
    documented: { response: { 200: STATUS_SCHEMA } },
  },
  history: {
    ...endpoint("GET", "/rules/:id/history", "reader", "alerting"),
    limited: "filtered",
    summary: "When the rule was pending or firing, newest first",
    query: HISTORY_QUERY,
    documented: { response: { 200: { type: "array", items: PERIOD_SCHEMA } } },
  },
} as const satisfies Record<string, RouteDeclaration>;

/** For remote.ts, which forwards these routes if the service is another process. */
export const RULE_DECLARATIONS: readonly RouteDeclaration[] = [...Object.values(RULE_ROUTES), ...Object.values(PROMETHEUS_ROUTES)];

export function createRuleRoutes(options: RuleRoutesOptions): Route[] {
  const { rules, check, evaluator, changed } = options;
  const statusQueue = new FairQueue(STATUS_QUEUE);
  const handlers = {
    list: async (request: FastifyRequest) => (await rules.list(readerOf(request).orgId)).map(ruleObject),
    create: async (request: FastifyRequest<{ Body: SentRule }>, reply: FastifyReply) => {
      const { orgId } = callerOf(request);
      const checked = await check.check(orgId, request.body, goneSignal(reply));
      const rule = await rules.create(orgId, checked.rule);
      changed();
      audit(request, "rule.create", { rule_id: rule.id, name: rule.name });
      return await reply.code(201).send(ruleObject(rule));
    },
    validate: async (request: FastifyRequest<{ Body: SentRule }>, reply: FastifyReply) =>
      await validate(check, callerOf(request).orgId, request.body, goneSignal(reply)),
    replace: async (request: FastifyRequest<OfRule & { Body: SentRule }>, reply: FastifyReply) => {
      const { id, orgId } = await ruleOf(request, rules);
      const checked = await check.check(orgId, request.body, goneSignal(reply));
      const rule = await rules.replace(orgId, id, checked.rule);
      changed();
      audit(request, "rule.update", { rule_id: id, name: rule.name });
      return ruleObject(rule);
    },
    remove: async (request: FastifyRequest<OfRule>, reply: FastifyReply) => {
      await rules.delete(callerOf(request).orgId, idOf(request));
      changed();
      audit(request, "rule.delete", { rule_id: idOf(request) });
      return await reply.code(204).send();
    },
    status: async (request: FastifyRequest<OfRule>, reply: FastifyReply) => {
      const rule = await ruleOf(request, rules);
      return await statusQueue.run(rule.orgId, goneSignal(reply), async () => await statusOf(rule, evaluator));
    },
    history: async (request: FastifyRequest<HistoryRoute>) => await history(await ruleOf(request, rules), request, options),
  };
  return [...bindHandlers(RULE_ROUTES, handlers), ...createPrometheusRoutes(options)];
}

/** `{valid: true, matching_series}` or `{valid: false, message}`; a body that is not a rule at all is refused with 400, as for create. */
async function validate(check: RuleCheck, orgId: string, body: SentRule, signal: AbortSignal): Promise<object> {
  try {
    const { matching } = await check.check(orgId, body, signal);
    return { valid: true, matching_series: matching };
  } catch (error) {
    if (error instanceof ApiError && error.code === "invalid_field") return { valid: false, message: error.message };
    throw error;
  }
}

async function history(rule: Rule, request: FastifyRequest<HistoryRoute>, options: RuleRoutesOptions): Promise<object> {
  const { start, end, limit } = request.query;
  const endMs = end === undefined ? (options.now ?? Date.now)() : Number(readTime("end", end)) / 1e6;
  const startMs = start === undefined ? endMs - HISTORY_MS : Number(readTime("start", start)) / 1e6;
  if (startMs > endMs) throw new ApiError("invalid_parameter", "start: must be before end");
  const question = { orgId: rule.orgId, ruleId: rule.id, startMs, endMs, limit: Math.min(limit, 500), intervalMs: options.intervalMs };
  return await alertHistory(options.metrics, { ...question, labelLimits: readerOf(request).labelLimits });
}

async function ruleOf(request: FastifyRequest<OfRule>, rules: RuleTable): Promise<Rule> {
  return (await rules.find(readerOf(request).orgId, idOf(request))) ?? notFound();
}

/** A malformed id cannot belong to a rule. */
function idOf(request: FastifyRequest<OfRule>): string {
  return parseUuid(request.params.id) ?? notFound();
}
