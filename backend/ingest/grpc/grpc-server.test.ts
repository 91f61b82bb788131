// A client of the gRPC library calls OTLP services: results, statuses, retries, limits. No part of a message is read before its sender is
// authenticated.
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { type ClientHttp2Session, connect, constants, type ClientHttp2Stream } from "node:http2";
import { connect as connectTcp, type Socket } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { Client, compressionAlgorithms, credentials, Metadata, type ServiceError } from "@grpc/grpc-js";
import { afterAll, beforeEach, expect, test, vi } from "vitest";
import type { Sender } from "../../http/request-identity.ts";
import { ApiError } from "../../errors.ts";
import { Connections } from "../../http/server-connections.ts";
import { makeCertificate } from "../../../test/fixtures/certificate.ts";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { createLog } from "../../log.ts";
import { createOwnMetrics } from "../../operations/own-metrics.ts";
import { IngestHandler, type IngestSignal } from "../ingest-handler.ts";
import { MAX_GRPC_MESSAGE_BYTES } from "../ingest-limits.ts";
import { bytesField } from "../otlp/answers.ts";
import { GrpcServer } from "./grpc-server.ts";
import { otlpMethods } from "./otlp-service.ts";

const [DATA, HEADERS, RST_STREAM, SETTINGS, PING] = [0, 1, 3, 4, 6];
const LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
const MIB = 1024 * 1024;
const ownMetrics = createOwnMetrics({ defaults: false });
const handler = new IngestHandler({
  ownMetrics,
  memoryBytes: 128 * MIB,
  limitsOf: () => ({ bytesPerSecond: 0, recordsPerSecond: 0 }),
  draining: () => false,
});
const sender: Sender = { keyId: "t", kind: "direct", orgId: "org", hostId: "t", node: "node", createdAt: new Date() };
let received: Buffer[] = [];
let callers: string[] = [];
let encrypted: boolean[] = [];
let ingest: IngestSignal;
beforeEach(() => {
  received = [];
  callers = [];
  encrypted = [];
  ingest = async (_, body) => {
    received.push(Buffer.from(body));
    return { accepted: 1, dropped: {} };
  };
});
const signal: IngestSignal = (...call) => ingest(...call);
const methods = otlpMethods({
  handler,
  ownMetrics,
  signals: { logs: signal, traces: signal, metrics: signal },
  ingestTokens: {
    async authenticate({ headers, address: from, isEncrypted }) {
      callers.push(from);
      encrypted.push(isEncrypted);
      if (headers["x-api-key"] !== "good") throw new ApiError("invalid_token", "the ingest token is unknown");
      return sender;
    },
  },
});
const log = createLog("silent");
const listening = { listen: { host: "127.0.0.1", port: 0 }, trustedProxies: [] as string[], methods, log };
const server = await GrpcServer.start({ ...listening, connections: new Connections(64, log) });
const address = `127.0.0.1:${server.port}`;
const client = new Client(address, credentials.createInsecure());
afterAll(async () => {
  client.close();
  await server[Symbol.asyncDispose]();
});

const same = (bytes: Buffer): Buffer => bytes;

interface CallOptions {
  token?: string;
  path?: string;
  isCompressed?: boolean;
  forwardedFor?: string;
  forwardedProto?: string;
  caller?: Client;
}

async function call(message: Buffer, options: CallOptions = {}): Promise<Buffer | ServiceError> {
  const { token = "good", path = LOGS, isCompressed = false, forwardedFor, forwardedProto } = options;
  const metadata = new Metadata();
  metadata.set("x-api-key", token);
  if (forwardedFor !== undefined) metadata.set("x-forwarded-for", forwardedFor);
  if (forwardedProto !== undefined) metadata.set("x-forwarded-proto", forwardedProto);
  const gzip = { "grpc.default_compression_algorithm": compressionAlgorithms.gzip };
  const caller = options.caller ?? (isCompressed ? new Client(address, credentials.createInsecure(), gzip) : client);
  const { promise, resolve } = Promise.withResolvers<Buffer | ServiceError>();
  caller.makeUnaryRequest(path, same, same, message, metadata, (error, answer) => resolve(error ?? answer ?? Buffer.alloc(0)));
  const result = await promise;
  if (isCompressed) caller.close();
  return result;
}

