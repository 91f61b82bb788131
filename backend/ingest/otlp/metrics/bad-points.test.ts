// One metric or data point that cannot be read costs one: all others of its body are converted, and the answer names it.
import { expect, test } from "vitest";
import { bytesField, encodeProtobuf } from "../protobuf/encode.fixture.ts";
import { successBody } from "../answers.ts";
import { convertMetrics, type ConvertedMetrics } from "./convert-metrics.ts";

const T = "1795262400123456789";
const attribute = (key: unknown, value: unknown = { stringValue: "x" }) => ({ key, value });
const point = (index: number) => ({ timeUnixNano: T, asInt: String(index), attributes: [attribute("n", { stringValue: String(index) })] });
const gauge = (dataPoints: unknown, name: unknown = "load") => ({ name, gauge: { dataPoints } });
const documentOf = (...metrics: unknown[]) => ({ resourceMetrics: [{ scopeMetrics: [{ metrics }] }] });
const GOOD = Array.from({ length: 1000 }, (_, index) => point(index));
const text = ({ texts }: ConvertedMetrics): string => Buffer.concat(texts).toString();
const convert = (document: object): ConvertedMetrics => convertMetrics({ body: Buffer.from(JSON.stringify(document)) });
const EXPECTED = text(convert(documentOf(gauge(GOOD))));
const AT = "resourceMetrics[0].scopeMetrics[0].metrics[0]";
const deep = (levels: number): string => `{"arrayValue":{"values":[`.repeat(levels) + "{}" + "]}}".repeat(levels);

test.each<[string, unknown, string]>([
  ["a point that is none", 5, "must be an object"],
  ["a point that is null", null, "must be an object"],
  ["attributes that are no list", { ...point(0), attributes: { a: 1 } }, "attributes must be a list"],
  ["an attribute that is null", { ...point(0), attributes: [null] }, "wrong type"],
  ["a key that is a number", { ...point(0), attributes: [attribute(5)] }, "wrong type"],
  ["a time with its name in protobuf", { ...point(0), time_unix_nano: T }, "time_unix_nano: OTLP/JSON names this field timeUnixNano"],
  ["a value with its name in protobuf", { ...point(0), attributes: [attribute("a", { int_value: 1 })] }, ".value.int_value: OTLP"],
  ["an exemplar with a name of protobuf", { ...point(0), exemplars: [{ as_int: 1 }] }, "as_int: OTLP"],
  ["a list that is none in an attribute", { ...point(0), attributes: [attribute("a", { arrayValue: { values: 5 } })] }, "must be a list"],
])("%s drops one point", (_name, bad, problem) => {
  const converted = convert(documentOf(gauge([...GOOD.slice(0, 600), bad, bad, ...GOOD.slice(600)])));
  expect(text(converted)).toBe(EXPECTED);
  expect([converted.dropped, converted.faults?.first[0]]).toEqual([
    { invalid_record: 2 },
    expect.stringMatching(`^${RegExp.escape(`${AT}.dataPoints[600]: `)}.*${problem}`),
  ]);
});

test.each<[string, unknown, number]>([
  ["that is null", null, 1],
  ["whose name is a number", gauge([point(1), point(2)], 5), 2],
  ["whose points are no list", gauge({ length: 3 }), 1],
  ["of an unknown kind", { name: "a", counter: { dataPoints: [point(1)] } }, 1],
  ["of a kind of an early OTLP", { name: "a", intGauge: { dataPoints: [{ timeUnixNano: T, value: "1" }] } }, 1],
  ["whose kind is a list", { name: "a", gauge: [point(1)] }, 1],
  ["whose kind is a text", { name: "a", gauge: "x" }, 1],
  ["whose points have another name", { name: "a", gauge: { points: [point(1)] } }, 1],
  ["whose points have their name in protobuf", { name: "a", gauge: { data_points: [point(1)] } }, 1],
])("a metric %s drops its points", (_name, bad, points) => {
  const converted = convert(documentOf(bad, gauge(GOOD)));
  expect([text(converted), converted.dropped]).toEqual([EXPECTED, { invalid_record: points }]);
});

test("a metric without points is no fault, whatever else it has", () => {
  const metadata = [attribute("prometheus.type", { stringValue: "gauge" })];
  const empty = [
    { name: "a" },
    { name: "a", gauge: null },
    { name: "a", gauge: {}, metadata },
    { name: "a", sum: { dataPoints: [] }, future: {} },
  ];
  const converted = convert(documentOf(...empty, gauge(GOOD)));
  expect([text(converted), converted.dropped]).toEqual([EXPECTED, {}]);
});

test("a resource with an attribute of a wrong type drops its points", () => {
  const bad = { resource: { attributes: [null] }, scopeMetrics: [{ metrics: [gauge(GOOD.slice(0, 7))] }, 5] };
  const converted = convert({ resourceMetrics: [bad, ...documentOf(gauge(GOOD)).resourceMetrics] });
  expect([text(converted), converted.dropped]).toEqual([EXPECTED, { invalid_record: 7 }]);
});

