// Remote write requests of both versions become the same stored samples, and hostile ones are refused with a code, within their limits.
import { expect, test } from "vitest";
import { ApiError } from "../../errors.ts";
import { newHashKey } from "../../storage/metrics/series-hash.ts";
import { bytesField, varint } from "../otlp/protobuf/encode.fixture.ts";
import { compressSnappy } from "../snappy.fixture.ts";
import { decompressSnappy } from "../snappy.ts";
import { type CheckedWrite, checkWrite, type WriteTask } from "./check-write.ts";
import { encodeWrite, type TestSeries, writeBody } from "./write-request.fixture.ts";
import type { WriteVersion } from "./write-request.ts";

const NOW = 1_795_262_400_000;
const HOUR = 3_600_000;
const LIMITS = { maxLabels: 4, maxNameBytes: 20, maxValueBytes: 30, maxLabelBytes: 90, oldestMs: NOW - HOUR, newestMs: NOW + HOUR };
const NAME = ["__name__", "up"] as const;
const STALE = 0x7ff0_0000_0000_0002n;
const SERIES: TestSeries = {
  labels: [NAME, ["job", "a"], ["zone", "ü"]],
  samples: [
    [1.5, NOW],
    [-0, NOW + 1],
  ],
};

const check = (series: readonly TestSeries[], version: WriteVersion = 1, rest: Partial<WriteTask> = {}): CheckedWrite =>
  checkWrite({ body: writeBody(series, version), version, limits: LIMITS, ...rest });
const passedOn = ({ bodies }: CheckedWrite): Buffer => Buffer.concat(bodies.map((body) => decompressSnappy(body)));

test("passes a request of 1.0 unchanged, also with a stale marker", () => {
  const series = [SERIES, { labels: [NAME, ["job", "b"]] as const, samples: [[STALE, NOW]] as const }];
  const checked = check(series);
  expect(checked).toMatchObject({ accepted: 3, dropped: {} });
  expect(checked.bodies.map((body) => Buffer.from(body))).toEqual([writeBody(series)]);
});

test("converts a request of 2.0 to the same request of 1.0, without metadata", () => {
  const series = [SERIES, { labels: [NAME, ["job", "a"]] as const, samples: [[2, NOW]] as const }];
  const checked = check(series, 2);
  expect(checked).toMatchObject({ accepted: 3, dropped: {} });
  expect(passedOn(checked)).toEqual(encodeWrite(series));
});

test.each([1, 2] as const)("renames labels that identify the sender like Prometheus: version %i", (version) => {
  const labels = (names: readonly string[]): TestSeries => ({
    labels: [NAME, ...names.map((name) => [name, "x"] as const)],
    samples: [[1, NOW]],
  });
  const checked = check([labels(["org_id", "node"]), labels(["host_id", "nodes"])], version);
  expect(passedOn(checked)).toEqual(encodeWrite([labels(["exported_org_id", "exported_node"]), labels(["exported_host_id", "nodes"])]));
});

test.each([1, 2] as const)("counts by reason and omits samples that the engine would drop: version %i", (version) => {
  const sample = [1, NOW] as const;
  const many = ["a", "b", "c", "d"].map((name) => [name, "x"] as const);
  const checked = check(
    [
      { labels: [NAME, ...many], samples: [sample, sample] },
      { labels: [NAME, ["n".repeat(21), "x"]], samples: [sample] },
      { labels: [NAME, ["job", "v".repeat(31)]], samples: [sample] },
      {
        labels: [NAME, ["empty", ""]],
        samples: [
          [Number.NaN, NOW],
          [2, NOW - HOUR - 1],
          [3, NOW],
          [4, NOW + HOUR + 1],
          [5, -1],
        ],
        exemplars: 2,
      },
      { labels: [NAME, ...["a", "b", "c"].map((name) => [name, "x".repeat(30)] as const)], samples: [[1, NOW]] },
      { labels: [NAME], histograms: 2 },
    ],
    version,
  );
  expect(checked).toMatchObject({
    accepted: 1,
    dropped: {
      too_many_labels: 2,
      too_long_label_name: 1,
      too_long_label_value: 1,
      too_long_labels: 1,
      not_a_number: 1,
      before_retention: 4,
      too_far_ahead: 1,
    },
  });
  expect(passedOn(checked)).toEqual(encodeWrite([{ labels: [NAME, ["empty", ""]], samples: [[3, NOW]] }]));
});

