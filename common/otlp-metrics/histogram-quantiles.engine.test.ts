// Compares quantiles of generated values with those that the store computes from the buckets that are written for them. The seed is fixed;
// QUANTILE_RUNS=20000 tries as many distributions.
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { startTestEngine } from "../../test/fixtures/metrics-engine.ts";
import { eventually } from "../../test/fixtures/processes.ts";
import { convert, exponential, histogram } from "./exposition.fixture.ts";

const RUNS = Number(process.env["QUANTILE_RUNS"] ?? 1500);
const PHIS = [0, 0.01, 0.1, 0.5, 0.9, 0.99, 1];

type Bucket = readonly [le: number, count: number];

function bucketsOf(metric: object): Bucket[] {
  const { lines, dropped } = convert([metric]);
  expect(dropped).toEqual({});
  return lines.flatMap((line) => {
    const [, le, count] = /_bucket\{le="([^"]+)"\} (\d+)/.exec(line) ?? [];
    return le === undefined ? [] : [[le === "+Inf" ? Infinity : Number(le), Number(count)] as const];
  });
}

/** `histogram_quantile` of VictoriaMetrics 1.150 (promql/transform.go). */
function quantileOf(buckets: readonly Bucket[], phi: number): number {
  const wanted = (buckets.at(-1)?.[1] ?? 0) * phi;
  let [before, lower] = [0, 0];
  for (const [le, count] of buckets) {
    if (count <= 0) lower = le;
    else if (count < wanted) [before, lower] = [count, le];
    else if (le === Infinity) break;
    else return count === before ? lower : lower + ((le - lower) * (wanted - before)) / (count - before);
  }
  return buckets.findLast(([le]) => le !== Infinity)?.[0] ?? Number.NaN;
}

function trueQuantile(values: readonly number[], phi: number): number {
  return values.toSorted((a, b) => a - b)[Math.max(Math.ceil(values.length * phi), 1) - 1] ?? Number.NaN;
}

/** An exponential histogram of the values, as an SDK builds it. */
function exponentialOf(values: readonly number[], scale: number, zeroThreshold: number) {
  const side = (magnitudes: readonly number[]) => {
    const indexes = magnitudes.map((value) => Math.ceil(Math.log2(value) * 2 ** scale) - 1);
    const offset = indexes.reduce((least, index) => Math.min(least, index), Infinity);
    if (offset === Infinity) return undefined;
    const bucketCounts = Array.from({ length: Math.max(...indexes) - offset + 1 }, () => 0);
    for (const index of indexes) bucketCounts[index - offset] = (bucketCounts[index - offset] ?? 0) + 1;
    return { offset, bucketCounts };
  };
  const outside = values.filter((value) => Math.abs(value) > zeroThreshold);
  return exponential({
    scale,
    count: values.length,
    sum: 0,
    zeroCount: values.length - outside.length,
    zeroThreshold,
    positive: side(outside.filter((value) => value > 0)),
    negative: side(outside.filter((value) => value < 0).map(Math.abs)),
  });
}

/** Values around a few places, so that runs begin far from 0 and from each other. */
const magnitude = fc.tuple(fc.integer({ min: -30, max: 30 }), fc.double({ min: 1, max: 1.9, noNaN: true })).map(([at, of]) => of * 2 ** at);
const cluster = fc
  .tuple(fc.constantFrom(-1, 0, 1, 1), magnitude, fc.array(fc.double({ min: 1, max: 8, noNaN: true }), { minLength: 1, maxLength: 20 }))
  .map(([sign, at, factors]) => factors.map((factor) => (sign === 0 ? 0 : sign * at * factor)));
const values = fc.array(cluster, { minLength: 1, maxLength: 3 }).map((clusters) => clusters.flat());

/** The widest factor between two bounds that a range of at most 160 buckets needs. */
function widthOf(all: readonly number[], scale: number): number {
  let written = Math.min(scale, 2);
  const sides = [all.filter((value) => value > 0), all.filter((value) => value < 0).map(Math.abs)].filter(({ length }) => length > 0);
  const doublings = sides.reduce((sum, side) => sum + Math.log2(Math.max(...side) / Math.min(...side)), 0);
  while (doublings * 2 ** written + 3 * sides.length + 2 > 160) written -= 1;
  return 2 ** (2 ** -written);
}

