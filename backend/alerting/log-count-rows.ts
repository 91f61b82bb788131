// Schedules in the database when the records of log rules are counted. Invariants: one replica at a time counts a rule; the more an
// organisation's counts cost, the longer its next one waits, on any replica; a count for a condition that has changed since is not stored.
import { type Kysely, sql, type Transaction } from "kysely";
import { hasCome } from "../engines/relational/due.ts";
import type { LogCondition, LogGroup } from "./log-condition.ts";

export interface LogCountsTable {
  rule_id: string;
  org_id: string;
  due_at: Date | null;
  locked_until: Date | null;
  since_at: Date;
  counted_at: Date | null;
  took_ms: number | null;
  last_reported: string;
  error: string | null;
}

export interface LogCountTables {
  log_counts: LogCountsTable;
  rules: { id: string; logs: string | null };
}

type Db = Kysely<LogCountTables> | Transaction<LogCountTables>;

/** A rule whose records have to be counted now. */
export interface DueCount {
  readonly ruleId: string;
  readonly orgId: string;
  readonly logs: LogCondition;
  /** The groups that were last reported to the evaluator. */
  readonly reported: readonly LogGroup[];
  readonly lockedUntil: Date;
}

/** Longer than a count takes, including its wait for a slot. */
export const CLAIM_MS = 20_000;
/** A count is due at most this long after the one before: the longest interval, and the pauses of other rules. */
const MAX_DUE_MS = 900_000;
/** An organisation's counts may use at most 1/10 of wall-clock time. */
const SHARE = 10;

export function pauseMs(busyMs: number): number {
  return (SHARE - 1) * busyMs;
}

/** Claims the count that has waited longest. `busy`: organisations at their limit. `belowMs`: only rules whose last count took less. */
export async function claimDue(
  db: Kysely<LogCountTables>,
  now: Date,
  { busy, belowMs }: { readonly busy: readonly string[]; readonly belowMs?: number },
): Promise<DueCount | undefined> {
  const lockedUntil = new Date(now.getTime() + CLAIM_MS);
  const row = await db
    .updateTable("log_counts")
    .set({ locked_until: lockedUntil })
    .where("rule_id", "=", (eb) =>
      eb
        .selectFrom("log_counts")
        .select("rule_id")
        .where(hasCome("due_at", now, MAX_DUE_MS))
        .where((or) => or.or([or("locked_until", "is", null), hasCome("locked_until", now, CLAIM_MS)]))
        .$if(busy.length > 0, (query) => query.where("org_id", "not in", busy))
        .$if(belowMs !== undefined, (query) => query.where("took_ms", "<", belowMs ?? 0))
        .orderBy("due_at")
        .orderBy("rule_id")
        .limit(1)
        .forUpdate()
        .skipLocked(),
    )
    .returningAll()
    .executeTakeFirst();
  if (!row) return undefined;
  const rule = await db.selectFrom("rules").select("logs").where("id", "=", row.rule_id).executeTakeFirst();
  if (rule?.logs == null) return undefined;
  const [logs, reported] = [JSON.parse(rule.logs) as LogCondition, JSON.parse(row.last_reported) as LogGroup[]];
  return { ruleId: row.rule_id, orgId: row.org_id, logs, reported, lockedUntil };
}

export interface CountResult {
  readonly now: Date;
  /** Including its wait for a slot. */
  readonly tookMs: number;
  /** Duration without the wait for a slot. */
  readonly busyMs: number;
  /** Earliest time of the next count. */
  readonly nextAt: Date;
  /** Undefined if the records could not be counted, or the evaluator could not be reached. */
  readonly reported: readonly LogGroup[] | undefined;
  readonly error: string | null;
}

export async function settleCount(
  db: Kysely<LogCountTables>,
  { ruleId, orgId, lockedUntil }: DueCount,
  result: CountResult,
): Promise<void> {
  const { now, tookMs, busyMs, nextAt, reported, error } = result;
  const freeAt = await postpone(db, { orgId, ruleId, until: new Date(now.getTime() + pauseMs(busyMs)) });
  const dueAt = nextAt > freeAt ? nextAt : freeAt;
  await db
    .updateTable("log_counts")
    .set({
      locked_until: null,
      due_at: dueAt,
      took_ms: tookMs,
      error,
      ...(reported && { counted_at: now, last_reported: JSON.stringify(reported) }),
    })
    .where("rule_id", "=", ruleId)
    .where("locked_until", "=", lockedUntil)
    .execute();
}

/**
 * Postpones the organisation's other rules, in their order: otherwise, if several rules are due at the same time, only the first would
 * ever be counted. Returns when the rule that was counted is next. Rows that another statement is changing are skipped, so two of these
 * statements never wait for each other.
 */
async function postpone(db: Db, { orgId, ruleId, until }: { orgId: string; ruleId: string; until: Date }): Promise<Date> {
  const early = await db
    .selectFrom("log_counts")
    .select("rule_id")
    .where("org_id", "=", orgId)
    .where("rule_id", "<>", ruleId)
    .where("due_at", "<", until)
    .orderBy("due_at")
    .orderBy("rule_id")
    .execute();
  const dueAt = (position: number): Date => new Date(until.getTime() + position);
  if (early.length === 0) return until;
  const times = early.map(({ rule_id }, position) => sql`WHEN ${rule_id} THEN ${dueAt(position)}`);
  await db
    .updateTable("log_counts")
    .set({ due_at: sql<Date>`CASE rule_id ${sql.join(times, sql` `)} ELSE due_at END` })
    .where("rule_id", "in", (eb) =>
      eb
        .selectFrom("log_counts")
        .select("rule_id")
        .where(
          "rule_id",
          "in",
          early.map(({ rule_id }) => rule_id),
        )
        .where("due_at", "<", until)
        .forUpdate()
        .skipLocked(),
    )
    .execute();
  return dueAt(early.length);
}

/** Call if the count was not started, or its result is no longer needed. */
export async function releaseCount(db: Db, { ruleId, lockedUntil }: DueCount): Promise<void> {
  await db
    .updateTable("log_counts")
    .set({ locked_until: null })
    .where("rule_id", "=", ruleId)
    .where("locked_until", "=", lockedUntil)
    .execute();
}

/** Releases the claims of this process's previous run. Only for a database that no other process uses. */
export async function releaseClaims(db: Db): Promise<void> {
  await db.updateTable("log_counts").set({ locked_until: null }).where("locked_until", "is not", null).execute();
}

/** Call in the transaction that writes the rule. `isNew`: existing counts belong to another condition. */
export async function scheduleCount(
  db: Db,
  { ruleId, orgId, now, enabled, isNew }: { ruleId: string; orgId: string; now: Date; enabled: boolean; isNew: boolean },
): Promise<void> {
  const due = { due_at: enabled ? now : null, locked_until: null, since_at: now };
  const fresh = { ...due, counted_at: null, took_ms: null, last_reported: "[]", error: null };
  await db
    .insertInto("log_counts")
    .values({ rule_id: ruleId, org_id: orgId, ...fresh })
    .onConflict((conflict) => conflict.column("rule_id").doUpdateSet(isNew ? fresh : due))
    .execute();
}

/** Call if the rule is now over metrics. */
export async function removeCount(db: Db, ruleId: string): Promise<void> {
  await db.deleteFrom("log_counts").where("rule_id", "=", ruleId).execute();
}
