// Histograms as exposition text, from the OpenTelemetry specification, compatibility/prometheus_and_openmetrics.md.
import { describe, expect, it } from "vitest";
import { attributes, convert, exponential, exponentialBounds, histogram, series } from "./exposition.fixture.ts";

describe("histograms", () => {
  it("have cumulative buckets, +Inf, sum and count", () => {
    const point = {
      attributes: attributes({ a: "x" }),
      count: "10",
      sum: 12.5,
      min: 0,
      max: 9,
      bucketCounts: ["1", "2", "0", "7"],
      explicitBounds: [0.5, 1, 2.5],
    };
    expect(convert([histogram(point)]).lines).toEqual(
      [
        'h_seconds_bucket{a="x",le="0.5"} 1',
        'h_seconds_bucket{a="x",le="1"} 3',
        'h_seconds_bucket{a="x",le="2.5"} 3',
        'h_seconds_bucket{a="x",le="+Inf"} 10',
        'h_seconds_sum{a="x"} 12.5',
        'h_seconds_count{a="x"} 10',
      ].map((line) => `${line} 1763714400123`),
    );
  });

  it("without a sum have none, and without buckets only +Inf", () => {
    expect(series([histogram({ count: "3" })])).toEqual(['h_seconds_bucket{le="+Inf"}', "h_seconds_count"]);
  });

  it("keep counts beyond 2^53 exact", () => {
    const { lines } = convert([
      histogram({ count: "18446744073709551615", bucketCounts: ["9007199254740993", "9223372036854775807"], explicitBounds: [1] }),
    ]);
    expect(lines[0]).toBe('h_seconds_bucket{le="1"} 9007199254740993 1763714400123');
    expect(lines[1]).toContain("18446744073709551615");
  });

  it("with +Inf as the last bound have it once, with the number of all values", () => {
    // As the SDKs for Swift and Go send it.
    const { lines } = convert([histogram({ count: "6", bucketCounts: ["1", "2", "3", "0"], explicitBounds: [1, 2, "Infinity"] })]);
    const bucket = (le: string, count: number): string => `h_seconds_bucket{le="${le}"} ${count} 1763714400123`;
    expect(lines).toEqual([bucket("1", 1), bucket("2", 3), bucket("+Inf", 6), "h_seconds_count 6 1763714400123"]);
  });

  it("have the buckets of the scraped program even if those decrease", () => {
    // Of `le="1"} 5`, `le="2"} 4`, `le="4"} 7`, as the collector sends it.
    const bucketCounts = ["5", "18446744073709551615", "3", "0"];
    const { lines } = convert([histogram({ count: "7", bucketCounts, explicitBounds: [1, 2, 4] })]);
    expect(lines.map((line) => line.split(" ")[1])).toEqual(["5", "4", "7", "7", "7"]);
  });

  it.each([
    ["too few counts", { bucketCounts: ["1", "2"], explicitBounds: [1, 2] }],
    ["falling bounds", { bucketCounts: ["1", "2", "3"], explicitBounds: [2, 1] }],
    ["equal bounds", { bucketCounts: ["1", "2", "3"], explicitBounds: [2, 2] }],
    ["a bound that is no number", { bucketCounts: ["1", "2"], explicitBounds: ["NaN"] }],
    ["a bound of -Infinity", { bucketCounts: ["1", "2", "0"], explicitBounds: ["-Infinity", 2] }],
    ["two bounds of +Infinity", { bucketCounts: ["1", "2", "0"], explicitBounds: ["Infinity", "Infinity"] }],
    ["a negative count", { bucketCounts: ["-1", "2"], explicitBounds: [1] }],
    ["a negative number of values", { count: "-3" }],
  ])("with %s are counted and left out", (_, point) => {
    expect(convert([histogram({ count: "3", ...point })])).toEqual({ lines: [], dropped: { malformed_point: 1 } });
  });

  it.each([
    [{ bucketCounts: [3, 0], explicitBounds: [-10] }, ["-10.000000000000002", "-10"]],
    [{ bucketCounts: [3, 0], explicitBounds: [-10], min: -16 }, ["-32", "-10"]],
    [{ bucketCounts: [3, 0], explicitBounds: [-10], min: -4 }, ["-10.000000000000002", "-10"]],
    [{ bucketCounts: [0, 3], explicitBounds: [-10], min: -4 }, ["-10"]],
    [{ bucketCounts: [3, 0], explicitBounds: [0] }, ["0"]],
    [{ bucketCounts: [3, 0], explicitBounds: [-Number.MAX_VALUE] }, ["-17976931348623157".padEnd(310, "0")]],
    [{ bucketCounts: [3], explicitBounds: [] }, []],
  ])("have a bucket below values if a bucket ends below 0: %j", (point, bounds) => {
    const written = series([histogram({ count: 3, ...point })]).flatMap((line) => /_bucket\{le="(.*)"/.exec(line)?.[1] ?? []);
    expect(written).toEqual([...bounds, "+Inf"]);
  });

  it("rename a point's own `le`", () => {
    expect(series([histogram({ count: "1", attributes: attributes({ le: "mine" }) })])[0]).toBe(
      'h_seconds_bucket{exported_le="mine",le="+Inf"}',
    );
  });
});

describe("exponential histograms", () => {
  it("have the upper bounds of their scale", () => {
    const point = { scale: 0, count: "6", sum: 9, positive: { offset: -1, bucketCounts: ["1", "2", "3"] } };
    expect(exponentialBounds(point)).toEqual({ "0.5": 0, "1": 1, "2": 3, "4": 6, "+Inf": 6 });
    expect(series([exponential(point)]).slice(-2)).toEqual(["e_sum", "e_count"]);
  });

  it("write the negative side first and the zero bucket between", () => {
    const point = {
      scale: 0,
      count: "10",
      zeroCount: "4",
      zeroThreshold: 0.25,
      negative: { offset: 0, bucketCounts: ["1", "2"] },
      positive: { offset: 0, bucketCounts: ["3"] },
    };
    expect(exponentialBounds(point)).toEqual({ "-4": 0, "-2": 2, "-1": 3, "-0.25": 3, "0.25": 7, "1": 7, "2": 10, "+Inf": 10 });
  });

  it("write no empty buckets above the used ones, which would become stale when the sender omits them", () => {
    const positive = { offset: 0, bucketCounts: ["0", "1", "0", 2, 0, "0"] };
    const negative = { offset: 0, bucketCounts: ["0", "0"] };
    expect(exponentialBounds({ scale: 0, count: "3", positive, negative })).toEqual({ "2": 0, "4": 1, "8": 1, "16": 3, "+Inf": 3 });
    const wide = { offset: 0, bucketCounts: ["1", ...Array.from({ length: 400 }, () => "0")] };
    expect(exponentialBounds({ scale: 2, count: "1", positive: wide })).toEqual({ "1": 0, "1.189207115002721": 1, "+Inf": 1 });
    expect(exponentialBounds({ scale: 0, count: "0", positive: { bucketCounts: ["0"] } })).toEqual({ "+Inf": 0 });
  });

  it("with a fine scale use bounds that coarser scales also have", () => {
    const bucketCounts = Array.from({ length: 64 }, () => "1");
    const fine = exponentialBounds({ scale: 5, count: "64", positive: { offset: 0, bucketCounts } });
    const coarse = exponentialBounds({ scale: 1, count: "64", positive: { offset: 0, bucketCounts: ["16", "16", "16", "16"] } });
    expect(Object.keys(fine)).toEqual(expect.arrayContaining(Object.keys(coarse)));
    expect(Object.keys(fine)).toHaveLength(1 + 8 + 1);
    for (const [le, count] of Object.entries(coarse)) expect(fine[le]).toBe(count);
  });

  it("never have more than 160 bounds, whatever their range", () => {
    const bucketCounts = Array.from({ length: 1000 }, () => "1");
    const found = exponentialBounds({ scale: 2, count: "1000", positive: { offset: -500, bucketCounts } });
    expect(Object.keys(found).length).toBeLessThanOrEqual(161);
    expect(Object.values(found).at(-1)).toBe(1000);
  });

  it("count negative buckets towards the 160 bounds", () => {
    const side = { offset: 0, bucketCounts: Array.from({ length: 100 }, () => "1") };
    const found = exponentialBounds({ scale: 2, count: "200", positive: side, negative: side });
    expect(Object.keys(found).length).toBeLessThanOrEqual(161);
    expect(Object.values(found).at(-1)).toBe(200);
  });

  it.each([
    [
      { scale: -11, positive: { offset: 0, bucketCounts: ["1"] } },
      { "1": 0, "+Inf": 1 },
    ],
    [
      { scale: 0, positive: { offset: 1023, bucketCounts: ["1"] } },
      { ["898846567431158".padEnd(308, "0")]: 0, "+Inf": 1 },
    ],
    [
      { scale: 0, zeroThreshold: 0.5, zeroCount: 1, positive: { offset: -2, bucketCounts: [1, 1, 1] } },
      { "-0.5": 0, "0.5": 2, "1": 3, "2": 4, "+Inf": 1 },
    ],
    [
      { scale: 0, positive: { offset: -2000, bucketCounts: ["1"] } },
      { "0": 1, "+Inf": 1 },
    ],
    [
      { scale: 20, positive: { offset: 1 << 20, bucketCounts: ["1"] } },
      { "2": 0, "2.378414230005442": 1, "+Inf": 1 },
    ],
    [
      { scale: -2147483648, positive: { offset: -1, bucketCounts: ["1"] } },
      { "0": 0, "1": 1, "+Inf": 1 },
    ],
    [
      { scale: 2147483647, positive: { offset: -5, bucketCounts: ["1"] } },
      { "0.8408964152537145": 0, "1": 1, "+Inf": 1 },
    ],
  ])("stay within the range of a number: %j", (point, expected) => {
    expect(exponentialBounds({ count: "1", ...point })).toEqual(expected);
  });

  const counts = (length: number, count = "1"): string[] => Array.from({ length }, () => count);

  it.each([
    { scale: -1e300, positive: { bucketCounts: counts(200) } },
    { scale: 2 ** 31, positive: { bucketCounts: counts(200) } },
    { scale: 0.5, positive: { bucketCounts: counts(1) } },
    { scale: 0, positive: { offset: 2 ** 31, bucketCounts: counts(1) } },
    { scale: 0, negative: { offset: "99999999999", bucketCounts: counts(1) } },
    { scale: 0, positive: { offset: "1e5", bucketCounts: counts(1) } },
    { scale: 0, zeroCount: 1, zeroThreshold: "NaN" },
    { scale: 0, zeroCount: 1, zeroThreshold: -1 },
    { scale: 0, zeroCount: 1, zeroThreshold: "Infinity" },
  ])("with a scale or offset that is no 32-bit integer, or an invalid zero threshold, are counted and left out, case %#", (point) => {
    expect(convert([exponential({ count: "1", ...point })])).toEqual({ lines: [], dropped: { malformed_point: 1 } });
  });

  it("accept scale and offset as digits, as protobuf's JSON format allows", () => {
    const point = (offset: number | string) => ({ scale: 0, count: "2", positive: { offset, bucketCounts: ["1", "1"] } });
    expect(exponentialBounds({ ...point("3"), scale: "0" })).toEqual(exponentialBounds(point(3)));
    const far = exponentialBounds({ scale: 20, count: "1", positive: { offset: "99999999", bucketCounts: counts(1) } });
    expect(Object.values(far)).toEqual([0, 1, 1]);
  });

  it("merge counts beyond 2^53 exactly", () => {
    const bucketCounts = ["9007199254740991", "1", "18446744073709551615", "0", "7"];
    const { lines } = convert([exponential({ scale: 20, count: "1", positive: { bucketCounts } })]);
    expect(lines[1]).toMatch(/^e_bucket\{le="1\.189207115002721"\} 18455751272964292614 /);
  });

  it("with 100,000 counts are summed once, not again for each coarser scale", () => {
    const point = { scale: 2, count: "1", positive: { offset: 0, bucketCounts: counts(100_000, "9007199254740993") } };
    const cpuMs = (scale: number): number => {
      const from = process.threadCpuUsage();
      exponentialBounds({ ...point, scale });
      const { user, system } = process.threadCpuUsage(from);
      return (user + system) / 1000;
    };
    exponentialBounds(point);
    // The scale 20 is one bucket at once, the scale 2 is halved ten times.
    const once = Math.min(cpuMs(20), cpuMs(20), cpuMs(20));
    expect(Math.min(cpuMs(2), cpuMs(2), cpuMs(2))).toBeLessThan(2 * once);
  });
});
