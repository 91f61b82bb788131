// The queries of the PromQL compliance tester (github.com/prometheus/compliance, promql/promql-test-queries.yml) with their variants, and
// the metrics that they read. Invariant: the same arguments generate the same samples, so every program gets the same data.
import { parse } from "yaml";
import type { TestSeries } from "../../backend/ingest/remote-write/write-request.fixture.ts";

export interface PromqlCase {
  readonly query: string;
  /** The query as the file has it, which groups its variants. */
  readonly template: string;
  readonly shouldFail: boolean;
}

interface FileCase {
  readonly query: string | number;
  readonly variant_args?: readonly string[];
  readonly should_fail?: boolean;
}

/** Variants as in promql/testcases/expand.go. */
const VARIANTS: Readonly<Record<string, readonly string[]>> = {
  range: ["1s", "15s", "1m", "5m", "15m", "1h"],
  offset: ["1m", "5m", "10m"],
  simpleAggrOp: ["sum", "avg", "max", "min", "count", "stddev", "stdvar"],
  simpleTimeAggrOp: ["sum", "avg", "max", "min", "count", "stddev", "stdvar", "absent", "last"],
  topBottomOp: ["topk", "bottomk"],
  quantile: ["-0.5", "0.1", "0.5", "0.75", "0.95", "0.90", "0.99", "1", "1.5"],
  arithBinOp: ["+", "-", "*", "/", "%", "^"],
  compBinOp: ["==", "!=", "<", ">", "<=", ">="],
  binOp: ["+", "-", "*", "/", "%", "^", "==", "!=", "<", ">", "<=", ">="],
  simpleMathFunc: ["abs", "ceil", "floor", "exp", "sqrt", "ln", "log2", "log10", "round"],
  extrapolatedRateFunc: ["delta", "rate", "increase"],
  clampFunc: ["clamp_min", "clamp_max"],
  instantRateFunc: ["idelta", "irate"],
  dateFunc: ["day_of_month", "day_of_week", "days_in_month", "hour", "minute", "month", "year"],
  smoothingFactor: ["0.1", "0.5", "0.8"],
  trendFactor: ["0.1", "0.5", "0.8"],
};

export function readCases(yaml: string): PromqlCase[] {
  const { test_cases: cases } = parse(yaml) as { test_cases: readonly FileCase[] };
  return cases.flatMap(({ query, variant_args: names = [], should_fail: shouldFail = false }) => {
    const template = String(query);
    return variants(template, names).map((variant) => ({ query: variant, template, shouldFail }));
  });
}

function variants(query: string, [name, ...others]: readonly string[]): string[] {
  if (name === undefined) return [query];
  const values = VARIANTS[name];
  if (values === undefined) throw new Error(`the variant ${name} is not known: a newer version of the queries needs it in this file`);
  return values.flatMap((value) => variants(query.replaceAll(`{{.${name}}}`, value), others));
}

export const SCRAPE_MS = 5000;
const STALE = 0x7ff0_0000_0000_0002n;
const BUCKETS = ["0.0001", "0.001", "0.01", "0.1", "1", "+Inf"];
type Labels = readonly (readonly [string, string])[];
type ValueAt = (scrape: number) => number | bigint | undefined;

/** The series of the demo service on three instances, as a scrape every five seconds stores them. One item for each minute of time. */
export function* demoMinutes(startMs: number, endMs: number): Generator<TestSeries[]> {
  const series = [10_000, 10_001, 10_002].flatMap((port, instance) => demoSeries(`demo.promlabs.com:${port}`, instance));
  const scrapes = Math.floor((endMs - startMs) / SCRAPE_MS);
  for (let from = 0; from < scrapes; from += 12) {
    const moments = Array.from({ length: Math.min(12, scrapes - from) }, (_, index) => from + index);
    yield series.flatMap(({ labels, offsetMs, at }) => {
      const samples = moments.flatMap((scrape) => {
        const value = at(scrape);
        return value === undefined ? [] : [[value, startMs + scrape * SCRAPE_MS + offsetMs] as const];
      });
      return samples.length > 0 ? [{ labels, samples }] : [];
    });
  }
}

function demoSeries(target: string, instance: number): { labels: Labels; offsetMs: number; at: ValueAt }[] {
  const offsetMs = 137 + 1311 * instance;
  const make = (name: string, more: Labels, at: ValueAt) => ({
    labels: [["__name__", name], ["instance", target], ["job", "demo"], ...more].sort(([one = ""], [other = ""]) =>
      one < other ? -1 : 1,
    ) as Labels,
    offsetMs,
    at,
  });
  const wave = (scrape: number, seed: number): number =>
    Math.sin((scrape + 7 * instance) / (5 + seed)) + Math.cos(scrape / (11 + seed + instance));
  const start = Math.floor(Date.now() / 3_600_000) * 3600;
  const memory = ["buffers", "cached", "free", "used"].map((type, seed) =>
    make("demo_memory_usage_bytes", [["type", type]], (scrape) => Math.round((seed + 2 + wave(scrape, seed)) * 1e9)),
  );
  const cpu = ["idle", "system", "user"].map((mode, seed) =>
    // The process restarts now and then.
    make(
      "demo_cpu_usage_seconds_total",
      [["mode", mode]],
      (scrape) => ((scrape + 90 * instance) % 250) * (0.7 + seed) + wave(scrape, seed),
    ),
  );
  const requests = ["/api/bar", "/api/foo"].flatMap((path, seed) => {
    const labels: Labels = [
      ["method", "GET"],
      ["path", path],
      ["status", "200"],
    ];
    const count = (scrape: number): number => scrape * (12 + seed + instance);
    return [
      ...BUCKETS.map((le, index) =>
        make("demo_api_request_duration_seconds_bucket", [...labels, ["le", le]], (scrape) =>
          Math.floor((count(scrape) * (index + 1)) / BUCKETS.length),
        ),
      ),
      make("demo_api_request_duration_seconds_count", labels, count),
      make("demo_api_request_duration_seconds_sum", labels, (scrape) => count(scrape) * 0.031),
    ];
  });
  return [
    ...memory,
    ...cpu,
    ...requests,
    make("demo_num_cpus", [], () => 4),
    make("demo_disk_total_bytes", [], () => 1e12),
    make("demo_disk_usage_bytes", [], (scrape) => 4e11 + scrape * 1e6 + Math.round(wave(scrape, 3) * 1e7)),
    make("demo_batch_last_success_timestamp_seconds", [], (scrape) => start - 7200 + Math.floor(scrape / 37) * 185 + instance),
    // Gone for a while, which a scrape marks once.
    make("demo_intermittent_metric", [], (scrape) => (scrape % 40 < 20 ? 1 : scrape % 40 === 20 ? STALE : undefined)),
  ];
}
