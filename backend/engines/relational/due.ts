// Conditions on times that a process stored as the wall clock of then: when work is due, and until when it is claimed.
import { sql, type RawBuilder } from "kysely";

/**
 * Whether a stored time has come. `maxAheadMs`: how far ahead such a time is stored at most. A time that is further ahead has come too: the
 * clock was set back since, and the work would otherwise wait as long as the clock was set back.
 */
export function hasCome(column: string, now: Date, maxAheadMs: number): RawBuilder<boolean> {
  return sql<boolean>`(${sql.ref(column)} <= ${now} OR ${sql.ref(column)} > ${new Date(now.getTime() + maxAheadMs)})`;
}
