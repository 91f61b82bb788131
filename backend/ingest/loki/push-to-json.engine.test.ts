// What labels of a Loki push request become, and which requests are refused with a code, within their limits. That both encodings become the
// same rows as OTLP logs: same-rows.engine.test.ts.
import { expect, test } from "vitest";
import { ApiError } from "../../errors.ts";
import { MAX_LABELS_OF_STREAM, MAX_STREAMS, MAX_STRUCTURED_METADATA } from "../ingest-limits.ts";
import { CONTEXT, rowsOf } from "../otlp/decoded-rows.fixture.ts";
import { OtlpDecoder } from "../otlp/otlp-decoder.ts";
import { bytesField } from "../otlp/protobuf/encode.fixture.ts";
import { compressSnappy } from "../snappy.fixture.ts";
import { encodePush, pushBody, type PushStream } from "./push.fixture.ts";
import { noFaults } from "../record-faults.ts";
import { lokiToJson, parseStreamLabels } from "./push-to-json.ts";

const T = `${CONTEXT.receivedAtMs}123456`;
const json = (streams: unknown): Buffer => Buffer.from(JSON.stringify({ streams }));

const attribute = (key: string, stringValue: string): object => ({ key, value: { stringValue } });
test("takes numbers and booleans as labels, as Loki does", () => {
  const stream = '{"app":"shop","pid":42,"share":0.5,"debug":true,"none":null}';
  const body = Buffer.from(`{"streams":[{"stream":${stream},"values":[["${T}","x"]]}]}`);
  const [row] = rowsOf("logs", lokiToJson("loki_json", body, noFaults()));
  expect(Object.fromEntries(JSON.parse(row?.["labels"] ?? "[]"))).toEqual({
    app: "shop",
    pid: "42",
    share: "0.5",
    debug: "true",
    none: "null",
  });
});

test("the first name of a level in Loki's order is the level, the source is that of Loki, and an id that is none is an attribute", () => {
  const streams: PushStream[] = [
    { stream: { severity: "SEV1", level: "info", Lvl: "", job: "varlogs" }, values: [[T, "x"]] },
    { stream: { severity: "high", app: "a" }, values: [[T, "x", { lvl: "E", detected_level: "error", trace_id: "not hex" }]] },
  ];
  const record = { timeUnixNano: T, body: { stringValue: "x" } };
  const resource = (...attributes: object[]): object => ({ attributes });
  const expected = rowsOf("logs", {
    resourceLogs: [
      {
        resource: resource(
          attribute("service.name", "varlogs"),
          attribute("severity", "SEV1"),
          attribute("Lvl", ""),
          attribute("job", "varlogs"),
        ),
        scopeLogs: [{ logRecords: [{ ...record, severityText: "info" }] }],
      },
      {
        resource: resource(attribute("service.name", "a"), attribute("app", "a")),
        scopeLogs: [
          {
            logRecords: [
              {
                ...record,
                severityText: "error",
                attributes: [attribute("severity", "high"), attribute("lvl", "E"), attribute("trace_id", "not hex")],
              },
            ],
          },
        ],
      },
    ],
  });
  expect(rowsOf("logs", lokiToJson("loki_json", json(streams), noFaults()))).toEqual(expected);
  expect(rowsOf("logs", lokiToJson("loki_protobuf", pushBody(streams), noFaults()))).toEqual(expected);
});

test("decodes a large request on a thread, to the same rows in both encodings", async () => {
  await using decoder = new OtlpDecoder(1);
  const streams = [{ stream: { job: "many" }, values: Array.from({ length: 20_000 }, (_, index) => [T, `line ${index}`] as const) }];
  const decode = async (body: Buffer, encoding: "loki_json" | "loki_protobuf") => {
    using held = decoder.open(CONTEXT.orgId);
    return await decoder.decode({ signal: "logs", body, encoding, context: CONTEXT }, held);
  };
  const rows = [await decode(json(streams), "loki_json"), await decode(pushBody(streams), "loki_protobuf")];
  expect(rows.map(({ accepted }) => accepted)).toEqual([20_000, 20_000]);
  expect(rows[0]).toEqual(rows[1]);
});

