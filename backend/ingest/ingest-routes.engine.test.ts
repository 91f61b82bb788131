import { once } from "node:events";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { expect, test, vi } from "vitest";
import { ApiError } from "../errors.ts";
import { parseDroppedRecords } from "../../common/protocol/dropped-records.ts";
import { createLog } from "../log.ts";
import { createOwnMetrics } from "../operations/own-metrics.ts";
import type { SigningKey } from "../http/request-identity.ts";
import { closeRoutes, createApp } from "../http/app.ts";
import type { IngestSignal } from "./ingest-handler.ts";
import { registerIngestRoutes, type IngestRoutesOptions } from "./ingest-routes.ts";

const MIB = 1024 * 1024;
const PATHS = ["/ingest", "/ingest/traces", "/ingest/logs/otlp"];
const PROTOBUF = Buffer.from([0x0a, 0x7b, 0x0a, 0x1c, 0x0a, 0x0c, 0x73, 0x65, 0x72, 0x76, 0x69, 0x63, 0x65]);

const refuse: IngestSignal = async () => {
  throw new ApiError("invalid_payload", "line 1: something about bytes");
};

/** The routes, with a guard that takes `x-org` for the tenant, and signals that keep what they get. */
async function openRoutes(options: Partial<IngestRoutesOptions> = {}, bounds: { headMs?: number } = {}) {
  const taken: { signal: string; org: string; body: Buffer }[] = [];
  const into =
    (signal: string): IngestSignal =>
    async (key, body) => {
      taken.push({ signal, org: key.orgId, body: Buffer.from(body) });
      return { accepted: 1, dropped: { too_old: 2 } };
    };
  const ownMetrics = createOwnMetrics({ defaults: false });
  const app = await createApp({ log: createLog("silent"), drainMs: 200, ...bounds });
  registerIngestRoutes(app, {
    guards: {
      signed: () => async (request) => {
        const orgId = request.headers["x-org"];
        if (typeof orgId !== "string") throw new ApiError("missing_header", "X-Key-Hash is missing");
        request.signingKey = {
          keyId: "key",
          kind: "direct",
          orgId,
          hostId: "host",
          node: "node",
          createdAt: new Date(),
        } satisfies SigningKey;
      },
      reader: () => async () => undefined,
      user: () => async () => undefined,
    },
    metrics: into("metrics"),
    logs: into("logs"),
    traces: into("traces"),
    ownMetrics,
    memoryBytes: 128 * MIB,
    limitsOf: () => ({ bytesPerSecond: 0, recordsPerSecond: 0 }),
    draining: () => false,
    ...options,
  });
  await closeRoutes(app);
  const url = await app.listen({ port: 0, host: "127.0.0.1" });
  const post = async (body: string | Buffer<ArrayBuffer> | undefined, headers: Record<string, string> = {}, path = "/ingest") => {
    const answer = await fetch(url + path, { method: "POST", body, headers: { "x-org": "acme", ...headers } });
    const text = await answer.text();
    return {
      status: answer.status,
      code: text === "" ? undefined : (JSON.parse(text) as { error: string }).error,
      message: text,
      retryAfter: answer.headers.get("retry-after"),
    };
  };
  const metric = async (line: string) =>
    (await ownMetrics.registry.metrics())
      .split("\n")
      .find((each) => each.startsWith(line))
      ?.split(" ")[1];
  return { app, url, port: Number(new URL(url).port), taken, post, metric, [Symbol.asyncDispose]: () => app.close() };
}

async function rawRequest(port: number, head: string, body?: Buffer): Promise<{ socket: Socket; answer: () => string }> {
  const socket = connect(port, "127.0.0.1");
  let text = "";
  socket.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  socket.on("error", () => undefined);
  await once(socket, "connect");
  socket.write(Buffer.concat([Buffer.from(`POST /ingest HTTP/1.1\r\nHost: x\r\n${head}\r\n\r\n`), body ?? Buffer.alloc(0)]));
  return { socket, answer: () => text };
}

