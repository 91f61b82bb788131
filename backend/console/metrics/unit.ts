// Units of metrics: formats values on axes and in tables. Names of units are those of Grafana's field options.
import { HUGE, shortNumber } from "../parts/text.ts";

export type Unit = "short" | "bytes" | "Bps" | "percentunit" | "percent" | "s" | "ms" | "reqps";

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
      return `${shortNumber(value)}/s`;
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

const UNITS = [
  [/_bytes(_total)?$/, "bytes"],
  [/_(milliseconds|ms)$/, "ms"],
  [/_seconds$/, "s"],
  [/_ratio$/, "percentunit"],
] as const satisfies readonly (readonly [RegExp, Unit])[];

/**
 * The unit at the end of the metric names in an expression, as OpenMetrics recommends. undefined if they differ, or if the expression
 * divides, counts or compares, because its values then have another unit.
 */
export function unitOfQuery(query: string): Unit | undefined {
  const withoutStrings = query.replaceAll(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g, '""');
  if (/[/*=<>^](?!=?~?"")|\b(count|count_values|group|bool)\b/.test(withoutStrings.replaceAll(/\{[^{}]*\}/g, ""))) return undefined;
  const names = withoutStrings.match(/\b[a-zA-Z_:][\w:]*\b(?!\s*\()/g) ?? [];
  const units = new Set(names.flatMap((name) => UNITS.find(([suffix]) => suffix.test(name))?.[1] ?? []));
  const [unit] = units;
  if (units.size !== 1 || !unit) return undefined;
  if (!/\b(rate|irate)\s*\(/.test(withoutStrings)) return unit;
  return unit === "bytes" ? "Bps" : undefined;
}
