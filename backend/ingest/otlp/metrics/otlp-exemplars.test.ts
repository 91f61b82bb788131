// Which exemplars of OTLP metrics are kept, for which series, in both encodings; hostile ones cost no sample and little memory.
import { expect, test } from "vitest";
import { encodeProtobuf } from "../protobuf/encode.fixture.ts";
import { type ConvertedMetrics, convertMetrics } from "./convert-metrics.ts";

const TIME = "1795262400123456789";
const TRACE = { traceId: "0AF7651916CD43DD8448EB211C80319C", spanId: "b7ad6b7169203331" };
const IDS = [
  ["trace_id", TRACE.traceId.toLowerCase()],
  ["span_id", TRACE.spanId],
];
const RESOURCE = ["job", "service_name"].map((name) => [name, 'sh"op']);
const attribute = (key: string, stringValue: string) => ({ key, value: { stringValue } });
const exemplar = (rest: object) => ({ timeUnixNano: TIME, ...TRACE, ...rest });

function documentOf(metric: object): object {
  const resource = { attributes: [attribute("service.name", 'sh"op')] };
  return { resourceMetrics: [{ resource, scopeMetrics: [{ metrics: [metric] }] }] };
}

function convert(metric: object): ConvertedMetrics {
  const converted = convertMetrics({ body: Buffer.from(JSON.stringify(documentOf(metric))) });
  expect(converted.texts.length).toBeGreaterThan(0);
  return converted;
}

const counter = (exemplars: unknown, rest: object = {}) => ({
  name: "calls",
  sum: { isMonotonic: true, aggregationTemporality: 2, dataPoints: [{ timeUnixNano: TIME, asInt: "3", exemplars, ...rest }] },
});

test("gives an exemplar of a counter the labels of its series, the ids of its span and the filtered attributes", () => {
  const filteredAttributes = [attribute("user.id", "a\nb"), attribute("trace_id", "another"), attribute("", "x")];
  const metric = counter([exemplar({ asDouble: 0.5, filteredAttributes })], { attributes: [attribute("path", 'a\\"\n,b="c"')] });
  const series = [["__name__", "calls_total"], ...RESOURCE, ["path", 'a\\"\n,b="c"']];
  const [traceId, spanId] = IDS;
  const expected = [
    { series, labels: expect.arrayContaining([["user_id", "a\nb"], traceId, spanId]), value: "0.5", timeMs: 1_795_262_400_123 },
  ];
  expect(convert(metric).exemplars).toEqual(expected);
  expect(convertMetrics({ body: encodeProtobuf("metrics", documentOf(metric)), encoding: "protobuf" }).exemplars).toEqual(expected);
});

const buckets = { bucketCounts: ["1", "2", "3"], explicitBounds: [0.1, 5] };
const exponential = { scale: 0, zeroCount: "1", positive: { offset: 0, bucketCounts: ["1", "2"] } };
test.each([
  ["histogram", buckets, -1, "0.1"],
  ["histogram", buckets, 0.1, "0.1"],
  ["histogram", buckets, 0.2, "5"],
  ["histogram", buckets, 5.1, "+Inf"],
  ["histogram", buckets, "NaN", "+Inf"],
  ["histogram", buckets, "-Infinity", "0.1"],
  ["histogram", {}, 1, "+Inf"],
  ["exponentialHistogram", exponential, 0, "0"],
  ["exponentialHistogram", exponential, 3, "4"],
  ["exponentialHistogram", exponential, 9, "+Inf"],
])("for a %s %j puts the value %s into the bucket %s", (kind, data, asDouble, le) => {
  const point = { timeUnixNano: TIME, count: "6", sum: 9, exemplars: [exemplar({ asDouble })], ...data };
  const [kept] = convert({ name: "took", [kind]: { aggregationTemporality: 2, dataPoints: [point] } }).exemplars;
  expect(kept?.series).toEqual([["__name__", "took_bucket"], ...RESOURCE, ["le", le]]);
});

test("counts invalid exemplars and those above the limits, and stores their samples", () => {
  const long = exemplar({ asInt: "1", filteredAttributes: [attribute("text", "x".repeat(2000))] });
  const bad = [{ timeUnixNano: TIME }, { asInt: "1" }, exemplar({ asInt: "x" })];
  const odd = { timeUnixNano: TIME, asInt: "2", traceId: "0".repeat(32), spanId: 7 };
  const { exemplars, dropped, texts } = convert(
    counter([...bad, odd, long, ...Array.from({ length: 2000 }, () => exemplar({ asInt: "1" }))]),
  );
  expect(exemplars).toHaveLength(1000);
  expect(exemplars.slice(0, 2).map(({ labels }) => labels)).toEqual([[], IDS]);
  expect(dropped).toEqual({ exemplar_malformed: 3, exemplar_limit: 1002 });
  expect(Buffer.concat(texts).toString()).toContain("} 3 ");
});

test("keeps at most 1 MiB of labels of a small body whose exemplars repeat a long series", () => {
  const attributes = Array.from({ length: 30 }, (_, index) => attribute(`k${index}`, "v".repeat(1000)));
  const metric = counter(
    Array.from({ length: 1000 }, () => exemplar({ asInt: "1" })),
    { attributes },
  );
  const { exemplars, dropped } = convert(metric);
  expect(exemplars.length).toBeLessThan(36);
  expect(dropped).toEqual({ exemplar_limit: 1000 - exemplars.length });
});

test.each([{ length: 1 }, [null], "x", [{ ...exemplar({}), filteredAttributes: 5 }]])(
  "counts an unreadable exemplar and stores its point: %j",
  (exemplars) => {
    const { texts, dropped } = convert(counter(exemplars));
    expect([Buffer.concat(texts).toString(), dropped]).toEqual([
      Buffer.concat(convert(counter([])).texts).toString(),
      { exemplar_malformed: 1 },
    ]);
  },
);
