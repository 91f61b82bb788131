// The proxy against a real HTTP backend on loopback: what reaches it, under which signature, and what the collector is told.
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { gunzipSync, gzipSync, zstdDecompressSync } from "node:zlib";
import { pino } from "pino";
import { Agent, request as httpRequest } from "undici";
import { afterEach, describe, expect, it, vi } from "vitest";
import { ERROR_CODES } from "../../backend/errors.ts";
import type { Credential, CredentialSource } from "../credentials/store.ts";
import { FINAL_REFUSALS } from "../protocol/refusals.ts";
import { KEY_HASH_HEADER, keyHash, SIGNATURE_HEADER, TIMESTAMP_HEADER, verify } from "../protocol/signature.ts";
import { createUpstream } from "../upstream/pool.ts";
import { type Proxy, type ProxyOptions, startProxy } from "./server.ts";

const NOW_UNIX_S = 1_763_714_400;
const METRICS = JSON.stringify({
  resourceMetrics: [
    { scopeMetrics: [{ metrics: [{ name: "up", gauge: { dataPoints: [{ timeUnixNano: "1763714400000000000", asInt: "1" }] } }] }] },
  ],
});

interface Received {
  method: string;
  url: string;
  headers: IncomingMessage["headers"];
  body: Buffer;
}

type Answer = (received: Received, response: ServerResponse) => void;

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).toReversed()) await each[Symbol.asyncDispose]();
});

const accept: Answer = (_, response) => response.writeHead(204).end();

async function startBackend(answer: Answer = accept) {
  const received: Received[] = [];
  const backend = { received, answer, url: "" };
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const one = { method: request.method ?? "", url: request.url ?? "", headers: request.headers, body: Buffer.concat(chunks) };
    received.push(one);
    backend.answer(one, response);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  backend.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  open.push({
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  });
  return backend;
}

function credential(apiKey: string | undefined): Credential | undefined {
  return apiKey === undefined ? undefined : { id: "cluster-1", apiKey, keyCreatedAt: "2026-11-01T00:00:00Z" };
}

/** A store that answers `next` from its first refresh on. */
function credentialSource(key: string | undefined, next: string | undefined = key): CredentialSource & { refreshes: string[] } {
  let now = credential(key);
  const refreshes: string[] = [];
  return {
    refreshes,
    current: () => now,
    refresh: async (reason) => {
      refreshes.push(reason);
      now = credential(next);
      return now;
    },
  };
}

async function startWith(backendUrl: string, options: Partial<ProxyOptions> = {}): Promise<Proxy & { logged: () => string }> {
  const lines: string[] = [];
  const upstream = createUpstream({ backendUrl });
  const proxy = await startProxy({
    listen: { host: "127.0.0.1", port: 0 },
    upstream,
    credentials: credentialSource("ak_first"),
    clock: { nowUnixS: () => NOW_UNIX_S },
    compression: "none",
    log: pino({}, { write: (line) => void lines.push(line) }),
    ...options,
  });
  open.push(upstream, proxy);
  return Object.assign(proxy, { logged: () => lines.join("") });
}

async function post(proxy: Proxy, path: string, body: string | Buffer = "{}", headers: Record<string, string> = {}) {
  const answer = await httpRequest(`http://127.0.0.1:${proxy.port}${path}`, {
    method: "POST",
    body,
    headers: { "content-type": "application/json", ...headers },
  });
  return { status: answer.statusCode, headers: answer.headers, body: await answer.body.text() };
}

/** Sends bytes as they are and answers all that comes back until the proxy ends the connection. */
async function sendRaw(proxy: Proxy, text: string): Promise<string> {
  const socket = connect(proxy.port, "127.0.0.1");
  let received = "";
  socket.on("data", (chunk: Buffer) => (received += chunk.toString("latin1")));
  socket.on("error", () => {});
  socket.write(text);
  await once(socket, "close");
  return received;
}

function isSignedWith(key: string, { headers, method, url }: Received): boolean {
  const [timestamp, signature] = [String(headers[TIMESTAMP_HEADER]), String(headers[SIGNATURE_HEADER])];
  return headers[KEY_HASH_HEADER] === keyHash(key) && verify(key, timestamp, method, url, signature);
}

const errorAnswer =
  (status: number, code: string, headers: Record<string, string> = {}): Answer =>
  (_, response) =>
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify({ error: code, message: "why" }));

