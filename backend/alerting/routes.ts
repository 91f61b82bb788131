// The routes of the alerting service, the same wherever they are mounted. Invariant: the organisation is that of the session or the read token; a write answers
// once the rule is stored, whether the evaluator is up or not; a database that is away is 500 here, as the contract says; nothing is
// begun for a client that has left.
import type { FastifyInstance, FastifyRequest } from "fastify";
import { audit } from "../auth/audit-log.ts";
import type { VmalertClient } from "../engines/vmalert/client.ts";
import { goneSignal } from "../http/client.ts";
import { parseUuid } from "../http/schemas.ts";
import { ApiError } from "../errors.ts";
import { FairQueue, QueueFullError } from "../admission/fair-queue.ts";
import type { MetricsStore } from "../storage/metrics/store.ts";
import { callerOf, type Guards, readerOf } from "../auth/request-identity.ts";
import { alertHistory } from "./history.ts";
import type { RuleCheck } from "./rule-check.ts";
import { PROMETHEUS_ROUTES, registerPrometheusRules } from "./prometheus-routes.ts";
import { routeFor } from "./route-parts.ts";
import { DRAFT_SCHEMA, RULE_BODY_SCHEMA, ruleObject, type Rule, type SentRule } from "./rule.ts";
import { statusOf } from "./status.ts";
import { notFound, type RuleTable } from "./table.ts";

export interface RuleRoutesOptions {
  readonly rules: RuleTable;
  readonly check: RuleCheck;
  readonly evaluator: VmalertClient;
  readonly metrics: Pick<MetricsStore, "query">;
  readonly guards: Guards;
  /** Called after each stored change, so that the evaluator gets it at once. */
  readonly changed: () => void;
  /** Between two evaluations. */
  readonly intervalMs: number;
  readonly now?: () => number;
}

/** Every path of the service and its methods; `/alerting/` forwards exactly these. */
export const RULE_ROUTES = {
  "/rules": ["GET", "POST"],
  "/rules/validate": ["POST"],
  "/rules/:id": ["PUT", "DELETE"],
  "/rules/:id/status": ["GET"],
  "/rules/:id/history": ["GET"],
  ...PROMETHEUS_ROUTES,
} as const;

/** An answer of the evaluator is as large as the rule's alerts, thousands of them at most. */
const STATUS_QUEUE = { running: 8, perOrg: 2, waitingPerOrg: 1000 };

type OfRule = { Params: { id: string } };
type HistoryRoute = OfRule & { Querystring: { start?: string; end?: string; limit: number } };

const HISTORY_MS = 24 * 3_600_000;
export const HISTORY_QUERY = {
  type: "object",
  properties: {
    start: { type: "string", format: "date-time", description: "default: 24 hours before `end`" },
    end: { type: "string", format: "date-time", description: "default: now" },
    limit: { type: "integer", minimum: 1, default: 100, description: "at most 500" },
  },
};

export function registerRuleRoutes(app: FastifyInstance, options: RuleRoutesOptions): void {
  const { rules, check, evaluator, changed } = options;
  const route = routeFor(options.guards);

  app.get("/rules", route("reader", "GET /rules", "All rules of the organisation, oldest first"), async (request) =>
    (await rules.list(readerOf(request).orgId)).map(ruleObject),
  );

  app.post<{ Body: SentRule }>(
    "/rules",
    route("admin", "POST /rules", "Creates a rule", { body: RULE_BODY_SCHEMA }),
    async (request, reply) => {
      const { orgId } = callerOf(request);
      const tried = await check.check(orgId, request.body, goneSignal(reply));
      const rule = await rules.create(orgId, tried.rule);
      changed();
      audit(request, "rule.create", { rule_id: rule.id });
      return await reply.code(201).send(ruleObject(rule));
    },
  );

  app.post<{ Body: SentRule }>(
    "/rules/validate",
    route("viewer", "POST /rules/validate", "Would this rule be taken, and how many series does it match now?", { body: DRAFT_SCHEMA }),
    async (request, reply) => await validate(check, callerOf(request).orgId, request.body, goneSignal(reply)),
  );

  app.put<OfRule & { Body: SentRule }>(
    "/rules/:id",
    route("admin", "PUT /rules/:id", "Replaces a rule in full", { body: RULE_BODY_SCHEMA }),
    async (request, reply) => {
      const { id, orgId } = await ruleOf(request, rules);
      const tried = await check.check(orgId, request.body, goneSignal(reply));
      const rule = await rules.replace(orgId, id, tried.rule);
      changed();
      audit(request, "rule.update", { rule_id: id });
      return ruleObject(rule);
    },
  );

  app.delete<OfRule>("/rules/:id", route("admin", "DELETE /rules/:id", "Deletes a rule"), async (request, reply) => {
    await rules.delete(callerOf(request).orgId, idOf(request));
    changed();
    audit(request, "rule.delete", { rule_id: idOf(request) });
    return await reply.code(204).send();
  });

  const statusQueue = new FairQueue(STATUS_QUEUE);
  app.get<OfRule>("/rules/:id/status", route("reader", "GET /rules/:id/status", "The live state of a rule"), async (request, reply) => {
    const rule = await ruleOf(request, rules);
    return await statusQueue
      .run(rule.orgId, goneSignal(reply), async () => await statusOf(rule, evaluator))
      .catch((error: unknown) => {
        if (!(error instanceof QueueFullError)) throw error;
        throw new ApiError("unavailable", "too many questions for the state of rules at once: try again", { cause: error, retryAfterS: 1 });
      });
  });

  app.get<HistoryRoute>(
    "/rules/:id/history",
    route("reader", "GET /rules/:id/history", "When the rule was pending or firing, newest first", { querystring: HISTORY_QUERY }),
    async (request) => await history(await ruleOf(request, rules), request, options),
  );
  registerPrometheusRules(app, options);
}

/** `{valid: true, matching_series}` or `{valid: false, message}`; a body that is no rule at all is 400 as for create. */
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
  const endMs = end === undefined ? (options.now ?? Date.now)() : Date.parse(end);
  const startMs = start === undefined ? endMs - HISTORY_MS : Date.parse(start);
  if (Number.isNaN(endMs)) throw new ApiError("invalid_parameter", "end: must be an RFC 3339 time");
  if (Number.isNaN(startMs) || startMs > endMs) throw new ApiError("invalid_parameter", "start: must be an RFC 3339 time before end");
  const question = { orgId: rule.orgId, ruleId: rule.id, startMs, endMs, limit: Math.min(limit, 500), intervalMs: options.intervalMs };
  return await alertHistory(options.metrics, question);
}

async function ruleOf(request: FastifyRequest<OfRule>, rules: RuleTable): Promise<Rule> {
  return (await rules.find(readerOf(request).orgId, idOf(request))) ?? notFound();
}

/** A malformed id is that of no rule. */
function idOf(request: FastifyRequest<OfRule>): string {
  return parseUuid(request.params.id) ?? notFound();
}