test.each(["logs.v1.LogsService", "trace.v1.TraceService", "metrics.v1.MetricsService"])("accepts messages as %s", async (service) => {
  const message = Buffer.from(`for ${service}`);
  expect(await call(message, { path: `/opentelemetry.proto.collector.${service}/Export` })).toEqual(Buffer.alloc(0));
  expect(received).toEqual([message]);
});

test("receives a large, a compressed and an empty message whole", async () => {
  const message = Buffer.alloc(5 * MIB, "text that repeats ");
  expect(await call(message)).toEqual(Buffer.alloc(0));
  expect(await call(message, { isCompressed: true })).toEqual(Buffer.alloc(0));
  expect(await call(Buffer.alloc(0))).toEqual(Buffer.alloc(0));
  expect(received.map((body) => body.equals(message))).toEqual([true, true]);
  expect(handler.budget.heldBytes).toBe(0);
});

test("returns a partial success for records that were not stored", async () => {
  ingest = async () => ({ accepted: 1, dropped: { too_old: 2 } });
  const answer = await call(Buffer.from("x"));
  expect(answer).toBeInstanceOf(Buffer);
  expect((answer as Buffer).subarray(2, 4)).toEqual(Buffer.from([0x08, 2]));
  ingest = async () => ({ accepted: 1, dropped: { exemplar_limit: 2 } });
  expect(await call(Buffer.from("x"))).toEqual(Buffer.alloc(0));
});

test.each([
  ["over_quota", 8, 30],
  ["unavailable", 14, 1],
  ["storage_unavailable", 14, 2],
  ["invalid_payload", 3, undefined],
  ["batch_too_large", 8, undefined],
] as const)("maps %s to status %i, with RetryInfo if it is retryable", async (code, status, retryAfterS) => {
  ingest = async () => await Promise.reject(new ApiError(code, "wörds, 100 %", retryAfterS === undefined ? {} : { retryAfterS }));
  const error = (await call(Buffer.from("x"))) as ServiceError;
  expect([error.code, error.details]).toEqual([status, "wörds, 100 %"]);
  const details = Buffer.from(error.metadata.get("grpc-status-details-bin")[0] ?? "");
  const delay = bytesField(2, bytesField(1, Buffer.from([0x08, retryAfterS ?? 0])));
  expect([details.includes("google.rpc.RetryInfo"), details.includes(delay)]).toEqual(Array(2).fill(retryAfterS !== undefined));
});

test("uses the client address and protocol that a trusted proxy reports, and ignores other proxies", async () => {
  const forwardedFor = { forwardedFor: "192.0.2.9, 198.51.100.7", forwardedProto: "https" };
  await call(Buffer.from("x"), forwardedFor);
  expect(callers).toEqual(["127.0.0.1"]);
  await using behindProxy = await GrpcServer.start({ ...listening, connections: new Connections(64, log), trustedProxies: ["loopback"] });
  const caller = new Client(`127.0.0.1:${behindProxy.port}`, credentials.createInsecure());
  await call(Buffer.from("x"), { ...forwardedFor, caller });
  await call(Buffer.from("x"), { forwardedProto: "https, http", caller });
  caller.close();
  expect(callers).toEqual(["127.0.0.1", "198.51.100.7", "127.0.0.1"]);
  expect(encrypted).toEqual([false, true, false]);
});

