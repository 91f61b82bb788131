// Native histograms become the series that the same exponential histogram of OTLP becomes; what cannot be stored is counted by reason.
import { expect, test } from "vitest";
import { exponentialBuckets } from "../../../common/otlp-metrics/histogram-buckets.ts";
import { decompressSnappy } from "../snappy.ts";
import { checkWrite, type CheckedWrite } from "./check-write.ts";
import { encodeHistogram, type TestHistogram, type TestSeries, writeBody } from "./write-request.fixture.ts";
import { WriteRequest, type WriteVersion } from "./write-request.ts";

const NOW = 1_800_000_000_000;
const LIMITS = {
  maxLabels: 37,
  maxNameBytes: 256,
  maxValueBytes: 4096,
  maxLabelBytes: 8192,
  oldestMs: NOW - 3_600_000,
  newestMs: NOW + 3_600_000,
};

function check(series: readonly TestSeries[], version: WriteVersion = 1): CheckedWrite {
  return checkWrite({ body: writeBody(series, version), version, limits: LIMITS });
}

/** The stored series: name with its label `le`, if it has one, and value. */
function storedBy({ bodies }: CheckedWrite): Record<string, number> {
  const stored: Record<string, number> = {};
  for (const body of bodies) {
    const bytes = decompressSnappy(body);
    const request = new WriteRequest(bytes, 1);
    request.eachSeries(() => {
      const { __name__: name = "", le, ...others } = Object.fromEntries(request.labelTexts());
      expect(others).toEqual({ exported_node: "n", job: "j" });
      stored[le === undefined ? name : `${name} ${le}`] = bytes.readDoubleLE(request.valuePositions[0]);
    });
  }
  return stored;
}

const labels = [
  ["__name__", "latency"],
  ["job", "j"],
  ["node", "n"],
] as const;
const histogram = (more: Partial<TestHistogram> = {}): TestHistogram => ({ schema: 3, timeMs: NOW, sum: 12.5, ...more });

/** What the agent would write for the same histogram, sent by OTLP. */
function expectedOf({ schema, sum, zeroCount = 0, zeroThreshold = 0, positive = new Map(), negative = new Map() }: TestHistogram) {
  const side = (buckets: ReadonlyMap<number, number>) => {
    const first = Math.min(...buckets.keys());
    const bucketCounts = Array.from({ length: Math.max(...buckets.keys()) - first + 1 }, (_, at) => buckets.get(first + at) ?? 0);
    return buckets.size === 0 ? {} : { offset: first - 1, bucketCounts };
  };
  const buckets = exponentialBuckets({ scale: schema, zeroCount, zeroThreshold, positive: side(positive), negative: side(negative) }) ?? [];
  const count = [...positive.values(), ...negative.values()].reduce((total: number, n: number) => total + n, zeroCount);
  return {
    ...Object.fromEntries(buckets.map(({ le, count: n }) => [`latency_bucket ${/"(.*)"/.exec(le)?.[1] ?? ""}`, Number(n)])),
    "latency_bucket +Inf": count,
    latency_sum: sum,
    latency_count: count,
  };
}

const CASES: readonly TestHistogram[] = [
  histogram({ positive: new Map([[1, 5]]) }),
  histogram({
    positive: new Map([
      [-20, 1],
      [-19, 4],
      [7, 2],
      [40, 9],
    ]),
    zeroCount: 3,
    zeroThreshold: 1e-9,
  }),
  histogram({
    schema: 0,
    positive: new Map([
      [0, 1],
      [1, 2],
      [2, 3],
    ]),
    negative: new Map([
      [0, 4],
      [3, 1],
    ]),
  }),
  histogram({
    schema: -2,
    positive: new Map([
      [-3, 2],
      [5, 7],
    ]),
  }),
  histogram({ schema: 8, positive: new Map(Array.from({ length: 300 }, (_, at) => [at * 5 - 700, at + 1] as const)) }),
  histogram({ zeroCount: 6 }),
];

