// Writes the converter's output into a real VictoriaMetrics, which must accept every line of every document, however unusual.
import { once } from "node:events";
import { spawn } from "node:child_process";
import * as fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import { validateExposition } from "../../backend/ingest/exposition/exposition.ts";
import { MAX_LABELS } from "./otlp-metrics-limits.ts";
import { toolPath } from "../../hack/fetch-tools.ts";
import { eventually, freePorts, temporaryFolder } from "../../test/fixtures/processes.ts";
import { MetricsConverter } from "./converter.ts";
import type { AnyValue, KeyValue, Metric, MetricsDocument } from "./document.ts";

let url = "";
const cleanUp = new AsyncDisposableStack();

beforeAll(async () => {
  const folder = cleanUp.use(temporaryFolder());
  const [port] = await freePorts(1);
  url = `http://127.0.0.1:${port}`;
  const flags = [`-storageDataPath=${folder.path}`, `-httpListenAddr=127.0.0.1:${port}`, "-retentionPeriod=100y", "-loggerLevel=ERROR"];
  const engine = spawn(await toolPath("victoria-metrics"), flags, { stdio: "ignore" });
  cleanUp.defer(async () => {
    engine.kill();
    await once(engine, "exit");
  });
  await eventually("VictoriaMetrics answers", async () => (await fetch(`${url}/health`)).ok);
});
afterAll(() => cleanUp.disposeAsync());

async function engineMetrics(): Promise<string> {
  return (await fetch(`${url}/metrics`)).text();
}