test("stores nothing for metadata alone, and drops it from a request with series", () => {
  const metadata = bytesField(3, Buffer.concat([Buffer.from([0x08, 1]), bytesField(2, Buffer.from("up"))]));
  const task = (body: Buffer): WriteTask => ({ body: compressSnappy(body), version: 1, limits: LIMITS });
  expect(checkWrite(task(metadata))).toMatchObject({ accepted: 0, dropped: {}, bodies: [] });
  expect(passedOn(checkWrite(task(Buffer.concat([metadata, encodeWrite([SERIES])]))))).toEqual(encodeWrite([SERIES]));
});

test("hashes a series equally in both versions, and differently with another order, value or field order", () => {
  const hashKey = newHashKey();
  const series = (labels: TestSeries["labels"]): TestSeries => ({ labels, samples: [[1, NOW]] });
  const first = series([NAME, ["a", "1"], ["b", "2"]]);
  const others = [series([["b", "2"], NAME, ["a", "1"]]), series([NAME, ["a", "2"], ["b", "1"]]), series([NAME, ["a", "1"], ["b", "3"]])];
  const [hash, again, ...different] = [
    check([first], 1, { hashKey }),
    check([first, ...others], 2, { hashKey }),
    check(others, 1, { hashKey }),
  ].flatMap(({ seriesHashes }) => [...seriesHashes]);
  expect(again).toBe(hash);
  expect(different.slice(0, 3)).toEqual(different.slice(3));
  expect(new Set([hash, ...different]).size).toBe(4);
});

test("hashes a label whole if its value precedes its name", () => {
  const hashKey = newHashKey();
  const field = (number: number, text: string): Buffer => bytesField(number, Buffer.from(text));
  const hashOfValue = (first: string, last: string): number => {
    const labels = [
      [field(2, first), field(1, "__name__")],
      [field(2, last), field(1, "z")],
    ].map((label) => bytesField(1, Buffer.concat(label)));
    const sample = bytesField(2, Buffer.concat([Buffer.from([0x09]), Buffer.alloc(8, 1), Buffer.from([0x10]), varint(BigInt(NOW))]));
    const body = compressSnappy(bytesField(1, Buffer.concat([...labels, sample])));
    return checkWrite({ body, version: 1, limits: LIMITS, hashKey }).seriesHashes[0] ?? 0;
  };
  expect(new Set([hashOfValue("up", "1"), hashOfValue("on", "1"), hashOfValue("up", "2"), 0]).size).toBe(4);
});

test("passes many samples of many series in parts", () => {
  const samples = Array.from({ length: 25_000 }, (_, index) => [index, NOW + index] as const);
  const series = Array.from({ length: 20 }, (_, index): TestSeries => ({ labels: [NAME, ["node", `${index}`]], samples }));
  const checked = check(series);
  expect(checked.accepted).toBe(500_000);
  expect(checked.bodies.length).toBeGreaterThan(1);
  const again = checked.bodies.map((body) => checkWrite({ body, version: 1, limits: LIMITS }).accepted);
  expect(again.reduce((sum, accepted) => sum + accepted, 0)).toBe(500_000);
});

const codeOf = (body: Buffer, version: WriteVersion): string => {
  try {
    const { faults } = checkWrite({ body: compressSnappy(body), version, limits: LIMITS });
    if (faults) return `left out: ${faults.first[0]}`;
    return "accepted";
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return error.code;
  }
};

const MIB = 1024 * 1024;
const filled = (bytes: number, pattern: number[]): Buffer => Buffer.alloc(bytes, Buffer.from(pattern));
const symbols = (...texts: string[]): Buffer => Buffer.concat(texts.map((text) => bytesField(4, Buffer.from(text))));
const label = (name: Buffer, value: Buffer): Buffer =>
  bytesField(1, bytesField(1, Buffer.concat([bytesField(1, name), bytesField(2, value)])));
const references = (...numbers: number[]): Buffer => bytesField(5, bytesField(1, Buffer.from(numbers)));