test("quantiles of exponential histograms are at most one written bucket from the exact ones", () => {
  fc.assert(
    fc.property(values, fc.integer({ min: -3, max: 8 }), fc.constantFrom(0, 0, 1e-6, 0.02, 3), (all, scale, zeroThreshold) => {
      const buckets = bucketsOf(exponentialOf(all, scale, zeroThreshold));
      expect(buckets.length).toBeLessThanOrEqual(161);
      const width = widthOf(all, scale) * (1 + 1e-9);
      for (const phi of PHIS) {
        const [truth, written] = [trueQuantile(all, phi), quantileOf(buckets, phi)];
        const isRight =
          Math.abs(truth) <= zeroThreshold
            ? Math.abs(written) <= (zeroThreshold || 2 ** -128) * (1 + 1e-9)
            : Math.sign(truth) * written >= Math.abs(truth) / width && Math.abs(written) <= Math.abs(truth) * width;
        expect(isRight, `${phi} of ${JSON.stringify(all)}: ${written}, not ${truth}`).toBe(true);
      }
    }),
    { numRuns: RUNS, seed: 43 },
  );
});

test("quantiles of explicit histograms are in the bucket of the exact ones, whatever the sign of its bounds", () => {
  const bounds = fc.uniqueArray(fc.integer({ min: -50, max: 50 }), { minLength: 1, maxLength: 8 }).map((all) => all.sort((a, b) => a - b));
  fc.assert(
    fc.property(values, bounds, fc.integer({ min: -40, max: 40 }), fc.boolean(), (made, explicitBounds, shift, hasMin) => {
      const all = made.map((value) => (value % 64) + shift);
      const bucketOf = (value: number): number => explicitBounds.filter((bound) => bound < value).length;
      const bucketCounts = Array.from({ length: explicitBounds.length + 1 }, (_, at) => all.filter((v) => bucketOf(v) === at).length);
      const min = hasMin ? { min: Math.min(...all) } : {};
      const buckets = bucketsOf(histogram({ count: all.length, sum: 0, bucketCounts, explicitBounds, ...min }));
      for (const phi of PHIS) {
        const [truth, written] = [trueQuantile(all, phi), quantileOf(buckets, phi)];
        const bucket = bucketOf(truth);
        const [lower, upper] = [explicitBounds[bucket - 1] ?? -Infinity, explicitBounds[bucket] ?? Infinity];
        expect(written >= lower && written <= upper, `${phi} of ${JSON.stringify({ all, explicitBounds })}: ${written}`).toBe(true);
      }
    }),
    { numRuns: RUNS, seed: 43 },
  );
});

test("VictoriaMetrics computes these quantiles from the written buckets", { timeout: 60_000 }, async () => {
  await using engine = await startTestEngine();
  const dense = (from: number, to: number): number[] => Array.from({ length: 100 }, (_, at) => from + ((to - from) * (at + 0.5)) / 100);
  const cases: Record<string, object> = {
    narrow: exponentialOf(dense(2, 2.18), 3, 0),
    tiny: exponentialOf(dense(1, 1.0000007), 20, 0),
    zeros: exponentialOf([...dense(-0.02, 0.02), ...dense(3, 4)], 3, 0.02),
    negative: exponentialOf([...dense(-1.5, -1.3), ...dense(2, 3)], 3, 0),
    exactZeros: exponentialOf([-100, ...Array.from({ length: 9 }, () => 0)], 3, 0),
    explicit: histogram({ count: 3, bucketCounts: [3, 0, 0], explicitBounds: [-10, 5] }),
    explicitMin: histogram({ count: 3, min: -15, bucketCounts: [3, 0, 0], explicitBounds: [-10, 5] }),
  };
  const now = Date.now();
  const text = Object.entries(cases).flatMap(([id, metric]) => {
    const lines = convert([metric]).lines.filter((line) => line.includes("_bucket{"));
    return lines.map((line) => line.replace(/^\w+\{/, `q_bucket{id="${id}",`).replace(/\d+$/, String(now)));
  });
  const posted = await fetch(`${engine.writeUrl}/api/v1/import/prometheus`, { method: "POST", body: text.join("\n") });
  expect(posted.ok).toBe(true);
  await engine.flush();
  const ask = async (phi: number): Promise<Record<string, number>> => {
    const query = new URLSearchParams({ query: `histogram_quantile(${phi}, q_bucket)`, time: String(now / 1000) });
    const { data } = (await (await fetch(`${engine.queryUrl}/api/v1/query?${query.toString()}`)).json()) as {
      data: { result: { metric: { id: string }; value: [number, string] }[] };
    };
    return Object.fromEntries(data.result.map(({ metric, value }) => [metric.id, Number(value[1])]));
  };
  await eventually("all cases are stored", async () => Object.keys(await ask(0.5)).length === Object.keys(cases).length);
  for (const phi of [0, 0.1, 0.5, 0.99]) {
    const found = await ask(phi);
    for (const [id, metric] of Object.entries(cases))
      expect(found[id], `${phi} of ${id}`).toBeCloseTo(quantileOf(bucketsOf(metric), phi), 9);
  }
});
