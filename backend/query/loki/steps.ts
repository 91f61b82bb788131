// The moments for which a query of metrics is evaluated, and which of them a record counts for. Invariant: a record counts for the moments
// t with t - range < record <= t, both ends as Loki has them.

/** Nanoseconds since 1970; the moments are start, start + step, … up to the end. */
export interface Steps {
  readonly start: bigint;
  readonly step: bigint;
  readonly count: number;
}

/** As Loki bounds them. */
export const MOST_STEPS = 11_000;

export function stepsOf(start: bigint, end: bigint, step: bigint): Steps {
  return { start, step, count: Number((end - start) / step) + 1 };
}

export interface Window {
  readonly rangeNs: bigint;
  readonly offsetNs: bigint;
}

/** The first and the last moment that a record counts for; the first is later where it is none. */
export function momentsOf(timeNs: bigint, { start, step, count }: Steps, { rangeNs, offsetNs }: Window): [first: number, last: number] {
  const since = timeNs + offsetNs - start;
  const first = since <= 0n ? 0 : Number((since + step - 1n) / step);
  const until = since + rangeNs - 1n;
  return [first, until < 0n ? -1 : Math.min(count - 1, Number(until / step))];
}

/** The records that count for any moment: both ends inclusive. */
export function spanOf({ start, step, count }: Steps, { rangeNs, offsetNs }: Window): { start: bigint; end: bigint } {
  const last = start + step * BigInt(count - 1);
  return { start: start - offsetNs - rangeNs + 1n, end: last - offsetNs };
}
