// A body that goes on after its document is refused by every decoder, fast path and slow path: what was not read would be acknowledged.
import { expect, test } from "vitest";
import { MetricsConverter } from "../../common/otlp-metrics/converter.ts";
import { newHashKey } from "../storage/metrics/series-hash.ts";
import { lokiToJson } from "./loki/push-to-json.ts";
import { noFaults } from "./record-faults.ts";
import { pushBody } from "./loki/push.fixture.ts";
import { asJson, type DecodeTask, KERNEL_LIMITS, validateBody } from "./otlp/decode-body.ts";
import { convertMetrics } from "./otlp/metrics/convert-metrics.ts";
import { logRecord, logsBody, span, tracesBody } from "./otlp/otlp-body.fixture.ts";
import { encodeProtobuf } from "./otlp/protobuf/encode.fixture.ts";
import { checkSlowPath, checkWrite } from "./remote-write/check-write.ts";
import { encodeWrite, writeBody } from "./remote-write/write-request.fixture.ts";
import { compressSnappy } from "./snappy.fixture.ts";

const NOW = Date.now();
const TIME = BigInt(NOW) * 1_000_000n;
const NO_KERNEL = { maxBodyBytes: 0, maxRowsBytes: 0 };
const context = { orgId: "o", hostId: "h", node: "n", receivedAtMs: NOW, firstId: "1", retentionDays: 30 };
const limits = { maxLabels: 40, maxNameBytes: 256, maxValueBytes: 4096, maxLabelBytes: 8192, oldestMs: 0, newestMs: NOW + 1000 };
const JSON_BODIES = {
  logs: logsBody([logRecord(TIME, "message")]),
  traces: tracesBody([span(TIME, "5b8aa5a2d2c872e8321cf37308d69df2", "051581bf3cb55c13")]),
  metrics: Buffer.from(JSON.stringify({ resourceMetrics: [{ scopeMetrics: [{ metrics: [{ name: "m", gauge: { dataPoints: [] } }] }] }] })),
};
const protobuf = (signal: "logs" | "traces" | "metrics"): Buffer =>
  encodeProtobuf(signal, JSON.parse(String(JSON_BODIES[signal])) as object);

const decodeRows =
  (signal: "logs" | "traces", encoding: "protobuf" | undefined, kernelLimits = KERNEL_LIMITS) =>
  (body: Buffer) => {
    const task: DecodeTask = { signal, body, context, ...(encoding && { encoding }) };
    validateBody(kernelLimits === KERNEL_LIMITS ? task : asJson(task), kernelLimits).rows();
  };
const write = { version: 1, limits, hashKey: newHashKey() } as const;
const series = [{ labels: [["__name__", "up"]] as [string, string][], samples: [[1, NOW]] as [number, number][] }];
const convert = (body: Buffer) => void [...new MetricsConverter(() => undefined).convert(Buffer.from(body), 1e6)];

const TEXT_TAILS = ["x", "{}", "\0", ",", "]", "\uFEFF"].map((tail) => Buffer.from(tail));
const BINARY_TAILS = [Buffer.from("garbage!"), Buffer.from([0]), Buffer.from([0xff]), Buffer.from([0x0a, 0x7f])];

test.each<[string, Buffer, (body: Buffer) => unknown, readonly Buffer[]]>([
  ["logs as JSON", JSON_BODIES.logs, decodeRows("logs", undefined), TEXT_TAILS],
  ["logs as JSON, slow path", JSON_BODIES.logs, decodeRows("logs", undefined, NO_KERNEL), TEXT_TAILS],
  ["spans as JSON", JSON_BODIES.traces, decodeRows("traces", undefined), TEXT_TAILS],
  ["spans as JSON, slow path", JSON_BODIES.traces, decodeRows("traces", undefined, NO_KERNEL), TEXT_TAILS],
  ["metrics as JSON", JSON_BODIES.metrics, (body) => convertMetrics({ body }), TEXT_TAILS],
  ["the agent's metrics", JSON_BODIES.metrics, convert, TEXT_TAILS],
  ["Loki push as JSON", Buffer.from('{"streams":[]}'), (body) => lokiToJson("loki_json", body, noFaults()), TEXT_TAILS],
  ["logs as protobuf", protobuf("logs"), decodeRows("logs", "protobuf"), BINARY_TAILS],
  ["logs as protobuf, slow path", protobuf("logs"), decodeRows("logs", "protobuf", NO_KERNEL), BINARY_TAILS],
  ["spans as protobuf", protobuf("traces"), decodeRows("traces", "protobuf"), BINARY_TAILS],
  ["metrics as protobuf", protobuf("metrics"), (body) => convertMetrics({ body, encoding: "protobuf" }), BINARY_TAILS],
  [
    "Loki push after its Snappy block",
    pushBody([{ stream: { a: "b" }, values: [[String(TIME), "x"]] }]),
    (body) => lokiToJson("loki_protobuf", body, noFaults()),
    BINARY_TAILS,
  ],
  ["remote write after its Snappy block", writeBody(series), (body) => checkWrite({ ...write, body }), BINARY_TAILS],
  ["remote write after its Snappy block, slow path", writeBody(series), (body) => checkSlowPath({ ...write, body }), BINARY_TAILS],
  [
    "remote write within its Snappy block",
    encodeWrite(series),
    (body) => checkWrite({ ...write, body: compressSnappy(body) }),
    BINARY_TAILS,
  ],
])("rejects %s with trailing bytes", (_, body, decode, tails) => {
  expect(() => decode(body)).not.toThrow();
  for (const tail of tails) expect(() => decode(Buffer.concat([body, tail])), tail.toString("hex")).toThrow(/./);
});
