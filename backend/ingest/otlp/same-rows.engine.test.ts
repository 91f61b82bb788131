// The same log records become the same rows from OTLP/JSON, OTLP/protobuf and Loki's push request in JSON and protobuf: as the backend decodes
// them, and one of the four without the kernel, in turn. KERNEL_DOCUMENTS=300000 runs as many documents; KERNEL_SEED=n sets the first seed.
import { expect, it } from "vitest";
import { encodePush, type PushStream } from "../loki/push.fixture.ts";
import { compressSnappy } from "../snappy.fixture.ts";
import { asJson, type DecodeTask, KERNEL_LIMITS, validateFast } from "./decode-body.ts";
import { CONTEXT } from "./decoded-rows.fixture.ts";
import type { DecodedBody } from "./decoded-rows.ts";
import { decodeSlowPath } from "./otlp-body.fixture.ts";
import { encodeProtobuf } from "./protobuf/encode.fixture.ts";
import { Random } from "./random-documents.fixture.ts";

const DOCUMENTS = Number(process.env["KERNEL_DOCUMENTS"] ?? 500);
const SEED = Number(process.env["KERNEL_SEED"] ?? 1);
const NOW_S = BigInt(CONTEXT.receivedAtMs) / 1000n;
const WORDS = [
  ...'GET checkout /api/items/7 exception été 日本語 😀 key=value a\tb C:\\dir line\nline {"level":"error"} \u0001 \u001b[31m \u007f'.split(
    " ",
  ),
  'say "hi"',
  "",
  "x".repeat(200),
];
const KEYS = ["app", "k8s_pod_name", "a", "zone", "node", "org_id", "host_id", "instance", "filename"];
const LEVELS = ["info", "WARN", "Error", "fatal", "custom"];

interface LogEntry {
  readonly time: bigint;
  readonly line: string;
  readonly level: string | undefined;
  readonly ids: { readonly trace_id?: string; readonly span_id?: string };
  readonly metadata: Readonly<Record<string, string>>;
}

interface LogStream {
  readonly service: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly entries: readonly LogEntry[];
}

const sentence = (random: Random): string => Array.from({ length: random.below(8) }, () => random.pick(WORDS)).join(" ");
const hex = (random: Random, digits: number): string => Array.from({ length: digits }, () => random.below(16).toString(16)).join("");

function pairs(random: Random, keys: readonly string[]): Record<string, string> {
  return Object.fromEntries(Array.from({ length: random.below(5) }, () => [random.pick(keys), sentence(random)]));
}

function logStream(random: Random): LogStream {
  const entries = Array.from({ length: random.below(6) }, (): LogEntry => ({
    // Some are too old or too far ahead, and are dropped.
    time:
      (NOW_S - BigInt(random.below(random.chance(0.02) ? 40 * 86_400 : 7200)) + BigInt(random.chance(0.02) ? 200_000 : 0)) *
        1_000_000_000n +
      BigInt(random.below(1e9)),
    line: sentence(random),
    level: random.chance(0.5) ? random.pick(LEVELS) : undefined,
    ids: random.chance(0.3) ? { trace_id: random.chance(0.1) ? "0".repeat(32) : hex(random, 32), span_id: hex(random, 16) } : {},
    metadata: pairs(random, KEYS.map((key) => `m.${key}`).concat("node", "org_id")),
  }));
  return { service: random.pick(["shop", "été"]), labels: pairs(random, KEYS), entries };
}

const attributesOf = (list: Readonly<Record<string, string>>): object[] =>
  Object.entries(list).map(([key, stringValue]) => ({ key, value: { stringValue } }));

function otlpOf(streams: readonly LogStream[]): object {
  const resourceLogs = streams.map(({ service, labels, entries }) => ({
    resource: { attributes: attributesOf({ "service.name": service, ...labels }) },
    scopeLogs: [
      {
        logRecords: entries.map(({ time, line, level, ids, metadata }) => ({
          timeUnixNano: String(time),
          body: { stringValue: line },
          ...(level !== undefined && { severityText: level }),
          ...(ids.trace_id !== undefined && { traceId: ids.trace_id, spanId: ids.span_id }),
          attributes: attributesOf(metadata),
        })),
      },
    ],
  }));
  return { resourceLogs };
}

function pushOf(streams: readonly LogStream[]): PushStream[] {
  return streams.map(({ service, labels, entries }) => ({
    stream: { service_name: service, ...labels },
    values: entries.map(({ time, line, level, ids, metadata }) => [
      String(time),
      line,
      { ...(level !== undefined && { detected_level: level }), ...ids, ...metadata },
    ]),
  }));
}

it("logs of any protocol become the same rows", { timeout: 3_600_000 }, () => {
  const counts = { rows: 0, fast: 0, bodies: 0 };
  for (let index = 0; index < DOCUMENTS; index += 1) {
    const random = new Random(SEED * 1_000_003 + index);
    const streams = Array.from({ length: 1 + random.below(3) }, () => logStream(random));
    const [otlp, push] = [otlpOf(streams), pushOf(streams)];
    const bodies: readonly Pick<DecodeTask, "encoding" | "body">[] = [
      { body: Buffer.from(JSON.stringify(otlp)) },
      { encoding: "protobuf", body: encodeProtobuf("logs", otlp) },
      { encoding: "loki_json", body: Buffer.from(JSON.stringify({ streams: push })) },
      { encoding: "loki_protobuf", body: compressSnappy(encodePush(push)) },
    ];
    const [first, ...others] = bodies.flatMap((body, encoding) => decodedRows(body, counts, encoding === index % bodies.length));
    const named = (): string => `KERNEL_SEED=${SEED}, document ${index}: ${JSON.stringify(otlp).slice(0, 3000)}`;
    for (const other of others) expect(sameRows(first as DecodedBody, other), named()).toBe(true);
    counts.rows += first?.accepted ?? 0;
  }
  console.log(`${DOCUMENTS} documents, ${counts.rows} rows; ${counts.fast} of ${counts.bodies} bodies taken by the kernel`);
  // Otherwise the comparison would prove nothing.
  expect(counts.rows).toBeGreaterThan(DOCUMENTS);
  expect(counts.fast / counts.bodies).toBeGreaterThan(0.5);
});

/** The rows by the kernel, if it accepts the body, otherwise by the slow path; `both`: by both. */
function decodedRows(body: Pick<DecodeTask, "encoding" | "body">, counts: { fast: number; bodies: number }, both: boolean): DecodedBody[] {
  const task = { signal: "logs", context: CONTEXT, bodyHash: CONTEXT.bodyHash, ...body } as const;
  const json = { ...asJson(task), bodyHash: CONTEXT.bodyHash, context: CONTEXT };
  counts.bodies += 1;
  // Loki's formats are converted to JSON first.
  const fast = validateFast(task, KERNEL_LIMITS)?.rows() ?? validateFast(json, KERNEL_LIMITS)?.rows();
  if (fast) counts.fast += 1;
  return [...(fast ? [fast] : []), ...(both || !fast ? [decodeSlowPath(json)] : [])];
}

function sameRows(one: DecodedBody, other: DecodedBody): boolean {
  const isSame = one.sections.every(({ bytes }, index) => Buffer.compare(bytes, other.sections[index]?.bytes ?? Buffer.alloc(0)) === 0);
  return isSame && one.sections.length === other.sections.length && reasons(one) === reasons(other);
}

const reasons = ({ dropped }: DecodedBody): string =>
  Object.entries(dropped)
    .map(([reason, count]) => `${reason} ${count}`)
    .toSorted((a, b) => a.localeCompare(b))
    .join();
