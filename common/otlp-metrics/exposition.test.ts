// Tables made from the OpenTelemetry specification, compatibility/prometheus_and_openmetrics.md, "OTLP Metric points to Prometheus". Names,
// labels and histograms: see the tests next to their files.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { attributes, convert, gauge, LARGE, series, TIME } from "./exposition.fixture.ts";
import { MetricsConverter } from "./converter.ts";
import type { AnyValue, Metric } from "./document.ts";
import { stub } from "../../test/fixtures/stub.ts";

describe("number points", () => {
  it("keep all digits of an integer, the time in milliseconds, and every double", () => {
    const values = [{ asInt: "9007199254740993" }, { asInt: "-9223372036854775808" }, { asInt: 7 }, { asDouble: 0.1 }, { asDouble: 1e300 }];
    const special = [{ asDouble: "NaN" }, { asDouble: "Infinity" }, { asDouble: "-Infinity" }, { asDouble: "2.5" }, { asDouble: 0 }];
    const { lines, dropped } = convert([
      { name: "m", gauge: { dataPoints: [...values, ...special].map((value) => ({ timeUnixNano: TIME, ...value })) } },
    ]);
    expect(lines.map((line) => line.split(" "))).toEqual(
      ["9007199254740993", "-9223372036854775808", "7", "0.1", "1e+300", "NaN", "+Inf", "-Inf", "2.5", "0"].map((value) => [
        "m",
        value,
        "1763714400123",
      ]),
    );
    expect(dropped).toEqual({});
  });

  it("without a time are written without one", () => {
    const dataPoints = [{ asInt: "1" }, { timeUnixNano: "0", asInt: "2" }, { timeUnixNano: 0, asInt: "3" }];
    expect(convert([{ name: "m", gauge: { dataPoints } }]).lines).toEqual(["m 1", "m 2", "m 3"]);
  });

  it("with null in a field are the same as without it", () => {
    const nulls = { stringValue: null, boolValue: null, arrayValue: null, kvlistValue: null, bytesValue: null, doubleValue: null };
    const values = (none: object): object[] => [
      { asInt: "1", attributes: [{ key: "a", value: { intValue: "5", ...none } }] },
      { asInt: "2", attributes: [{ key: "a", value: { arrayValue: { values: [{ intValue: 0, ...none }, none] } } }] },
      { asDouble: "2.5", ...none },
    ];
    const metrics = (none: object, point: object, rest: object): Metric[] =>
      stub([{ name: "m", gauge: { dataPoints: values(none).map((value) => ({ ...point, ...value })) }, ...rest }]);
    const point = { timeUnixNano: null, asInt: null, asDouble: null, flags: null, exemplars: null };
    const rest = { unit: null, sum: null, histogram: null, exponentialHistogram: null, summary: null };
    const { lines, dropped } = convert(metrics(nulls, point, rest));
    expect([lines, dropped]).toEqual([['m{a="5"} 1', 'm{a="[0,null]"} 2', "m 2.5"], {}]);
    expect(convert(metrics({}, {}, {})).lines).toEqual(lines);
  });

  it("with NoRecordedValue are left out and not counted as lost", () => {
    const dataPoints = [
      { timeUnixNano: TIME, flags: 1 },
      { timeUnixNano: TIME, flags: 1, asDouble: 0 },
      { timeUnixNano: TIME, flags: 2, asInt: "5" },
    ];
    expect(convert([{ name: "m", gauge: { dataPoints } }])).toEqual({ lines: ["m 5 1763714400123"], dropped: {} });
  });

  it("that are malformed are counted, and the others are converted", () => {
    const dataPoints = [
      { timeUnixNano: TIME },
      { timeUnixNano: TIME, asInt: "1.5" },
      { timeUnixNano: TIME, asDouble: "abc" },
      { timeUnixNano: "yesterday", asInt: "1" },
      { timeUnixNano: "1763714400", asInt: "1" },
      { timeUnixNano: "-5000000000000000000", asInt: "1" },
      { timeUnixNano: TIME, asInt: "8" },
    ];
    const { lines, dropped } = convert([{ name: "m", gauge: { dataPoints } }]);
    expect(lines).toEqual(["m 8 1763714400123"]);
    expect(dropped).toEqual({ malformed_point: 3, bad_time: 3 });
  });

  it("of a monotonic sum become a counter, of another sum a gauge", () => {
    const dataPoints = [{ timeUnixNano: TIME, asInt: "1" }];
    const sum = (isMonotonic?: boolean) => ({ name: "jobs", sum: { aggregationTemporality: 2, isMonotonic, dataPoints } });
    expect(series([sum(true), sum(false), sum()])).toEqual(["jobs_total", "jobs", "jobs"]);
  });

  it("with delta or unspecified temporality are counted and left out", () => {
    const dataPoints = [
      { timeUnixNano: TIME, asInt: "1" },
      { timeUnixNano: TIME, asInt: "2" },
    ];
    const metrics: Metric[] = [
      { name: "a", sum: { aggregationTemporality: 1, isMonotonic: true, dataPoints } },
      { name: "b", sum: { aggregationTemporality: "AGGREGATION_TEMPORALITY_DELTA", dataPoints } },
      { name: "c", histogram: { aggregationTemporality: 1, dataPoints } },
      { name: "d", sum: { isMonotonic: true, dataPoints } },
      { name: "e", exponentialHistogram: { aggregationTemporality: 0, dataPoints } },
      { name: "f", sum: { aggregationTemporality: "AGGREGATION_TEMPORALITY_CUMULATIVE", dataPoints: [dataPoints[1] ?? {}] } },
    ];
    expect(convert(metrics)).toEqual({ lines: ["f 2 1763714400123"], dropped: { delta: 6, unspecified_temporality: 4 } });
  });
});

