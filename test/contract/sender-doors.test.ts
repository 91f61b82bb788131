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
const SECOND = `${PROTOBUF};proto=io.prometheus.write.v2.Request`;
const WITHIN_MS = 120_000;

type Signal = "logs" | "traces" | "metrics";
type Body = Buffer;

interface Door {
  readonly name: string;
  readonly signal: Signal;
  readonly path: string;
  readonly type: string;
  readonly encoding?: "snappy";
  /** A good request that claims to be of another organisation. */
  readonly good: (service: string, claimed: string) => Body;
  /** Nested far beyond any limit. */
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
      resourceMetrics: [{ resource: { attributes }, scopeMetrics: [{ metrics: [{ name: "door", gauge: { dataPoints: points } }] }] }],
    },
  };
  return scopes[signal];
}

/** An attribute of lists within lists. */
function deepProtobuf(levels: number): Body {
  let value = bytesField(1, Buffer.from("x"));
  for (let level = 0; level < levels; level += 1) value = bytesField(5, bytesField(1, value));
  return bytesField(1, bytesField(1, bytesField(1, Buffer.concat([bytesField(1, Buffer.from("k")), bytesField(2, value)]))));
}

const labelsOf = (service: string, claimed: string): (readonly [string, string])[] => [
  ["__name__", "door"],
  ...["host_id", "job", "node", "org_id"].map((name) => [name, name === "job" ? service : claimed] as const),
];
const writeOf = (version: 1 | 2) => (service: string, claimed: string) =>
  writeBody([{ labels: labelsOf(service, claimed), samples: [[1, Date.now()]] }], version);
const streamsOf = (service: string, claimed: string) => [
  {
    stream: { service_name: service, org_id: claimed, node: claimed },
    values: [[`${Date.now()}000000`, "x", { host_id: claimed }] as [string, string, Record<string, string>]],
  },
];

const otlpDoors = (["logs", "traces", "metrics"] as const).flatMap((signal): Door[] => [
  {
    name: `OTLP ${signal}, JSON`,
    signal,
    path: `/v1/${signal}`,
    type: JSON_TYPE,
    good: (service, claimed) => Buffer.from(JSON.stringify(otlpDocument(signal, service, claimed))),
    deep: Buffer.from(`{"resource${{ logs: "Logs", traces: "Spans", metrics: "Metrics" }[signal]}":${"[".repeat(100_000)}`),
  },
  {
    name: `OTLP ${signal}, protobuf`,
    signal,
    path: `/v1/${signal}`,
    type: PROTOBUF,
    good: (service, claimed) => encodeProtobuf(signal, otlpDocument(signal, service, claimed)),
    deep: deepProtobuf(5000),
  },
]);
const DOORS: readonly Door[] = [
  ...otlpDoors,
  {
    name: "remote write 1.0",
    signal: "metrics",
    path: "/api/v1/write",
    type: PROTOBUF,
    encoding: "snappy",
    good: writeOf(1),
    deep: deepProtobuf(5000),
  },
  {
    name: "remote write 2.0",
    signal: "metrics",
    path: "/api/v1/write",
    type: SECOND,
    encoding: "snappy",
    good: writeOf(2),
    deep: bytesField(5, deepProtobuf(5000)),
  },
  {
    name: "Loki push, JSON",
    signal: "logs",
    path: "/loki/api/v1/push",
    type: JSON_TYPE,
    good: (service, claimed) => Buffer.from(JSON.stringify({ streams: streamsOf(service, claimed) })),
    deep: Buffer.from(`{"streams":${"[".repeat(100_000)}`),
  },
  {
    name: "Loki push, protobuf",
    signal: "logs",
    path: "/loki/api/v1/push",
    type: PROTOBUF,
    good: (service, claimed) => pushBody(streamsOf(service, claimed)),
    deep: deepProtobuf(5000),
  },
];