/** Rows that VictoriaMetrics took, and those that it silently left out, since its start. */
function rows(metrics: string): { inserted: number; lost: number } {
  const sum = (name: RegExp): number =>
    metrics
      .split("\n")
      .filter((line) => name.test(line))
      .reduce((total, line) => total + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
  return { inserted: sum(/^vm_rows_inserted_total\{type="prometheus"/), lost: sum(/^vm_rows_(?:invalid|ignored)_total/) };
}

const odd = fc.oneof(
  fc.string({ unit: "binary", maxLength: 40 }),
  fc.string({ unit: "grapheme", maxLength: 20 }),
  fc.constantFrom(
    "a",
    "a.b",
    "a_b",
    "le",
    "quantile",
    "job",
    "instance",
    "node",
    "org_id",
    "host_id",
    "__name__",
    "1x",
    "{}",
    '"',
    "\\",
    "\n",
    "\r\n",
    "\0",
  ),
  fc.constantFrom("service.name", "service.instance.id", "service.namespace", "k8s.pod.uid", "host.id"),
  fc.constantFrom("x".repeat(5000), "ü\0".repeat(1000)),
);
const value: fc.Arbitrary<AnyValue> = fc.oneof(
  odd.map((stringValue) => ({ stringValue })),
  fc.boolean().map((boolValue) => ({ boolValue })),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map((int) => ({ intValue: String(int) })),
  fc.double().map((doubleValue) => ({ doubleValue: jsonNumber(doubleValue) })),
  fc
    .array(
      odd.map((stringValue) => ({ stringValue })),
      { minLength: 1, maxLength: 3 },
    )
    .map((values) => ({ arrayValue: { values } })),
  fc.constant({}),
);
const attributes: fc.Arbitrary<KeyValue[]> = fc.oneof(
  { weight: 9, arbitrary: fc.array(fc.record({ key: odd, value }), { maxLength: 6 }) },
  { weight: 1, arbitrary: fc.array(fc.record({ key: odd, value }), { maxLength: 60, minLength: 30 }) },
);
const double = fc.double().map(jsonNumber);
const count = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map(String);
const base = {
  attributes,
  timeUnixNano: fc.bigInt({ min: 946_684_800_000_000_000n, max: 1_790_000_000_000_000_000n }).map(String),
  flags: fc.constantFrom(0, 0, 0, 1),
};
const numberPoint = fc.oneof(
  fc.record({ ...base, asDouble: double }),
  fc.record({ ...base, asInt: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String) }),
);
const buckets = fc.record({ offset: fc.integer({ min: -3000, max: 3000 }), bucketCounts: fc.array(count, { maxLength: 200 }) });
const histogramPoint = fc
  .record({
    ...base,
    count,
    sum: double,
    explicitBounds: fc.uniqueArray(double, { maxLength: 10 }),
    bucketCounts: fc.array(count, { maxLength: 11 }),
  })
  .map((point) => ({ ...point, explicitBounds: point.explicitBounds.sort((a, b) => Number(a) - Number(b)) }));
const exponentialPoint = fc.record({
  ...base,
  count,
  sum: double,
  scale: fc.integer({ min: -12, max: 22 }),
  zeroCount: count,
  zeroThreshold: double,
  positive: buckets,
  negative: buckets,
});
const summaryPoint = fc.record({
  ...base,
  count,
  sum: double,
  quantileValues: fc.array(fc.record({ quantile: double, value: double }), { maxLength: 5 }),
});
const points = <T>(point: fc.Arbitrary<T>) => fc.array(point, { minLength: 1, maxLength: 4 });
const data: fc.Arbitrary<Metric> = fc.oneof(
  fc.record({ gauge: fc.record({ dataPoints: points(numberPoint) }) }),
  fc.record({
    sum: fc.record({ dataPoints: points(numberPoint), isMonotonic: fc.boolean(), aggregationTemporality: fc.constantFrom(0, 1, 2, 2, 2) }),
  }),
  fc.record({ histogram: fc.record({ dataPoints: points(histogramPoint), aggregationTemporality: fc.constant(2) }) }),
  fc.record({ exponentialHistogram: fc.record({ dataPoints: points(exponentialPoint), aggregationTemporality: fc.constant(2) }) }),
  fc.record({ summary: fc.record({ dataPoints: points(summaryPoint) }) }),
);
const unit = fc.constantFrom("", "1", "s", "By", "By/s", "{x}", "%", "ü/ü", "/", "a b");
const metric = fc.tuple(fc.record({ name: odd, unit }), data).map(([named, kind]) => ({ ...named, ...kind }));
const anyDocument: fc.Arbitrary<MetricsDocument> = fc.record({
  resourceMetrics: fc.array(
    fc.record({
      resource: fc.record({ attributes }),
      scopeMetrics: fc.array(fc.record({ metrics: fc.array(metric, { minLength: 2, maxLength: 5 }) }), { minLength: 1, maxLength: 2 }),
    }),
    { minLength: 1, maxLength: 3 },
  ),
});

function jsonNumber(number: number): number | string {
  if (Number.isFinite(number)) return number;
  return Number.isNaN(number) ? "NaN" : String(number);
}

/** Sends `bodies` as the backend does, with the labels that it sets; returns how many of their lines the engine stored and lost. */
async function store(bodies: readonly Buffer[]): Promise<{ lines: number; inserted: number; lost: number }> {
  const before = await settledRows();
  for (const body of bodies) {
    const forced = "extra_label=org_id=o&extra_label=host_id=h&extra_label=node=n";
    const { status } = await fetch(`${url}/api/v1/import/prometheus?${forced}`, { method: "POST", body: new Uint8Array(body) });
    expect(status).toBe(204);
  }
  const after = await settledRows();
  const lines = bodies.reduce((total, body) => total + body.toString("utf8").split("\n").length - 1, 0);
  return { lines, inserted: after.inserted - before.inserted, lost: after.lost - before.lost };
}

/** The engine renews its own metrics once a second only: a new time of theirs means that they are newer than the call. */
async function settledRows(): Promise<{ inserted: number; lost: number }> {
  const uptime = async (): Promise<string> => /^vm_app_uptime_seconds (.*)$/m.exec(await engineMetrics())?.[1] ?? "";
  const first = await uptime();
  await eventually("the engine renews its metrics", async () => (await uptime()) !== first);
  return rows(await engineMetrics());
}

function convert(document: MetricsDocument, reasons: string[] = []): Buffer[] {
  return [...new MetricsConverter((reason) => reasons.push(reason)).convert(Buffer.from(JSON.stringify(document)), 32 << 20)];
}

it("writes no sample that the backend rejects or drops, except NaN and too many bytes of labels in all", async () => {
  const limits = {
    maxLabels: 37,
    maxNameBytes: 256,
    maxValueBytes: 4096,
    maxLabelBytes: 8192,
    oldestMs: 0,
    newestMs: Number.MAX_SAFE_INTEGER,
  };
  for (const body of fc.sample(anyDocument, 80).flatMap((document) => convert(document))) {
    const text = body.toString("utf8");
    const { accepted, dropped } = await validateExposition(body, limits);
    const { not_a_number = 0, too_long_labels = 0, ...others } = dropped;
    expect(others, text.slice(0, 2000)).toEqual({});
    expect(accepted + not_a_number + too_long_labels).toBe(text.split("\n").length - 1);
  }
});

it("VictoriaMetrics accepts every line of any OTLP metrics document", async () => {
  const reasons: string[] = [];
  const bodies = fc.sample(anyDocument, 80).flatMap((document) => convert(document, reasons));
  const { lines, inserted, lost } = await store(bodies);
  expect(lines, "tried on something").toBeGreaterThan(500);
  expect(reasons).not.toContain("bad_time");
  if (inserted === lines && lost === 0) return;
  for (const body of bodies) {
    const one = await store([body]);
    expect(one, body.toString("utf8").slice(0, 2000)).toEqual({ lines: one.lines, inserted: one.lines, lost: 0 });
  }
});

it("a series with the maximum of labels and the longest names and values is stored and found", async () => {
  const labels = Array.from({ length: MAX_LABELS }, (_, index) => ({
    key: `k${index}${"k".repeat(300)}`,
    value: { stringValue: '"v'.repeat(2500) },
  }));
  const now = Date.now();
  const dataPoints = [
    { attributes: labels, timeUnixNano: `${now}000000`, count: "1", sum: 1, bucketCounts: ["1", "0"], explicitBounds: [1] },
  ];
  const metrics: Metric[] = [{ name: "n".repeat(230), histogram: { aggregationTemporality: 2, dataPoints } }];
  expect(await store(convert({ resourceMetrics: [{ scopeMetrics: [{ metrics }] }] }))).toEqual({ lines: 4, inserted: 4, lost: 0 });
  await fetch(`${url}/internal/force_flush`);
  const query = new URLSearchParams({ "match[]": '{__name__=~"n{230}.*"}', start: String(now / 1000 - 60) });
  const found = (await (await fetch(`${url}/api/v1/series?${query.toString()}`)).json()) as { data: Record<string, string>[] };
  expect(found.data).toHaveLength(4);
  expect(Object.keys(found.data[0] ?? {})).toHaveLength(MAX_LABELS + 5);
});