test("returns the matching status for a wrong token, method or type", async () => {
  expect(await call(Buffer.from("x"), { token: "other" })).toMatchObject({ code: 16 });
  expect(await call(Buffer.from("x"), { path: "/grpc.health.v1.Health/Check" })).toMatchObject({ code: 12 });
  expect(received).toEqual([]);
});

test("names every compression that it accepts", async () => {
  const session = connect(`http://${address}`);
  const call = session.request({ ":method": "POST", ":path": LOGS, "content-type": "application/grpc", "x-api-key": "other" });
  const [headers] = (await once(call, "response")) as [Record<string, string>];
  expect(headers["grpc-accept-encoding"]).toBe("identity,gzip,zstd");
  session.destroy();
});

test("authenticates before it waits for a message, and rejects a message above the limit by its head", async () => {
  const session = connect(`http://${address}`);
  const open = (token: string, coding?: string): ClientHttp2Stream => {
    const headers = { ":method": "POST", ":path": LOGS, "content-type": "application/grpc", te: "trailers", "x-api-key": token };
    return session.request({ ...headers, ...(coding !== undefined && { "grpc-encoding": coding }) });
  };
  const statusOf = async (stream: ClientHttp2Stream): Promise<unknown> => {
    const [headers] = (await once(stream, "response")) as [Record<string, string>];
    stream.resume();
    return headers["grpc-status"];
  };
  expect(await statusOf(open("other"))).toBe("16");
  const large = open("good");
  const head = Buffer.alloc(5);
  head.writeUInt32BE(MAX_GRPC_MESSAGE_BYTES + 1, 1);
  large.write(head);
  expect(await statusOf(large)).toBe("8");
  const cut = open("good");
  cut.end(Buffer.from([0, 0]));
  expect(await statusOf(cut)).toBe("3");
  session.close();
  await once(session, "close");
});

const [UNIMPLEMENTED, INTERNAL, INVALID_ARGUMENT] = ["12", "13", "3"];
const framed = (flag: number, message: Uint8Array): Buffer => Buffer.concat([Buffer.from([flag, 0, 0, 0, message.length]), message]);
const [first, second, gzipped] = [Buffer.from("a"), Buffer.from("b"), gzipSync("message")];
const openCall = async (coding?: string): Promise<ClientHttp2Stream> => {
  const session = connect(`http://${address}`);
  await once(session, "connect");
  const headers = { ":method": "POST", ":path": LOGS, "content-type": "application/grpc", te: "trailers", "x-api-key": "good" };
  const stream = session.request({ ...headers, ...(coding !== undefined && { "grpc-encoding": coding }) });
  stream.once("close", () => session.close());
  return stream;
};

test.each<[string, string, Buffer[], string?]>([
  ["no message", UNIMPLEMENTED, []],
  ["a message that is cut off", INVALID_ARGUMENT, [framed(0, first).subarray(0, -1)]],
  ["a second message", UNIMPLEMENTED, [Buffer.concat([framed(0, first), framed(0, second)])]],
  ["a second message in another frame", UNIMPLEMENTED, [framed(0, first), framed(0, second)]],
  ["a second message after a compressed one", UNIMPLEMENTED, [framed(1, gzipped), framed(1, gzipped)], "gzip"],
  ["an empty message, then another one", UNIMPLEMENTED, [framed(0, Buffer.alloc(0)), framed(0, second)]],
  ["a byte after the message", UNIMPLEMENTED, [framed(0, first), Buffer.from([0])]],
  ["bytes after a compressed message without a length", UNIMPLEMENTED, [framed(1, Buffer.alloc(0)), gzipped], "gzip"],
  ["a compressed message that is cut off", INVALID_ARGUMENT, [framed(1, gzipped.subarray(0, -1))], "gzip"],
  ["a message that is not compressed as it says", INVALID_ARGUMENT, [framed(1, Buffer.from("plain"))], "gzip"],
  ["a compressed message whose coding is identity", INTERNAL, [framed(1, gzipped)], "identity"],
  ["a compressed message without a coding", INTERNAL, [framed(1, gzipped)]],
  ["an unknown coding", UNIMPLEMENTED, [framed(1, gzipped)], "br"],
  ["an unknown flag", INTERNAL, [framed(2, first)]],
])("rejects a call with %s with status %s, and stores nothing", async (_name, status, parts, coding) => {
  const stream = await openCall(coding);
  const response = once(stream, "response");
  for (const part of parts.slice(0, -1)) {
    stream.write(part);
    // The server handles what arrived before a ping before it can get the next part.
    await promisify((done: (error: Error | null) => void) => stream.session?.ping(done))();
  }
  stream.end(parts.at(-1));
  const [{ "grpc-status": actual }] = (await response) as [Record<string, string>];
  stream.resume();
  expect([actual, received]).toEqual([status, []]);
});