test("a name of protobuf in a resource drops its points, and one in an unknown field drops none", () => {
  const bad = { resource: { attributes: [attribute("a", { int_value: 1 })] }, scopeMetrics: [{ metrics: [gauge(GOOD.slice(0, 7))] }] };
  const good = { future: { string_value: 1 }, ...documentOf(gauge(GOOD)).resourceMetrics[0] };
  const converted = convert({ resourceMetrics: [bad, { scope_metrics: [] }, good] });
  expect([text(converted), converted.dropped]).toEqual([EXPECTED, { invalid_record: 8 }]);
});

const TWO_KINDS = { name: "a", gauge: { dataPoints: [point(1)] }, sum: { dataPoints: [point(2)] } };

test("a metric of two kinds drops its points, and a point with two values drops one", () => {
  const converted = convert(documentOf(TWO_KINDS, gauge([{ ...point(1), asDouble: 5 }, ...GOOD])));
  expect([text(converted), converted.dropped]).toEqual([EXPECTED, { invalid_record: 2, malformed_point: 1 }]);
  expect(converted.faults?.first).toEqual([`${AT}: a metric has one kind, but several are set`]);
});

test.each<[string, string, string]>([
  ['{"resourceMetrics":[', '],"resourceMetrics":[]}', "resourceMetrics"],
  ['{"resourceMetrics":[{"scopeMetrics":[],"scopeMetrics":[', "]}]}", "resourceMetrics[0].scopeMetrics"],
  [
    '{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"gauge":{"dataPoints":[',
    String.raw`],"\u0064ataPoints":[]}}]}]}]}`,
    `${AT}.gauge.dataPoints`,
  ],
  [
    '{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"gauge":{"dataPoints":[{"attributes":[],"attributes":[',
    "]}]}}]}]}]}",
    `${AT}.gauge.dataPoints[0].attributes`,
  ],
])("a field that is given twice is refused, whatever its place: %s", (head, tail, path) => {
  expect(() => convertMetrics({ body: Buffer.from(head + tail) })).toThrow(
    expect.objectContaining({ code: "invalid_payload", message: `${path}: is given twice` }),
  );
});

test("names that are given twice in an unknown field are ignored", () => {
  const body = JSON.stringify(documentOf({ ...gauge(GOOD), future: 0 })).replace('"future":0', '"future":{"name":1,"name":2},"future":0');
  expect(text(convertMetrics({ body: Buffer.from(body) }))).toBe(EXPECTED);
});

test("integers of attributes and times keep their digits, as numbers too", () => {
  const numbers = ["9007199254740992", "9007199254740993"];
  const points = numbers.map((id) => ({
    timeUnixNano: "1795262400123999999",
    asInt: "1",
    attributes: [attribute("id", { intValue: id })],
  }));
  const texts = JSON.stringify(documentOf(gauge(points)));
  const converted = text(convertMetrics({ body: Buffer.from(texts.replaceAll(/"(\d{16,})"/g, "$1")) }));
  expect(converted).toBe(text(convertMetrics({ body: Buffer.from(texts) })));
  expect(converted).toContain('{id="9007199254740993"} 1 1795262400123');
});

test("a point that is nested too deeply drops one point", () => {
  const body = JSON.stringify(documentOf(gauge([{ ...point(0), attributes: [attribute("a", "DEEP")] }, ...GOOD])));
  const converted = convertMetrics({ body: Buffer.from(body.replace('"DEEP"', deep(30_000))) });
  expect([text(converted), converted.faults?.first]).toEqual([EXPECTED, [`${AT}.dataPoints[0]: is nested too deeply`]]);
});

test("malformed protobuf in a point drops one point, in a metric its points", () => {
  const request = (...metrics: Buffer[]) => bytesField(1, bytesField(2, Buffer.concat(metrics)));
  const metric = (points: Buffer) => bytesField(2, Buffer.concat([bytesField(1, Buffer.from("load")), bytesField(5, points)]));
  const good = encodeProtobuf("metrics", documentOf(gauge([point(1)])));
  const broken = bytesField(1, Buffer.from([0x3a, 0x7f]));
  const body = Buffer.concat([good, request(metric(broken), bytesField(2, Buffer.from([0x0a, 0x7f])))]);
  const converted = convertMetrics({ body, encoding: "protobuf" });
  expect(text(converted)).toBe(text(convert(documentOf(gauge([point(1)])))));
  expect(converted.faults).toMatchObject({
    leftOut: 2,
    first: [
      "resourceMetrics[1].scopeMetrics[0].metrics[0].dataPoints[0]: it ends within a value",
      "resourceMetrics[1].scopeMetrics[0].metrics[1]: it ends within a value",
    ],
  });
});

test("the response names the first point of each reason", () => {
  const { dropped, faults } = convert(documentOf(gauge([point(1), { timeUnixNano: T }, { asInt: "1", timeUnixNano: "x" }])));
  expect(JSON.parse(successBody("metrics", { accepted: 1, dropped, ...(faults && { faults }) }, "json") as string)).toEqual({
    partialSuccess: {
      rejectedDataPoints: "2",
      errorMessage: `not stored: 1 malformed_point (${AT}.dataPoints[1]); 1 bad_time: must be nanoseconds since 1970 (${AT}.dataPoints[2])`,
    },
  });
});