test("each of the three paths stores its signal, returns 204 without a body, and is counted", async () => {
  await using routes = await openRoutes();
  for (const [path, signal] of [
    ["/ingest", "metrics"],
    ["/ingest/traces", "traces"],
    ["/ingest/logs/otlp", "logs"],
  ] as const) {
    expect(await routes.post("body", {}, path)).toEqual({ status: 204, code: undefined, message: "", retryAfter: null });
    expect(routes.taken.at(-1)).toMatchObject({ signal, org: "acme", body: Buffer.from("body") });
    expect(await routes.metric(`atherops_ingest_records_accepted_total{signal="${signal}"}`)).toBe("1");
    expect(await routes.metric(`atherops_ingest_records_dropped_total{signal="${signal}",reason="too_old"}`)).toBe("2");
  }
});

test("ignores any Content-Type, also a malformed one, and a query string", async () => {
  await using routes = await openRoutes();
  for (const type of ["application/json", "application/x-protobuf", "text/plain; charset=utf-8", "nonsense", ";;", "multipart/form-data"]) {
    expect(await routes.post("body", { "content-type": type }, "/ingest?x=%zz")).toMatchObject({ status: 204 });
  }
  expect(routes.taken.map(({ body }) => body.toString())).toEqual(Array.from({ length: 6 }, () => "body"));
});

test("decompresses gzip, zstd and identity in any case, and returns 415 for another encoding", async () => {
  await using routes = await openRoutes();
  const body = Buffer.from("up 1\n".repeat(100_000));
  expect(await routes.post(gzipSync(body), { "content-encoding": "GZIP" })).toMatchObject({ status: 204 });
  expect(await routes.post(zstdCompressSync(body), { "content-encoding": "zstd" })).toMatchObject({ status: 204 });
  expect(await routes.post(body, { "content-encoding": "identity" })).toMatchObject({ status: 204 });
  expect(routes.taken.map((each) => each.body.equals(body))).toEqual([true, true, true]);
  for (const encoding of ["br", "deflate", "gzip, gzip", "snappy"]) {
    expect(await routes.post("x", { "content-encoding": encoding })).toMatchObject({ status: 415, code: "unsupported_encoding" });
  }
});

test.each([
  ["gzip", gzipSync],
  ["zstd", zstdCompressSync],
] as const)("reads a small %s body that arrives with its head whole, whatever its decompressed size", async (encoding, compress) => {
  await using routes = await openRoutes();
  const bodies = [1, 800, 13_108, 50_000, 52_430, 1_000_000].map((lines) => Buffer.from("up 1\n".repeat(lines)));
  for (const body of bodies) {
    const compressed = compress(body);
    const head = `x-org: acme\r\nConnection: close\r\nContent-Encoding: ${encoding}\r\nContent-Length: ${compressed.length}`;
    const { socket, answer } = await rawRequest(routes.port, head, compressed);
    await once(socket, "close");
    expect(answer()).toMatch(/^HTTP\/1.1 204 /);
  }
  expect(routes.taken.map(({ body }, index) => body.equals(bodies[index] as Buffer))).toEqual(bodies.map(() => true));
  expect(await routes.metric("atherops_ingest_held_bytes")).toBe("0");
});

test("returns 400 for broken or truncated compression, and stores nothing", async () => {
  await using routes = await openRoutes();
  const whole = gzipSync(Buffer.from("up 1\n".repeat(1000)));
  for (const body of [Buffer.from("not gzip"), whole.subarray(0, whole.length - 12)]) {
    expect(await routes.post(body, { "content-encoding": "gzip" })).toMatchObject({ status: 400, code: "malformed_body" });
  }
  expect(await routes.post("not zstd", { "content-encoding": "zstd" })).toMatchObject({ status: 400, code: "malformed_body" });
  expect(routes.taken).toEqual([]);
});

