// Parses and formats durations in two of Prometheus' forms: that of its configuration, for all settings, fields and options; and the wider
// one of its expressions and their parameters. Invariants: both share one table of units; a number without a unit never means milliseconds.

const UNITS_MS = { y: 31_536_000_000, w: 604_800_000, d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000, ms: 1 } as const;
const UNITS = Object.entries(UNITS_MS);
const DURATION = new RegExp(`^${UNITS.map(([unit]) => `(?:(\\d{1,15})${unit})?`).join("")}$`);

/**
 * Parses `30s`, `1h30m`, `7d` or `0` to milliseconds: whole numbers, units from the largest down, each at most once. Undefined for any
 * other text.
 */
export function durationMs(text: string): number | undefined {
  if (text === "0") return 0;
  const match = text === "" ? null : DURATION.exec(text);
  if (!match) return undefined;
  return UNITS.reduce((sum, [, ms], at) => sum + Number(match[at + 1] ?? 0) * ms, 0);
}

export interface DurationBounds {
  readonly minMs?: number;
  readonly maxMs?: number;
}

/** Like `durationMs`, but also undefined if out of range. */
export function durationWithin(text: string, { minMs = 0, maxMs = Infinity }: DurationBounds): number | undefined {
  const ms = durationMs(text);
  return ms !== undefined && ms >= minMs && ms <= maxMs ? ms : undefined;
}

/** Describes a valid value: `a duration from 1s to 1d, such as 30s or 1h30m`. */
export function durationWanted({ minMs = 0, maxMs = Infinity }: DurationBounds, example = "30s or 1h30m"): string {
  const atMost = maxMs === Infinity ? undefined : formatDuration(maxMs);
  const least = minMs > 0 ? formatDuration(minMs) : undefined;
  if (least !== undefined && atMost !== undefined) return `a duration from ${least} to ${atMost}, such as ${example}`;
  if (least !== undefined) return `a duration of at least ${least}, such as ${example}`;
  if (atMost !== undefined) return `a duration of at most ${atMost}, such as ${example}`;
  return `a duration, such as ${example}`;
}

/** Formats milliseconds so that `durationMs` can parse them; years and weeks as days. */
export function formatDuration(ms: number): string {
  let rest = Math.round(ms);
  let text = "";
  for (const [unit, unitMs] of UNITS) {
    if (unit === "y" || unit === "w") continue;
    const count = Math.floor(rest / unitMs);
    rest -= count * unitMs;
    if (count > 0) text += `${count}${unit}`;
  }
  return text || "0s";
}

const EXPRESSION = /^(?:(?:\d+(?:\.\d+)?)(?:ms|[smhdwyi]))+$/i;
const SECONDS = /^(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/i;

/**
 * Parses a duration in an expression or a query parameter to milliseconds: also with fractions, in any order, upper case, `i` for a step,
 * and a bare number for seconds. Undefined for any other text.
 */
export function expressionDurationMs(text: string, stepMs: number): number | undefined {
  const trimmed = text.trim();
  if (trimmed === "$__interval") return stepMs;
  if (SECONDS.test(trimmed)) return Number(trimmed) * 1000;
  if (!EXPRESSION.test(trimmed)) return undefined;
  const units: Readonly<Record<string, number>> = { ...UNITS_MS, i: stepMs };
  let sum = 0;
  for (const [, count, unit = ""] of trimmed.matchAll(/(\d+(?:\.\d+)?)(ms|[smhdwyi])/gi)) {
    sum += Number(count) * (units[unit.toLowerCase()] ?? Number.NaN);
  }
  return sum;
}