test.each([
  ['{"resource_metrics":[]}', "resource_metrics"],
  ['{"resourceSpans":[{}]}', "resourceSpans: is not a field"],
])("rejects a body with the fields of another message: %s", (body, named) => {
  expect(() => convertMetrics({ body: Buffer.from(body) })).toThrow(named);
});

const scoped = (...scopes: unknown[][]) => ({ resourceMetrics: [{ scopeMetrics: scopes.map((metrics) => ({ metrics })) }] });
const counter = (dataPoints: unknown, name: string, isMonotonic = true) => ({
  name,
  sum: { aggregationTemporality: 2, isMonotonic, dataPoints },
});

test("points of two scopes that become one series are reported, because the store keeps only one of the two", () => {
  const converted = convert(
    scoped([gauge([point(1)], "other"), counter([point(1), point(2)], "calls")], [counter([point(2), point(3)], "calls")]),
  );
  expect(converted.dropped).toEqual({ duplicate_series: 1 });
  const { dropped, faults } = converted;
  const result = { accepted: 4, dropped, ...(faults && { faults }) };
  const answer = JSON.parse(successBody("metrics", result, "json") as string) as { partialSuccess: object };
  expect(answer.partialSuccess).toEqual({
    rejectedDataPoints: "1",
    errorMessage:
      "not stored: 1 duplicate_series: another metric of the resource has this name and these attributes; rename one of them with a view " +
      "(resourceMetrics[0].scopeMetrics[1].metrics[0].dataPoints[0])",
  });
});

test("metrics of one name that stay different series are not reported", () => {
  const later = { ...point(1), timeUnixNano: String(BigInt(T) + 10_000_000_000n) };
  for (const document of [
    // Merged by a collector from two exports.
    scoped([counter([point(1)], "calls"), counter([later], "calls")]),
    scoped([counter([point(1)], "calls")], [counter([point(2)], "calls")]),
    scoped([counter([point(1)], "calls")], [gauge([point(1)], "calls")]),
    scoped([{ ...gauge([point(1)]), unit: "s" }], [{ ...gauge([point(1)]), unit: "By" }]),
  ])
    expect(convert(document).dropped).toEqual({});
});

test("a quantile without observations, NaN, is no lost point", () => {
  const summary = {
    name: "t",
    summary: { dataPoints: [{ timeUnixNano: T, count: "0", sum: 0, quantileValues: [{ quantile: 0.5, value: "NaN" }] }] },
  };
  const converted = convert(documentOf(summary));
  expect([text(converted), converted.dropped]).toEqual(["t_sum 0 1795262400123\nt_count 0 1795262400123\n", {}]);
});

test.each([
  ['{"resourceMetrics":[],}', "the body is not JSON: unexpected character at byte 22"],
  ['{"resourceMetrics":[', "the body is not JSON: unexpected end of input at byte 20"],
  ['{"resourceMetrics":[]}\n{"resourceMetrics":[]}', "the body is not JSON: something follows the document at byte 23"],
])("%j is refused with the place of the error", (body, message) => {
  expect(() => convertMetrics({ body: Buffer.from(body) })).toThrow(message);
});

test("a histogram whose time is not kept counts as one point, and is named", () => {
  const histogram = (ageMs: number) => ({
    timeUnixNano: String(BigInt(T) - BigInt(ageMs) * 1_000_000n),
    count: "3",
    sum: 3,
    bucketCounts: ["1", "1", "1"],
    explicitBounds: [1, 2],
  });
  const points = [histogram(0), histogram(86_400_000), histogram(-86_400_000)];
  const document = documentOf({ name: "h", histogram: { aggregationTemporality: 2, dataPoints: points } });
  const nowMs = Number(T.slice(0, -6));
  const keptTimes = { oldestMs: nowMs - 3_600_000, newestMs: nowMs + 3_600_000 };
  const converted = convertMetrics({ body: Buffer.from(JSON.stringify(document)), keptTimes });
  expect(text(converted).split("\n")).toHaveLength(6);
  expect(converted.dropped).toEqual({ before_retention: 1, too_far_ahead: 1 });
  expect(converted.faults?.others).toEqual({ before_retention: `${AT}.dataPoints[1]`, too_far_ahead: `${AT}.dataPoints[2]` });
});

test("a name that is a list nested without end costs its own metric", () => {
  const deepName = JSON.stringify(documentOf(gauge([point(1)], "NAME"), gauge(GOOD), gauge(GOOD.slice(0, 1), "x"))).replace(
    '"NAME"',
    "[".repeat(30_000) + "]".repeat(30_000),
  );
  const converted = convertMetrics({ body: Buffer.from(deepName) });
  expect([converted.dropped, text(converted).startsWith(EXPECTED)]).toEqual([{ invalid_record: 1 }, true]);
});