test.each<[string, string, Buffer[], string | undefined]>([
  ["zstd", "two frames", [zstdCompressSync("up 1\n"), zstdCompressSync("up 2\n")], "up 1\nup 2\n"],
  ["zstd", "an empty frame first", [zstdCompressSync(""), zstdCompressSync("up 1\n")], "up 1\n"],
  ["zstd", "a skippable frame first", [Buffer.from("502a4d1801000000aa", "hex"), zstdCompressSync("up 1\n")], "up 1\n"],
  ["zstd", "text after a frame", [zstdCompressSync("up 1\n"), Buffer.from("garbage!")], undefined],
  ["gzip", "two members", [gzipSync("up 1\n"), gzipSync("up 2\n")], "up 1\nup 2\n"],
  ["gzip", "a member after zeros", [gzipSync("up 1\n"), Buffer.alloc(3), gzipSync("up 2\n")], undefined],
])("stores or rejects a %s body of %s as a whole, small or in chunks", async (encoding, _, parts, stored) => {
  await using routes = await openRoutes();
  const compressed = Buffer.concat(parts);
  const head = `x-org: acme\r\nConnection: close\r\nContent-Encoding: ${encoding}`;
  const chunks = Buffer.concat([...compressed].map((byte) => Buffer.from([49, 13, 10, byte, 13, 10])).concat(Buffer.from("0\r\n\r\n")));
  for (const [framing, bytes] of [
    [`Content-Length: ${compressed.length}`, compressed],
    ["Transfer-Encoding: chunked", chunks],
  ] as const) {
    const { socket, answer } = await rawRequest(routes.port, `${head}\r\n${framing}`, bytes);
    await once(socket, "close");
    expect(answer()).toMatch(stored === undefined ? /^HTTP\/1.1 400 [^]*malformed_body/ : /^HTTP\/1.1 204 /);
  }
  expect(routes.taken.map(({ body }) => body.toString())).toEqual(stored === undefined ? [] : [stored, stored]);
  expect(await routes.metric("atherops_ingest_held_bytes")).toBe("0");
});

test("returns 415 for several codings, also in several headers, and removes a byte order mark", async () => {
  await using routes = await openRoutes();
  const codings = "x-org: acme\r\nConnection: close\r\nContent-Encoding: gzip\r\nContent-Encoding: zstd\r\nContent-Length: 1";
  const { socket, answer } = await rawRequest(routes.port, codings, Buffer.from("x"));
  await once(socket, "close");
  expect(answer()).toMatch(/^HTTP\/1.1 415 [^]*gzip, zstd or absent/);
  expect(await routes.post(Buffer.from("\uFEFFup 1\n"))).toMatchObject({ status: 204 });
  expect(routes.taken.map(({ body }) => body.toString())).toEqual(["up 1\n"]);
});

test("returns 413 for many frames that are too large together", async () => {
  await using routes = await openRoutes();
  const bomb = Buffer.concat(Array.from({ length: 40 }, () => zstdCompressSync(Buffer.alloc(MIB))));
  expect(await routes.post(bomb, { "content-encoding": "zstd" })).toMatchObject({ status: 413, code: "body_too_large" });
  expect(await routes.metric("atherops_ingest_held_bytes")).toBe("0");
});

test("returns 204 for an empty body with any encoding, and stores nothing", async () => {
  await using routes = await openRoutes();
  for (const encoding of ["identity", "gzip", "zstd"])
    expect(await routes.post("", { "content-encoding": encoding })).toMatchObject({ status: 204 });
  expect(await routes.post(undefined)).toMatchObject({ status: 204 });
  expect(await routes.post(gzipSync(""), { "content-encoding": "gzip" })).toMatchObject({ status: 204 });
  expect(routes.taken).toEqual([]);
});

test("accepts 32 MiB and not a byte more, compressed or not, with or without Content-Length", async () => {
  await using routes = await openRoutes();
  const exact = Buffer.alloc(32 * MIB, "x");
  expect(await routes.post(exact)).toMatchObject({ status: 204 });
  const over = Buffer.alloc(32 * MIB + 1, "x");
  expect(await routes.post(gzipSync(over), { "content-encoding": "gzip" })).toMatchObject({ status: 413, code: "body_too_large" });
  expect(await routes.post(zstdCompressSync(over), { "content-encoding": "zstd" })).toMatchObject({ status: 413, code: "body_too_large" });
  const { socket, answer } = await rawRequest(routes.port, `x-org: acme\r\nContent-Length: ${over.length}`);
  await once(socket, "close");
  expect(answer()).toMatch(/^HTTP\/1.1 413 [^]*body_too_large/i);
  const undeclared = httpRequest(`${routes.url}/ingest`, { method: "POST", headers: { "x-org": "acme" } });
  undeclared.on("error", () => undefined);
  for (let at = 0; at < over.length; at += MIB) undeclared.write(over.subarray(at, at + MIB));
  undeclared.end();
  const [response] = (await once(undeclared, "response")) as [IncomingMessage];
  response.resume();
  expect(response.statusCode).toBe(413);
  expect(routes.taken).toHaveLength(1);
  expect(await routes.metric("atherops_ingest_held_bytes")).toBe("0");
});

