// What metrics become is compared with OTLP/JSON in backend/ingest/otlp/metrics/node-metrics.engine.test.ts.
import { describe, expect, it, test } from "vitest";
import { bytesField, encodeProtobuf, varint } from "../../backend/ingest/otlp/protobuf/encode.fixture.ts";
import { decodeRequest } from "./decode-request.ts";

const value = (anyValue: object) => ({ attributes: [{ key: "a", value: anyValue }] });
const log = (record: object) => ({ resourceLogs: [{ scopeLogs: [{ logRecords: [record] }] }] });

test("each kind of field becomes what JSON.parse of OTLP/JSON would return", () => {
  const record = {
    timeUnixNano: "1763714400123456789",
    severityNumber: 9,
    severityText: "é",
    body: { kvlistValue: { values: [{ key: "k", value: { boolValue: true } }] } },
    ...value({
      arrayValue: { values: [{ intValue: -5 }, { intValue: "9223372036854775807" }, { doubleValue: 1.5 }, { bytesValue: "aGk=" }] },
    }),
    flags: 4_294_967_295,
    traceId: "ab".repeat(16),
  };
  expect(decodeRequest("logs", encodeProtobuf("logs", log(record)))).toEqual(log(record));
  const point = {
    timeUnixNano: "1763714400123456789",
    bucketCounts: [1, "18446744073709551615"],
    explicitBounds: [-1, "Infinity", "NaN"],
    min: -3,
  };
  const buckets = { offset: -7, bucketCounts: [0, 128, "9007199254740993"] };
  const metrics = [
    { name: "h", histogram: { dataPoints: [point], aggregationTemporality: 2 } },
    { name: "e", exponentialHistogram: { dataPoints: [{ scale: -1, positive: buckets }] } },
    { name: "g", gauge: { dataPoints: [{ asInt: "-9223372036854775808" }, { asInt: -1 }] } },
  ];
  const document = { resourceMetrics: [{ scopeMetrics: [{ metrics }] }] };
  expect(decodeRequest("metrics", encodeProtobuf("metrics", document))).toEqual(document);
});

describe("malformed protobuf", () => {
  const request = (record: Buffer): Buffer => bytesField(1, bytesField(2, bytesField(2, record)));

  it.each([
    ["that ends within a value", Buffer.from([0x0a, 0x7f]), "it ends within a value"],
    ["of another message", bytesField(9, Buffer.from("x")), "no field of this request"],
    ["that ends within a number", Buffer.from([0x80]), "it ends within a number"],
  ])("%s is rejected", (_name, body, message) => {
    expect(() => decodeRequest("metrics", body)).toThrow(message);
  });

  it.each([
    ["a field of another type", Buffer.from([0x2a, 0x01, 0x08]), "it ends within a number"],
    ["a packed list that is cut off", bytesField(9, bytesField(1, bytesField(6, Buffer.alloc(9)))), "bucketCounts ends within a value"],
    ["a number of eleven bytes", bytesField(7, Buffer.concat([Buffer.from([0x10]), Buffer.alloc(10, 0xff), varint(1n)])), "10 bytes"],
  ])("in a metric makes only the metric unreadable: %s", (_name, metric, message) => {
    const { resourceMetrics } = decodeRequest("metrics", request(metric)) as {
      resourceMetrics: [{ scopeMetrics: [{ metrics: unknown[] }] }];
    };
    expect(JSON.stringify(resourceMetrics)).toMatch(new RegExp(`unreadable.*${message}`));
  });

  it("in more than a thousand records is rejected", () => {
    const records = Buffer.concat(Array.from({ length: 1001 }, () => bytesField(2, Buffer.from([0x0a, 0x7f]))));
    expect(() => decodeRequest("logs", bytesField(1, bytesField(2, records)))).toThrow(/ends within/);
  });
});

it("limits the depth", () => {
  let nested = bytesField(1, Buffer.from("x"));
  for (let depth = 0; depth < 60; depth += 1) nested = bytesField(5, bytesField(1, nested));
  const resource = bytesField(1, bytesField(1, Buffer.concat([bytesField(1, Buffer.from("a")), bytesField(2, nested)])));
  expect(JSON.stringify(decodeRequest("metrics", bytesField(1, resource)))).toContain("messages are nested more than 100 deep");
});