test.each([1, 2] as const)("version %i: buckets, sum and count equal those of the same exponential histogram", (version) => {
  for (const sent of CASES) {
    const checked = check([{ labels, histograms: [encodeHistogram(sent)] }], version);
    expect(checked).toMatchObject({ accepted: 1, histograms: 1, dropped: {} });
    expect(storedBy(checked)).toEqual(expectedOf(sent));
  }
});

test("custom bounds stay", () => {
  const sent = histogram({
    schema: -53,
    bounds: [0.1, 0.5, 1],
    positive: new Map([
      [0, 2],
      [2, 3],
      [3, 1],
    ]),
  });
  expect(storedBy(check([{ labels, histograms: [encodeHistogram(sent)] }]))).toEqual({
    "latency_bucket 0.1": 2,
    "latency_bucket 0.5": 2,
    "latency_bucket 1": 5,
    "latency_bucket +Inf": 6,
    latency_sum: 12.5,
    latency_count: 6,
  });
});

test("what cannot be stored is counted by its reason, and the rest of the request is stored", () => {
  const good = encodeHistogram(CASES[0] as TestHistogram);
  const float = Buffer.concat([Buffer.from([0x11]), Buffer.alloc(8), Buffer.from([0x78]), Buffer.from([1])]);
  const histograms = [
    float,
    encodeHistogram(histogram({ schema: 20 })),
    encodeHistogram(histogram({ positive: new Map([[2_000_000_000, 1]]) })),
    // A span of three buckets, and one count.
    Buffer.concat([Buffer.from([0x5a, 2, 0x10, 3, 0x62, 1, 2]), encodeHistogram(histogram())]),
    Buffer.from([0x5a, 200]),
    // Bytes in the place of a number, which has at most ten of them.
    Buffer.concat([Buffer.from([0x0a, 0x80, 0x08]), Buffer.alloc(1024, 0xff)]),
    encodeHistogram(histogram({ timeMs: NOW - 7_200_000 })),
    encodeHistogram(histogram({ timeMs: NOW + 7_200_000 })),
    encodeHistogram(histogram({ sum: Number.NaN })),
    good,
  ];
  const checked = check([{ labels, samples: [[1, NOW]], histograms }]);
  expect(checked).toMatchObject({
    accepted: 2,
    histograms: 1,
    dropped: { float_histogram: 1, malformed_histogram: 5, before_retention: 1, too_far_ahead: 1, not_a_number: 1 },
  });
});

test("a histogram whose buckets do not have the number of its values is malformed, as for Prometheus", () => {
  const [good, one] = [encodeHistogram(CASES[0] as TestHistogram), encodeHistogram(histogram({ sum: Number.NaN, zeroCount: 1 }))];
  // The last one counts.
  const withCount = (bytes: Buffer, count: number): Buffer => Buffer.concat([bytes, Buffer.from([0x08, count])]);
  // The second span begins before the end of the first one.
  const back = Buffer.concat([encodeHistogram(histogram()), Buffer.from([0x5a, 2, 0x10, 1, 0x5a, 4, 8, 1, 0x10, 1, 0x62, 2, 2, 0])]);
  const malformed = [withCount(good, 4), withCount(good, 6), withCount(back, 2)];
  // A value that is no number is in no bucket.
  const histograms = [...malformed, good, withCount(one, 3)];
  expect(check([{ labels, histograms }])).toMatchObject({ histograms: 2, dropped: { malformed_histogram: 3 } });
});

test("histograms with wide gaps end at the limit of buckets, and are counted", () => {
  const wide = encodeHistogram(
    histogram({
      schema: 2,
      positive: new Map([
        [-4000, 1],
        [4000, 1],
      ]),
    }),
  );
  const { histograms = 0, dropped } = check([{ labels, histograms: Array.from({ length: 400 }, () => wide) }]);
  expect(dropped["native_histogram_limit"]).toBe(400 - histograms);
  expect(histograms).toBeGreaterThan(100);
  expect(histograms).toBeLessThan(200);
});
