/* oxlint-disable vitest/no-conditional-expect -- of two converters, either both refuse or both convert */
// Compares the kernel with the TypeScript converter: if the kernel supports a document, it writes the same text and drops the same points;
// otherwise the converter decides. Documents are generated from a seed, which a failure prints. KERNEL_DOCUMENTS=300000 runs as many;
// KERNEL_SEED=n sets the first seed. It is one file, because all tests compare these two.
import { readFileSync } from "node:fs";
import { beforeAll, expect, it } from "vitest";
import { damaged, number, NUMBERS, Random } from "../../backend/ingest/otlp/random-documents.fixture.ts";
import { metricsDocument } from "../../test/fixtures/random-metrics.ts";
import { attributes, many, TIME } from "./exposition.fixture.ts";
import { MetricsConverter } from "../../common/otlp-metrics/converter.ts";
import { FastConverter } from "./fast-exposition.ts";
import type { Metric } from "../../common/otlp-metrics/document.ts";

const DOCUMENTS = Number(process.env["KERNEL_DOCUMENTS"] ?? 6000);
const SEED = Number(process.env["KERNEL_SEED"] ?? 1);
const MIB = 1024 * 1024;
const LARGE = 32 * MIB;

let kernel: FastConverter;
beforeAll(() => void (kernel = newKernel()));

function newKernel(): FastConverter {
  return new FastConverter(readFileSync(new URL("./kernel.wasm", import.meta.url)));
}

/** Number of points by reason. */
function summed(drops: readonly (readonly [string, number])[]): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const [reason, points] of drops) sums[reason] = (sums[reason] ?? 0) + points;
  return sums;
}

/** Returns whether the kernel converted the body. Fails if its result differs from that of the other converter. */
function compare(body: Buffer, what: string, by = kernel): boolean {
  const taken = by.convert(body, LARGE);
  if (!taken) return false;
  const context = (): string => `${what}: ${body.toString().slice(0, 6000)}`;
  const drops: [string, number][] = [];
  let words: Buffer;
  try {
    words = Buffer.concat([...new MetricsConverter((...drop) => drops.push(drop)).convert(body, LARGE)]);
  } catch (error) {
    throw new Error(`the kernel took what is refused, ${context()}`, { cause: error });
  }
  if (!taken.text.equals(words)) expect(taken.text.toString(), context()).toBe(words.toString());
  if (taken.drops.length + drops.length > 0) expect(summed(taken.drops), context()).toEqual(summed(drops));
  return true;
}

/** All that the kernel knows, and nothing that it leaves to TypeScript. */
const WHOLE = Buffer.from(
  JSON.stringify({
    resourceMetrics: [
      {
        resource: {
          attributes: attributes({ "service.name": "shop", "service.instance.id": "7", "host.name": "n-1", "os.type": "linux" }),
        },
        scopeMetrics: [
          {
            scope: { name: "scope", version: "1" },
            metrics: [
              {
                name: "system.cpu.time",
                description: "Seconds.",
                unit: "s",
                sum: {
                  dataPoints: [
                    {
                      attributes: attributes({
                        cpu: "cpu0",
                        state: 'id"le\n\té',
                        n: { intValue: "-5" },
                        ok: { boolValue: true },
                        none: "",
                      }),
                      startTimeUnixNano: TIME,
                      timeUnixNano: TIME,
                      asDouble: 12.5,
                    },
                    { attributes: attributes({ cpu: "cpu1" }), timeUnixNano: TIME, asInt: "7", exemplars: [], flags: 0 },
                    { timeUnixNano: TIME, flags: 1 },
                  ],
                  aggregationTemporality: 2,
                  isMonotonic: true,
                },
              },
              {
                name: "queue",
                gauge: {
                  dataPoints: [
                    { timeUnixNano: TIME, asDouble: "NaN" },
                    { timeUnixNano: TIME, asDouble: 1e300 },
                  ],
                },
              },
              { name: "open", sum: { dataPoints: [{ timeUnixNano: TIME, asInt: -3 }], aggregationTemporality: 2 } },
              {
                name: "http.duration",
                unit: "s",
                histogram: {
                  dataPoints: [
                    {
                      attributes: attributes({ route: "/" }),
                      timeUnixNano: TIME,
                      count: "9",
                      sum: 1.25,
                      bucketCounts: ["1", 3, "5"],
                      explicitBounds: [0.5, 1e21],
                      min: 0,
                      max: 7,
                    },
                    { timeUnixNano: TIME, count: "0", explicitBounds: [0.5, 1e21] },
                  ],
                  aggregationTemporality: 2,
                },
              },
            ],
          },
        ],
        schemaUrl: "https://opentelemetry.io/schemas/1.9.0",
      },
    ],
  }),
);

function body(metrics: (Metric | object)[], resource: Record<string, string> = {}): Buffer {
  return Buffer.from(
    JSON.stringify({ resourceMetrics: [{ resource: { attributes: attributes(resource) }, scopeMetrics: [{ metrics }] }] }),
  );
}

function gauges(points: readonly object[], name = "m"): object {
  return { name, gauge: { dataPoints: points.map((point) => ({ timeUnixNano: TIME, asInt: "1", ...point })) } };
}

