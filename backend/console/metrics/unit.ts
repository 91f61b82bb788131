// Units of metrics: formats values on axes and in tables. Names of units are those of Grafana's field options.
import { HUGE, shortNumber } from "../parts/text.ts";

export type Unit = "short" | "bytes" | "Bps" | "percentunit" | "percent" | "s" | "ms" | "reqps" | "cps" | "cores";

const BINARY = [
  [2 ** 60, "Ei"],
  [2 ** 50, "Pi"],
  [2 ** 40, "Ti"],
  [2 ** 30, "Gi"],
  [2 ** 20, "Mi"],
  [2 ** 10, "Ki"],
] as const;

/** `1.5 GiB`, `12 %`, `340 ms`. */
export function formatValue(value: number, unit: Unit | undefined): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "–" : String(value);
  switch (unit) {
    case "bytes":
      return `${binary(value)}B`;
    case "Bps":
      return `${binary(value)}B/s`;
    case "percentunit":
      return `${Number((value * 100).toPrecision(3))} %`;
    case "percent":
      return `${Number(value.toPrecision(3))} %`;
    case "s":
      return duration(value * 1000);
    case "ms":
      return duration(value);
    case "reqps":
      return `${shortNumber(value, 3)} req/s`;
    case "cps":
      return `${shortNumber(value, 3)}/s`;
    case "cores":
      return `${shortNumber(value, 3)} cores`;
    default:
      return shortNumber(value);
  }
}

/** `1.5 Gi`, `12 `. */
function binary(value: number): string {
  if (Math.abs(value) >= HUGE * 2 ** 20) return `${shortNumber(value)} `;
  for (const [size, prefix] of BINARY) if (Math.abs(value) >= size) return `${Number((value / size).toPrecision(4))} ${prefix}`;
  return `${Number(value.toPrecision(5))} `;
}

function duration(ms: number): string {
  const size = Math.abs(ms);
  if (size === 0) return "0 s";
  if (size < 1) return `${Number((ms * 1000).toPrecision(3))} µs`;
  if (size < 1000) return `${Number(ms.toPrecision(3))} ms`;
  if (size < 120_000) return `${Number((ms / 1000).toPrecision(3))} s`;
  if (size < 7_200_000) return `${Number((ms / 60_000).toPrecision(3))} min`;
  return `${shortNumber(Number((ms / 3_600_000).toPrecision(3)))} h`;
}

type UnitRule = readonly [name: RegExp, unit: Unit | undefined];

const UNITS: readonly UnitRule[] = [
  [/_bytes(_total)?$/, "bytes"],
  [/_(milliseconds|ms)$/, "ms"],
  [/_seconds$/, "s"],
  [/_ratio$/, "percentunit"],
  [/cpu_(usage|request|limit)$/, "cores"],
];
/** Units of what counters grow by in a second. */
const UNITS_OF_RATES: readonly UnitRule[] = [
  [/_bytes(_total)?$/, "Bps"],
  [/cpu(_[a-z]+)?_seconds(_total)?$/, "cores"],
  [/_seconds(_total|_sum)?$/, undefined],
  [/(_requests|_calls)(_total)?$/, "reqps"],
  [/(_total|_count)$/, "cps"],
];
const UNITS_OF_BUCKETS: readonly UnitRule[] = [
  [/_bytes_bucket$/, "bytes"],
  [/_(milliseconds|ms)_bucket$/, "ms"],
  [/_(seconds|latency)_bucket$/, "s"],
];

/**
 * The unit at the end of the metric names in an expression, as OpenMetrics recommends. undefined if they differ, or if the expression
 * divides, counts or compares, because its values then have another unit.
 */
export function unitOfQuery(query: string): Unit | undefined {
  const withoutStrings = query.replaceAll(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g, '""');
  if (/[/*=<>^](?!=?~?"")|\b(count|count_values|group|bool)\b/.test(withoutStrings.replaceAll(/\{[^{}]*\}/g, ""))) return undefined;
  const withoutLabels = withoutStrings.replaceAll(/\{[^{}]*\}|\b(by|without|on|ignoring)\s*\([^()]*\)/g, "");
  const rules = /\bhistogram_quantile\s*\(/.test(withoutLabels)
    ? UNITS_OF_BUCKETS
    : /\bi?rate\s*\(/.test(withoutLabels)
      ? UNITS_OF_RATES
      : UNITS;
  const names = withoutLabels.match(/\b[a-zA-Z_:][\w:]*\b(?!\s*\()/g) ?? [];
  const units = new Set(names.flatMap((name) => rules.find(([suffix]) => suffix.test(name))?.slice(1) ?? []));
  const [unit] = units;
  return units.size === 1 ? (unit as Unit | undefined) : undefined;
}