const UNNAMED = "left out: timeseries[0]: it has no metric name (`__name__`)";

test.each<[string, WriteVersion, Buffer, string]>([
  ["no protobuf", 1, filled(100, [0xff]), "malformed_body"],
  ["a length beyond the end", 1, Buffer.from([0x0a, 0x7f, 1]), "malformed_body"],
  ["no metric name", 1, encodeWrite([{ labels: [["job", "a"]], samples: [[1, NOW]] }]), UNNAMED],
  ["an empty metric name", 1, encodeWrite([{ labels: [["__name__", ""]], samples: [[1, NOW]] }]), UNNAMED],
  [
    "a label without a name",
    1,
    encodeWrite([{ labels: [NAME, ["", "x"]], samples: [[1, NOW]] }]),
    "left out: timeseries[0]: label 2 has no name",
  ],
  ["a label that is not UTF-8", 1, label(Buffer.from("job"), Buffer.from([0xff])), "left out: timeseries[0]: label 1 is not UTF-8"],
  ["15 million empty series", 1, filled(30 * MIB, [0x0a, 0]), "invalid_payload"],
  ["15 million empty samples of a series", 1, bytesField(1, filled(30 * MIB, [0x12, 0])), "batch_too_large"],
  [
    "a symbol that is missing",
    2,
    Buffer.concat([symbols("", "__name__"), references(1, 2)]),
    "left out: timeseries[0]: the symbol 2 is missing",
  ],
  ["a first symbol that is not empty", 2, symbols("x"), "invalid_payload"],
  [
    "a label without a value",
    2,
    Buffer.concat([symbols("", "__name__", "up"), references(1, 2, 1)]),
    "left out: timeseries[0]: a label has no value",
  ],
  ["2.0 as 1.0", 1, encodeWrite([SERIES], 2), "invalid_payload"],
  ["1.0 as 2.0", 2, encodeWrite([SERIES], 1), "invalid_payload"],
  ["a message of another protocol", 1, bytesField(7, Buffer.from("x")), "invalid_payload"],
  ["1,001 malformed series", 1, filled(4004, [0x0a, 2, 0x0a, 9]), "malformed_body"],
  ["15 million symbols", 2, filled(30 * MIB, [0x22, 0]), "batch_too_large"],
])("rejects %s (version %i)", (_, version, body, code) => {
  expect(codeOf(body, version)).toBe(code);
});

test.each<[string, WriteVersion, Buffer]>([
  ["without a metric name", 1, encodeWrite([{ labels: [["job", "a"]], samples: [[1, NOW]] }])],
  [
    "with a label that is not UTF-8",
    1,
    bytesField(1, bytesField(1, Buffer.concat([bytesField(1, Buffer.from("a")), bytesField(2, Buffer.from([0xff]))]))),
  ],
  ["that ends within a label", 1, bytesField(1, Buffer.from([0x0a, 5, 0x0a]))],
  ["that ends within a sample", 1, bytesField(1, Buffer.concat([encodeWrite([SERIES]).subarray(2), Buffer.from([0x12, 1, 0x09])]))],
  ["whose symbol is missing", 2, references(1, 99)],
  ["that is cut off", 2, bytesField(5, Buffer.from([0x0a, 9]))],
])("drops only a series %s: version %i", (_, version, bad) => {
  const good = Array.from({ length: 10 }, (_value, index) => ({ ...SERIES, labels: [...SERIES.labels, ["n", `${index}`] as const] }));
  const expected = check(good, version);
  const body = compressSnappy(Buffer.concat([encodeWrite(good, version), bad]));
  const checked = checkWrite({ body, version, limits: LIMITS });
  expect([checked.accepted, checked.faults?.found, checked.faults?.first[0]]).toEqual([
    expected.accepted,
    1,
    expect.stringContaining("timeseries[10]: "),
  ]);
  expect(passedOn(checked)).toEqual(version === 1 ? encodeWrite(good) : passedOn(expected));
});

test("counts malformed exemplars, and stores their samples", () => {
  const [first, ...rest] = encodeWrite([SERIES]);
  const broken = bytesField(3, Buffer.from([0x0a, 9]));
  const series = Buffer.concat([Buffer.from(rest).subarray(1), broken]);
  expect(first).toBe(0x0a);
  expect(checkWrite({ body: compressSnappy(bytesField(1, series)), version: 1, limits: LIMITS })).toMatchObject({
    accepted: SERIES.samples?.length,
    dropped: { exemplar_malformed: 1 },
  });
});

