// What the routes of the Prometheus API pass to the store.
import type { FastifyInstance } from "fastify";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Guards } from "../../http/request-identity.ts";
import { closeRoutes, createApp } from "../../http/app.ts";
import { ResponseBudget } from "../../http/response-budget.ts";
import { createLog } from "../../log.ts";
import type { MetricsStore } from "../../storage/metrics/metric-store.ts";
import { registerMetricsRoutes } from "./promql-routes.ts";

let app: FastifyInstance;
let asked: URLSearchParams[];

beforeEach(async () => {
  asked = [];
  app = await createApp({ log: createLog("silent") });
  const store = {
    query: async (_orgId: string, _endpoint: string, params: URLSearchParams) => {
      asked.push(params);
      return { status: 200, pieces: [Buffer.from('{"status":"success","data":{"resultType":"vector","result":[]}}')] };
    },
  } as unknown as MetricsStore;
  const guards: Pick<Guards, "reader"> = {
    reader: () => async (request) => {
      request.user = { userId: "u", orgId: "o", email: "e", role: "viewer", labelLimits: undefined };
    },
  };
  const spans = { exemplars: async () => Buffer.from("[]") };
  registerMetricsRoutes(app, { store, spans, answers: new ResponseBudget(), guards: guards as Guards });
  await closeRoutes(app);
});

afterEach(() => app.close());

const get = (path: string) => app.inject({ method: "GET", url: `/query/prometheus/api/v1/${path}` });

test("a question mark that is not encoded, as curl sends it, ends neither the expression nor the parameters", async () => {
  expect((await get("query_range?query=up{path=~%22/a.?%22}&start=1790000000&end=1790000600&step=60")).statusCode).toBe(200);
  expect(Object.fromEntries(asked[0] ?? [])).toMatchObject({
    query: 'up{path=~"/a.?"}',
    start: "1790000000",
    end: "1790000600",
    step: "60",
  });
});

test.each(["now-1", "now()-5", "12 minutes", "2026-11-30T12:00:00", "2026-11-30", "2026-11-31T00:00:00Z"])(
  "the time %s, which only JavaScript understands, is refused instead of being another one",
  async (time) => {
    const answer = await get(`query?query=up&time=${encodeURIComponent(time)}`);
    expect([answer.statusCode, answer.json().error]).toEqual([
      400,
      expect.stringContaining("time: must be seconds since 1970, or RFC 3339"),
    ]);
    expect(asked).toEqual([]);
  },
);

test("a time with an offset, whose plus a client did not encode, is the one that was meant", async () => {
  for (const time of ["2026-11-30T12:00:00.5+02:00", "2026-11-30T12:00:00.5%2B02:00", "2026-11-30t10:00:00.500Z"])
    expect((await get(`query?query=up&time=${time}`)).statusCode).toBe(200);
  expect(asked.map((params) => Number(params.get("time")))).toEqual([0, 1, 2].map(() => Date.UTC(2026, 10, 30, 10, 0, 0, 500) / 1000));
});
