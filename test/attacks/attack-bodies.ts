// Attacks with an ingest token: OTLP bodies that are large, deep, dense or wrong once decoded, slow bodies, and guessed tokens.
import { randomBytes } from "node:crypto";
import { promisify } from "node:util";
import { gzip, zstdCompress } from "node:zlib";
import { bytesField, encodeProtobuf, varint } from "../../backend/ingest/otlp/protobuf/encode.fixture.ts";
import type { Attack, Attacker } from "./attack.ts";

const MIB = 1024 * 1024;
const zipped = promisify(gzip);
const PROTOBUF = "application/x-protobuf";

interface Post {
  readonly body: Buffer;
  readonly type?: string;
  readonly encoding?: string;
  readonly token?: string;
}

export async function postOtlp(attacker: Attacker, path: string, { body, type = PROTOBUF, encoding, token }: Post): Promise<void> {
  const headers = {
    "content-type": type,
    "x-api-key": token ?? attacker.target.ingestToken,
    ...(encoding !== undefined && { "content-encoding": encoding }),
  };
  await attacker.call({ method: "POST", path, body, headers });
}

/** A request whose only record has this body: `field` 5 of a log record. */
const logOf = (...fields: Buffer[]): Buffer => bytesField(1, bytesField(2, bytesField(2, Buffer.concat(fields))));
const filled = (bytes: number, pattern: Buffer): Buffer => Buffer.alloc(bytes, pattern);

function nested(levels: number): Buffer {
  let value = bytesField(1, Buffer.from("x"));
  for (let level = 0; level < levels; level += 1) value = bytesField(5, bytesField(1, value));
  return logOf(bytesField(5, value));
}

/** A list of booleans, each of which is four bytes and becomes twenty of JSON. */
const booleans = (bytes: number): Buffer => logOf(bytesField(5, bytesField(5, filled(bytes, Buffer.from([0x0a, 0x02, 0x10, 0x01])))));

const HOSTILE_BODIES: readonly (() => Buffer)[] = [
  () => filled(31 * MIB, Buffer.from([0x0a, 0])),
  () => bytesField(1, bytesField(2, filled(31 * MIB, Buffer.from([0x12, 0])))),
  () => booleans(31 * MIB),
  () => booleans(4 * MIB),
  () => nested(5000),
  () => logOf(bytesField(5, bytesField(1, filled(4 * MIB, Buffer.from([1]))))),
  () => Buffer.from([0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x0a]),
  () => filled(MIB, Buffer.from([0xff])),
];

async function hostileBody(turn: number): Promise<Buffer> {
  return await zipped(HOSTILE_BODIES[turn % HOSTILE_BODIES.length]?.() ?? Buffer.alloc(0), { level: 6 });
}

/** The same bodies with a signature. */
export const signedOtlpBodies: Attack = {
  group: "more",
  what: "signed protobuf: 31 MiB of empty resources, records or booleans in a few kB, 5,000 levels, lengths beyond the end, 4 MiB of escapes",
  everyMs: 3000,
  async wave(attacker, turn) {
    const body = await hostileBody(turn);
    const headers = { "content-type": PROTOBUF, "content-encoding": "gzip" };
    await attacker.many(3, 3, async (index) => {
      const path = ["/ingest/logs/otlp", "/ingest/traces", "/ingest"][index % 3] ?? "/ingest";
      await attacker.call({ method: "POST", path, key: attacker.target.clusterKey, body, headers });
    });
  },
};

/** Protobuf that is small on the wire, and large, deep or invalid once decoded. */
export const otlpBodies: Attack = {
  group: "first",
  what: "protobuf with an ingest token: 31 MiB of empty records or booleans in a few kB, 5,000 levels, lengths beyond the end, 4 MiB of escapes",
  everyMs: 3000,
  async wave(attacker, turn) {
    const body = await hostileBody(turn);
    await attacker.many(3, 3, async (index) => {
      await postOtlp(attacker, ["/v1/logs", "/v1/traces", "/v1/metrics"][index % 3] ?? "/v1/logs", { body, encoding: "gzip" });
    });
  },
};