test("rejects an unknown sender after its headers, does not wait for the body, and closes the connection", async () => {
  await using routes = await openRoutes();
  const { socket, answer } = await rawRequest(routes.port, `Content-Length: ${32 * MIB}`);
  socket.write(Buffer.alloc(100_000));
  await once(socket, "close");
  expect(answer()).toMatch(/^HTTP\/1.1 401 [^]*missing_header/i);
  expect(await routes.metric('atherops_ingest_requests_rejected_total{signal="metrics",reason="missing_header"}')).toBe("1");
});

test("keeps the connection after a rejection with a short body", async () => {
  await using routes = await openRoutes();
  const { socket, answer } = await rawRequest(routes.port, "Content-Length: 5");
  socket.write("hello");
  await expect.poll(() => answer()).toContain("missing_header");
  socket.write("POST /ingest HTTP/1.1\r\nHost: x\r\nx-org: acme\r\nContent-Length: 5\r\n\r\nhello");
  await expect.poll(() => answer()).toContain("HTTP/1.1 204");
  socket.destroy();
});

test("a body at the minimum speed may exceed all other timeouts", async () => {
  await using routes = await openRoutes({ pace: { graceMs: 100, minBytesPerSecond: 10 } }, { headMs: 200 });
  const { socket, answer } = await rawRequest(routes.port, "x-org: acme\r\nContent-Length: 4000");
  for (let sent = 0; sent < 40; sent += 1) {
    expect(answer()).toBe("");
    socket.write("x".repeat(100));
    // A slow sender: 40 pieces in a second, longer than the timeout of the head.
    await sleep(25);
  }
  await expect.poll(() => answer()).toContain("HTTP/1.1 204");
  expect(routes.app.server.requestTimeout).toBe(0);
  socket.destroy();
});

test("returns 503 for a body below the minimum speed, closes its connection, and releases its memory", async () => {
  await using routes = await openRoutes({ pace: { graceMs: 200, minBytesPerSecond: 10_000 } });
  const { socket, answer } = await rawRequest(routes.port, `x-org: acme\r\nContent-Length: 1000000`);
  const dripping = setInterval(() => socket.write("x"), 20);
  // Cut off in the middle of a write: a reset, or an end.
  await new Promise((resolve) => socket.on("error", () => undefined).once("close", resolve));
  clearInterval(dripping);
  expect(answer()).toMatch(/^HTTP\/1.1 503 [^]*retry-after: 1[^]*more slowly/i);
  expect(await routes.metric("atherops_ingest_held_bytes")).toBe("0");
});

test("a sender that disconnects in the middle leaves nothing behind", async () => {
  await using routes = await openRoutes();
  const { socket } = await rawRequest(routes.port, "x-org: acme\r\nContent-Length: 1000");
  socket.write("x".repeat(500));
  await expect.poll(() => routes.metric("atherops_ingest_requests_in_flight")).toBe("1");
  socket.destroy();
  await expect.poll(() => routes.metric("atherops_ingest_requests_in_flight")).toBe("0");
  expect(await routes.metric("atherops_ingest_held_bytes")).toBe("0");
  expect(routes.taken).toEqual([]);
});

