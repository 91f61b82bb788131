// Conditions on times that a process stored as the wall clock of then: when work is due, and until when it is claimed.
import { sql, type RawBuilder } from "kysely";

/** Clocks of replicas differ by less than this: a replica whose clock is behind must not take what another has just claimed. */
const MAX_CLOCK_DIFFERENCE_MS = 60_000;

/**
 * Whether a stored time has come. `maxAheadMs`: how far ahead such a time is stored at most. A time that is further ahead has come too: the
 * clock was set back since, and the work would otherwise wait as long as the clock was set back.
 */
export function hasCome(column: string, now: Date, maxAheadMs: number): RawBuilder<boolean> {
  return sql<boolean>`(${sql.ref(column)} <= ${now} OR ${sql.ref(column)} > ${latestOf(now, maxAheadMs)})`;
}

/** A stored time after this one was stored before the clock was set back. */
export function latestOf(now: Date, maxAheadMs: number): Date {
  return new Date(now.getTime() + maxAheadMs + MAX_CLOCK_DIFFERENCE_MS);
}