const time = (): string => `${Date.now()}000000`;
const metricsOf = (metrics: object[], attributes: object[] = []): object => ({
  resourceMetrics: [{ resource: { attributes }, scopeMetrics: [{ metrics }] }],
});
const attribute = (key: string, bytes: number): object => ({ key, value: { stringValue: "v".repeat(bytes) } });

export const otlpMetrics: Attack = {
  group: "more",
  what: "metrics: histograms of 10,000 buckets, exponential ones of extreme offsets, 34 labels of 4 kB for each of 5,000 points, 100,000 exemplars, new series",
  everyMs: 2000,
  async wave(attacker, turn) {
    const point = (extra: object): object => ({ timeUnixNano: time(), ...extra });
    const histogram = {
      count: "1",
      bucketCounts: Array(10_000).fill("1"),
      explicitBounds: Array.from({ length: 9999 }, (_, index) => index),
    };
    const exemplar = { timeUnixNano: time(), asDouble: 9998.5, traceId: "a".repeat(32), spanId: "b".repeat(16) };
    const exemplars = Array.from({ length: 5000 }, () => exemplar);
    const exponential = { count: "1", scale: 20, positive: { offset: 2_147_483_647, bucketCounts: Array(5000).fill("1") } };
    const repeat = (count: number, make: (index: number) => object): object[] => Array.from({ length: count }, (_, index) => make(index));
    const kinds: (() => object)[] = [
      () => metricsOf([{ name: "h", histogram: { aggregationTemporality: 2, dataPoints: repeat(20, () => point(histogram)) } }]),
      () =>
        metricsOf([
          { name: "x", histogram: { aggregationTemporality: 2, dataPoints: repeat(20, () => point({ ...histogram, exemplars })) } },
        ]),
      () =>
        metricsOf([{ name: "e", exponentialHistogram: { aggregationTemporality: 2, dataPoints: repeat(20, () => point(exponential)) } }]),
      () =>
        metricsOf(
          [{ name: "g", gauge: { dataPoints: repeat(5000, () => point({ asInt: "1" })) } }],
          repeat(34, (index) => attribute(`k${index}`, 4000)),
        ),
      () =>
        metricsOf(
          repeat(20_000, (index) => ({
            name: `m_${attacker.serial().replaceAll("-", "_")}_${index}`,
            gauge: { dataPoints: [point({ asDouble: 1 })] },
          })),
        ),
    ];
    const document = kinds[turn % kinds.length]?.() ?? {};
    await postOtlp(attacker, "/v1/metrics", { body: await zipped(encodeProtobuf("metrics", document)), encoding: "gzip" });
    const zstd = await promisify(zstdCompress)(Buffer.from(JSON.stringify(document)));
    await postOtlp(attacker, "/v1/metrics", { body: zstd, type: "application/json", encoding: "zstd" });
  },
};

export const otlpSenders: Attack = {
  group: "more",
  what: "200 guessed tokens at once, a token in two headers, 200 connections that send a tenth of their body and then wait, JSON as protobuf",
  everyMs: 5000,
  async wave(attacker) {
    const body = Buffer.from("{}");
    await attacker.many(200, 50, async () => {
      await postOtlp(attacker, "/v1/logs", { body, token: `ig_${randomBytes(32).toString("base64url")}` });
    });
    await postOtlp(attacker, "/v1/traces", { body: Buffer.from('{"resourceSpans":[]}') });
    await postOtlp(attacker, "/v1/traces", { body: varint(2n ** 63n), type: "application/json" });
    const head = `POST /v1/logs HTTP/1.1\r\nHost: x\r\nContent-Type: ${PROTOBUF}\r\nX-API-Key: ${attacker.target.ingestToken}\r\n`;
    await attacker.many(200, 200, async () => {
      await attacker.hold([`${head}Content-Length: ${MIB}\r\n\r\n`, Buffer.alloc(MIB / 10)], 20_000);
    });
  },
};