test("limits concurrent bodies to the budget, by decompressed size, and returns 503 with Retry-After", async () => {
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  let storing = 0;
  const slow: IngestSignal = async () => {
    storing += 1;
    await released;
    return { accepted: 1, dropped: {} };
  };
  await using routes = await openRoutes({ metrics: slow, memoryBytes: 8 * MIB });
  using _ = { [Symbol.dispose]: release };
  const body = Buffer.alloc(2 * MIB, "x");
  const held = [routes.post(body), routes.post(body, { "x-org": "other" })];
  await expect.poll(() => storing).toBe(2);
  expect(await routes.metric("atherops_ingest_held_bytes")).toBe(String(4 * MIB));
  expect(await routes.post(Buffer.alloc(5 * MIB))).toMatchObject({ status: 503, code: "unavailable", retryAfter: "1" });
  expect(await routes.post(gzipSync(Buffer.alloc(20 * MIB)), { "content-encoding": "gzip" })).toMatchObject({ status: 503 });
  expect(await routes.metric("atherops_ingest_held_bytes")).toBe(String(4 * MIB));
  held.push(routes.post(body, { "x-org": "third" }));
  await expect.poll(() => storing).toBe(3);
  release();
  expect((await Promise.all(held)).map(({ status }) => status)).toEqual([204, 204, 204]);
  expect(await routes.metric("atherops_ingest_held_bytes")).toBe("0");
});

test("reserves memory for received bytes, and ends slow bodies of the largest sender with 429 if another one needs it", async () => {
  await using routes = await openRoutes({ memoryBytes: 8 * MIB });
  const heldBytes = () => routes.metric("atherops_ingest_held_bytes");
  const senders: Awaited<ReturnType<typeof rawRequest>>[] = [];
  using _ = { [Symbol.dispose]: () => senders.forEach(({ socket }) => socket.destroy()) };
  const held = [
    ["first", 4],
    ["second", 6],
    ["third", 7],
  ] as const;
  for (const [index, [org, heldMib]] of held.entries()) {
    const arrivedMib = heldMib - (held[index - 1]?.[1] ?? 0);
    senders.push(await rawRequest(routes.port, `X-Org: ${org}\r\nContent-Length: ${32 * MIB}`, Buffer.alloc(arrivedMib * MIB, "x")));
    await expect.poll(heldBytes).toBe(String(heldMib * MIB));
  }
  expect(await routes.post(Buffer.alloc(900 * 1024, "x"), { "x-org": "idle" })).toMatchObject({ status: 204 });
  await expect.poll(() => senders[0]?.answer()).toMatch(/^HTTP\/1\.1 429 .*retry-after: 5\r\n.*"over_quota"/s);
  expect(senders.slice(1).map(({ answer }) => answer())).toEqual(["", ""]);
  await expect.poll(heldBytes).toBe(String(3 * MIB));
});

test("delays an organisation above its quota, but not another one", async () => {
  await using routes = await openRoutes({ limitsOf: () => ({ bytesPerSecond: 1000, recordsPerSecond: 0 }) });
  expect(await routes.post("x".repeat(30_000))).toMatchObject({ status: 204 });
  const refused = await routes.post("x");
  expect(refused).toMatchObject({ status: 429, code: "over_quota" });
  expect(Number(refused.retryAfter)).toBeGreaterThanOrEqual(19);
  expect(await routes.post("x", { "x-org": "other" })).toMatchObject({ status: 204 });
});

test("charges a rejected body like a stored one, and the stored size if it is larger than the sent one", async () => {
  const quota = { bytesPerSecond: 1000, recordsPerSecond: 0 };
  const logs: IngestSignal = async () => ({ accepted: 1, dropped: {}, storedBytes: 30_000 });
  await using routes = await openRoutes({ limitsOf: () => quota, metrics: refuse, logs });
  expect(await routes.post("x".repeat(30_000))).toMatchObject({ status: 400 });
  expect(await routes.post("x")).toMatchObject({ status: 429 });
  expect(await routes.post("x", { "x-org": "other" }, "/ingest/logs/otlp")).toMatchObject({ status: 204 });
  expect(await routes.post("x", { "x-org": "other" }, "/ingest/logs/otlp")).toMatchObject({ status: 429 });
  const bomb = gzipSync(Buffer.alloc(33 * MIB));
  expect(await routes.post(bomb, { "x-org": "bomber", "content-encoding": "gzip" })).toMatchObject({ status: 413 });
  expect(await routes.post("x", { "x-org": "bomber" })).toMatchObject({ status: 429 });
});

