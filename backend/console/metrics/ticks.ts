// Ticks of time axes and of axes of counts. Invariant: a tick is at a round time of the displayed zone.

const [SECOND, MINUTE, HOUR, DAY] = [1000, 60_000, 3_600_000, 86_400_000];
const STEPS_MS = [
  ...[1, 2, 5, 10, 15, 30].map((n) => n * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
  ...[1, 2, 7, 14, 30].map((n) => n * DAY),
];

/** Round times, at most `count`. `offsetMs`: of the displayed zone, east of Greenwich. */
export function timeTicks(fromMs: number, toMs: number, count: number, offsetMs: number): number[] {
  const step = STEPS_MS.find((size) => (toMs - fromMs) / size <= count) ?? (toMs - fromMs) / count;
  const first = Math.ceil((fromMs + offsetMs) / step) * step - offsetMs;
  return Array.from({ length: Math.max(0, Math.floor((toMs - first) / step) + 1) }, (_, at) => first + at * step);
}

/** Round counts between 0 and `max`: 0, the middle and the end; powers of ten on a logarithmic axis. */
export function countTicks(max: number, isLogarithmic: boolean): number[] {
  if (isLogarithmic) return Array.from({ length: Math.floor(Math.log10(Math.max(1, max))) + 1 }, (_, at) => 10 ** at);
  const step = [1, 2, 5]
    .flatMap((digit) => Array.from({ length: 13 }, (_, at) => digit * 10 ** at))
    .toSorted((a, b) => a - b)
    .find((size) => max / size <= 3);
  return step === undefined ? [0, max] : Array.from({ length: Math.floor(max / step) + 1 }, (_, at) => at * step);
}

const DURATIONS_MS = [-3, -2, -1, 0, 1, 2].map((exponent) => 10 ** exponent);
const LONG_MS = [1000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000];

export function durationTicks(lowMs: number, highMs: number): number[] {
  const within = (all: readonly number[]): number[] => all.filter((ms) => ms >= lowMs && ms <= highMs);
  const decades = within([...DURATIONS_MS, ...LONG_MS]);
  return decades.length >= 3 ? decades : within([...DURATIONS_MS, ...LONG_MS].flatMap((ms) => [ms, 2 * ms, 5 * ms]));
}