test("rejects a client that goes on after its message, and closes the call", async () => {
  const stream = await openCall();
  stream.resume().write(Buffer.concat([framed(0, first), Buffer.alloc(64 * 1024)]));
  const [headers] = (await once(stream, "response")) as [Record<string, string>];
  expect([headers["grpc-status"], received]).toEqual([UNIMPLEMENTED, []]);
  if (!stream.closed) await once(stream, "close");
  expect(stream.rstCode).toBe(constants.NGHTTP2_NO_ERROR);
}, 5000);

const frame = (type: number, flags: number, stream: number, payload: Buffer): Buffer => {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.set([type, flags], 3);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
};
const [END_STREAM, END_HEADERS] = [1, 4];
const OPENING = Buffer.concat([Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(SETTINGS, 0, 0, Buffer.alloc(0))]);
/** Literal fields without indexing (RFC 7541, 6.2.2). */
const fields = (headers: Readonly<Record<string, string>>): Buffer => {
  const text = (value: string): Buffer => Buffer.concat([Buffer.from([value.length]), Buffer.from(value)]);
  return Buffer.concat(Object.entries(headers).flatMap(([name, value]) => [Buffer.from([0]), text(name), text(value)]));
};
const CALL = { ":method": "POST", ":scheme": "http", ":path": LOGS, ":authority": "x", "content-type": "application/grpc" };

test("disconnects a client that sends its message in frames of one byte, also with the head of the call, and stores nothing", async () => {
  const message = Buffer.concat([Buffer.from([0, 0, 0, 4, 0]), Buffer.alloc(1024, "text")]);
  const send = async (bytes: number, isOnePacket = false): Promise<Socket> => {
    const pieces = Array.from({ length: Math.ceil(message.length / bytes) }, (_, at) =>
      frame(DATA, (at + 1) * bytes < message.length ? 0 : END_STREAM, 1, message.subarray(at * bytes, (at + 1) * bytes)),
    );
    const socket = connectTcp(server.port, "127.0.0.1").on("error", () => undefined);
    const head = frame(HEADERS, END_HEADERS, 1, fields({ ...CALL, "x-api-key": "good" }));
    if (isOnePacket) {
      socket.resume().write(Buffer.concat([OPENING, head, ...pieces]));
      return socket;
    }
    socket.write(Buffer.concat([OPENING, head, frame(PING, 0, 0, Buffer.alloc(8))]));
    // The call has begun when the server answers the ping.
    await once(socket, "data");
    socket.resume().write(Buffer.concat(pieces));
    return socket;
  };
  for (const isOnePacket of [false, true]) await once(await send(1, isOnePacket), "close");
  expect(received).toEqual([]);
  const served = await send(100);
  await vi.waitFor(() => expect(received).toEqual([message.subarray(5)]), { timeout: 30_000 });
  served.destroy();
});