test("returns 503 with Retry-After for new bodies while draining", async () => {
  await using routes = await openRoutes({ draining: () => true });
  expect(await routes.post("x")).toMatchObject({ status: 503, code: "unavailable", retryAfter: "2" });
});

test("rejects protobuf without its content type by name", async () => {
  await using routes = await openRoutes({ metrics: refuse, logs: refuse, traces: refuse });
  for (const path of PATHS) {
    expect(await routes.post(PROTOBUF, { "content-type": "application/json" }, path)).toMatchObject({
      status: 400,
      message: expect.stringContaining("protobuf"),
    });
    // Text that has a control character stays named by its line as well.
    expect(await routes.post('ok{a="x\u0000"} 1', {}, path)).toMatchObject({ status: 400, message: expect.stringContaining("line 1") });
    expect(await routes.post("words", {}, path)).toMatchObject({ status: 400, message: expect.stringContaining("line 1") });
  }
});

test("accepts protobuf by its content type, and other bodies with any", async () => {
  const encodings: unknown[] = [];
  const note: IngestSignal = async (_key, _body, { encoding, isTolerant }) => {
    encodings.push(isTolerant ? "tolerant" : encoding);
    return { accepted: 1, dropped: {} };
  };
  await using routes = await openRoutes({ metrics: note, logs: note, traces: note });
  const type = { "content-type": "Application/X-Protobuf; charset=utf-8" };
  for (const path of PATHS) {
    expect(await routes.post(PROTOBUF, type, path)).toMatchObject({ status: 204 });
    expect(await routes.post(gzipSync(PROTOBUF), { ...type, "content-encoding": "gzip" }, path)).toMatchObject({ status: 204 });
    expect(await routes.post("{}", type, path)).toMatchObject({ status: 204 });
    expect(await routes.post("", type, path)).toMatchObject({ status: 204 });
  }
  expect(encodings).toEqual(PATHS.flatMap(() => ["protobuf", "protobuf", undefined]));
});

test("a rejection of protobuf states that protobuf is accepted", async () => {
  await using routes = await openRoutes({ metrics: refuse });
  const answer = await fetch(`${routes.url}/ingest`, {
    method: "POST",
    body: PROTOBUF,
    headers: { "x-org": "acme", "content-type": "application/x-protobuf" },
  });
  expect([answer.status, answer.headers.get("accept-post")]).toEqual([400, "application/x-protobuf"]);
});

test("reports dropped records of protobuf, and only of protobuf, in a header", async () => {
  const dropped = { delta: 3, exemplar_limit: 7, too_old: 1 };
  await using routes = await openRoutes({ metrics: async () => ({ accepted: 1, dropped }) });
  const headerOf = async (headers: Record<string, string>): Promise<string | null> => {
    const answer = await fetch(`${routes.url}/ingest`, { method: "POST", body: PROTOBUF, headers: { "x-org": "acme", ...headers } });
    expect(answer.status).toBe(204);
    return answer.headers.get("x-dropped-records");
  };
  const header = await headerOf({ "content-type": "application/x-protobuf" });
  expect(header).toBe("delta=3, too_old=1");
  expect(parseDroppedRecords(`${header}, X=5, a=b, delta=1`)).toEqual([
    ["delta", 3],
    ["too_old", 1],
    ["delta", 1],
  ]);
  expect(await headerOf({})).toBeNull();
});

test("rejects a body in a million tiny chunks, and releases its memory", async () => {
  await using routes = await openRoutes({ memoryBytes: 4 * MIB });
  const { socket, answer } = await rawRequest(routes.port, "x-org: acme\r\nTransfer-Encoding: chunked");
  socket.write("1\r\nx\r\n".repeat(1_000_000));
  await vi.waitFor(() => expect(answer()).toContain("HTTP/1.1 400"), { timeout: 50_000 });
  expect(routes.taken).toEqual([]);
  await vi.waitFor(async () => expect(await routes.metric("atherops_ingest_held_bytes")).toBe("0"), { timeout: 50_000 });
});
