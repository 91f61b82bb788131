// What the routes of Jaeger's first API ask the store.
import type { FastifyInstance } from "fastify";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Guards } from "../../http/request-identity.ts";
import { closeRoutes, createApp } from "../../http/app.ts";
import { ResponseBudget } from "../../http/response-budget.ts";
import { createLog } from "../../log.ts";
import type { SpanStore } from "../../storage/traces/span-store.ts";
import { registerJaegerRoutes } from "./jaeger-routes.ts";

const IDS = ["0af7651916cd43dd8448eb211c80319c", "000000000000000000000000000000ab"];
let app: FastifyInstance;
let searches: number;

beforeEach(async () => {
  searches = 0;
  app = await createApp({ log: createLog("silent") });
  const store = {
    jaegerTrace: async (_orgId: string, traceID: string) =>
      IDS.includes(traceID) ? ["[", JSON.stringify({ traceID }), "]"].map((text) => Buffer.from(text)) : undefined,
    jaegerSearch: async () => {
      searches += 1;
      return [Buffer.from("[]")];
    },
  } as unknown as SpanStore;
  const guards: Pick<Guards, "reader"> = {
    reader: () => async (request) => {
      request.user = { userId: "u", orgId: "o", email: "e", role: "viewer", labelLimits: undefined };
    },
  };
  registerJaegerRoutes(app, { store, answers: new ResponseBudget(), guards });
  await closeRoutes(app);
});

afterEach(() => app.close());

const get = (query: string) => app.inject({ method: "GET", url: `/query/jaeger/api/traces?${query}` });

test("the ids of traces, with which Jaeger's page compares traces, select these traces and no others", async () => {
  const unknown = "1".repeat(32);
  const found = async (...ids: string[]): Promise<unknown> => (await get(ids.map((id) => `traceID=${id}`).join("&"))).json().data;
  expect(await found(IDS[0]?.toUpperCase() ?? "", "ab")).toEqual(IDS.map((traceID) => ({ traceID })));
  expect(await found(unknown, "ab", "ab", unknown)).toEqual([{ traceID: IDS[1] }]);
  expect(await found(unknown)).toEqual([]);
  expect(searches).toBe(0);
});

test.each(["traceID=xyz", "traceID=", `traceID=${"1".repeat(33)}`, "traceID=1&traceID=2&traceID=3&traceID=4&traceID=5"])(
  "%s is refused instead of being ignored",
  async (query) => {
    const answer = await get(query);
    expect([answer.statusCode, answer.json().message, searches]).toEqual([400, expect.stringContaining("traceID: must be"), 0]);
  },
);
