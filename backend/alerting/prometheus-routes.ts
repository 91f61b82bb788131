// `rules` and `alerts` of the Prometheus HTTP API, which Grafana's alert lists and other clients read. Invariant: a filter that is not
// understood is refused, never ignored; one answer of an organisation is made at a time, because it may hold thousands of alerts.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { FairQueue, QueueFullError } from "../admission/fair-queue.ts";
import { type Guards, readerOf } from "../auth/request-identity.ts";
import type { VmalertClient } from "../engines/vmalert/client.ts";
import { ApiError } from "../errors.ts";
import { ResponseBudget } from "../http/response-budget.ts";
import { goneSignal } from "../http/client.ts";
import { liveRules, type LiveRules } from "./live-rules.ts";
import { routeFor } from "./route-parts.ts";
import type { Rule } from "./rule.ts";
import type { RuleTable } from "./table.ts";

export interface PrometheusRulesOptions {
  readonly rules: Pick<RuleTable, "list">;
  readonly evaluator: Pick<VmalertClient, "groups">;
  readonly guards: Guards;
  /** Holds the answers until clients take them. */
  readonly answers?: ResponseBudget;
  readonly intervalMs: number;
}

/** Also under `/query` of the API, beside the other routes of Prometheus. */
export const PROMETHEUS_ROUTES = {
  "/prometheus/api/v1/rules": ["GET"],
  "/prometheus/api/v1/alerts": ["GET"],
} as const;

/** All rules of an organisation are one group; the namespace is what Grafana calls the file. */
const FILE = "atherops";
const GROUP = "rules";
const QUEUE_LIMITS = { running: 2, perOrg: 1, waitingPerOrg: 64 };
const NO_ALERTS: LiveRules = { rules: [], untold: [] };

const names = (description: string) => ({ type: "array", items: { type: "string" }, description });
export const PROMETHEUS_QUERY = {
  type: "object",
  properties: {
    type: { type: "string", enum: ["alert", "record"], description: "there are no recording rules" },
    "rule_name[]": names("only rules of these names; repeatable"),
    "rule_group[]": names("only rules of these groups; repeatable"),
    "file[]": names("only rules of these files; repeatable"),
    exclude_alerts: { type: "boolean", default: false, description: "rules without their alerts" },
  },
};

export function registerPrometheusRules(app: FastifyInstance, options: PrometheusRulesOptions): void {
  const route = routeFor(options.guards);
  const shared = { queue: new FairQueue(QUEUE_LIMITS), answers: options.answers ?? new ResponseBudget() };

  const summary = "Prometheus HTTP API: rules, those that are enabled with their live state";
  app.get("/prometheus/api/v1/rules", {
    ...route("reader", "GET /prometheus/api/v1/rules", summary, { described: { querystring: PROMETHEUS_QUERY } }),
    handler: (request, reply) =>
      answer(shared, request, reply, async (orgId) => {
        const filter = readFilter(request);
        const enabled = filter.none ? [] : await enabledRules(options, orgId);
        const rules = enabled.filter(({ name }) => filter.names?.has(name) ?? true);
        const live = await liveRules({ orgId, rules, enabled: enabled.length, withAlerts: filter.withAlerts }, options.evaluator);
        return { data: { groups: live.rules.length === 0 ? [] : [groupOf(live, options.intervalMs)] }, untold: live.untold };
      }),
  });

  app.get("/prometheus/api/v1/alerts", {
    ...route("reader", "GET /prometheus/api/v1/alerts", "Prometheus HTTP API: alerts that are pending or firing"),
    handler: (request, reply) =>
      answer(shared, request, reply, async (orgId) => {
        const rules = await enabledRules(options, orgId);
        const live =
          rules.length === 0 ? NO_ALERTS : await liveRules({ orgId, rules, enabled: rules.length, withAlerts: true }, options.evaluator);
        return { data: { alerts: live.rules.flatMap(({ alerts }) => alerts) }, untold: live.untold };
      }),
  });
}

/** ResponseBudget in Prometheus' envelope when it is the organisation's turn. */
async function answer(
  { queue, answers }: { queue: FairQueue; answers: ResponseBudget },
  request: FastifyRequest,
  reply: FastifyReply,
  ask: (orgId: string) => Promise<{ readonly data: object; readonly untold: readonly string[] }>,
): Promise<FastifyReply> {
  const { orgId } = readerOf(request);
  const found = await queue
    .run(orgId, goneSignal(reply), async () => {
      answers.admit(orgId);
      const { data, untold } = await ask(orgId);
      const warnings = untold.length === 0 ? undefined : [warning(untold)];
      return Buffer.from(JSON.stringify({ status: "success", data, warnings }));
    })
    .catch((error: unknown) => {
      if (!(error instanceof QueueFullError)) throw error;
      throw new ApiError("unavailable", "too many questions for rules at once: try again", { cause: error, retryAfterS: 1 });
    });
  return answers.send(orgId, reply.type("application/json"), [found]);
}

function warning(untold: readonly string[]): string {
  const some = untold.slice(0, 10).map((name) => JSON.stringify(name));
  const more = untold.length > some.length ? ` and ${untold.length - some.length} more rules` : "";
  return `too many alerts: those of ${some.join(", ")}${more} are left out; ask for one rule by rule_name[], or aggregate its expression`;
}

function groupOf({ rules }: LiveRules, intervalMs: number): object {
  const evaluationTime = rules.reduce((sum, rule) => sum + rule.evaluationTime, 0);
  const [lastEvaluation] = rules.map((rule) => rule.lastEvaluation).toSorted((a, b) => Date.parse(b) - Date.parse(a));
  return { name: GROUP, file: FILE, interval: intervalMs / 1000, limit: 0, rules, evaluationTime, lastEvaluation };
}

async function enabledRules({ rules }: Pick<PrometheusRulesOptions, "rules">, orgId: string): Promise<Rule[]> {
  return (await rules.list(orgId)).filter(({ enabled }) => enabled);
}

interface Filter {
  /** No rule fits. */
  readonly none: boolean;
  readonly names: ReadonlySet<string> | undefined;
  readonly withAlerts: boolean;
}

/** Throws ApiError invalid_parameter for what would be another question than was meant. */
function readFilter(request: FastifyRequest): Filter {
  const given = new URLSearchParams(request.url.split("?")[1] ?? "");
  const type = given.get("type") ?? "";
  if (!["", "alert", "record"].includes(type)) throw new ApiError("invalid_parameter", "type: must be alert or record");
  for (const name of ["match[]", "group_next_token"])
    if (given.get(name)) throw new ApiError("invalid_parameter", `${name}: is not supported; filter by rule_name[]`);
  const excluded = given.get("exclude_alerts") ?? "";
  if (!/^(?:|true|false|[01tf])$/i.test(excluded)) throw new ApiError("invalid_parameter", "exclude_alerts: must be true or false");
  // Grafana sends each of them twice, once as Mimir reads it.
  const all = (name: string): string[] => [...given.getAll(`${name}[]`), ...given.getAll(name)].filter((value) => value !== "");
  const fits = (name: string, own: string): boolean => all(name).length === 0 || all(name).includes(own);
  const wanted = all("rule_name");
  return {
    none: type === "record" || !fits("rule_group", GROUP) || !fits("file", FILE),
    names: wanted.length === 0 ? undefined : new Set(wanted),
    withAlerts: !/^[1t]/i.test(excluded),
  };
}