it("the kernel alone converts what collectors write, on the first and the second occurrence", () => {
  const fresh = newKernel();
  for (const sight of ["first", "second"]) expect(compare(WHOLE, sight, fresh)).toBe(true);
  expect(fresh.left).toEqual({ metrics: 0, lines: 0, points: 0 });
  expect(fresh.convert(WHOLE, LARGE)?.text.toString()).toContain('target_info{job="shop",instance="7"');
});

it("random, odd and damaged documents become the same text, or use the other converter", { timeout: 3_600_000 }, () => {
  const kinds = [
    { odd: 0, isDamaged: false, least: 0.95 },
    { odd: 0.005, isDamaged: false, least: 0.5 },
    { odd: 0.03, isDamaged: false, least: 0.2 },
    { odd: 0.002, isDamaged: true, least: 0.05 },
  ].map((kind) => ({ ...kind, made: 0, taken: 0 }));
  for (let index = 0; index < DOCUMENTS; index += 1) {
    const kind = kinds[index % kinds.length] as (typeof kinds)[number];
    const random = new Random(SEED * 1_000_003 + index);
    random.odd = kind.odd;
    const made = Buffer.from(metricsDocument(random));
    kind.made += 1;
    if (compare(kind.isDamaged ? damaged(random, made) : made, `KERNEL_SEED=${SEED}, document ${index}`)) kind.taken += 1;
  }
  console.log(kinds.map(({ odd, isDamaged, made, taken }) => `${isDamaged ? "damaged" : odd}: ${taken} of ${made} taken`).join(", "));
  // Otherwise, the comparison would prove nothing.
  for (const { made, taken, least } of kinds) expect(taken / made).toBeGreaterThan(least);
  expect(kernel.traps).toBe(0);
});

it("a document that is truncated at any byte uses the other converter, whatever the kernel's memory contains", () => {
  const rests = ["", '"', "}]}]}]}", "0".repeat(200), ',{"key":"a","value":{"stringValue":"'].map((rest) => Buffer.from(rest));
  for (let length = 0; length < WHOLE.length; length += 1) {
    const cut = WHOLE.subarray(0, length);
    for (const rest of rests) {
      kernel.convert(Buffer.concat([cut, rest, WHOLE]), LARGE);
      expect([length, kernel.convert(cut, LARGE)]).toEqual([length, undefined]);
    }
  }
});

it("a document with any byte replaced becomes the same text, or uses the other converter", { timeout: 300_000 }, () => {
  const bytes = Buffer.from('"\\{}[]:,0-.e n\n\u0000\u001f\u0080\u00ff', "latin1");
  let taken = 0;
  for (let at = 0; at < WHOLE.length; at += 1) {
    for (const byte of bytes) {
      const changed = Buffer.from(WHOLE);
      changed[at] = byte;
      taken += Number(compare(changed, `byte ${at} is ${byte}`));
    }
  }
  expect(taken).toBeGreaterThan(1000);
  expect(kernel.traps).toBe(0);
});

