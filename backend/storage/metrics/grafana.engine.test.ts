// Every request of Grafana's Prometheus data source: with a read token as the password of Basic auth, form bodies for queries and GET for
// names. Two organisations have series with the same name; neither sees the other's. Rules and alerts are tested in
// backend/alerting/prometheus-routes.engine.test.ts.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { accountsApp, makeOrg, type AccountsApp } from "../../../test/fixtures/accounts-app.ts";
import { startTestEngine, type TestEngine } from "../../../test/fixtures/metrics-engine.ts";
import { relationalEngines, type OpenedEngine } from "../../../test/fixtures/postgres.ts";
import { ResponseBudget } from "../../http/response-budget.ts";
import { registerMetricsRoutes } from "../../query/prometheus/routes.ts";
import { VictoriaMetricsStore } from "./store.ts";

const BASE = "/query/prometheus/api/v1";
const NOW = Math.floor(Date.now() / 1000);
const RANGE = { start: String(NOW - 60), end: String(NOW + 60) };
/** By name: what it is of. */
const OWN = { red: { value: 1 }, blue: { value: 2 } } as const;

let engine: TestEngine;
let store: VictoriaMetricsStore;
let opened: OpenedEngine | undefined;
let backend: AccountsApp;
const passwords = new Map<string, string>();

beforeAll(async () => {
  engine = await startTestEngine();
  store = new VictoriaMetricsStore(engine);
  opened = await relationalEngines[0]?.open();
  if (!opened) throw new Error("no store");
  backend = await accountsApp(opened.database, {
    routes: (app, guards) => registerMetricsRoutes(app, { store, spans: {} as never, answers: new ResponseBudget(), guards }),
  });
  for (const [name, { value }] of Object.entries(OWN)) {
    const { orgId, token: bearer } = await makeOrg(backend);
    const made = await backend.call("POST", "/api/read-tokens", { bearer, body: { name: "grafana" } });
    passwords.set(name, made.json().token);
    const lines = `shared{of="${name}"} ${value} ${NOW * 1000}\nonly_${name} ${value} ${NOW * 1000}\n`;
    await store.write({ orgId, hostId: `host-${name}`, node: `node-${name}` }, Buffer.from(lines), NOW);
  }
  await engine.flush();
});
afterAll(async () => {
  await backend?.[Symbol.asyncDispose]();
  await opened?.end();
  await store?.[Symbol.asyncDispose]();
  await engine?.[Symbol.asyncDispose]();
});

describe.each(Object.entries(OWN))("of %s", (name, { value }) => {
  /** What the source reads: the envelope, and `data` of it. */
  async function asks(method: "GET" | "POST", path: string, params: Record<string, string> = {}): Promise<unknown> {
    const form = new URLSearchParams(params).toString();
    const answer = await backend.call(method, method === "GET" ? `${BASE}/${path}?${form}` : `${BASE}/${path}`, {
      headers: {
        authorization: `Basic ${Buffer.from(`grafana:${passwords.get(name)}`).toString("base64")}`,
        ...(method === "POST" && { "content-type": "application/x-www-form-urlencoded" }),
      },
      ...(method === "POST" && { body: form }),
    });
    expect([answer.statusCode, answer.json().status, answer.headers["content-type"]]).toEqual([
      200,
      "success",
      expect.stringMatching(/^application\/json/),
    ]);
    return answer.json().data;
  }

  test.each(["POST", "GET"] as const)("the health check's question is answered 2, by %s", async (method) => {
    const data = await asks(method, "query", { query: "1+1", time: String(NOW) });
    expect(data).toEqual({ resultType: "scalar", result: [NOW, "2"] });
    expect(await asks(method, "query", { query: '"all"', time: String(NOW) })).toEqual({ resultType: "string", result: [NOW, "all"] });
    const scalarOf = { query: `scalar(sum(shared)) * 2`, time: String(NOW) };
    expect(await asks(method, "query", scalarOf)).toEqual({ resultType: "scalar", result: [NOW, String(2 * value)] });
  });

  test.each(["POST", "GET"] as const)("an instant and a range query answer its own series, by %s", async (method) => {
    const metric = { __name__: "shared", of: name, host_id: `host-${name}`, node: `node-${name}`, org_id: expect.any(String) };
    expect(await asks(method, "query", { query: "shared", time: String(NOW) })).toEqual({
      resultType: "vector",
      result: [{ metric, value: [NOW, String(value)] }],
    });
    expect(await asks(method, "query_range", { query: "shared", ...RANGE, step: "15" })).toMatchObject({
      resultType: "matrix",
      result: [{ metric, values: expect.arrayContaining([[NOW, String(value)]]) }],
    });
  });

  test.each(["GET", "POST"] as const)("names of series and labels are its own, by %s", async (method) => {
    expect(await asks(method, "labels", RANGE)).toEqual(["__name__", "host_id", "node", "of", "org_id"]);
    const series = await asks(method, "series", { "match[]": '{__name__=~".+"}', ...RANGE, limit: "40000" });
    expect(series).toHaveLength(2);
    expect(series).toEqual(
      expect.arrayContaining([expect.objectContaining({ of: name }), expect.objectContaining({ __name__: `only_${name}` })]),
    );
  });

  test("values of a label are its own, with and without a selector", async () => {
    expect(await asks("GET", "label/__name__/values", RANGE)).toEqual([`only_${name}`, "shared"]);
    expect(await asks("GET", "label/of/values", { ...RANGE, "match[]": "shared" })).toEqual([name]);
  });

  test("metadata is of its own metrics; version contains nothing of any tenant", async () => {
    expect(await asks("GET", "status/buildinfo")).toEqual({ version: "2.24.0" });
    const metadata = await asks("GET", "metadata", { limit: "40000" });
    expect(Object.keys(metadata as object)).toEqual([`only_${name}`, "shared"]);
  });
});