describe("summaries", () => {
  it("have quantiles, sum and count", () => {
    const quantileValues = [{ value: 1 }, { quantile: 0.99, value: 4.5 }, { quantile: 1, value: "NaN" }];
    const { lines } = convert([
      { name: "s", unit: "s", summary: { dataPoints: [{ timeUnixNano: TIME, count: "3", sum: 6, quantileValues }] } },
    ]);
    expect(lines).toEqual(
      ['s_seconds{quantile="0"} 1', 's_seconds{quantile="0.99"} 4.5', "s_seconds_sum 6", "s_seconds_count 3"].map(
        (line) => `${line} 1763714400123`,
      ),
    );
  });

  it("with a quantile above 1 are counted and left out", () => {
    const dataPoints = [{ timeUnixNano: TIME, count: "3", quantileValues: [{ quantile: 50, value: 1 }] }];
    expect(convert([{ name: "s", summary: { dataPoints } }])).toEqual({ lines: [], dropped: { malformed_point: 1 } });
  });
});

function ofMetric(metric: object): string {
  return JSON.stringify({ resourceMetrics: [{ scopeMetrics: [{ metrics: [{ name: "m", ...metric }] }] }] });
}

describe("documents", () => {
  it.each([
    "{",
    "[]]",
    "null",
    '{"resourceMetrics":5}',
    '{"resourceMetrics":[null]}',
    '{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":5,"gauge":{"dataPoints":[{}]}}]}]}]}',
    '{"resourceMetrics":"abc"}',
    '{"resourceMetrics":[{"scopeMetrics":"abc"}]}',
    '{"resourceMetrics":[{"scopeMetrics":[{"metrics":"abc"}]}]}',
    '{"resourceMetrics":[{"resource":{"attributes":""}}]}',
    ofMetric({ sum: { aggregationTemporality: 1, dataPoints: { length: "x" } } }),
    ofMetric({ gauge: { dataPoints: { length: 1, 0: {} } } }),
    ofMetric({ gauge: { dataPoints: "abc" } }),
    ofMetric({
      gauge: {
        dataPoints: [
          { asInt: "1", attributes: [] },
          { asInt: "2", attributes: { length: 0 } },
        ],
      },
    }),
    ofMetric({ histogram: { aggregationTemporality: 2, dataPoints: [{ bucketCounts: { length: 0 } }] } }),
    ofMetric({ histogram: { aggregationTemporality: 2, dataPoints: [{ bucketCounts: "12", explicitBounds: [1] }] } }),
    ofMetric({ histogram: { aggregationTemporality: 2, dataPoints: [{ bucketCounts: [1], explicitBounds: { length: 0 } }] } }),
    ofMetric({ exponentialHistogram: { aggregationTemporality: 2, dataPoints: [{ positive: { bucketCounts: "12" } }] } }),
  ])("that are malformed are rejected: %s", (json) => {
    expect(() => [...new MetricsConverter(() => {}).convert(Buffer.from(json), LARGE)]).toThrow(/not an OTLP/);
  });

  it.each([
    "{}",
    '{"resourceMetrics":[]}',
    '{"resourceMetrics":[{}]}',
    '{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"x"}]}]}]}',
  ])("without points cause no request: %s", (json) => {
    expect([...new MetricsConverter(() => {}).convert(Buffer.from(json), LARGE)]).toEqual([]);
  });

  it("that would expand without limit are rejected", () => {
    const resource = { attributes: attributes({ long: "v".repeat(1000) }) };
    const dataPoints = Array.from({ length: 2000 }, () => ({ timeUnixNano: TIME, asInt: "1" }));
    const json = JSON.stringify({ resourceMetrics: [{ resource, scopeMetrics: [{ metrics: [{ name: "m", gauge: { dataPoints } }] }] }] });
    expect(() => [...new MetricsConverter(() => {}).convert(Buffer.from(json), 200_000)]).toThrow(/more than 1600000 bytes/);
  });

  it("are split into requests below the limit at line ends, always at the same lines", () => {
    const dataPoints = Array.from({ length: 2000 }, (_, index) => ({
      attributes: attributes({ index: `ü${index}` }),
      timeUnixNano: TIME,
      asInt: "1",
    }));
    const json = JSON.stringify({ resourceMetrics: [{ scopeMetrics: [{ metrics: [{ name: "m", gauge: { dataPoints } }] }] }] });
    const converter = new MetricsConverter(() => {});
    const posts = [...converter.convert(Buffer.from(json), 60_000)];
    expect(posts.length).toBeGreaterThan(1);
    for (const post of posts) {
      expect(post.length).toBeLessThanOrEqual(60_000);
      expect(post.toString().endsWith("\n")).toBe(true);
    }
    expect(Buffer.concat(posts).toString().split("\n")).toHaveLength(2001);
    expect([...converter.convert(Buffer.from(json), 60_000)]).toEqual(posts);
  });
});