test("rejects a small request of 2.0 that expands to gigabytes", () => {
  const value = "v".repeat(30);
  const series = bytesField(
    5,
    Buffer.concat([bytesField(1, Buffer.from([1, 2, 3, 4, 5, 4])), bytesField(2, Buffer.from([0x10, ...varintOf(NOW)]))]),
  );
  const body = Buffer.concat([symbols("", "__name__", "up", "a", value, "b"), Buffer.concat(Array(1_000_000).fill(series))]);
  expect(codeOf(body, 2)).toBe("batch_too_large");
});

test("rejects references that repeat a long symbol by their expanded bytes, also in series that are not stored", () => {
  const series = references(1, 2, ...Array<number>(250).fill(3));
  const body = Buffer.concat([symbols("", "__name__", "up", "v".repeat(100_000)), ...Array<Buffer>(400).fill(series)]);
  expect(codeOf(body, 2)).toBe("batch_too_large");
});

function varintOf(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  return [...bytes, rest];
}

const TRACE = [["trace_id", "4bf92f3577b34da6a3ce929d0e0e4736"]] as const;

test.each([1, 2] as const)("reads exemplars with the labels under which their series is stored: version %i", (version) => {
  const exemplars = [
    { labels: [...TRACE, ["ü", "ö"]] as const, value: 0.25, timeMs: NOW },
    { labels: [], value: Number.NEGATIVE_INFINITY, timeMs: NOW - 1 },
  ];
  const other = [{ labels: TRACE, value: Number.NaN, timeMs: NOW - 2 }];
  const checked = check(
    [
      { ...SERIES, exemplars },
      { labels: [NAME, ["node", "x"]], exemplars: other },
      { ...SERIES, samples: [[2, NOW]] },
    ],
    version,
  );
  const ofSeries = { series: SERIES.labels };
  expect(checked).toMatchObject({ accepted: 3, dropped: {} });
  expect(checked.exemplars).toEqual([
    { ...ofSeries, labels: [TRACE[0], ["ü", "ö"]], value: "0.25", timeMs: NOW },
    { ...ofSeries, labels: [], value: "-Inf", timeMs: NOW - 1 },
    { series: [NAME, ["exported_node", "x"]], labels: TRACE, value: "NaN", timeMs: NOW - 2 },
  ]);
});

test("passes a request of 1.0 with exemplars unchanged", () => {
  const series = [{ ...SERIES, exemplars: [{ labels: TRACE, value: 1, timeMs: NOW }] }];
  expect(check(series).bodies.map((body) => Buffer.from(body))).toEqual([writeBody(series)]);
});

test.each([1, 2] as const)("counts exemplars beyond the limits, and stores their samples: version %i", (version) => {
  const exemplar = { labels: TRACE, value: 1, timeMs: NOW };
  const long = { ...exemplar, labels: [["trace_id", "x".repeat(1025)]] as const };
  const checked = check([{ ...SERIES, exemplars: [long, ...Array.from({ length: 2500 }, () => exemplar)] }], version);
  expect(checked).toMatchObject({ accepted: 2, dropped: { exemplar_too_long: 1, exemplar_limit: 1501 } });
  expect(checked.exemplars).toHaveLength(999);
});

test("keeps at most 1 MiB of labels of a small request of 2.0 whose exemplars repeat a long series", () => {
  const value = "v".repeat(4000);
  const limits = { ...LIMITS, maxValueBytes: 4096, maxLabelBytes: 200_000, maxLabels: 37 };
  const labels = [NAME, ...Array.from({ length: 36 }, (_, index) => [`l${index}`, value] as const)];
  const checked = check([{ labels, exemplars: Array.from({ length: 1000 }, () => ({ labels: TRACE, value: 1, timeMs: NOW })) }], 2, {
    limits,
  });
  expect(checked).toMatchObject({ accepted: 0, dropped: { exemplar_limit: 993 } });
  expect(checked.exemplars).toHaveLength(7);
});
