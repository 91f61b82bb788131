// Sends hostile requests to every protocol for programs with an ingest token: bodies that are too large, slow, deep, truncated or
// malformed, compression bombs, tokens that are stolen, expired or for another signal, and requests that claim the identity of another
// organisation. Each is refused with its own status and stores nothing for the victim, and a valid request of another tenant that follows
// is accepted.
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { pipeline } from "node:stream/promises";
import { setTimeout } from "node:timers/promises";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { Client, compressionAlgorithms, credentials, Metadata, status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { pushBody } from "../../backend/ingest/loki/push.fixture.ts";
import { bytesField, encodeProtobuf, varint } from "../../backend/ingest/otlp/protobuf/encode.fixture.ts";
import { writeBody } from "../../backend/ingest/remote-write/write-request.fixture.ts";
import { compressSnappy } from "../../backend/ingest/snappy.fixture.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import type { Tenant } from "../fixtures/backend-process.ts";
import { call, eventually, freePorts } from "../fixtures/processes.ts";

const [grpcPort] = await freePorts(1);
const backend = backendOfFile({ INGEST_TOKENS: "true", OTLP_GRPC_LISTEN: `127.0.0.1:${grpcPort}`, JWT_TTL: "2h" });
const MIB = 1024 * 1024;
const PROTOBUF = "application/x-protobuf";
const JSON_TYPE = "application/json";
const REMOTE_WRITE_2 = `${PROTOBUF};proto=io.prometheus.write.v2.Request`;
const TIMEOUT_MS = 120_000;

type Signal = "logs" | "traces" | "metrics";
type Body = Buffer;

interface Endpoint {
  readonly name: string;
  readonly signal: Signal;
  readonly path: string;
  readonly type: string;
  readonly encoding?: "snappy";
  /** Builds a valid request whose labels and attributes claim another organisation. */
  readonly validBody: (service: string, claimedOrgId: string) => Body;
  /** Exceeds the nesting limit. */
  readonly deep: Body;
}

const claims = (claimed: string): object[] =>
  ["org_id", "host_id", "node", "instance"].map((key) => ({ key, value: { stringValue: claimed } }));

function otlpDocument(signal: Signal, service: string, claimed: string): object {
  const attributes = [{ key: "service.name", value: { stringValue: service } }, ...claims(claimed)];
  const time = `${Date.now()}000000`;
  const span = {
    traceId: randomBytes(16).toString("hex"),
    spanId: "b".repeat(16),
    name: "work",
    startTimeUnixNano: time,
    endTimeUnixNano: time,
  };
  const points = [{ timeUnixNano: time, asInt: "1", attributes: claims(claimed) }];
  const scopes = {
    logs: {
      resourceLogs: [{ resource: { attributes }, scopeLogs: [{ logRecords: [{ timeUnixNano: time, body: { stringValue: "x" } }] }] }],
    },
    traces: { resourceSpans: [{ resource: { attributes }, scopeSpans: [{ spans: [span] }] }] },
    metrics: {
      resourceMetrics: [{ resource: { attributes }, scopeMetrics: [{ metrics: [{ name: "endpoint", gauge: { dataPoints: points } }] }] }],
    },
  };
  return scopes[signal];
}

/** An attribute with nested lists. */
function deepProtobuf(levels: number): Body {
  let value = bytesField(1, Buffer.from("x"));
  for (let level = 0; level < levels; level += 1) value = bytesField(5, bytesField(1, value));
  return bytesField(1, bytesField(1, bytesField(1, Buffer.concat([bytesField(1, Buffer.from("k")), bytesField(2, value)]))));
}

const buildLabels = (service: string, claimed: string): (readonly [string, string])[] => [
  ["__name__", "endpoint"],
  ...["host_id", "job", "node", "org_id"].map((name) => [name, name === "job" ? service : claimed] as const),
];
const remoteWriteBody = (version: 1 | 2) => (service: string, claimed: string) =>
  writeBody([{ labels: buildLabels(service, claimed), samples: [[1, Date.now()]] }], version);
const lokiStreams = (service: string, claimed: string) => [
  {
    stream: { service_name: service, org_id: claimed, node: claimed },
    values: [[`${Date.now()}000000`, "x", { host_id: claimed }] as [string, string, Record<string, string>]],
  },
];

const otlpEndpoints = (["logs", "traces", "metrics"] as const).flatMap((signal): Endpoint[] => [
  {
    name: `OTLP ${signal}, JSON`,
    signal,
    path: `/v1/${signal}`,
    type: JSON_TYPE,
    validBody: (service, claimed) => Buffer.from(JSON.stringify(otlpDocument(signal, service, claimed))),
    deep: Buffer.from(`{"resource${{ logs: "Logs", traces: "Spans", metrics: "Metrics" }[signal]}":${"[".repeat(100_000)}`),
  },
  {
    name: `OTLP ${signal}, protobuf`,
    signal,
    path: `/v1/${signal}`,
    type: PROTOBUF,
    validBody: (service, claimed) => encodeProtobuf(signal, otlpDocument(signal, service, claimed)),
    deep: deepProtobuf(5000),
  },
]);
const ENDPOINTS: readonly Endpoint[] = [
  ...otlpEndpoints,
  {
    name: "remote write 1.0",
    signal: "metrics",
    path: "/api/v1/write",
    type: PROTOBUF,
    encoding: "snappy",
    validBody: remoteWriteBody(1),
    deep: deepProtobuf(5000),
  },
  {
    name: "remote write 2.0",
    signal: "metrics",
    path: "/api/v1/write",
    type: REMOTE_WRITE_2,
    encoding: "snappy",
    validBody: remoteWriteBody(2),
    deep: bytesField(5, deepProtobuf(5000)),
  },
  {
    name: "Loki push, JSON",
    signal: "logs",
    path: "/loki/api/v1/push",
    type: JSON_TYPE,
    validBody: (service, claimed) => Buffer.from(JSON.stringify({ streams: lokiStreams(service, claimed) })),
    deep: Buffer.from(`{"streams":${"[".repeat(100_000)}`),
  },
  {
    name: "Loki push, protobuf",
    signal: "logs",
    path: "/loki/api/v1/push",
    type: PROTOBUF,
    validBody: (service, claimed) => pushBody(lokiStreams(service, claimed)),
    deep: deepProtobuf(5000),
  },
];

let [attacker, victim]: Tenant[] = [];
let [token, victimToken, removedToken, expiringToken] = ["", "", "", ""];
beforeAll(async () => {
  [attacker, victim] = [await backend.tenant("attacker"), await backend.tenant("victim")];
  // The shortest allowed lifetime.
  expiringToken = await newToken(attacker, { ttl: "1m" });
  token = await newToken(attacker, {});
  victimToken = await newToken(victim, {});
  removedToken = await newToken(attacker, { name: "removed" });
  const bearer = attacker.token;
  const listed = await call("GET", `${backend.apiUrl}/api/ingest-tokens`, { bearer });
  const { id } = (listed.json as { id: string; name: string }[]).find(({ name }) => name === "removed") ?? {};
  expect((await call("DELETE", `${backend.apiUrl}/api/ingest-tokens/${id}`, { bearer })).status).toBe(204);
});

async function newToken(tenant: Tenant | undefined, body: object): Promise<string> {
  const bearer = tenant?.token;
  const answer = await call("POST", `${backend.apiUrl}/api/ingest-tokens`, { bearer, body: { name: "endpoint", ...body } });
  expect(answer.status, answer.text).toBe(201);
  return answer.json.token as string;
}

async function send(endpoint: Endpoint, body: Body, headers: Record<string, string> = {}): Promise<number> {
  const encoding = endpoint.encoding && { "content-encoding": endpoint.encoding };
  const answer = await call("POST", `${backend.apiUrl}${endpoint.path}`, {
    body,
    headers: { "content-type": endpoint.type, "x-api-key": token, ...encoding, ...headers },
  });
  return answer.status;
}

const compressed = (endpoint: Endpoint, body: Body): Body =>
  endpoint.encoding || endpoint.name.endsWith("push, protobuf") ? compressSnappy(body) : body;

/** Returns the log records, spans and series of a service that are stored for a tenant. */
async function stored(tenant: Tenant | undefined, service: string): Promise<Record<string, string>[]> {
  const bearer = tenant?.token;
  const get = async (path: string) => (await call("GET", `${backend.apiUrl}${path}`, { bearer })).json;
  const query = encodeURIComponent(`endpoint{job="${service}"}`);
  const [logs, spans, series] = [
    await get(`/query/logs?source=${service}`),
    await get(`/query/traces?service=${service}`),
    (await get(`/query/prometheus/api/v1/query?query=${query}`)).data.result.map(({ metric }: { metric: object }) => metric),
  ];
  return [logs, spans, series].flat();
}

describe.each(ENDPOINTS)("$name", { timeout: TIMEOUT_MS }, (endpoint) => {
  const service = `endpoint-${ENDPOINTS.indexOf(endpoint)}`;
  const validBody = (): Body => endpoint.validBody(service, victim?.orgId ?? "");

  test("rejects bodies that are too large, compression bombs, deep, truncated or malformed", async () => {
    const large = await send(endpoint, Buffer.alloc(33 * MIB));
    expect(large).toBe(413);
    const bomb = compressed(endpoint, Buffer.alloc(33 * MIB));
    const bombs =
      endpoint.encoding || endpoint.name.endsWith("push, protobuf")
        ? [[bomb, {}] as const]
        : [[gzipSync(bomb), { "content-encoding": "gzip" }] as const, [zstdCompressSync(bomb), { "content-encoding": "zstd" }] as const];
    for (const [body, headers] of bombs) expect(await send(endpoint, body, headers)).toBe(413);
    expect([400, 413]).toContain(await send(endpoint, compressed(endpoint, endpoint.deep)));
    expect([400, 413]).toContain(await send(endpoint, validBody().subarray(0, -3)));
    expect(await send(endpoint, compressed(endpoint, Buffer.concat([varint(2n ** 63n), Buffer.alloc(64, 0xff)])))).toBe(400);
    expect(await send(endpoint, validBody(), { "content-type": "text/plain" })).toBe(415);
    expect([400, 415]).toContain(await send(endpoint, validBody(), { "content-encoding": "br" }));
    expect(await stored(attacker, service)).toEqual([]);
    expect(await send(endpoint, endpoint.validBody(`${service}-neighbour`, "x"), { "x-api-key": victimToken })).toBeLessThan(300);
  });

  test("rejects missing, guessed and removed tokens, sessions, and tokens for another signal or network before the body is read", async () => {
    const others = (["logs", "traces", "metrics"] as const).filter((signal) => signal !== endpoint.signal);
    const unread = Buffer.alloc(MIB, 0xff);
    const statusOf = async (headers: Record<string, string>): Promise<number> => await send(endpoint, unread, headers);
    expect(await statusOf({ "x-api-key": "" })).toBe(401);
    expect(await statusOf({ "x-api-key": `ig_${randomBytes(32).toString("base64url")}` })).toBe(401);
    // Two different tokens.
    expect(await statusOf({ authorization: `Bearer ${victimToken}` })).toBe(401);
    expect(await statusOf({ "x-api-key": removedToken })).toBe(401);
    expect(await statusOf({ "x-api-key": await newToken(attacker, { signals: others }) })).toBe(403);
    expect(await statusOf({ "x-api-key": await newToken(attacker, { networks: ["192.0.2.0/24"] }) })).toBe(403);
    expect(await statusOf({ "x-api-key": attacker?.token ?? "" })).toBe(401);
    expect(await stored(attacker, service)).toEqual([]);
  });

  test("stores a request that claims another organisation for the token's organisation", async () => {
    const headers = { "x-scope-orgid": victim?.orgId ?? "", "x-org-id": victim?.orgId ?? "" };
    expect(await send(endpoint, validBody(), headers)).toBeLessThan(300);
    const rows = await backend.shows(
      "the request is stored",
      async () => {
        const found = await stored(attacker, service);
        return found.length > 0 && found;
      },
      TIMEOUT_MS,
    );
    expect(rows).toHaveLength(1);
    const identities = rows.map(({ node, host_id: hostId, org_id: orgId }) => [node, hostId, orgId]).flat();
    expect(identities).not.toContain(victim?.orgId);
    expect(await stored(victim, service)).toEqual([]);
  });
});

const SIGNALS = ["logs", "traces", "metrics"] as const;
const SERVICES = { logs: "logs.v1.LogsService", traces: "trace.v1.TraceService", metrics: "metrics.v1.MetricsService" };
const METHODS = Object.fromEntries(SIGNALS.map((signal) => [signal, `/opentelemetry.proto.collector.${SERVICES[signal]}/Export`]));
const identity = (bytes: Buffer): Buffer => bytes;

/** A client with a separate connection. */
function openClient(port: number | undefined, options: object = {}): Client {
  const clientOptions = { "grpc.max_send_message_length": -1, "grpc.use_local_subchannel_pool": 1, ...options };
  const opened = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), clientOptions);
  stack.defer(() => opened.close());
  return opened;
}