it("numbers in every form and position become the same text, or use the other converter", { timeout: 300_000 }, () => {
  const text = WHOLE.toString();
  const places = [...text.matchAll(/(?<=":|\[|,)(?:-?[\d.]+(?:e\+\d+)?|"-?\d+"|"NaN")(?=[,}\]])/g)];
  expect(places.length).toBeGreaterThan(20);
  const random = new Random(SEED);
  const numbers = [...NUMBERS, "18014398509481984", "2147483648000000", ...Array.from({ length: 300 }, () => number(random))];
  const taken = numbers.flatMap((written) =>
    [written, JSON.stringify(written)].filter((value) =>
      places
        .map(({ 0: was, index }) => text.slice(0, index) + value + text.slice(index + was.length))
        .map((changed) => compare(Buffer.from(changed), value))
        .includes(true),
    ),
  );
  expect(taken.length).toBeGreaterThan(100);
});

it("labels that clash, are many, long, empty or reserved become the same text", () => {
  const odd: Record<string, string>[] = [
    { "a.b": "1", a_b: "2" },
    { "host.name": "mine" },
    { job: "mine" },
    { node: "x", org_id: "y" },
    { le: "1" },
    { "": "x", "!": "y" },
    many("l", 30),
    many("l", 34),
    many("l", 35),
    many("l", 36),
    { long: "é".repeat(600) },
    { long: "x".repeat(341) },
  ];
  const points = [
    {},
    ...odd.map((labels) => ({ attributes: attributes(labels) })),
    { attributes: [{ key: "a", value: { stringValue: "1" } }, { key: "a" }, { key: "b", value: {} }] },
  ];
  const resources: Record<string, string>[] = [
    {},
    { "host.name": "n", "service.name": "s" },
    many("r", 34),
    many("r", 35),
    many("r", 60),
    { a_b: "r", le: "r" },
  ];
  for (const resource of resources) {
    const histogram = points.map((point) => ({ timeUnixNano: TIME, count: "1", bucketCounts: ["1", "2"], explicitBounds: [1], ...point }));
    const metrics = [gauges(points), { name: "h", histogram: { aggregationTemporality: 2, dataPoints: histogram } }];
    expect(compare(body(metrics, resource), JSON.stringify(resource).slice(0, 100))).toBe(true);
  }
});

it("a metric that the kernel cannot convert delays no other, wherever it is", () => {
  const fresh = newKernel();
  const summary = {
    name: "s",
    summary: { dataPoints: [{ timeUnixNano: TIME, count: "3", sum: 6, quantileValues: [{ quantile: 0.5, value: 1 }] }] },
  };
  const delta = { name: "d", sum: { aggregationTemporality: 1, dataPoints: [{ timeUnixNano: TIME, asInt: "1" }] } };
  const late = { name: "t", gauge: { dataPoints: [{ timeUnixNano: "0", asInt: "1" }] } };
  const orders = [
    [summary, gauges([{}])],
    [gauges([{}]), summary],
    [delta],
    [late],
    [gauges([{}]), late],
    [late, gauges([{}]), delta, summary],
    [summary, delta],
  ];
  for (const metrics of orders) {
    expect(compare(body(metrics, { "service.name": "shop", "host.name": "h" }), JSON.stringify(metrics), fresh)).toBe(true);
  }
  expect(fresh.left).toMatchObject({ metrics: 10, points: 0 });
});

it("a document of unsupported metrics is soon left to the other converter", () => {
  const fresh = newKernel();
  expect(fresh.convert(body(Array.from({ length: 2000 }, () => ({ name: "d", gauge: { dataPoints: [{}] } }))), LARGE)).toBeUndefined();
  expect(fresh.left.metrics).toBeLessThanOrEqual(500);
});

it("a sum that was wrongly assumed to be monotonic is written once, however long it is", () => {
  const points = Array.from({ length: 5000 }, (_, index) => ({
    attributes: attributes({ index: String(index), text: "x".repeat(200) }),
    timeUnixNano: TIME,
    asInt: "1",
  }));
  const sum = (isMonotonic: boolean) => ({ name: "jobs", sum: { dataPoints: points, aggregationTemporality: 2, isMonotonic } });
  const fresh = newKernel();
  for (const isMonotonic of [false, false, true, true, false]) {
    expect(compare(body([gauges([{}]), sum(isMonotonic), gauges([{}])], { "service.name": "s", a: "b" }), "sum", fresh)).toBe(true);
  }
});

it("evicts names when there are too many, within its memory limit", { timeout: 300_000 }, () => {
  const fresh = newKernel();
  let at = 0;
  const one = (prefix: string): object => gauges([{ attributes: attributes({ [`${prefix}${at}`]: "v" }) }], `m${at++}.x`);
  for (let round = 0; round < 40; round += 1) {
    const metrics = Array.from({ length: 300 }, () => one(round % 2 === 0 ? "key" : "other"));
    expect(compare(body(metrics, { "host.name": `n${round}`, long: "x".repeat(1000) }), `round ${round}`, fresh)).toBe(true);
  }
  // One document has more keys than the kernel can remember.
  expect(fresh.convert(body(Array.from({ length: 6000 }, () => one("k"))), LARGE)).toBeUndefined();
  expect(compare(WHOLE, "after all of them", fresh)).toBe(true);
  expect(compare(body([gauges([{ attributes: attributes({ a: "x".repeat(3 * MIB) }) }])]), "large", fresh)).toBe(true);
  expect(fresh.convert(Buffer.concat([WHOLE, Buffer.alloc(4 * MIB, " ")]), LARGE)).toBeUndefined();
  expect(fresh.memoryBytes).toBeLessThanOrEqual(6 * MIB);
});

it("text that exceeds one request uses the other converter", () => {
  const resource = { long: "v".repeat(1000) };
  expect(kernel.convert(body([gauges(Array.from({ length: 2000 }, () => ({})))], resource), 200_000)).toBeUndefined();
  expect(kernel.convert(WHOLE, 300)).toBeUndefined();
});

it("any bytes end neither the kernel nor the process", () => {
  const random = new Random(SEED);
  const words =
    '{ } [ ] : , " \\ null true 1 - "key": "value": "attributes":[ {"stringValue":" "resourceMetrics":[ "scopeMetrics":[ "metrics":[ "gauge": "sum": "histogram": "dataPoints":[ "timeUnixNano":"1 "asInt": "bucketCounts":[ "name":"a"'.split(
      " ",
    );
  for (let index = 0; index < DOCUMENTS; index += 1) {
    const soup = Array.from({ length: random.below(60) }, () => random.pick(words)).join("");
    const made =
      index % 2 === 0
        ? Buffer.from(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{${soup}`)
        : Buffer.from(Array.from({ length: random.below(200) }, () => random.below(256)));
    compare(made, `KERNEL_SEED=${SEED}, soup ${index}`);
  }
  expect(kernel.traps).toBe(0);
});

it("rejects a kernel of other sources when it is opened", () => {
  const empty = Buffer.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]);
  expect(() => new FastConverter(empty)).toThrow("the kernel was compiled of other sources: it has no forget");
});
