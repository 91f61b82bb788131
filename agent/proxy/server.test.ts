// The proxy against a real HTTP backend on loopback: what reaches it, under which signature, and what the proxy answers the collector.
import { createHash } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { gunzipSync, gzipSync } from "node:zlib";
import { pino } from "pino";
import { Agent, request as httpRequest } from "undici";
import { afterEach, describe, expect, it, vi } from "vitest";
import { encodeProtobuf } from "../../backend/ingest/otlp/protobuf/encode.fixture.ts";
import { SIGNATURE_HEADER } from "../../common/protocol/signature.ts";
import { createUpstream } from "../upstream/pool.ts";
import {
  accept,
  type Answer,
  closeAll,
  credentialSource,
  errorAnswer,
  isSignedWith,
  METRICS,
  NOW_UNIX_S,
  open,
  post,
  type Received,
  sendRaw,
  startBackend,
  startBoth,
  startWith,
} from "./proxy.fixture.ts";
import { startProxy } from "./server.ts";

afterEach(closeAll);

describe("routes", () => {
  it.each([
    ["/v1/logs", "/ingest/logs/otlp"],
    ["/v1/traces", "/ingest/traces"],
  ])("sends %s to %s byte for byte, signed", async (path, ingestPath) => {
    const { backend, proxy } = await startBoth();
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

  it("sends metrics to /ingest unchanged, signed, and counts the points that the backend dropped", async () => {
    const answer: Answer = (_, response) => response.writeHead(204, { "x-dropped-records": "delta=3, too_old=1" }).end();
    const { backend, proxy } = await startBoth(answer, { compression: "gzip" });
    const body = encodeProtobuf("metrics", JSON.parse(METRICS) as object);
    const protobuf = { "content-type": "application/x-protobuf" };
    expect(await post(proxy, "/v1/metrics", body, protobuf)).toMatchObject({ status: 200, body: "{}" });
    const compressed = gzipSync(body);
    expect(await post(proxy, "/v1/metrics", compressed, { ...protobuf, "content-encoding": "gzip" })).toMatchObject({ status: 200 });
    const [first, second] = backend.received as [Received, Received];
    for (const sent of [first, second]) {
      expect(sent).toMatchObject({ url: "/ingest", headers: { ...protobuf, "content-encoding": "gzip" } });
      expect(isSignedWith("ak_first", sent)).toBe(true);
    }
    expect(gunzipSync(first.body)).toEqual(body);
    expect(second.body).toEqual(compressed);
    expect(proxy.status().metrics.droppedPoints).toEqual({ delta: 6, too_old: 2 });
    expect(proxy.logged().match(/dropping points of metrics: delta/g)).toHaveLength(1);
  });

  it("sends metrics as exposition text to a backend that does not accept protobuf, and tries again after five minutes", async () => {
    let nowMs = Date.now();
    const isProtobuf = ({ headers }: Received): boolean => headers["content-type"] === "application/x-protobuf";
    const old: Answer = (received, response) => (isProtobuf(received) ? errorAnswer(400, "invalid_payload") : accept)(received, response);
    const { backend, proxy } = await startBoth(old, { nowMs: () => nowMs });
    const body = gzipSync(encodeProtobuf("metrics", JSON.parse(METRICS) as object));
    const send = () => post(proxy, "/v1/metrics", body, { "content-type": "application/x-protobuf", "content-encoding": "gzip" });
    const received = (): string[] => backend.received.splice(0).map((each) => (isProtobuf(each) ? "protobuf" : each.body.toString()));
    const text = "up 1 1763714400000\n";
    expect(await send()).toMatchObject({ status: 200 });
    expect(await send()).toMatchObject({ status: 200 });
    expect(received()).toEqual(["protobuf", text, text]);
    nowMs += 5 * 60_000;
    backend.answer = accept;
    expect(await send()).toMatchObject({ status: 200 });
    expect(await send()).toMatchObject({ status: 200 });
    expect(received()).toEqual(["protobuf", "protobuf"]);
    expect(proxy.status().metrics).toMatchObject({ accepted: 4, refused: 0 });
    expect(proxy.logged().match(/does not accept protobuf/g)).toHaveLength(1);
  });

  it("passes on the rejection of invalid metrics by a backend that accepts protobuf", async () => {
    const { backend, proxy } = await startBoth(errorAnswer(400, "invalid_payload", { "accept-post": "application/x-protobuf" }));
    const body = encodeProtobuf("metrics", JSON.parse(METRICS) as object);
    expect(await post(proxy, "/v1/metrics", body, { "content-type": "application/x-protobuf" })).toMatchObject({ status: 400 });
    expect(backend.received).toHaveLength(1);
    expect(proxy.status().metrics).toMatchObject({ refused: 1 });
  });

  it("sends OTLP/JSON metrics of an overlay as exposition text", async () => {
    const { backend, proxy } = await startBoth();
    expect(await post(proxy, "/v1/metrics", METRICS)).toMatchObject({ status: 200, body: "{}" });
    const [sent] = backend.received;
    expect(sent?.url).toBe("/ingest");
    expect(sent?.body.toString()).toBe("up 1 1763714400000\n");
    expect(sent && isSignedWith("ak_first", sent)).toBe(true);
  });

  it("splits text over 32 MiB into requests that must all succeed, and repeats them if one does not", async () => {
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

  it("returns success without a request if metrics are empty", async () => {
    const { backend, proxy } = await startBoth();
    expect(await post(proxy, "/v1/metrics", "{}")).toMatchObject({ status: 200 });
    expect(backend.received).toHaveLength(0);
  });

  it("drops all headers of the client", async () => {
    const { backend, proxy } = await startBoth();
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

describe("the proxy is no signing oracle", () => {
  const targets = [
    "/ /v1/logs/ /v1/logs?x=1 /v1/logs#x //v1/logs /v1/./logs /v1/../v1/logs /v1/logs/../../api/clusters/rotate-key",
    "/v1/%6cogs /v1/logs%00 /V1/LOGS /ingest /ingest/traces /ingest/logs/otlp /heartbeat /api/clusters/rotate-key",
    "/api/v1/agents/x/config /__proto__ /constructor * http://127.0.0.1:PORT/v1/logs http://elsewhere.example/v1/logs",
  ].flatMap((line) => line.split(" "));
  it.each(targets)("returns 404 or 400 to POST %s without a request to the backend", async (target) => {
    const { backend, proxy } = await startBoth();
    const line = target.replace("PORT", String(proxy.port));
    const answer = await sendRaw(
      proxy,
      `POST ${line} HTTP/1.1\r\nHost: 127.0.0.1:${proxy.port}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 40[04] /);
    expect(backend.received).toHaveLength(0);
  });

  it.each(["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"])("signs nothing for %s", async (method) => {
    const { backend, proxy } = await startBoth();
    const answer = await sendRaw(proxy, `${method} /v1/logs HTTP/1.1\r\nHost: 127.0.0.1:${proxy.port}\r\nConnection: close\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 404 /);
    expect(backend.received).toHaveLength(0);
  });

  it("rejects CONNECT", async () => {
    const { backend, proxy } = await startBoth();
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
  ])("rejects the Host %j", async (host) => {
    const { backend, proxy } = await startBoth();
    const name = host.replace("PORT", String(proxy.port));
    const answer = await sendRaw(proxy, `POST /v1/logs HTTP/1.1\r\nHost: ${name}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}`);
    expect(answer).toMatch(/^HTTP\/1\.1 40[03] /);
    expect(backend.received).toHaveLength(0);
  });

  it.each([
    ["no Host", ""],
    ["two Hosts", "Host: 127.0.0.1:PORT\r\nHost: 127.0.0.1:PORT\r\n"],
    ["a page's Origin", "Host: 127.0.0.1:PORT\r\nOrigin: http://evil.example\r\n"],
  ])("rejects a request with %s", async (_, headers) => {
    const { backend, proxy } = await startBoth();
    const lines = headers.replaceAll("PORT", String(proxy.port));
    const answer = await sendRaw(proxy, `POST /v1/logs HTTP/1.1\r\n${lines}Content-Length: 2\r\nConnection: close\r\n\r\n{}`);
    expect(answer).toMatch(/^HTTP\/1\.1 40[03] /);
    expect(backend.received).toHaveLength(0);
  });

  it.each(["localhost", "127.0.0.1", "[::1]", "LOCALHOST"])("returns its own error for %s", async (name) => {
    const { proxy } = await startBoth();
    const answer = await sendRaw(
      proxy,
      `POST /v1/logs HTTP/1.1\r\nHost: ${name}:${proxy.port}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
  });

  it("names the other agent when its port is in use", async () => {
    const first = await startWith("http://127.0.0.1:1");
    await expect(startWith("http://127.0.0.1:1", { listen: { host: "127.0.0.1", port: first.port } })).rejects.toThrow(
      /stop the other agent/,
    );
  });

  it("listens on loopback only", async () => {
    await expect(startWith("http://127.0.0.1:1", { listen: { host: "0.0.0.0", port: 0 } })).rejects.toThrow(/loopback/);
  });

  it("signs one request, but not a second one hidden behind it", async () => {
    const { backend, proxy } = await startBoth();
    const host = `Host: 127.0.0.1:${proxy.port}\r\n`;
    await sendRaw(
      proxy,
      `POST /v1/logs HTTP/1.1\r\n${host}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nPOST /heartbeat HTTP/1.1\r\n${host}\r\n`,
    );
    expect(backend.received.filter(({ url }) => url !== "/ingest/logs/otlp")).toEqual([]);
  });
});

describe("shutdown", () => {
  it("waits for the response to a request in progress", async () => {
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
    await expect.poll(() => answers).toHaveLength(1);
    const ended = proxy[Symbol.asyncDispose]();
    for (const answer of answers) answer();
    expect(await underWay).toMatchObject({ status: 200 });
    await ended;
    await upstream[Symbol.asyncDispose]();
    await expect(post(proxy, "/v1/logs")).rejects.toThrow(/ECONNREFUSED/);
  });

  it("aborts a request whose client disconnects, without counting it", async () => {
    const gone = Promise.withResolvers<void>();
    const { backend, proxy } = await startBoth((_, response) => void response.once("close", () => gone.resolve()));
    const caller = new Agent();
    const sent = httpRequest(`http://127.0.0.1:${proxy.port}/v1/logs`, { method: "POST", body: "{}", dispatcher: caller });
    await expect.poll(() => backend.received).toHaveLength(1);
    const failed = sent.catch((error: unknown) => error);
    await caller.destroy();
    expect(await failed).toBeInstanceOf(Error);
    await gone.promise;
    await proxy[Symbol.asyncDispose]();
    open.pop();
    expect(proxy.status().logs).toMatchObject({ accepted: 0, retried: 0, refused: 0 });
  });
});

describe("connections", () => {
  it("are limited to 512, and existing ones continue", async () => {
    const { proxy } = await startBoth();
    const sockets = Array.from({ length: 520 }, () => connect(proxy.port, "127.0.0.1").on("error", () => {}));
    open.push({ [Symbol.asyncDispose]: async () => sockets.forEach((socket) => socket.destroy()) });
    await Promise.all(sockets.map((socket) => once(socket, "connect")));
    await vi.waitFor(() => expect(sockets.filter(({ closed }) => closed)).toHaveLength(8), { timeout: 50_000 });
    const kept = sockets.find(({ closed }) => !closed)!;
    kept.write(`POST /v1/logs HTTP/1.1\r\nHost: 127.0.0.1:${proxy.port}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}`);
    expect(await text(kept)).toMatch(/^HTTP\/1\.1 200 /);
  });
});

describe("secrets", () => {
  it("are in no log and no status", async () => {
    const { backend, proxy } = await startBoth(errorAnswer(401, "unknown_key"), { credentials: credentialSource("ak_first", "ak_second") });
    await post(proxy, "/v1/logs");
    await post(proxy, "/v1/metrics", METRICS);
    const secrets = ["ak_first", "ak_second", ...backend.received.map(({ headers }) => String(headers[SIGNATURE_HEADER]))];
    expect(secrets).toHaveLength(5);
    for (const secret of secrets) expect(proxy.logged() + JSON.stringify(proxy.status())).not.toContain(secret);
  });
});