test("parses labels with Go's quoting", () => {
  expect(parseStreamLabels('{ a = "x\\ty\\u00fc\\x41", b=`raw\\n`, c="" , }')).toEqual([
    ["a", "x\tyüA"],
    ["b", "raw\\n"],
    ["c", ""],
  ]);
  // In Go, `\x` and octal digits are bytes of UTF-8, and `\U` has eight digits.
  expect(parseStreamLabels('{a="\\U0001f600", b="\\xe4\\xb8\\xad\\344\\270\\255\\xff"}')).toEqual([
    ["a", "😀"],
    ["b", "中中\uFFFD"],
  ]);
  expect(parseStreamLabels("{}")).toEqual([]);
});

const codeOf = (encoding: "loki_json" | "loki_protobuf", body: Uint8Array): string => {
  const faults = noFaults();
  try {
    lokiToJson(encoding, body, faults);
    return faults.leftOut > 0 ? "left out" : "accepted";
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return error.code;
  }
};

const values = [[T, "x"]];
test.each([
  ["no JSON", Buffer.from("{"), "malformed_body"],
  ["a list", Buffer.from("[]"), "invalid_payload"],
  ["no streams", Buffer.from("{}"), "invalid_payload"],
  ["OTLP", Buffer.from('{"resourceLogs":[]}'), "invalid_payload"],
  ["streams that are text", json("x"), "invalid_payload"],
  ["a stream that is a number", json([7]), "left out"],
  ["a stream without labels", json([{ stream: {}, values }]), "left out"],
  ["a label without a name", json([{ stream: { a: "b", "": "c" }, values }]), "left out"],
  ["a label name that Loki rejects", json([{ stream: { "a-b": "c" }, values }]), "left out"],
  ["a label that is an object", json([{ stream: { a: {} }, values }]), "left out"],
  ["a label that is a list", json([{ stream: { a: [] }, values }]), "left out"],
  ["a label that is a number of 17 digits", json([{ stream: { a: 1e17 }, values }]), "left out"],
  ["values that are an object", json([{ stream: { a: "b" }, values: { length: 5 } }]), "left out"],
  ["a time that is a number", json([{ stream: { a: "b" }, values: [[1, "x"]] }]), "left out"],
  ["a time that is no number", json([{ stream: { a: "b" }, values: [["now", "x"]] }]), "left out"],
  ["a line that is an object", json([{ stream: { a: "b" }, values: [[T, {}]] }]), "left out"],
  ["streams twice", Buffer.from('{"streams":[],"streams":[]}'), "invalid_payload"],
  ["values twice", Buffer.from('{"streams":[{"stream":{"a":"b"},"values":[],"values":[]}]}'), "invalid_payload"],
  ["labels twice", Buffer.from('{"streams":[{"stream":{"a":"b"},"stream":{"a":"b"},"values":[]}]}'), "invalid_payload"],
  ["a label twice", Buffer.from(String.raw`{"streams":[{"stream":{"a":"b","\u0061":"c"},"values":[]}]}`), "invalid_payload"],
  ["a pair of metadata twice", Buffer.from('{"streams":[{"stream":{"a":"b"},"values":[["1","x",{"a":"b","a":"c"}]]}]}'), "invalid_payload"],
  ["metadata that nests", json([{ stream: { a: "b" }, values: [[T, "x", { a: { b: "c" } }]] }]), "left out"],
  [
    "more streams than allowed",
    json(Array.from({ length: MAX_STREAMS + 1 }, () => ({ stream: { a: "b" }, values: [] }))),
    "batch_too_large",
  ],
  ["four million lists", Buffer.from(`{"streams":[${"[],".repeat(4_000_000)}[]]}`), "batch_too_large"],
  ["100,000 levels", Buffer.from(`{"streams":${"[".repeat(100_000)}`), "malformed_body"],
])("rejects in JSON: %s", (_, body, code) => {
  expect(codeOf("loki_json", body)).toBe(code);
});

