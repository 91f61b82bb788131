import { once } from "node:events";
import { linkSync, readdirSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test, vi } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { OutsideJournal } from "../../engines/victoria-metrics/outside-journal.ts";
import { createLog } from "../../log.ts";
import { VictoriaMetricsStore } from "./metric-store.ts";

const IDENTITY = { orgId: "acme", hostId: "host", node: "node" };

interface Seen {
  readonly url: string;
  readonly authorization: string | undefined;
  readonly body: string;
}

/** A VictoriaMetrics cluster's URLs as an operator writes them, answered by `respond`. */
async function clusterAnswering(
  respond: (response: ServerResponse, request: IncomingMessage) => void,
  options: { readonly outsideJournal?: OutsideJournal; readonly oldestMsOf?: () => number } = {},
) {
  const seen: Seen[] = [];
  const take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    seen.push({ url: request.url ?? "", authorization: request.headers.authorization, body: await text(request) });
    respond(response, request);
  };
  const server = createServer((request, response) => void take(request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const host = `reader:s%40cret@127.0.0.1:${(server.address() as AddressInfo).port}`;
  const store = new VictoriaMetricsStore({
    writeUrl: `http://${host}/insert/0/prometheus/`,
    queryUrl: `http://${host}/select/0/prometheus`,
    ...options,
  });
  return {
    seen,
    store,
    async [Symbol.asyncDispose]() {
      await store[Symbol.asyncDispose]();
      server.closeAllConnections();
      server.close();
    },
  };
}

const end =
  (status: number, body = "") =>
  (response: ServerResponse) =>
    void response.writeHead(status).end(body);

test("uses a cluster's base paths and the user in the URL, and passes the scope as a parameter of every request", async () => {
  await using cluster = await clusterAnswering(
    (response) => void response.writeHead(200, { "content-type": "application/json" }).end("{}"),
  );
  await cluster.store.write(IDENTITY, Buffer.from("up 1\n"), 1_700_000_000_000);
  const params = new URLSearchParams([
    ["match[]", "up"],
    ["extra_label", "org_id=other"],
    ["extra_filters[]", "{}"],
  ]);
  await cluster.store.query("acme", "label_values", params, { label: "a/b c", labelLimits: undefined });
  await cluster.store.check();
  const authorization = `Basic ${Buffer.from("reader:s@cret").toString("base64")}`;
  const scope = "extra_label=org_id%3Dacme";
  expect(cluster.seen.slice(0, 2)).toEqual([
    {
      url: `/insert/0/prometheus/api/v1/import/prometheus?timestamp=1700000000000&${scope}&extra_label=host_id%3Dhost&extra_label=node%3Dnode`,
      authorization,
      body: "up 1\n",
    },
    { url: "/select/0/prometheus/api/v1/label/a%2Fb%20c/values", authorization, body: `match%5B%5D=up&${scope}&deny_partial_response=1` },
  ]);
  const probe = "/select/0/prometheus/api/v1/query?query=atherops_readiness_probe&deny_partial_response=1";
  expect(
    cluster.seen
      .slice(2)
      .map(({ url }) => url)
      .toSorted(),
  ).toEqual(["/health", "/health", probe]);
});

test("reports the engine's health while every connection is busy", async () => {
  const waiting: ServerResponse[] = [];
  await using cluster = await clusterAnswering((response, { url }) => {
    if (url === "/health") response.end();
    else if (url?.startsWith("/insert/")) waiting.push(response);
  });
  const writes = Array.from({ length: 64 }, () => cluster.store.write(IDENTITY, Buffer.from("up 1\n"), 0));
  await vi.waitFor(() => expect(waiting).toHaveLength(writes.length), { timeout: 30_000 });
  await cluster.store.check();
  expect(waiting).toHaveLength(writes.length);
  for (const response of waiting) response.writeHead(204).end();
  await Promise.all(writes);
});

const outsideJournal = (dataDir: string) =>
  new OutsideJournal({ dataDir, port: 1, writeUrl: "http://127.0.0.1:1", isSynced: false, log: createLog("silent") });

test("erases the dead letters of deleted organisations in the journal of an external engine", async () => {
  using folder = temporaryFolder();
  await using journal = outsideJournal(folder.path);
  await using cluster = await clusterAnswering(end(204), { outsideJournal: journal });
  await cluster.store.write(IDENTITY, Buffer.from("up 1\n"), 0);
  const files = join(folder.path, "metrics-outside-journal", "1");
  const deadLetters = join(files, "dead-letters");
  const [segment = ""] = readdirSync(files).filter((name) => name.endsWith(".journal"));
  linkSync(join(files, segment), join(deadLetters, "1-0.damaged"));
  expect(await cluster.store.eraseDeadLetters(new Map([["other", Date.now()]]))).toBe(0);
  expect(await cluster.store.eraseDeadLetters(new Map([[IDENTITY.orgId, Date.now()]]))).toBe(1);
  expect(readdirSync(deadLetters)).toEqual([]);
});

test("releases the journal of an external engine once it is on disk, without further writes", async () => {
  using folder = temporaryFolder();
  await using journal = outsideJournal(folder.path);
  await using cluster = await clusterAnswering(end(200, '{"status":"success"}'), { outsideJournal: journal });
  const isKept = (): boolean => readdirSync(join(folder.path, "metrics-outside-journal", "1")).some((name) => name.endsWith(".journal"));
  await cluster.store.write(IDENTITY, Buffer.from("up 1\n"), 0);
  await cluster.store.check();
  expect(isKept()).toBe(true);
  using _later = vi.spyOn(performance, "now").mockReturnValue(performance.now() + 20_000);
  await cluster.store.check();
  await vi.waitFor(() => expect(isKept()).toBe(false), { timeout: 30_000 });
});

test.each([
  [400, "unstorable"],
  [429, "storage_unavailable"],
  [503, "storage_unavailable"],
  [500, "storage_unavailable"],
  [307, "storage_unavailable"],
])("a write that gets %i is %s", async (status, code) => {
  await using cluster = await clusterAnswering(end(status, "the engine's reason"));
  const write = cluster.store.write(IDENTITY, Buffer.from("up 1\n"), 1);
  await expect(write).rejects.toMatchObject({ code, message: expect.not.stringContaining("engine's reason"), cause: expect.any(Error) });
});

test("returns a query's 4xx, and treats everything else above 2xx as an error", async () => {
  for (const status of [400, 422]) {
    await using cluster = await clusterAnswering(end(status, '{"status":"error"}'));
    await expect(cluster.store.query("acme", "query", new URLSearchParams())).resolves.toMatchObject({ status });
  }
  for (const status of [302, 429, 500, 503]) {
    await using cluster = await clusterAnswering(end(status));
    await expect(cluster.store.query("acme", "query", new URLSearchParams())).rejects.toMatchObject({
      code: "storage_unavailable",
      retryAfterS: 2,
    });
  }
});

test("a cluster with missing storage nodes rejects queries and is not ready; an overloaded one is ready", async () => {
  const missing = "cannot fetch query results from vmstorage nodes: cannot dial 127.0.0.1:8401";
  const answers: [reason: string, message: string, readiness: string][] = [
    [missing, "storage node of the metrics cluster", "the metrics cluster is incomplete"],
    ["couldn't start executing the request, since -search.maxConcurrentRequests=4", "metrics store cannot be reached", "ready"],
  ];
  for (const [reason, message, readiness] of answers) {
    await using cluster = await clusterAnswering((response, { url }) => end(url === "/health" ? 200 : 503, reason)(response));
    const refused = { code: "storage_unavailable", status: 502, retryAfterS: 2, message: expect.stringContaining(message) };
    await expect(cluster.store.query("acme", "query", new URLSearchParams())).rejects.toMatchObject(refused);
    const state = cluster.store.check().then(
      () => "ready",
      (error: Error) => error.message,
    );
    expect(await state).toContain(readiness);
  }
});

test("retries once on a connection that the engine closes at the moment of use", async () => {
  let calls = 0;
  await using cluster = await clusterAnswering((response) => {
    calls += 1;
    if (calls % 2 === 1 || calls > 4) response.socket?.destroy();
    else response.writeHead(204).end();
  });
  await cluster.store.write(IDENTITY, Buffer.from("up 1\n"), 1);
  await cluster.store.write(IDENTITY, Buffer.from("up 1\n"), 1);
  await expect(cluster.store.write(IDENTITY, Buffer.from("up 1\n"), 1)).rejects.toMatchObject({ code: "storage_unavailable" });
  expect(calls).toBe(6);
});

test("rejects a response above 64 MiB instead of buffering it", async () => {
  await using cluster = await clusterAnswering((response) => {
    response.writeHead(200);
    for (let sent = 0; sent < 65; sent += 1) response.write(Buffer.alloc(1024 * 1024));
    response.end();
  });
  await expect(cluster.store.query("acme", "query", new URLSearchParams())).rejects.toMatchObject({
    code: "invalid_parameter",
    message: expect.stringContaining("64 MiB"),
  });
});

test("forwards a response above 16 MiB, but does not let the event loop of all organisations parse it", async () => {
  await using cluster = await clusterAnswering((response) => response.writeHead(200).end(Buffer.alloc(17 * 1024 * 1024)));
  const answer = await cluster.store.query("acme", "query", new URLSearchParams());
  expect(answer.pieces.length).toBeGreaterThan(0);
  expect(() => answer.body).toThrow(expect.objectContaining({ code: "query_too_expensive" }));
});

test("rejects a query without a tenant as an internal error, without a request to an engine", async () => {
  await using cluster = await clusterAnswering(end(200));
  await expect(cluster.store.query("", "query", new URLSearchParams())).rejects.toThrow("without a tenant");
  expect(cluster.seen).toEqual([]);
});

/** An engine that answers only when the test decides, also if the client has left. */
async function slowCluster(options: { answerMs?: number; querySlots?: number; queriesPerOrg?: number; stopping?: AbortSignal } = {}) {
  const waiting: ServerResponse[] = [];
  const server = createServer((_request, response) => void waiting.push(response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const store = new VictoriaMetricsStore({ writeUrl: url, queryUrl: url, ...options });
  return {
    store,
    /** Queries in the engine. */
    waiting,
    ask: (orgId: string, signal?: AbortSignal) =>
      store.query(orgId, "query", new URLSearchParams({ query: "up" }), { signal, labelLimits: undefined }),
    answerAll: () => waiting.splice(0).forEach((response) => response.end("{}")),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await store[Symbol.asyncDispose]();
    },
  };
}

test("runs fewer queries than the engine's limit, and keeps the slot while the engine computes, even if the client left", async () => {
  await using engine = await slowCluster();
  const gone = new AbortController();
  const left = Array.from({ length: 66 }, () => engine.ask("loud", gone.signal).catch((error: unknown) => error));
  await expect.poll(() => engine.waiting.length).toBe(2);
  await expect(engine.ask("loud")).rejects.toMatchObject({ code: "too_many_queries", status: 429, retryAfterS: 5 });
  const calm = engine.ask("calm");
  await expect.poll(() => engine.waiting.length).toBe(3);
  gone.abort(new Error("left"));
  expect(new Set((await Promise.all(left)).map(String))).toEqual(new Set(["Error: left"]));
  const again = engine.ask("loud");
  expect([engine.store.queries.running, engine.store.queries.waiting, engine.waiting.length]).toEqual([3, 1, 3]);
  engine.answerAll();
  expect((await calm).status).toBe(200);
  await expect.poll(() => engine.waiting.length).toBe(1);
  engine.answerAll();
  expect((await again).status).toBe(200);
});

test("a query ends for an idle organisation that waits, while others use all slots", async () => {
  await using engine = await slowCluster({ querySlots: 2 });
  const busy = ["red", "blue"].map((orgId) => engine.ask(orgId).then(String, (error: { code: string }) => error.code));
  await expect.poll(() => engine.waiting.length).toBe(2);
  const idle = engine.ask("idle");
  expect(await Promise.race(busy)).toBe("too_many_queries");
  await expect.poll(() => engine.waiting.length).toBe(3);
  engine.answerAll();
  expect((await idle).status).toBe(200);
});

test("returns too expensive for a query that computes for too long, and unavailable for one running at a stop", async () => {
  await using slow = await slowCluster({ answerMs: 20 });
  await expect(slow.ask("loud")).rejects.toMatchObject({ code: "query_too_expensive", status: 400 });
  expect(slow.store.queries.running).toBe(1);
  const stopping = new AbortController();
  await using engine = await slowCluster({ stopping: stopping.signal, queriesPerOrg: 1 });
  const both = [engine.ask("a"), engine.ask("a")].map((query) => query.catch((error: { code: string }) => error.code));
  await expect.poll(() => engine.waiting.length).toBe(1);
  stopping.abort();
  expect(await Promise.all(both)).toEqual(["unavailable", "unavailable"]);
});

test("does not report the engine's own time limit as an outage", async () => {
  const text = "timeout exceeded during query execution: 30.000 seconds (the timeout can be adjusted with `-search.maxQueryDuration`)";
  await using cluster = await clusterAnswering(end(503, JSON.stringify({ status: "error", error: text })));
  await expect(cluster.store.query("acme", "query", new URLSearchParams({ query: "up" }))).rejects.toMatchObject({
    code: "query_too_expensive",
    status: 400,
  });
});

test("rejects a query that its text shows as too expensive without a request to the engine", async () => {
  await using cluster = await clusterAnswering(end(200, "{}"));
  const params = new URLSearchParams({ query: "count(mode_over_time((rand(1)+rand(2))[6h:1s]))", start: "0", end: "21600", step: "1" });
  await expect(cluster.store.query("acme", "query_range", params)).rejects.toMatchObject({ code: "query_too_expensive" });
  expect(cluster.seen).toEqual([]);
});

test("rejects selectors that are too long together before it parses them", async () => {
  await using cluster = await clusterAnswering(end(200, "{}"));
  const selector = new URLSearchParams({ "match[]": `{a="${"b".repeat(16_000)}"}` }).toString();
  const selectors = (count: number) => new URLSearchParams(`${selector}&`.repeat(count));
  await expect(cluster.store.query("acme", "series", selectors(5))).rejects.toThrow("match[]: all selectors together have at most 64 KiB");
  expect(cluster.seen).toEqual([]);
  expect((await cluster.store.query("acme", "series", selectors(4))).status).toBe(200);
});

test("names a cluster with a lower limit for queries as the reason, with its flag", async () => {
  const refusal = "too long query; got 20000 bytes; mustn't exceed `-search.maxQueryLen=16384` bytes";
  await using cluster = await clusterAnswering(end(400, refusal));
  const asked = cluster.store.query("acme", "query", new URLSearchParams({ query: "up" }));
  await expect(asked).rejects.toMatchObject({ code: "query_too_expensive", message: expect.stringContaining("-search.maxQueryLen") });
});

const DAY_S = 86_400;

test("an expression reads nothing before the retention of its organisation, by its time, offset or @", async () => {
  const nowS = Math.floor(Date.now() / 1000);
  const oldestMsOf = (): number => (nowS - 7 * DAY_S) * 1000;
  await using cluster = await clusterAnswering(end(200, "{}"), { oldestMsOf });
  const ask = async (endpoint: "query" | "query_range", fields: Record<string, string>): Promise<string> => {
    await cluster.store.query("acme", endpoint, new URLSearchParams(fields), { labelLimits: undefined });
    return String(new URLSearchParams(cluster.seen.at(-1)?.body).get("start"));
  };
  const range = { start: String(nowS - 2 * DAY_S), end: String(nowS), step: "3600" };
  for (const query of ["up offset 8d", 'up{a="x"} offset (1d) + up OFFSET 700000', `up @ ${nowS - 8 * DAY_S}`]) {
    await expect(ask("query", { query }), query).rejects.toMatchObject({ code: "invalid_parameter", message: /not kept for so long/ });
    await expect(ask("query_range", { ...range, query }), query).rejects.toMatchObject({ code: "invalid_parameter" });
  }
  for (const query of ["up offset 7d", "up offset -8d", '{a="offset 9d"} # offset 9d', `up @ ${nowS - DAY_S} offset 1h`])
    await ask("query", { query });
  expect(await ask("query_range", { ...range, query: "up offset 5d" })).toBe(range.start);
  // The range begins at the first step that reads retained samples, with an hour of slack.
  expect(await ask("query_range", { ...range, query: "up - up offset 6d" })).toBe(String(nowS - 25 * 3600));
});
