// docs/guarantees.md, "Isolation of tenants", for viewers: a viewer of one organisation sends slow log queries and PromQL that computes
// without reading data, more than may wait, and disconnects. Another organisation's queries, ingest and rules and the pod's readiness are
// not affected. The test asserts statuses and order, not times.
import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, expect, test } from "vitest";
import { type Tenant } from "../fixtures/backend-process.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { type Answer, call, eventually, signedPost } from "../fixtures/processes.ts";
import { nameOf } from "../fixtures/senders.ts";

const LABELS = 100;
const RECORDS = 30_000;
const BODIES = 3;

const backend = backendOfFile({ EVALUATION_INTERVAL: "1s", JWT_TTL: "1h" });
let loud: Tenant;
let calm: Tenant;
let ruleId: string;

beforeAll(async () => {
  loud = await backend.tenant("loud");
  calm = await backend.tenant("calm");
  // Labels of the resource are those of each record.
  const attributes = Array.from({ length: LABELS }, (_, index) => ({ key: `k${index}`, value: { stringValue: "v" } }));
  for (let body = 0; body < BODIES; body += 1) {
    const timeUnixNano = `${Date.now()}000000`;
    const logRecords = Array.from({ length: RECORDS }, () => ({ timeUnixNano, body: { stringValue: "x" } }));
    const logs = { resourceLogs: [{ resource: { attributes }, scopeLogs: [{ logRecords }] }] };
    expect((await signedPost(backend.apiUrl, "/ingest/logs/otlp", loud.apiKey, JSON.stringify(logs))).status).toBe(204);
  }
  expect((await sendLine()).status).toBe(204);
  expect((await signedPost(backend.apiUrl, "/ingest", calm.apiKey, "mine 7\n")).status).toBe(204);
  const rule = { name: "mine", severity: "critical", expr: "mine > 0", enabled: true };
  ruleId = (await call("POST", `${backend.alertingUrl}/rules`, { bearer: calm.token, body: rule })).json.id;
  const seen = async () => (await ask(calm, "/query/prometheus/api/v1/query?query=mine")).json.data.result.length === 1;
  await backend.shows("the sample can be read", seen, 30_000);
  await eventually("the rule is evaluated", async () => (await lastEvaluation()) > 0, 30_000);
});

const sendLine = () => {
  const record = { timeUnixNano: `${Date.now()}000000`, body: { stringValue: "mine" } };
  const logs = { resourceLogs: [{ scopeLogs: [{ logRecords: [record] }] }] };
  return signedPost(backend.apiUrl, "/ingest/logs/otlp", calm.apiKey, JSON.stringify(logs));
};
const ask = (tenant: Tenant, path: string, signal?: AbortSignal): Promise<Answer> =>
  signal ? abortable(tenant, path, signal) : call("GET", `${backend.apiUrl}${path}`, { bearer: tenant.token });
const lastEvaluation = async (): Promise<number> => {
  const { json } = await call("GET", `${backend.alertingUrl}/rules/${ruleId}/status`, { bearer: calm.token });
  return Date.parse(json.last_eval ?? "") || 0;
};

async function abortable(tenant: Tenant, path: string, signal: AbortSignal): Promise<Answer> {
  const answer = await fetch(`${backend.apiUrl}${path}`, { headers: { authorization: `Bearer ${tenant.token}` }, signal });
  const text = await answer.text();
  return { status: answer.status, headers: answer.headers, text, json: JSON.parse(text) as unknown };
}

const SLOW_LOGS = `/query/logs?limit=1&q=nothing&${Array.from({ length: LABELS }, (_, index) => `label.k${index}=v`).join("&")}`;
const promQl = (expression: string, seconds: number): string => {
  const end = Math.floor(Date.now() / 1000);
  return `/query/prometheus/api/v1/query_range?${new URLSearchParams({ query: expression, start: String(end - seconds), end: String(end), step: "1" }).toString()}`;
};