const many = (count: number): Record<string, string> => Object.fromEntries(Array.from({ length: count }, (_, index) => [`l${index}`, "v"]));
test.each([
  ["no Snappy", encodePush([{ stream: { a: "b" }, values: [[T, "x"]] }]), "malformed_body"],
  ["a block of more than 32 MiB", Buffer.from([0xff, 0xff, 0xff, 0xff, 0x0f]), "body_too_large"],
  ["no protobuf", compressSnappy(Buffer.alloc(100, 0xff)), "malformed_body"],
  ["a length beyond the end", compressSnappy(Buffer.from([0x0a, 0x7f, 1])), "malformed_body"],
  ["a field that no push has", compressSnappy(bytesField(2, Buffer.from("x"))), "invalid_payload"],
  ["labels that are none", compressSnappy(bytesField(1, bytesField(1, Buffer.from("job=a")))), "left out"],
  ["a label without a name", compressSnappy(bytesField(1, bytesField(1, Buffer.from('{="b"}')))), "left out"],
  ["a label that is given twice", compressSnappy(bytesField(1, bytesField(1, Buffer.from('{a="b", org_id="x", a="c"}')))), "left out"],
  ["a stream that is cut off", compressSnappy(bytesField(1, Buffer.from([0x12, 9]))), "left out"],
  [
    "an entry that is cut off",
    compressSnappy(bytesField(1, Buffer.concat([bytesField(1, Buffer.from('{a="b"}')), bytesField(2, Buffer.from([0x12, 9]))]))),
    "left out",
  ],
  ["labels that do not end", compressSnappy(bytesField(1, bytesField(1, Buffer.from(`{${'a="'.repeat(50_000)}}`)))), "left out"],
  ["more labels than allowed", pushBody([{ stream: many(MAX_LABELS_OF_STREAM + 1), values: [] }]), "left out"],
  ["more metadata than allowed", pushBody([{ stream: { a: "b" }, values: [[T, "x", many(MAX_STRUCTURED_METADATA + 1)]] }]), "left out"],
  [
    "16 million empty entries",
    compressSnappy(
      bytesField(1, Buffer.concat([bytesField(1, Buffer.from('{a="b"}')), Buffer.alloc(31 * 1024 * 1024, Buffer.from([0x12, 0]))])),
    ),
    "batch_too_large",
  ],
])("rejects in protobuf: %s", (_, body, code) => {
  expect(codeOf("loki_protobuf", body)).toBe(code);
});

test("a small push that expands to much more JSON does not block the event loop", async () => {
  await using decoder = new OtlpDecoder();
  const stream = Buffer.concat([bytesField(1, Buffer.from('{a="b"}')), Buffer.alloc(126 * 1024, Buffer.from([0x12, 0]))]);
  const body = compressSnappy(bytesField(1, stream));
  expect(body.length).toBeLessThan(10_000);
  using held = decoder.open("org");
  const before = process.threadCpuUsage();
  const decoding = decoder.decode({ signal: "logs", body, encoding: "loki_protobuf", context: CONTEXT }, held);
  const { user, system } = process.threadCpuUsage(before);
  expect((user + system) / 1000).toBeLessThan(8);
  expect((await decoding).accepted).toBeGreaterThan(60_000);
});

test.each([
  ["characters in its labels", bytesField(1, bytesField(1, Buffer.from(`{a="${"x".repeat(20_000_000)}"}`)))],
  [
    "pairs of metadata",
    bytesField(1, Buffer.concat([bytesField(1, Buffer.from('{a="b"}')), bytesField(2, Buffer.alloc(30_000_000, Buffer.from([0x1a, 0])))])),
  ],
])("rejects a stream with too many %s before it reads them", (_, push) => {
  const body = compressSnappy(push);
  const before = process.threadCpuUsage();
  expect(codeOf("loki_protobuf", body)).toBe("left out");
  const { user, system } = process.threadCpuUsage(before);
  expect((user + system) / 1000).toBeLessThan(500);
});
