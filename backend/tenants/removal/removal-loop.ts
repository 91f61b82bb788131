// Removes telemetry in the background: all of deleted organisations, and data that is older than its organisation's retention. One replica
// at a time. Invariants: an organisation counts as erased only after passes found nothing of it for 20 minutes, which is longer than keys
// are accepted without the database, and longer than ClickHouse keeps the files of replaced parts; a pass that fails is repeated.
import type { Kysely, Selectable } from "kysely";
import { Loop } from "../../../common/loop.ts";
import { Outage } from "../../../common/outage.ts";
import type { Deletions } from "../../engines/append-log/dead-letters.ts";
import type { Log } from "../../log.ts";
import type { VictoriaMetricsStore } from "../../storage/metrics/metric-store.ts";
import {
  countOnEveryReplica,
  eraseOrganisations,
  purgeExpired,
  type RowCounts,
  type TableRetention,
} from "../../storage/removal/removal.ts";
import type { Telemetry } from "../../telemetry.ts";
import { type DeletionTables, type OrgDeletionRow, settleDeletion } from "./deletion.ts";
import { claimJob, extendJob } from "./job-claim.ts";
import type { OrgRetention, Retention, RetentionTables } from "./retention.ts";

export type RemovalTables = DeletionTables & RetentionTables;

export interface DataRemovalOptions {
  readonly db: Kysely<RemovalTables>;
  readonly telemetry: Pick<Telemetry, "clickhouse" | "isUnused"> | undefined;
  /** Deletes the series of an organisation, and returns how many there were. */
  readonly metrics: Pick<VictoriaMetricsStore, "erase" | "eraseDeadLetters">;
  readonly retention: OrgRetention;
  /** Overwrites deleted data that the relational store still keeps. */
  readonly scrub?: () => Promise<void>;
  readonly log: Log;
  readonly nowMs?: () => number;
  readonly everyMs?: number;
  readonly quietMs?: number;
}

const JOB = "data-removal";
const EVERY_MS = 60_000;
const PURGE_EVERY_MS = 600_000;
const QUIET_MS = 1_200_000;
/** Organisations whose rows are counted and deleted by the same statements. */
const DELETIONS_PER_STATEMENT = 1000;
const CLAIMED_PART = 0.9;
const REMIND_MS = 3_600_000;

export class DataRemoval implements AsyncDisposable {
  readonly #options: DataRemovalOptions;
  readonly #nowMs: () => number;
  readonly #loop: Loop;
  /** Erased organisations whose dead letters this process has erased, too. */
  readonly #withoutLetters = new Set<string>();
  #purgedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: DataRemovalOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? Date.now;
    const { log, everyMs = EVERY_MS } = options;
    const outage = new Outage({
      began: (err) => log.error({ event: "removal.failed", err }, "cannot remove expired or deleted data, retrying"),
      reminded: (err, facts) =>
        log.error({ event: "removal.failed", err, ...facts }, "still cannot remove expired or deleted data, retrying"),
      ended: ({ failures, seconds }) =>
        log.info({ event: "removal.recovered", failures, seconds }, "recovered: expired and deleted data is removed again"),
      remindEveryMs: REMIND_MS,
    });
    this.#loop = new Loop({
      step: async (signal) => {
        await this.#eraseDeadLetters();
        if (await claimJob(options.db, JOB, this.#nowMs(), everyMs * CLAIMED_PART)) await this.pass(signal);
        outage.recovered();
        return everyMs;
      },
      failed: (error) => outage.failed(error),
      backoffMs: [1000, everyMs],
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
  }

  /** Throws the first failure, after everything else was tried. */
  async pass(signal?: AbortSignal): Promise<void> {
    const failures: unknown[] = [];
    const waiting = this.#options.db.selectFrom("org_deletions").selectAll().where("erased_at", "is", null).orderBy("requested_at");
    const deletions = await waiting.execute();
    for (let at = 0; at < deletions.length; at += DELETIONS_PER_STATEMENT) {
      if (signal?.aborted) break;
      await this.#erase(deletions.slice(at, at + DELETIONS_PER_STATEMENT), failures, signal);
    }
    await this.#purge().catch((error: unknown) => failures.push(error));
    if (failures.length > 0) throw failures[0];
  }

  /** A pass over many organisations takes minutes, so the claim is extended, and `signal` ends it early. */
  async #erase(deletions: readonly Selectable<OrgDeletionRow>[], failures: unknown[], signal?: AbortSignal): Promise<void> {
    const { db, metrics, log, scrub, quietMs = QUIET_MS, everyMs = EVERY_MS } = this.#options;
    const countedAtMs = this.#nowMs();
    const counted = await this.#eraseRows(deletions, failures);
    let extendedAtMs = countedAtMs;
    for (const deletion of deletions) {
      const rows = counted.get(deletion.org_id);
      if (!rows) continue;
      if (signal?.aborted) return;
      try {
        if (this.#nowMs() - extendedAtMs >= everyMs / 4) {
          extendedAtMs = this.#nowMs();
          await extendJob(db, JOB, extendedAtMs, everyMs * CLAIMED_PART);
        }
        const found = { ...rows };
        const series = await metrics.erase(deletion.org_id);
        if (series > 0) found["metrics"] = series;
        const at = new Date(Object.keys(found).length === 0 ? countedAtMs : this.#nowMs());
        if (!(await settleDeletion(db, deletion, found, { at, quietMs }))) continue;
        await scrub?.();
        log.info({ event: "removal.organisation_erased", org_id: deletion.org_id }, "erased a deleted organisation");
      } catch (error) {
        failures.push(error);
      }
    }
  }

  /** Returns what was found in ClickHouse and among dead letters, without organisations for which that failed. */
  async #eraseRows(deletions: readonly Selectable<OrgDeletionRow>[], failures: unknown[]): Promise<Map<string, RowCounts>> {
    const { telemetry } = this.#options;
    const clickhouse = telemetry && !telemetry.isUnused ? telemetry.clickhouse : undefined;
    const orgIds = deletions.map(({ org_id: orgId }) => orgId);
    let found: Map<string, RowCounts>;
    try {
      const deadLetters = await this.#eraseLettersOf(new Map(deletions.map((row) => [row.org_id, row.requested_at.getTime()])));
      found = clickhouse ? await eraseOrganisations(clickhouse, orgIds) : new Map(orgIds.map((orgId) => [orgId, {}]));
      // They cannot be attributed: a damaged one may be of any of the organisations.
      if (deadLetters > 0) for (const rows of found.values()) rows["dead_letters"] = deadLetters;
    } catch (error) {
      failures.push(error);
      return new Map();
    }
    if (!clickhouse) return found;
    const empty = [...found].filter(([, rows]) => Object.keys(rows).length === 0).map(([orgId]) => orgId);
    try {
      for (const [orgId, rows] of await countOnEveryReplica(clickhouse, empty)) found.set(orgId, rows);
    } catch (error) {
      failures.push(error);
      for (const orgId of empty) found.delete(orgId);
    }
    return found;
  }