test("disconnects a client that cancels its calls at once", async () => {
  const block = fields(CALL);
  /** Whether the connection still answers after so many calls. */
  const isServedAfter = async (count: number): Promise<boolean> => {
    const ids = Array.from({ length: count }, (_, index) => 2 * index + 1);
    const calls = ids.flatMap((id) => [frame(HEADERS, END_HEADERS, id, block), frame(RST_STREAM, 0, id, Buffer.from([0, 0, 0, 8]))]);
    const socket = connectTcp(server.port, "127.0.0.1").on("error", () => undefined);
    const [first, second] = [Buffer.alloc(8, 1), Buffer.alloc(8, 2)];
    let received = Buffer.alloc(0);
    let pings = 1;
    socket.on("data", (bytes) => {
      received = Buffer.concat([received, bytes]);
      // The first one is answered together with the calls in any case.
      if (pings === 1 && received.includes(first)) socket.write(frame(PING, 0, 0, second), () => (pings = 2));
      if (received.includes(second)) socket.destroy();
    });
    socket.write(Buffer.concat([OPENING, ...calls, frame(PING, 0, 0, first)]));
    await once(socket, "close");
    return received.includes(second);
  };
  expect(await isServedAfter(50)).toBe(true);
  expect(await isServedAfter(110)).toBe(false);
});

test("begins nothing for a connection before the client has sent its first bytes", async () => {
  const open = async (): Promise<Socket> => {
    const socket = connectTcp(server.port, "127.0.0.1");
    await once(socket, "connect");
    return socket;
  };
  const silent = await open();
  const began = vi.fn();
  silent.on("data", began);
  const later = await open();
  later.write(OPENING);
  await once(later, "data");
  expect(began).not.toHaveBeenCalled();
  silent.write(OPENING);
  await once(silent, "data");
  for (const socket of [silent, later]) socket.destroy();
});

test("disconnects a client that sends no call", async () => {
  const session = connect(`http://${address}`);
  await once(session, "close");
  expect(session.destroyed).toBe(true);
}, 15_000);

test("over TLS, answers a call as encrypted, and nothing to clients without TLS or trust in the certificate", async () => {
  using folder = temporaryFolder();
  const tls = { certFile: join(folder.path, "crt"), keyFile: join(folder.path, "key") };
  makeCertificate(tls.certFile, tls.keyFile, "localhost");
  await using overTls = await GrpcServer.start({ ...listening, tls, connections: new Connections(64, log) });
  const target = `localhost:${overTls.port}`;
  const trusting = credentials.createSsl(readFileSync(tls.certFile));
  const outcome = async (trust: ReturnType<typeof credentials.createSsl>): Promise<unknown> => {
    const caller = new Client(target, trust);
    const answer = await call(Buffer.from("x"), { caller });
    caller.close();
    return Buffer.isBuffer(answer) ? "stored" : answer.code;
  };
  expect(await outcome(trusting)).toBe("stored");
  expect(encrypted).toEqual([true]);
  expect(await outcome(credentials.createSsl())).toBe(14);
  expect(await outcome(credentials.createInsecure())).toBe(14);
  expect(received).toHaveLength(1);
});

test("two listeners share one connection limit: a connection to one evicts the oldest of the other", async () => {
  const connections = new Connections(4, log);
  await using first = await GrpcServer.start({ ...listening, connections });
  await using second = await GrpcServer.start({ ...listening, connections });
  const open = async (port: number): Promise<ClientHttp2Session> => {
    const session = connect(`http://127.0.0.1:${port}`);
    // A server that closes the connection resets it.
    session.on("error", () => undefined);
    await once(session, "remoteSettings");
    return session;
  };
  const sessions = [await open(first.port), await open(first.port), await open(second.port), await open(second.port)];
  expect(connections.open).toBe(4);
  sessions.push(await open(second.port));
  if (!sessions[0]?.destroyed) await once(sessions[0] as ClientHttp2Session, "close");
  expect(sessions.map(({ destroyed }) => destroyed)).toEqual([true, false, false, false, false]);
  for (const session of sessions) session.destroy();
});
