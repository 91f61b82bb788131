// The same telemetry as JSON and as protobuf becomes the same rows and series, and hostile protobuf is refused with a code, within its limits.
import { describe, expect, test } from "vitest";
import { ApiError } from "../../../errors.ts";
import { CONTEXT, rowsOf } from "../decoded-rows.fixture.ts";
import { asJson } from "../decode-body.ts";
import { convertMetrics } from "../metrics/convert-metrics.ts";
import { openOtlpDecoder } from "../otlp-decoder.ts";
import { document, Random } from "../random-documents.fixture.ts";
import { bytesField, encodeProtobuf, varint } from "./encode.fixture.ts";
import { protobufToJson } from "./to-json.ts";

const DOCUMENTS = 300;

/** The random documents may have a name of an enumeration, or an id of the wrong length: their JSON is refused, or is no protobuf. */
const parse = (text: string): object | undefined => {
  try {
    return JSON.parse(text) as object;
  } catch {
    return undefined;
  }
};

test.each(["logs", "traces"] as const)("random documents of %s become the same rows from both encodings", (signal) => {
  const random = new Random(7);
  for (let index = 0; index < DOCUMENTS; index += 1) {
    const json = parse(document(random, signal)) ?? {};
    const body = encodeProtobuf(signal, json);
    const { body: transcoded } = asJson({ signal, body, encoding: "protobuf", context: CONTEXT });
    expect(rowsOf(signal, Buffer.from(transcoded)), `document ${index}`).toEqual(rowsOf(signal, json));
  }
});

const T = "1795262400123456789";
const point = { timeUnixNano: T, attributes: [{ key: "code", value: { intValue: "200" } }] };
const METRICS = {
  resourceMetrics: [
    {
      resource: {
        attributes: [
          { key: "service.name", value: { stringValue: "shop" } },
          { key: "host.ip", value: { stringValue: "::1" } },
        ],
      },
      scopeMetrics: [
        {
          metrics: [
            {
              name: "temperature",
              unit: "Cel",
              gauge: {
                dataPoints: [
                  { ...point, asDouble: -0.5 },
                  { timeUnixNano: T, asInt: "-9007199254740993" },
                ],
              },
            },
            { name: "requests", unit: "1", sum: { isMonotonic: true, aggregationTemporality: 2, dataPoints: [{ ...point, asInt: "7" }] } },
            { name: "delta", sum: { isMonotonic: true, aggregationTemporality: 1, dataPoints: [{ ...point, asInt: "7" }] } },
            {
              name: "latency",
              unit: "s",
              histogram: {
                aggregationTemporality: 2,
                dataPoints: [{ ...point, count: "6", sum: 1.5, bucketCounts: ["1", "2", "3"], explicitBounds: [0.1, 1e9] }],
              },
            },
            {
              name: "sizes",
              exponentialHistogram: {
                aggregationTemporality: 2,
                dataPoints: [
                  {
                    ...point,
                    count: "9",
                    sum: 12,
                    scale: -2,
                    zeroCount: "1",
                    positive: { offset: -3, bucketCounts: ["2", "300"] },
                    negative: { offset: 1, bucketCounts: ["1"] },
                  },
                ],
              },
            },
            {
              name: "times",
              summary: { dataPoints: [{ ...point, count: "2", sum: 3, quantileValues: [{ quantile: 0.5, value: Number.NaN }] }] },
            },
          ],
        },
      ],
    },
  ],
};

test("metrics of every kind become the same series from both encodings, and delta is counted", () => {
  const json = JSON.stringify(METRICS, (_key, value: unknown) => (Number.isNaN(value) ? "NaN" : value));
  const read = ({ texts, dropped }: ReturnType<typeof convertMetrics>) => [Buffer.concat(texts).toString(), dropped];
  const fromJson = read(convertMetrics({ body: Buffer.from(json) }));
  const [text, dropped] = read(convertMetrics({ body: encodeProtobuf("metrics", METRICS), encoding: "protobuf" }));
  expect([text, dropped]).toEqual(fromJson);
  expect(dropped).toEqual({ delta: 1 });
  for (const series of ["temperature_celsius{", "requests_total{", "latency_seconds_bucket{", "sizes_bucket{", "times{", "target_info{"])
    expect(text).toContain(series);
  expect(text).toContain("-9007199254740993");
});