const stack = new AsyncDisposableStack();
afterAll(async () => await stack.disposeAsync());
const client = openClient(grpcPort);
const neighbour = openClient(grpcPort);
const compressing = openClient(grpcPort, { "grpc.default_compression_algorithm": compressionAlgorithms.gzip });

interface GrpcCall {
  readonly apiKey?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly caller?: Client;
}

/** Returns the status of a call. Without a message, the client sends only the headers and keeps the call open. */
async function callGrpc(signal: Signal, message: Body | undefined, options: GrpcCall = {}): Promise<number> {
  const { apiKey = token, headers = {}, caller = client } = options;
  const metadata = new Metadata();
  for (const [name, value] of Object.entries({ "x-api-key": apiKey, ...headers })) metadata.set(name, value);
  const { promise, resolve } = Promise.withResolvers<number>();
  const done = (error: { code: number } | null): void => resolve(error?.code ?? status.OK);
  const path = METHODS[signal] ?? "";
  if (message) caller.makeUnaryRequest(path, identity, identity, message, metadata, done);
  else caller.makeClientStreamRequest(path, identity, identity, metadata, done);
  return await promise;
}

test("each protocol rejects an expired token", { timeout: 2 * TIMEOUT_MS }, async () => {
  const isRefused = async (endpoint: Endpoint): Promise<boolean> =>
    (await send(endpoint, endpoint.validBody("expired", ""), { "x-api-key": expiringToken })) === 401;
  const [first, ...others] = ENDPOINTS;
  if (first) await eventually("the token has expired", async () => await isRefused(first), TIMEOUT_MS);
  for (const endpoint of others) expect(await isRefused(endpoint), endpoint.name).toBe(true);
  for (const signal of SIGNALS) {
    const validMessage = encodeProtobuf(signal, otlpDocument(signal, "expired", ""));
    expect(await callGrpc(signal, validMessage, { apiKey: expiringToken }), signal).toBe(status.UNAUTHENTICATED);
  }
});