describe("routes", () => {
  it.each([
    ["/v1/logs", "/ingest/logs/otlp"],
    ["/v1/traces", "/ingest/traces"],
  ])("sends %s to %s byte for byte, signed", async (path, ingestPath) => {
    const backend = await startBackend();
    const proxy = await startWith(backend.url);
    const body = '{ "resourceLogs":[],\n "x": "ü\\u0000" }';
    expect(await post(proxy, path, body)).toMatchObject({ status: 200, body: "{}", headers: { "content-type": "application/json" } });
    expect(backend.received).toHaveLength(1);
    const [sent] = backend.received;
    expect(sent).toMatchObject({
      method: "POST",
      url: ingestPath,
      headers: { "x-timestamp": String(NOW_UNIX_S), "content-type": "application/json" },
    });
    expect(sent?.body.toString()).toBe(body);
    expect(sent && isSignedWith("ak_first", sent)).toBe(true);
  });

  it("sends metrics to /ingest as exposition text, signed", async () => {
    const backend = await startBackend();
    const proxy = await startWith(backend.url);
    expect(await post(proxy, "/v1/metrics", METRICS)).toMatchObject({ status: 200, body: "{}" });
    const [sent] = backend.received;
    expect(sent?.url).toBe("/ingest");
    expect(sent?.body.toString()).toBe("up 1 1763714400000\n");
    expect(sent && isSignedWith("ak_first", sent)).toBe(true);
  });

  it("splits text over 32 MiB into posts that must all succeed, and sends the same again when one does not", async () => {
    let posts = 0;
    const digests: string[] = [];
    const backend = await startBackend((received, response) => {
      digests.push(`${received.body.length} ${createHash("sha256").update(received.body).digest("hex")}`);
      response.writeHead(++posts === 2 ? 502 : 204).end();
    });
    const proxy = await startWith(backend.url);
    const attributes = [{ key: "long", value: { stringValue: "v".repeat(1000) } }];
    const dataPoints = Array.from({ length: 40_000 }, (_, asInt) => ({ timeUnixNano: "1763714400000000000", asInt }));
    const metrics = [{ name: "m", gauge: { dataPoints } }];
    const body = JSON.stringify({ resourceMetrics: [{ resource: { attributes }, scopeMetrics: [{ metrics }] }] });
    expect(await post(proxy, "/v1/metrics", body)).toMatchObject({ status: 503 });
    expect(await post(proxy, "/v1/metrics", body)).toMatchObject({ status: 200 });
    expect(digests).toHaveLength(4);
    expect(digests.slice(0, 2)).toEqual(digests.slice(2));
    expect(Math.max(...backend.received.map(({ body }) => body.length))).toBeLessThanOrEqual(32 << 20);
    const lines = backend.received.slice(2).flatMap(({ body }) => body.toString().trim().split("\n"));
    expect(lines).toHaveLength(40_000);
  });

  it("answers success without a request when metrics hold nothing to send", async () => {
    const backend = await startBackend();
    const proxy = await startWith(backend.url);
    expect(await post(proxy, "/v1/metrics", "{}")).toMatchObject({ status: 200 });
    expect(backend.received).toHaveLength(0);
  });

  it("passes nothing of the caller's headers on", async () => {
    const backend = await startBackend();
    const proxy = await startWith(backend.url);
    await post(proxy, "/v1/logs", "{}", {
      "x-key-hash": "f".repeat(64),
      authorization: "Bearer x",
      "x-forwarded-for": "1.2.3.4",
      cookie: "a=b",
    });
    const [sent] = backend.received;
    expect(Object.keys(sent?.headers ?? {}).sort()).toEqual([
      "connection",
      "content-length",
      "content-type",
      "host",
      "x-key-hash",
      "x-signature",
      "x-timestamp",
    ]);
    expect(sent && isSignedWith("ak_first", sent)).toBe(true);
  });
});