  /** Each replica has journals of its own, so this does not depend on the claim. */
  async #eraseDeadLetters(): Promise<void> {
    const rows = await this.#options.db.selectFrom("org_deletions").select(["org_id", "requested_at", "erased_at"]).execute();
    const waiting = rows.filter(({ org_id: orgId }) => !this.#withoutLetters.has(orgId));
    if (waiting.length === 0) return;
    await this.#eraseLettersOf(new Map(waiting.map((row) => [row.org_id, row.requested_at.getTime()])));
    for (const { org_id: orgId, erased_at: erasedAt } of waiting) if (erasedAt) this.#withoutLetters.add(orgId);
  }

  async #eraseLettersOf(deletions: Deletions): Promise<number> {
    const { metrics, telemetry } = this.#options;
    const pending = telemetry && !telemetry.isUnused ? telemetry.clickhouse.pending : undefined;
    return ((await pending?.eraseDeadLetters(deletions)) ?? 0) + (await metrics.eraseDeadLetters(deletions));
  }

  async #purge(): Promise<void> {
    const { telemetry, retention, log } = this.#options;
    const nowMs = this.#nowMs();
    if (!telemetry || telemetry.isUnused || nowMs - this.#purgedAtMs < PURGE_EVERY_MS) return;
    const { clickhouse } = telemetry;
    await retention.settleTables();
    await retention.withoutChanges(async (organisations) => {
      for (const shard of clickhouse.shards) {
        for (const expiring of listTables(retention.defaults, organisations)) {
          const days = await purgeExpired(shard, expiring, nowMs);
          if (days.length > 0) log.info({ event: "removal.expired", table: expiring.table, days }, "deleted expired rows of organisations");
        }
      }
    });
    this.#purgedAtMs = nowMs;
  }
}

export function listTables(defaults: Retention, organisations: ReadonlyMap<string, Retention>): TableRetention[] {
  const all = [...organisations];
  const logs = all.map(([orgId, { logsDays, logRules }]) => [orgId, { days: logsDays, rules: logRules }] as const);
  const spans = all.map(([orgId, { tracesDays }]) => [orgId, { days: tracesDays, rules: [] }] as const);
  return [
    { table: "logs", defaultDays: defaults.logsDays, organisations: new Map(logs) },
    { table: "spans", defaultDays: defaults.tracesDays, organisations: new Map(spans) },
    { table: "exemplars", defaultDays: defaults.tracesDays, organisations: new Map(spans) },
  ];
}