describe("OTLP over gRPC", { timeout: TIMEOUT_MS }, () => {
  const buildMessage = (signal: Signal, service: string): Body =>
    encodeProtobuf(signal, otlpDocument(signal, service, victim?.orgId ?? ""));

  /** Sends a valid request of the other organisation and expects it to be stored. */
  async function expectNeighbour(signal: Signal): Promise<void> {
    const service = `neighbour-grpc-${signal}-${randomBytes(4).toString("hex")}`;
    const message = buildMessage(signal, service);
    expect(await callGrpc(signal, message, { apiKey: victimToken, caller: neighbour })).toBe(status.OK);
    await backend.shows("the neighbour's message is stored", async () => (await stored(victim, service)).length === 1, TIMEOUT_MS);
  }

  test.each(SIGNALS)("%s: rejects messages that are too large, compression bombs, deep, truncated or malformed", async (signal) => {
    const service = `endpoint-grpc-${signal}`;
    const validMessage = buildMessage(signal, service);
    expect(await callGrpc(signal, Buffer.alloc(17 * MIB))).toBe(status.RESOURCE_EXHAUSTED);
    // The compressed bombs have 33 kB; the second starts with a valid message.
    for (const bomb of [Buffer.alloc(33 * MIB), Buffer.concat([validMessage, Buffer.alloc(33 * MIB)])])
      expect(await callGrpc(signal, bomb, { caller: compressing })).toBe(status.RESOURCE_EXHAUSTED);
    for (const message of [deepProtobuf(5000), validMessage.subarray(0, -3), Buffer.alloc(64, 0xff)])
      for (const caller of [client, compressing]) expect(await callGrpc(signal, message, { caller })).toBe(status.INVALID_ARGUMENT);
    expect(await stored(attacker, service)).toEqual([]);
    await expectNeighbour(signal);
    expect(await callGrpc(signal, validMessage, { caller: compressing })).toBe(status.OK);
    await backend.shows("the message is stored", async () => (await stored(attacker, service)).length === 1, TIMEOUT_MS);
    expect(await stored(victim, service)).toEqual([]);
  });

  test.each(SIGNALS)(
    "%s: rejects missing, guessed and removed tokens, sessions, and tokens for another signal or network",
    async (signal) => {
      const service = `endpoint-grpc-token-${signal}`;
      const validMessage = buildMessage(signal, service);
      const statusOf = async (apiKey: string, headers = {}): Promise<number> => await callGrpc(signal, validMessage, { apiKey, headers });
      const others = SIGNALS.filter((other) => other !== signal);
      expect(await statusOf("")).toBe(status.UNAUTHENTICATED);
      expect(await statusOf(`ig_${randomBytes(32).toString("base64url")}`)).toBe(status.UNAUTHENTICATED);
      expect(await statusOf(removedToken)).toBe(status.UNAUTHENTICATED);
      expect(await statusOf(attacker?.token ?? "")).toBe(status.UNAUTHENTICATED);
      // Two different tokens.
      expect(await statusOf(token, { authorization: `Bearer ${victimToken}` })).toBe(status.UNAUTHENTICATED);
      expect(await statusOf(await newToken(attacker, { signals: others }))).toBe(status.PERMISSION_DENIED);
      expect(await statusOf(await newToken(attacker, { networks: ["192.0.2.0/24"] }))).toBe(status.PERMISSION_DENIED);
      for (const tenant of [attacker, victim]) expect(await stored(tenant, service)).toEqual([]);
      await expectNeighbour(signal);
    },
  );

  test("ends calls without or with a slow message, while another tenant's calls succeed", async () => {
    const slow = openClient(await startSlowRelay());
    const silent = Array.from({ length: 16 }, async () => await callGrpc("logs", undefined));
    const dripping = callGrpc("logs", Buffer.alloc(MIB), { caller: slow });
    for (const signal of SIGNALS) await expectNeighbour(signal);
    expect(await Promise.all([...silent, dripping])).toEqual(Array.from({ length: 17 }, () => status.UNAVAILABLE));
    expect(await callGrpc("logs", buildMessage("logs", "endpoint-grpc-after"))).toBe(status.OK);
  });
});

/** Starts a relay to the gRPC port that forwards the first 8 KiB of a connection at once and the rest at 5 KiB/s. Returns its port. */
async function startSlowRelay(): Promise<number> {
  const server = createServer((socket) => {
    const upstream = connect(grpcPort ?? 0, "127.0.0.1");
    upstream.pipe(socket);
    // Safe to ignore: the test closes connections during requests.
    pipeline(socket, throttle, upstream).catch(() => undefined);
    stack.defer(() => void socket.destroy());
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  stack.defer(() => void server.close());
  return (server.address() as AddressInfo).port;
}

async function* throttle(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let sent = 0;
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; at += 512) {
      // Paces the attack: a third of the minimum speed of a body.
      if (sent > 8192) await setTimeout(100);
      const part = chunk.subarray(at, at + 512);
      sent += part.length;
      yield part;
    }
  }
}
