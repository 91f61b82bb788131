// Reads durations as Prometheus writes them: whole numbers with units from largest to smallest, each at most once; or `0`.

const UNITS: readonly (readonly [unit: string, ms: number])[] = [
  ["y", 365 * 86_400_000],
  ["w", 7 * 86_400_000],
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1000],
  ["ms", 1],
];
const DURATION = new RegExp(`^${UNITS.map(([unit]) => `(?:(\\d{1,15})${unit})?`).join("")}$`);

/** Milliseconds, or undefined when `text` is no such duration. */
export function durationMs(text: string): number | undefined {
  if (text === "0") return 0;
  const match = text === "" ? null : DURATION.exec(text);
  if (!match) return undefined;
  return UNITS.reduce((sum, [, ms], at) => sum + Number(match[at + 1] ?? 0) * ms, 0);
}