it("rejects a document of millions of empty objects, because parsing multiplies its size by thirty", () => {
  const document = (count: number): Buffer => Buffer.from(`{"resourceMetrics":[${"{},".repeat(count)}{}]}`);
  const convert = (json: Buffer): Buffer[] => [...new MetricsConverter(() => {}).convert(json, LARGE)];
  expect(() => convert(document(1_600_000))).toThrow(expect.objectContaining({ name: "BodyError", kind: "too_large" }));
  expect(convert(document(1_000_000))).toEqual([]);
});

it("replaces invalid UTF-8 with U+FFFD in its label, and keeps the rest of the batch", () => {
  const metrics = [
    { name: "m", gauge: { dataPoints: [{ attributes: attributes({ a: "#" }), asInt: "1" }] } },
    { name: "n", gauge: { dataPoints: [{ asInt: "2" }] } },
  ];
  const json = Buffer.from(JSON.stringify({ resourceMetrics: [{ scopeMetrics: [{ metrics }] }] }));
  json[json.indexOf("#")] = 0xff;
  const lines = Buffer.concat([...new MetricsConverter(() => {}).convert(json, LARGE)]).toString();
  expect(lines).toBe('m{a="\ufffd"} 1\nn 2\n');
});

it("truncates text that a list contains like any other label", () => {
  const value = stub<AnyValue>({ stringValue: ["v".repeat(5000)] });
  const [line = ""] = convert([gauge("m", { a: value })]).lines;
  expect(Buffer.byteLength(line)).toBeLessThan(1200);
});

it("does not cache names and keys that are too long to be stored", () => {
  setFlagsFromString("--expose-gc");
  const gc = runInNewContext("gc") as () => void;
  const converter = new MetricsConverter(() => {});
  const convertLong = (index: number): void => {
    const long = String(index).padStart(200_000, "n");
    const dataPoints = [{ asInt: "1", attributes: [{ key: long, value: { stringValue: "1" } }] }];
    void [...converter.convert(Buffer.from(ofMetric({ name: long, gauge: { dataPoints } })), LARGE)];
    void [...converter.convert(Buffer.from(ofMetric({ name: `m${index}`, unit: long, gauge: { dataPoints: [{ asInt: "1" }] } })), LARGE)];
  };
  gc();
  const before = process.memoryUsage().heapUsed;
  for (let index = 0; index < 100; index += 1) convertLong(index);
  gc();
  // 60 MB with all of them.
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(10_000_000);
});