let [attacker, victim]: Tenant[] = [];
let [token, victimToken, removedToken, expiringToken] = ["", "", "", ""];
beforeAll(async () => {
  [attacker, victim] = [await backend.tenant("attacker"), await backend.tenant("victim")];
  // The shortest lifetime that is allowed.
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
  const answer = await call("POST", `${backend.apiUrl}/api/ingest-tokens`, { bearer, body: { name: "door", ...body } });
  expect(answer.status, answer.text).toBe(201);
  return answer.json.token as string;
}

async function send(door: Door, body: Body, headers: Record<string, string> = {}): Promise<number> {
  const encoding = door.encoding && { "content-encoding": door.encoding };
  const answer = await call("POST", `${backend.apiUrl}${door.path}`, {
    body,
    headers: { "content-type": door.type, "x-api-key": token, ...encoding, ...headers },
  });
  return answer.status;
}

const compressed = (door: Door, body: Body): Body => (door.encoding || door.name.endsWith("push, protobuf") ? compressSnappy(body) : body);

/** Counts the stored data of a service: rows of logs and spans, and series. */
async function stored(tenant: Tenant | undefined, service: string): Promise<Record<string, string>[]> {
  const bearer = tenant?.token;
  const get = async (path: string) => (await call("GET", `${backend.apiUrl}${path}`, { bearer })).json;
  const query = encodeURIComponent(`door{job="${service}"}`);
  const [logs, spans, series] = [
    await get(`/query/logs?source=${service}`),
    await get(`/query/traces?service=${service}`),
    (await get(`/query/prometheus/api/v1/query?query=${query}`)).data.result.map(({ metric }: { metric: object }) => metric),
  ];
  return [logs, spans, series].flat();
}

describe.each(DOORS)("$name", { timeout: WITHIN_MS }, (door) => {
  const service = `door-${DOORS.indexOf(door)}`;
  const good = (): Body => door.good(service, victim?.orgId ?? "");

  test("bodies that are too large, bombs, deep, cut off or of another form are refused", async () => {
    const large = await send(door, Buffer.alloc(33 * MIB));
    expect(large).toBe(413);
    const bomb = compressed(door, Buffer.alloc(33 * MIB));
    const bombs =
      door.encoding || door.name.endsWith("push, protobuf")
        ? [[bomb, {}] as const]
        : [[gzipSync(bomb), { "content-encoding": "gzip" }] as const, [zstdCompressSync(bomb), { "content-encoding": "zstd" }] as const];
    for (const [body, headers] of bombs) expect(await send(door, body, headers)).toBe(413);
    expect([400, 413]).toContain(await send(door, compressed(door, door.deep)));
    expect([400, 413]).toContain(await send(door, good().subarray(0, -3)));
    expect(await send(door, compressed(door, Buffer.concat([varint(2n ** 63n), Buffer.alloc(64, 0xff)])))).toBe(400);
    expect(await send(door, good(), { "content-type": "text/plain" })).toBe(415);
    expect([400, 415]).toContain(await send(door, good(), { "content-encoding": "br" }));
    expect(await stored(attacker, service)).toEqual([]);
    expect(await send(door, door.good(`${service}-neighbour`, "x"), { "x-api-key": victimToken })).toBeLessThan(300);
  });

  test("tokens that are missing, guessed, removed, of a session, another signal or network are refused before the body is read", async () => {
    const others = (["logs", "traces", "metrics"] as const).filter((signal) => signal !== door.signal);
    const unread = Buffer.alloc(MIB, 0xff);
    const statusOf = async (headers: Record<string, string>): Promise<number> => await send(door, unread, headers);
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

  test("a request that claims to be of another organisation is stored for the token's", async () => {
    const headers = { "x-scope-orgid": victim?.orgId ?? "", "x-org-id": victim?.orgId ?? "" };
    expect(await send(door, good(), headers)).toBeLessThan(300);
    const rows = await eventually(
      "the request is stored",
      async () => {
        const found = await stored(attacker, service);
        return found.length > 0 && found;
      },
      WITHIN_MS,
    );
    expect(rows).toHaveLength(1);
    const identity = rows.map(({ node, host_id: hostId, org_id: orgId }) => [node, hostId, orgId]).flat();
    expect(identity).not.toContain(victim?.orgId);
    expect(await stored(victim, service)).toEqual([]);
  });
});

const SIGNALS = ["logs", "traces", "metrics"] as const;
const SERVICES = { logs: "logs.v1.LogsService", traces: "trace.v1.TraceService", metrics: "metrics.v1.MetricsService" };
const METHODS = Object.fromEntries(SIGNALS.map((signal) => [signal, `/opentelemetry.proto.collector.${SERVICES[signal]}/Export`]));
const same = (bytes: Buffer): Buffer => bytes;

/** A client with a separate connection. */
function openClient(port: number | undefined, options: object = {}): Client {
  const own = { "grpc.max_send_message_length": -1, "grpc.use_local_subchannel_pool": 1, ...options };
  const opened = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), own);
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

/** The status of a call; without a message the client sends the headers alone and keeps the call open. */
async function callGrpc(signal: Signal, message: Body | undefined, options: GrpcCall = {}): Promise<number> {
  const { apiKey = token, headers = {}, caller = client } = options;
  const metadata = new Metadata();
  for (const [name, value] of Object.entries({ "x-api-key": apiKey, ...headers })) metadata.set(name, value);
  const { promise, resolve } = Promise.withResolvers<number>();
  const done = (error: { code: number } | null): void => resolve(error?.code ?? status.OK);
  const path = METHODS[signal] ?? "";
  if (message) caller.makeUnaryRequest(path, same, same, message, metadata, done);
  else caller.makeClientStreamRequest(path, same, same, metadata, done);
  return await promise;
}

test("an expired token is refused by each protocol", { timeout: 2 * WITHIN_MS }, async () => {
  const isRefused = async (door: Door): Promise<boolean> =>
    (await send(door, door.good("expired", ""), { "x-api-key": expiringToken })) === 401;
  const [first, ...others] = DOORS;
  if (first) await eventually("the token has expired", async () => await isRefused(first), WITHIN_MS);
  for (const door of others) expect(await isRefused(door), door.name).toBe(true);
  for (const signal of SIGNALS) {
    const good = encodeProtobuf(signal, otlpDocument(signal, "expired", ""));
    expect(await callGrpc(signal, good, { apiKey: expiringToken }), signal).toBe(status.UNAUTHENTICATED);
  }
});

describe("OTLP over gRPC", { timeout: WITHIN_MS }, () => {
  const goodOf = (signal: Signal, service: string): Body => encodeProtobuf(signal, otlpDocument(signal, service, victim?.orgId ?? ""));

  /** A call of the other organisation is stored for it. */
  async function expectNeighbour(signal: Signal): Promise<void> {
    const service = `neighbour-grpc-${signal}-${randomBytes(4).toString("hex")}`;
    const message = goodOf(signal, service);
    expect(await callGrpc(signal, message, { apiKey: victimToken, caller: neighbour })).toBe(status.OK);
    await eventually("the neighbour's message is stored", async () => (await stored(victim, service)).length === 1, WITHIN_MS);
  }

  test.each(SIGNALS)("%s: messages that are too large, bombs, deep, cut off or of another form are refused", async (signal) => {
    const service = `door-grpc-${signal}`;
    const good = goodOf(signal, service);
    expect(await callGrpc(signal, Buffer.alloc(17 * MIB))).toBe(status.RESOURCE_EXHAUSTED);
    // 33 kB as sent, also behind a good message.
    for (const bomb of [Buffer.alloc(33 * MIB), Buffer.concat([good, Buffer.alloc(33 * MIB)])])
      expect(await callGrpc(signal, bomb, { caller: compressing })).toBe(status.RESOURCE_EXHAUSTED);
    for (const message of [deepProtobuf(5000), good.subarray(0, -3), Buffer.alloc(64, 0xff)])
      for (const caller of [client, compressing]) expect(await callGrpc(signal, message, { caller })).toBe(status.INVALID_ARGUMENT);
    expect(await stored(attacker, service)).toEqual([]);
    await expectNeighbour(signal);
    expect(await callGrpc(signal, good, { caller: compressing })).toBe(status.OK);
    await eventually("the message is stored", async () => (await stored(attacker, service)).length === 1, WITHIN_MS);
    expect(await stored(victim, service)).toEqual([]);
  });

  test.each(SIGNALS)("%s: tokens that are missing, guessed, removed, of a session, signal or network are refused", async (signal) => {
    const service = `door-grpc-token-${signal}`;
    const good = goodOf(signal, service);
    const statusOf = async (apiKey: string, headers = {}): Promise<number> => await callGrpc(signal, good, { apiKey, headers });
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
  });

  test("calls without a message, and one whose message arrives byte by byte, are ended while a neighbour's are answered", async () => {
    const slow = openClient(await openSlowWire());
    const silent = Array.from({ length: 16 }, async () => await callGrpc("logs", undefined));
    const dripping = callGrpc("logs", Buffer.alloc(MIB), { caller: slow });
    for (const signal of SIGNALS) await expectNeighbour(signal);
    expect(await Promise.all([...silent, dripping])).toEqual(Array.from({ length: 17 }, () => status.UNAVAILABLE));
    expect(await callGrpc("logs", goodOf("logs", "door-grpc-after"))).toBe(status.OK);
  });
});

/** Listens, and passes a connection on to the gRPC port: the first 8 KiB at once, the rest by 5 KiB a second. Returns its port. */
async function openSlowWire(): Promise<number> {
  const server = createServer((socket) => {
    const upstream = connect(grpcPort ?? 0, "127.0.0.1");
    upstream.pipe(socket);
    // Safe to ignore: the test ends connections in the middle.
    pipeline(socket, slowly, upstream).catch(() => undefined);
    stack.defer(() => void socket.destroy());
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  stack.defer(() => void server.close());
  return (server.address() as AddressInfo).port;
}

async function* slowly(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let sent = 0;
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; at += 512) {
      // Paces the attack: a third of the speed that a body must reach.
      if (sent > 8192) await setTimeout(100);
      const part = chunk.subarray(at, at + 512);
      sent += part.length;
      yield part;
    }
  }
}