describe("protobuf in any valid form", () => {
  const record = encodeRecord({ severityText: "WARN" });
  const inRequest = (...records: Buffer[]): Buffer =>
    bytesField(1, bytesField(2, Buffer.concat(records.map((bytes) => bytesField(2, bytes)))));

  test("skips unknown fields, and accepts repeated fields that are not adjacent", () => {
    const attribute = (key: string) =>
      bytesField(6, Buffer.concat([bytesField(1, Buffer.from(key)), bytesField(2, bytesField(1, Buffer.from("v")))]));
    const body = inRequest(
      Buffer.concat([attribute("a"), varint(BigInt(200 << 3)), varint(5n), bytesField(1000, Buffer.from("?")), record, attribute("b")]),
    );
    expect(JSON.parse(protobufToJson("logs", body).toString())).toEqual({
      resourceLogs: [
        {
          scopeLogs: [
            {
              logRecords: [
                {
                  severityText: "WARN",
                  attributes: [
                    { key: "a", value: { stringValue: "v" } },
                    { key: "b", value: { stringValue: "v" } },
                  ],
                },
              ],
            },
          ],
        },
      ],
    });
  });

  test("an empty body is an empty request", () => {
    expect(protobufToJson("logs", new Uint8Array()).toString()).toBe("{}");
  });

  test("escapes text within its string", () => {
    const text = '"}]}\\\u0000\n\u001f\u2028';
    const json = JSON.parse(protobufToJson("logs", inRequest(encodeRecord({ severityText: text }))).toString());
    expect(json.resourceLogs[0].scopeLogs[0].logRecords).toEqual([{ severityText: text }]);
  });

  const nested = (depth: number): Buffer => {
    let value = bytesField(1, Buffer.from("x"));
    for (let level = 0; level < depth; level += 1) value = bytesField(5, bytesField(1, value));
    return inRequest(bytesField(5, value));
  };

  test.each([
    ["cut off", inRequest(record).subarray(0, -1), "malformed_body"],
    ["a length that is too large", Buffer.from([0x0a, 0xff, 0xff, 0xff, 0xff, 0x07]), "malformed_body"],
    ["a length of 2^64 - 1", Buffer.from([0x0a, ...Array.from({ length: 9 }, () => 0xff), 0x01]), "malformed_body"],
    ["a number without end", Buffer.alloc(64, 0xff), "malformed_body"],
    ["a group", Buffer.from([0x0b, 0x0c]), "malformed_body"],
    ["a field of another type", inRequest(Buffer.from([0x18, 0x01])), "invalid_payload"],
    ["JSON", Buffer.from('{"resourceLogs":[]}'), "malformed_body"],
    ["5,000 levels", nested(5000), "invalid_payload"],
    ["a field that no request has", Buffer.from([0x10, 0x01]), "malformed_body"],
    ["text that is not UTF-8", inRequest(bytesField(3, Buffer.from([0xff, 0xfe]))), "malformed_body"],
    ["an id of 3 bytes", inRequest(bytesField(9, Buffer.from([1, 2, 3]))), "invalid_payload"],
    [
      "31 MiB of empty records",
      Buffer.from(bytesField(1, bytesField(2, Buffer.alloc(31 << 20, Buffer.from([0x12, 0]))))),
      "batch_too_large",
    ],
  ])("rejects %s", async (_what, body, code) => {
    await using decoder = openOtlpDecoder();
    using held = decoder.open("org");
    const task = { signal: "logs", body: new Uint8Array(body), encoding: "protobuf", context: CONTEXT } as const;
    const refused = await Promise.try(() => decoder.decode(task, held)).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(ApiError);
    expect(refused).toMatchObject({ code });
  });

  test("accepts 40 levels of lists", () => {
    expect(rowsOf("logs", protobufToJson("logs", nested(40)))).toHaveLength(1);
  });
});

function encodeRecord(record: object): Buffer {
  const request = encodeProtobuf("logs", { resourceLogs: [{ scopeLogs: [{ logRecords: [record] }] }] });
  // Three tags and lengths of one byte each precede a small record.
  return request.subarray(6);
}

test("keeps every digit of 64-bit integers", () => {
  const edges = [
    1n,
    9n,
    10n,
    999_999n,
    1_000_000n,
    2n ** 32n - 1n,
    2n ** 32n,
    9_999_999_999_999n,
    10n ** 13n,
    2n ** 53n + 1n,
    10n ** 19n,
    2n ** 64n - 1n,
  ];
  const random = new Random(3);
  const values = [
    ...edges,
    ...Array.from(
      { length: 2000 },
      () => (BigInt(Math.floor(random.next() * 2 ** 32)) * 4_294_967_296n + BigInt(random.below(2 ** 31))) >> BigInt(random.below(60)),
    ),
  ];
  const logRecords = values.map((value) => ({ timeUnixNano: String(value) }));
  const document = { resourceLogs: [{ scopeLogs: [{ logRecords }] }] };
  expect(JSON.parse(protobufToJson("logs", encodeProtobuf("logs", document)).toString())).toEqual(document);
});