describe("it is no signing oracle", () => {
  const targets = [
    "/",
    "/v1/logs/",
    "/v1/logs?x=1",
    "/v1/logs#x",
    "//v1/logs",
    "/v1/./logs",
    "/v1/../v1/logs",
    "/v1/logs/../../api/clusters/rotate-key",
    "/v1/%6cogs",
    "/v1/logs%00",
    "/V1/LOGS",
    "/ingest",
    "/ingest/traces",
    "/ingest/logs/otlp",
    "/heartbeat",
    "/api/clusters/rotate-key",
    "/api/v1/agents/x/config",
    "/__proto__",
    "/constructor",
    "*",
    "http://127.0.0.1:PORT/v1/logs",
    "http://elsewhere.example/v1/logs",
  ];
  it.each(targets)("answers 404 or 400 to POST %s and asks the backend nothing", async (target) => {
    const backend = await startBackend();
    const proxy = await startWith(backend.url);
    const line = target.replace("PORT", String(proxy.port));
    const answer = await sendRaw(
      proxy,
      `POST ${line} HTTP/1.1\r\nHost: 127.0.0.1:${proxy.port}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 40[04] /);
    expect(backend.received).toHaveLength(0);
  });

  it.each(["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"])("signs nothing for %s", async (method) => {
    const backend = await startBackend();
    const proxy = await startWith(backend.url);
    const answer = await sendRaw(proxy, `${method} /v1/logs HTTP/1.1\r\nHost: 127.0.0.1:${proxy.port}\r\nConnection: close\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 404 /);
    expect(backend.received).toHaveLength(0);
  });

  it("tunnels nothing: CONNECT is cut off", async () => {
    const backend = await startBackend();
    const proxy = await startWith(backend.url);
    const { host } = new URL(backend.url);
    const answer = await sendRaw(
      proxy,
      `CONNECT ${host} HTTP/1.1\r\nHost: ${host}\r\n\r\nPOST /ingest HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 0\r\n\r\n`,
    );
    expect(answer).not.toMatch(/ 200 /);
    expect(backend.received).toHaveLength(0);
  });

  it.each([
    "evil.example:PORT",
    "127.0.0.1",
    "127.0.0.1:1",
    "127.0.0.1.evil.example:PORT",
    "localhost.evil.example:PORT",
    "10.0.0.1:PORT",
    "PORT",
    "",
  ])("refuses the Host %j", async (host) => {
    const backend = await startBackend();
    const proxy = await startWith(backend.url);
    const name = host.replace("PORT", String(proxy.port));
    const answer = await sendRaw(proxy, `POST /v1/logs HTTP/1.1\r\nHost: ${name}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}`);
    expect(answer).toMatch(/^HTTP\/1\.1 40[03] /);
    expect(backend.received).toHaveLength(0);
  });

  it.each([
    ["no Host", ""],
    ["two Hosts", "Host: 127.0.0.1:PORT\r\nHost: 127.0.0.1:PORT\r\n"],
    ["a page's Origin", "Host: 127.0.0.1:PORT\r\nOrigin: http://evil.example\r\n"],
  ])("refuses a request with %s", async (_, headers) => {
    const backend = await startBackend();
    const proxy = await startWith(backend.url);
    const lines = headers.replaceAll("PORT", String(proxy.port));
    const answer = await sendRaw(proxy, `POST /v1/logs HTTP/1.1\r\n${lines}Content-Length: 2\r\nConnection: close\r\n\r\n{}`);
    expect(answer).toMatch(/^HTTP\/1\.1 40[03] /);
    expect(backend.received).toHaveLength(0);
  });

  it.each(["localhost", "127.0.0.1", "[::1]", "LOCALHOST"])("answers under its own name %s", async (name) => {
    const backend = await startBackend();
    const proxy = await startWith(backend.url);
    const answer = await sendRaw(
      proxy,
      `POST /v1/logs HTTP/1.1\r\nHost: ${name}:${proxy.port}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
  });

  it("says whose fault it is when its port is taken", async () => {
    const first = await startWith("http://127.0.0.1:1");
    await expect(startWith("http://127.0.0.1:1", { listen: { host: "127.0.0.1", port: first.port } })).rejects.toThrow(/another agent/);
  });

  it("listens on loopback only", async () => {
    await expect(startWith("http://127.0.0.1:1", { listen: { host: "0.0.0.0", port: 0 } })).rejects.toThrow(/loopback/);
  });

  it("signs one request, not a second hidden behind it", async () => {
    const backend = await startBackend();
    const proxy = await startWith(backend.url);
    const host = `Host: 127.0.0.1:${proxy.port}\r\n`;
    await sendRaw(
      proxy,
      `POST /v1/logs HTTP/1.1\r\n${host}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nPOST /heartbeat HTTP/1.1\r\n${host}\r\n`,
    );
    expect(backend.received.filter(({ url }) => url !== "/ingest/logs/otlp")).toEqual([]);
  });
});

describe("answers of the backend", () => {
  it("are known by the same codes as the backend's own table", () => {
    const finals = Object.entries(ERROR_CODES).filter(
      ([code, [status]]) => [400, 413, 429].includes(status) && code !== "malformed_request",
    );
    const table = Object.groupBy(finals, ([, [status]]) => String(status));
    expect(Object.fromEntries(Object.entries(table).map(([status, rows]) => [status, rows?.map(([code]) => code)]))).toEqual(
      FINAL_REFUSALS,
    );
  });

  it.each(Object.entries(FINAL_REFUSALS).flatMap(([status, codes]) => codes.map((code) => [Number(status), code] as const)))(
    "passes %i on when it says %s",
    async (status, code) => {
      const backend = await startBackend(errorAnswer(status, code));
      const proxy = await startWith(backend.url);
      const answer = await post(proxy, "/v1/traces");
      expect(answer.status).toBe(status);
      expect(JSON.parse(answer.body)).toEqual({ error: code, message: "why" });
    },
  );

  it.each(["logs", "traces"])("of a size that is too large: %s are sent in parts, in the same compression, each signed", async (signal) => {
    const backend = await startBackend(({ body }, response) =>
      gunzipSync(body).length > 3000 ? errorAnswer(413, "batch_too_large")({ body } as Received, response) : response.writeHead(204).end(),
    );
    const proxy = await startWith(backend.url, { compression: "zstd" });
    const [resources, scopes, list] =
      signal === "logs" ? (["resourceLogs", "scopeLogs", "logRecords"] as const) : (["resourceSpans", "scopeSpans", "spans"] as const);
    const records = Array.from({ length: 100 }, (_, index) => ({ name: `${index} ${"x".repeat(60)}` }));
    const json = JSON.stringify({ [resources]: [{ [scopes]: [{ [list]: records }] }] });
    const answer = await post(proxy, `/v1/${signal}`, gzipSync(json), { "content-encoding": "gzip" });
    expect(answer).toMatchObject({ status: 200, body: "{}" });
    const stored = backend.received.map(({ body }) => gunzipSync(body).toString()).filter((text) => text.length <= 3000);
    const names = stored.flatMap((text) => {
      const document = JSON.parse(text) as Record<string, Record<string, Record<string, object[]>[]>[]>;
      return document[resources]?.[0]?.[scopes]?.[0]?.[list] ?? [];
    });
    expect(names).toEqual(records);
    for (const each of backend.received) expect(isSignedWith("ak_first", each)).toBe(true);
    expect(proxy.status()[signal as "logs"]).toMatchObject({ accepted: 1, retried: 0, refused: 0 });
  });

  it("of a record that is too large by itself: it is left out, counted and told, and holds up nothing", async () => {
    const backend = await startBackend((received, response) =>
      received.body.includes("huge") ? errorAnswer(413, "batch_too_large")(received, response) : accept(received, response),
    );
    const proxy = await startWith(backend.url);
    const logRecords = ["a", "huge", "b"].map((stringValue) => ({ body: { stringValue } }));
    expect(await post(proxy, "/v1/logs", JSON.stringify({ resourceLogs: [{ scopeLogs: [{ logRecords }] }] }))).toMatchObject({
      status: 200,
    });
    expect(proxy.status().logs).toMatchObject({ accepted: 1, refused: 0, droppedPoints: { too_large: 1 } });
    expect(proxy.logged()).toContain("records of logs are left out: too_large: batch_too_large: why");
  });

  it("passes on how long to wait after a 429", async () => {
    const backend = await startBackend(errorAnswer(429, "over_quota", { "retry-after": "17" }));
    const proxy = await startWith(backend.url);
    expect(await post(proxy, "/v1/logs")).toMatchObject({ status: 429, headers: { "retry-after": "17" } });
  });

  it.each([400, 413, 429])("keeps the data when a bare %i comes, since anything in between may have sent it", async (status) => {
    const backend = await startBackend((_, response) => response.writeHead(status).end("<html>"));
    const proxy = await startWith(backend.url);
    const answer = await post(proxy, "/v1/logs");
    expect(answer.status).toBe(503);
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
  });

  it("keeps the data when a code of ours comes under another status", async () => {
    const backend = await startBackend(errorAnswer(413, "over_quota"));
    const proxy = await startWith(backend.url);
    expect(await post(proxy, "/v1/logs")).toMatchObject({ status: 503 });
  });

  it.each([200, 201, 202, 205, 301, 302, 307, 308, 404, 405, 408, 409, 415, 418, 422, 500, 501, 502, 503, 504])(
    "turns %i into 503 with Retry-After and follows nothing",
    async (status) => {
      const elsewhere = await startBackend();
      const backend = await startBackend((_, response) => response.writeHead(status, { location: `${elsewhere.url}/x` }).end());
      const proxy = await startWith(backend.url);
      const answer = await post(proxy, "/v1/logs");
      expect(answer.status).toBe(503);
      expect(answer.headers["retry-after"]).toMatch(/^\d+$/);
      expect(backend.received).toHaveLength(1);
      expect(elsewhere.received).toHaveLength(0);
      expect(proxy.logged()).toContain(String(status));
    },
  );

  it("honours the backend's Retry-After within reason", async () => {
    const backend = await startBackend((_, response) => response.writeHead(503, { "retry-after": "9" }).end());
    const proxy = await startWith(backend.url);
    expect((await post(proxy, "/v1/logs")).headers["retry-after"]).toBe("9");
    backend.answer = (_, response) => response.writeHead(503, { "retry-after": "999999" }).end();
    expect((await post(proxy, "/v1/logs")).headers["retry-after"]).toBe("300");
  });

  it.each([401, 403])("re-reads the credential after a %i and signs once again", async (status) => {
    const backend = await startBackend((received, response) => {
      if (isSignedWith("ak_second", received)) accept(received, response);
      else errorAnswer(status, "unknown_key")(received, response);
    });
    const credentials = credentialSource("ak_first", "ak_second");
    const proxy = await startWith(backend.url, { credentials });
    expect(await post(proxy, "/v1/logs", '{"a":1}')).toMatchObject({ status: 200 });
    expect(backend.received.map(({ body }) => body.toString())).toEqual(['{"a":1}', '{"a":1}']);
    expect(credentials.refreshes).toHaveLength(1);
    expect(await post(proxy, "/v1/logs")).toMatchObject({ status: 200 });
    expect(backend.received).toHaveLength(3);
  });

  it("does not ask the store again for a key that has come in the meantime", async () => {
    const answers: (() => void)[] = [];
    const backend = await startBackend((received, response) => {
      if (isSignedWith("ak_second", received)) accept(received, response);
      else answers.push(() => errorAnswer(401, "unknown_key")(received, response));
    });
    const credentials = credentialSource("ak_first", "ak_second");
    const proxy = await startWith(backend.url, { credentials });
    const posts = [post(proxy, "/v1/logs"), post(proxy, "/v1/traces")];
    await vi.waitFor(() => expect(answers).toHaveLength(2));
    answers[0]?.();
    await Promise.race(posts);
    answers[1]?.();
    expect((await Promise.all(posts)).map(({ status }) => status)).toEqual([200, 200]);
    expect(credentials.refreshes).toHaveLength(1);
  });

  it("signs no third time: a key refused twice is a 503", async () => {
    const backend = await startBackend(errorAnswer(401, "revoked_key"));
    const credentials = credentialSource("ak_first", "ak_second");
    const proxy = await startWith(backend.url, { credentials });
    expect(await post(proxy, "/v1/traces")).toMatchObject({ status: 503 });
    expect(backend.received).toHaveLength(2);
    expect(proxy.status().traces.lastError?.message).toContain("revoked_key");
  });

  it("signs with the corrected clock after a stale timestamp", async () => {
    let skewS = 0;
    const backend = await startBackend((received, response) => {
      if (received.headers[TIMESTAMP_HEADER] === String(NOW_UNIX_S + 900)) accept(received, response);
      else errorAnswer(401, "stale_timestamp")(received, response);
    });
    const clock = { nowUnixS: () => NOW_UNIX_S + skewS, observe: () => (skewS = 900) };
    const proxy = await startWith(backend.url, { clock });
    expect(await post(proxy, "/v1/logs")).toMatchObject({ status: 200 });
  });

  it("tells the credentials their key's age, unless the key was refused or the answer does not say", async () => {
    const backend = await startBackend((_, response) => response.writeHead(204, { "x-key-age-days": "31" }).end());
    const seen: unknown[] = [];
    const credentials: CredentialSource = { ...credentialSource("ak_first"), noteKeyAge: ({ apiKey }, days) => seen.push([apiKey, days]) };
    const proxy = await startWith(backend.url, { credentials });
    await post(proxy, "/v1/logs");
    backend.answer = accept;
    await post(proxy, "/v1/logs");
    backend.answer = errorAnswer(401, "revoked_key", { "x-key-age-days": "32" });
    await post(proxy, "/v1/logs");
    backend.answer = errorAnswer(429, "over_quota", { "x-key-age-days": "33" });
    await post(proxy, "/v1/logs");
    expect(seen).toEqual([
      ["ak_first", 31],
      ["ak_first", 33],
    ]);
  });
});

describe("an outage", () => {
  it("answers 503 until there is a key", async () => {
    const backend = await startBackend();
    const proxy = await startWith(backend.url, { credentials: credentialSource(undefined) });
    const answer = await post(proxy, "/v1/logs", Buffer.alloc(300_000, 32));
    expect(answer.status).toBe(503);
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
    expect(backend.received).toHaveLength(0);
  });

  it("is told when it begins and when it ends, not for each request", async () => {
    let nowMs = 0;
    const backend = await startBackend((_, response) => response.writeHead(500).end());
    const proxy = await startWith(backend.url, { nowMs: () => nowMs });
    for (let request = 0; request < 5; request++) await post(proxy, "/v1/logs");
    nowMs = 90_000;
    backend.answer = accept;
    for (let request = 0; request < 3; request++) await post(proxy, "/v1/logs");
    const lines = proxy
      .logged()
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { msg: string; retried: number });
    expect(lines.map(({ msg }) => msg)).toEqual([
      expect.stringMatching(/logs do not get through.*500/),
      "logs have recovered: they get through again after 90 s",
    ]);
    expect(lines[1]?.retried).toBe(5);
    expect(proxy.status().logs).toMatchObject({
      accepted: 3,
      retried: 5,
      refused: 0,
      failingSince: null,
      lastSuccess: "1970-01-01T00:01:30.000Z",
    });
  });

  it("answers 503 while the backend cannot be reached", async () => {
    const backend = await startBackend();
    const { url } = backend;
    const proxy = await startWith(url);
    await open.shift()?.[Symbol.asyncDispose]();
    const answer = await post(proxy, "/v1/metrics", METRICS);
    expect(answer.status).toBe(503);
    expect(proxy.status().metrics).toMatchObject({
      retried: 1,
      failingSince: expect.any(String),
      lastError: { message: expect.stringContaining("ECONNREFUSED") },
    });
  });

  it("tries a new key when the connection is cut in the middle of a body", async () => {
    const backend = await startBackend((received, response) => {
      if (isSignedWith("ak_second", received)) accept(received, response);
      else response.destroy();
    });
    const proxy = await startWith(backend.url, { credentials: credentialSource("ak_first", "ak_second") });
    expect(await post(proxy, "/v1/logs")).toMatchObject({ status: 200 });
    expect(backend.received).toHaveLength(2);
  });

  it("does not send all of it again under the same key when a connection is cut", async () => {
    const backend = await startBackend((_, response) => void response.destroy());
    const proxy = await startWith(backend.url);
    expect(await post(proxy, "/v1/logs")).toMatchObject({ status: 503 });
    expect(backend.received).toHaveLength(1);
  });
});

describe("bodies", () => {
  it("passes a gzip body on as it came", async () => {
    const backend = await startBackend();
    const proxy = await startWith(backend.url, { compression: "zstd" });
    const body = gzipSync('{"resourceLogs":[]}');
    expect(await post(proxy, "/v1/logs", body, { "content-encoding": "gzip" })).toMatchObject({ status: 200 });
    expect(backend.received[0]?.headers["content-encoding"]).toBe("gzip");
    expect(backend.received[0]?.body.equals(body)).toBe(true);
  });

  it("sends all of a large body again when the first key is refused before the body is in", async () => {
    const body = Buffer.alloc(8 << 20, "0123456789abcdef");
    const received: Buffer[] = [];
    const server = createServer(async (request, response) => {
      const head = { method: "POST", url: request.url ?? "", headers: request.headers, body: Buffer.alloc(0) };
      if (!isSignedWith("ak_second", head)) {
        // As the backend refuses: at once, draining little, then closing.
        response.writeHead(401, { connection: "close" }).end(JSON.stringify({ error: "unknown_key", message: "why" }));
        return;
      }
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      received.push(Buffer.concat(chunks));
      response.writeHead(204).end();
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    open.push({ [Symbol.asyncDispose]: () => new Promise((done) => server.close(() => done()).closeAllConnections()) });
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const credentials = credentialSource("ak_first", "ak_second");
    const proxy = await startWith(url, { credentials });
    const socket = connect(proxy.port, "127.0.0.1");
    socket.write(`POST /v1/logs HTTP/1.1\r\nHost: 127.0.0.1:${proxy.port}\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n`);
    socket.write(body.subarray(0, 1 << 20));
    await vi.waitFor(() => expect(credentials.refreshes).toHaveLength(1));
    socket.write(body.subarray(1 << 20));
    let answer = "";
    socket.on("data", (chunk: Buffer) => (answer += chunk.toString()));
    await once(socket, "close");
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
    expect(received.map((each) => each.equals(body))).toEqual([true]);
  });

  it("takes the next request on a connection whose body was refused half-way", async () => {
    const backend = await startBackend();
    const proxy = await startWith(backend.url, { credentials: credentialSource(undefined, "ak_first") });
    const head = `POST /v1/logs HTTP/1.1\r\nHost: 127.0.0.1:${proxy.port}\r\nContent-Length: 1000000\r\n`;
    const socket = connect(proxy.port, "127.0.0.1");
    open.push({ [Symbol.asyncDispose]: async () => void socket.destroy() });
    let answers = "";
    socket.on("data", (chunk: Buffer) => (answers += chunk.toString()));
    socket.write(`${head}\r\n${" ".repeat(400_000)}`);
    await vi.waitFor(() => expect(answers).toMatch(/ 503 /));
    socket.write(" ".repeat(600_000));
    answers = "";
    socket.write(`${head}Connection: close\r\n\r\n${" ".repeat(1_000_000)}`);
    await once(socket, "close");
    expect(answers).toMatch(/^HTTP\/1\.1 503 /);
  });

  it("that come in unannounced pieces are passed on whole", async () => {
    const backend = await startBackend();
    const proxy = await startWith(backend.url);
    const chunks = '4\r\n{"a"\r\n3\r\n:1}\r\n0\r\n\r\n';
    const head = `POST /v1/logs HTTP/1.1\r\nHost: 127.0.0.1:${proxy.port}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n`;
    expect(await sendRaw(proxy, head + chunks)).toMatch(/^HTTP\/1\.1 200 /);
    expect(backend.received[0]?.body.toString()).toBe('{"a":1}');
  });

  it("that break off are given up and reach the backend as no success", async () => {
    const backend = await startBackend();
    const proxy = await startWith(backend.url);
    const socket = connect(proxy.port, "127.0.0.1");
    socket.write(`POST /v1/logs HTTP/1.1\r\nHost: 127.0.0.1:${proxy.port}\r\nContent-Length: 1000000\r\n\r\n${" ".repeat(200_000)}`);
    await vi.waitFor(() => expect(socket.bytesWritten).toBeGreaterThan(200_000));
    socket.destroy();
    expect(await post(proxy, "/v1/logs", "{}")).toMatchObject({ status: 200 });
    expect(backend.received.map(({ body }) => body.toString())).toEqual(["{}"]);
    expect(proxy.status().logs).toMatchObject({ accepted: 1, retried: 0, refused: 0 });
  });

  it("reads gzip metrics", async () => {
    const backend = await startBackend();
    const proxy = await startWith(backend.url);
    expect(await post(proxy, "/v1/metrics", gzipSync(METRICS), { "content-encoding": "gzip" })).toMatchObject({ status: 200 });
    expect(backend.received[0]?.body.toString()).toBe("up 1 1763714400000\n");
  });

  it.each([
    ["gzip", gunzipSync],
    ["zstd", zstdDecompressSync],
  ] as const)("compresses with %s towards the backend", async (compression, decompress) => {
    const backend = await startBackend();
    const proxy = await startWith(backend.url, { compression });
    await post(proxy, "/v1/logs", '{"resourceLogs":[]}');
    await post(proxy, "/v1/metrics", METRICS);
    expect(backend.received.map(({ headers }) => headers["content-encoding"])).toEqual([compression, compression]);
    expect(backend.received.map(({ body }) => decompress(body).toString())).toEqual(['{"resourceLogs":[]}', "up 1 1763714400000\n"]);
  });

  it.each([
    ["metrics that are not JSON", "/v1/metrics", "{", {}, 400],
    ["metrics that are not gzip", "/v1/metrics", "{}", { "content-encoding": "gzip" }, 400],
    ["an encoding that the backend does not take", "/v1/logs", "{}", { "content-encoding": "snappy" }, 503],
    ["protobuf, which is kept until the exporter is set right", "/v1/logs", "{}", { "content-type": "application/x-protobuf" }, 503],
  ])("sends nothing for %s", async (_, path, body, headers, status) => {
    const backend = await startBackend();
    const proxy = await startWith(backend.url);
    expect(await post(proxy, path, body, headers as Record<string, string>)).toMatchObject({ status });
    expect(backend.received).toHaveLength(0);
  });

  it("refuses a body over 32 MiB as the backend would, before and while reading it", async () => {
    const backend = await startBackend();
    const proxy = await startWith(backend.url);
    const announced = await sendRaw(
      proxy,
      `POST /v1/logs HTTP/1.1\r\nHost: localhost:${proxy.port}\r\nContent-Length: ${33 << 20}\r\n\r\n{`,
    );
    expect(announced).toMatch(/^HTTP\/1\.1 413 [^]*body_too_large/);
    const bomb = gzipSync(Buffer.alloc(65 << 20));
    expect(await post(proxy, "/v1/metrics", bomb, { "content-encoding": "gzip" })).toMatchObject({ status: 413 });
    expect(backend.received).toHaveLength(0);
  });

  it("holds no more than its budget and asks the others to wait", async () => {
    const answers: (() => void)[] = [];
    const backend = await startBackend((received, response) => void answers.push(() => accept(received, response)));
    const proxy = await startWith(backend.url, { maxHeldBytes: 250_000 });
    const body = Buffer.alloc(100_000, 32);
    const held = [post(proxy, "/v1/logs", body), post(proxy, "/v1/traces", body)];
    await vi.waitFor(() => expect(answers).toHaveLength(2));
    expect(await post(proxy, "/v1/logs", body)).toMatchObject({ status: 503, headers: { "retry-after": "1" } });
    for (const answer of answers) answer();
    expect((await Promise.all(held)).map(({ status }) => status)).toEqual([200, 200]);
    backend.answer = accept;
    expect(await post(proxy, "/v1/logs", Buffer.alloc(400_000, 32)), "one body alone always gets in").toMatchObject({ status: 200 });
  });
});

describe("its end", () => {
  it("waits for the answer of a request under way", async () => {
    const answers: (() => void)[] = [];
    const backend = await startBackend((received, response) => void answers.push(() => accept(received, response)));
    const upstream = createUpstream({ backendUrl: backend.url });
    const parts = {
      upstream,
      credentials: credentialSource("ak_first"),
      clock: { nowUnixS: () => NOW_UNIX_S },
      log: pino({ level: "silent" }),
    };
    const proxy = await startProxy({ ...parts, listen: { host: "127.0.0.1", port: 0 }, compression: "none" });
    const underWay = post(proxy, "/v1/logs");
    await vi.waitFor(() => expect(answers).toHaveLength(1));
    const ended = proxy[Symbol.asyncDispose]();
    for (const answer of answers) answer();
    expect(await underWay).toMatchObject({ status: 200 });
    await ended;
    await upstream[Symbol.asyncDispose]();
    await expect(post(proxy, "/v1/logs")).rejects.toThrow(/ECONNREFUSED/);
  });

  it("gives up a request whose caller is gone, without counting it", async () => {
    const gone = Promise.withResolvers<void>();
    const backend = await startBackend((_, response) => void response.once("close", () => gone.resolve()));
    const proxy = await startWith(backend.url);
    const caller = new Agent();
    const sent = httpRequest(`http://127.0.0.1:${proxy.port}/v1/logs`, { method: "POST", body: "{}", dispatcher: caller });
    await vi.waitFor(() => expect(backend.received).toHaveLength(1));
    const failed = sent.catch((error: unknown) => error);
    await caller.destroy();
    expect(await failed).toBeInstanceOf(Error);
    await gone.promise;
    await proxy[Symbol.asyncDispose]();
    open.pop();
    expect(proxy.status().logs).toMatchObject({ accepted: 0, retried: 0, refused: 0 });
  });
});

describe("secrets", () => {
  it("never shows keys or signatures in a log or in the status", async () => {
    const backend = await startBackend(errorAnswer(401, "unknown_key"));
    const proxy = await startWith(backend.url, { credentials: credentialSource("ak_first", "ak_second") });
    await post(proxy, "/v1/logs");
    await post(proxy, "/v1/metrics", METRICS);
    const secrets = ["ak_first", "ak_second", ...backend.received.map(({ headers }) => String(headers[SIGNATURE_HEADER]))];
    expect(secrets).toHaveLength(6);
    for (const secret of secrets) expect(proxy.logged() + JSON.stringify(proxy.status())).not.toContain(secret);
  });
});