/** Everything that the other tenant and its pod do, once. */
async function calmRound(): Promise<Record<string, string>> {
  const [logs, traces, metrics, line, sample, ready] = await Promise.all([
    ask(calm, "/query/logs?limit=1"),
    ask(calm, "/query/traces?limit=1"),
    ask(calm, "/query/prometheus/api/v1/query?query=mine"),
    sendLine(),
    signedPost(backend.apiUrl, "/ingest", calm.apiKey, "mine 7\n"),
    call("GET", `${backend.healthUrl}/readyz`),
  ]);
  expect(logs.json).toHaveLength(1);
  expect(metrics.json.data.result).toHaveLength(1);
  return {
    logs: nameOf(logs),
    traces: nameOf(traces),
    metrics: nameOf(metrics),
    line: nameOf(line),
    sample: nameOf(sample),
    ready: nameOf(ready),
  };
}

const WELL = { logs: "200", traces: "200", metrics: "200", line: "204", sample: "204", ready: "200" };

test("a viewer's slow queries, beyond the queue's limit, delay no other user's, and end when the viewer disconnects", async () => {
  const left = new AbortController();
  const names = new Map<string, number>();
  const count = (name: string) => void names.set(name, (names.get(name) ?? 0) + 1);
  let answered = 0;
  const slow = Array.from({ length: 40 }, async () => {
    // A viewer that is refused retries without end.
    while (!left.signal.aborted) {
      const answer = await ask(loud, SLOW_LOGS, left.signal).catch(() => undefined);
      if (answer) count(`logs ${nameOf(answer)}`);
      if (answer?.status === 200) answered += 1;
      // Paces the retries.
      if (answer?.status === 429) await sleep(200);
    }
  });
  const loops = Array.from({ length: 6 }, async () => {
    while (!left.signal.aborted) {
      const path = promQl("count(mode_over_time((rand(1)+rand(2))[1h:1s]))", 10_800);
      const answer = await ask(loud, path, left.signal).catch(() => undefined);
      if (answer) count(`metrics ${nameOf(answer)}`);
    }
  });
  using _leaving = { [Symbol.dispose]: () => left.abort() };
  await eventually("more than may wait", async () => (names.get("logs 429 too_many_queries, again after 5 s") ?? 0) > 0, 60_000);
  const before = await lastEvaluation();
  const order: number[] = [];
  for (let round = 0; round < 5; round += 1) {
    const already = answered;
    expect(await calmRound(), `round ${round}`).toEqual(WELL);
    order.push(answered - already);
  }
  await eventually("rules are evaluated meanwhile", async () => (await lastEvaluation()) > before, 60_000);
  // Turns: each round of four queries waits for one or two of the other's at most, not for a queue of 18.
  expect(Math.max(...order), `answers of the loud viewer during a round: ${order.join(", ")}`).toBeLessThan(18);
  left.abort();
  await Promise.all([...slow, ...loops]);
  // The organisation's queue and the engine are empty again, a second after the connections have ended.
  await eventually("a query is answered", async () => nameOf(await ask(loud, "/query/logs?limit=1")) === "200", 20_000);
  const idle = async () => {
    const text = await (await fetch(`${backend.healthUrl}/metrics`)).text();
    const found = text.match(/^atherops_queries_(?:running|waiting)\{store="logs"\} 0$/gm);
    return found?.length === 2;
  };
  await eventually("no query runs or waits", idle, 20_000);
  console.log(`answers to the loud viewer: ${JSON.stringify(Object.fromEntries(names))}; during the other's rounds: ${order.join(", ")}`);
});

test("rejects PromQL that computes for minutes without data immediately, with advice", async () => {
  for (const expression of ["count(mode_over_time((rand(1)+rand(2))[6h:1s]))", `${"ru(1,".repeat(14)}1${")".repeat(14)}`]) {
    const { status, json } = await ask(loud, promQl(expression, 21_600));
    expect([status, json]).toMatchObject([400, { status: "error", errorType: "bad_data", error: expect.stringMatching(/^query: /) }]);
  }
});
