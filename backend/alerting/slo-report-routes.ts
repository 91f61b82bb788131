// Serves GET /query/slos and /query/slos/{id}: error budgets, burn rates and history of service level objectives (docs/slo.md). Invariant: the
// list costs two queries whatever its length, because it reads recorded figures; one objective is calculated from its events.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Kysely } from "kysely";
import { type Guards, readerOf } from "../http/request-identity.ts";
import type { ResponseBudget } from "../http/response-budget.ts";
import { addRoutes, endpoint } from "../http/route.ts";
import { ID_PARAMS, objectSchema, readId, TIME_SCHEMA } from "../http/schemas.ts";
import type { QueryOptions } from "../admission/query-queue.ts";
import { readCells } from "../query/kubernetes/cluster-state.ts";
import { answerJson } from "../query/page-route.ts";
import type { AlertingTables } from "./alert-rule-table.ts";
import { storeError } from "./rule-check.ts";
import { RECORDED_BY, SLO_PROPERTIES, sloObject } from "./slo.ts";
import { exhaustedInS, reportOf, type SloStores } from "./slo-figures.ts";
import { SloTable } from "./slo-table.ts";

export interface SloReportsOptions {
  readonly db: Kysely<AlertingTables>;
  readonly stores: SloStores;
  readonly answers: ResponseBudget;
  readonly guards: Pick<Guards, "reader">;
  readonly now?: () => number;
}

const figure = { type: "number" } as const;
const optionalFigure = { type: ["number", "null"] } as const;
const FIGURES = {
  sli: { ...optionalFigure, description: "share of good events; null without events" },
  budget_remaining: { ...figure, description: "unused share of the error budget; below 0 if more is used" },
  exhausted_in_s: {
    ...optionalFigure,
    description: "seconds until the budget is used up at the burn rate of the last hour; null: never, or not in this month",
  },
};
const STATE = { error: { type: ["string", "null"], description: "why its events are not counted" } };
const LISTED = objectSchema({
  ...SLO_PROPERTIES,
  ...FIGURES,
  sli: { ...optionalFigure, description: "share of good events; null without events, and as `budget_remaining`" },
  budget_remaining: { ...optionalFigure, description: "updated every few minutes; null if it was not calculated in the last 15 minutes" },
  burn_rate: { ...optionalFigure, description: "of the last hour; null if it was not calculated in the last 15 minutes" },
  exhausted_in_s: {
    ...optionalFigure,
    description: `${FIGURES.exhausted_in_s.description}, or \`budget_remaining\` or \`burn_rate\` is null`,
  },
  ...STATE,
});
const EVENTS = { good: figure, total: figure };
const REPORT = objectSchema({
  ...SLO_PROPERTIES,
  ...STATE,
  range: objectSchema({ start: TIME_SCHEMA, end: TIME_SCHEMA }),
  ...EVENTS,
  ...FIGURES,
  allowed_bad: { ...figure, description: "bad events that the objective allows for the events of the window" },
  burn_rates: {
    ...objectSchema({ "1h": figure, "6h": figure, "3d": figure }),
    description: "1: the budget is used up in exactly one window",
  },
  history: {
    type: "array",
    items: objectSchema({ start: TIME_SCHEMA, end: TIME_SCHEMA, ...EVENTS, sli: FIGURES.sli, budget_remaining: figure }),
    description: "oldest first; `budget_remaining` at the end of each point",
  },
});

export function registerSloReports(app: FastifyInstance, { db, stores, answers, guards, now = Date.now }: SloReportsOptions): void {
  const table = new SloTable(db);
  const send = (request: FastifyRequest, reply: FastifyReply, ask: (orgId: string, options: QueryOptions) => Promise<object>) =>
    answerJson(request, reply, { answers, ask: async (...call) => [Buffer.from(JSON.stringify(await ask(...call)))] });
  addRoutes(app, guards, [
    {
      ...endpoint("GET", "/query/slos", "reader", "alerting"),
      summary: "Service level objectives with their error budgets, by name",
      response: { 200: { type: "array", items: LISTED } },
      handler: (request, reply) => send(request, reply, (orgId, options) => listReports(table, stores, { orgId, nowMs: now(), options })),
    },
    {
      ...endpoint("GET", "/query/slos/:id", "reader", "alerting"),
      summary: "The error budget, burn rates and history of a service level objective",
      params: ID_PARAMS,
      response: { 200: REPORT },
      handler: async (request, reply) => {
        const slo = await table.find(readerOf(request).orgId, readId(request, "service level objective"));
        return await send(request, reply, async (_orgId, options) => {
          const report = await reportOf(stores, slo, now(), options);
          return { ...sloObject(slo), error: slo.error ?? null, ...report };
        });
      },
    },
  ]);
}

/** The recorded figures are this old at most; older ones are of a process that has stopped. */
const RECORDED = "[15m]";

async function listReports(
  table: SloTable,
  { metrics }: SloStores,
  { orgId, nowMs, options }: { orgId: string; nowMs: number; options: QueryOptions },
): Promise<object[]> {
  const slos = await table.list(orgId);
  if (slos.length === 0) return [];
  // Senders can write series with these names, but with their own host_id; burn rates, which vmalert records, have none.
  const matchers = `{slo_id!="",window=~"|1h",host_id=~"|${RECORDED_BY}"}`;
  const names = ["sli", "error_budget_remaining", "burn_rate"];
  const columns = Object.fromEntries(names.map((name) => [name, `last_over_time(slo:${name}${matchers}${RECORDED})`]));
  const { cells } = await readCells(metrics, orgId, { columns, scope: {}, atMs: nowMs, options }).catch((error: unknown) => {
    throw storeError(error, "the metrics store, which has the figures, cannot be reached: try again");
  });
  const figures = new Map(cells.map(({ column, labels, value }) => [`${column} ${labels["slo_id"]}`, value]));
  return slos.map((slo) => {
    const read = (name: string): number | null => figures.get(`${name} ${slo.id}`) ?? null;
    const [remaining, burnRate] = [read("error_budget_remaining"), read("burn_rate")];
    return {
      ...sloObject(slo),
      sli: read("sli"),
      budget_remaining: remaining,
      burn_rate: burnRate,
      exhausted_in_s: remaining === null || burnRate === null ? null : exhaustedInS(slo, remaining, burnRate, nowMs),
      error: slo.error ?? null,
    };
  });
}
