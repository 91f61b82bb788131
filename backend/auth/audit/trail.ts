// Writes entries of the audit log in batches, and declares its table, where entries expire but are never changed. Invariant: pending
// entries are limited in number and bytes, and organisations share the number by the rule of admission/share.ts. Entries of
// unauthenticated clients (failed logins) are limited per organisation: beyond the rate only their number is stored, so an attack on one
// organisation cannot hide an attack on another. Entries that are not stored are still in the log of the process.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { type ColumnType, type Insertable, type Kysely, sql } from "kysely";
import { Outage } from "../../../common/outage.ts";
import type { AuditEntry } from "../audit-log.ts";
import { writeRows } from "../../engines/relational/bulk-rows.ts";
import { Batcher } from "../../engines/batcher.ts";
import type { Log } from "../../log.ts";
import { mayTake } from "../../admission/share.ts";
import { MAX_AUDIT_ENTRIES_PER_ORG, MAX_SUBJECT_BYTES, MAX_WAITING_AUDIT_ENTRIES } from "../auth-limits.ts";

export interface AuditTable {
  id: string;
  org_id: string | null;
  at: Date;
  action: string;
  actor: string | null;
  actor_id: string | null;
  actor_org_id: string | null;
  address: string;
  request_id: string;
  /** JSON text. */
  subject: ColumnType<Record<string, unknown>, string, never>;
}

export interface AuditTables {
  audit_log: AuditTable;
}

const RETENTION_MS = 90 * 86_400_000;
const ROWS_PER_STATEMENT = 200;
const RETRY_MS = 1000;
const EXPIRE_EVERY_MS = 3_600_000;
/** The entries of an organisation are counted again after this many writes. */
const COUNT_EVERY = 20_000;

interface LoginBucket {
  tokens: number;
  atMs: number;
  omitted: number;
}

/** Token bucket for failed logins: `burst` entries at once, then one per interval. */
const FAILED_LOGINS = { burst: 200, everyMs: 10_000 };

export interface AuditTrailOptions {
  readonly db: Kysely<AuditTables>;
  readonly log: Log;
  readonly now?: () => number;
  readonly maxPerOrg?: number;
  readonly waiting?: number;
}

type AuditRow = Insertable<AuditTable>;

export class AuditTrail implements AsyncDisposable {
  readonly #options: AuditTrailOptions;
  readonly #now: () => number;
  readonly #outage: Outage;
  readonly #batcher: Batcher<AuditRow>;
  /** Rows that are not written yet, in total and of each organisation. */
  #waiting = 0;
  readonly #waitingOf = new Map<string, number>();
  readonly #stopping = new AbortController();
  readonly #written = new Map<string, number>();
  /** Buckets by the account's organisation; logins without an account share one bucket. */
  readonly #failedLogins = new Map<string, LoginBucket>();
  #hasGivenUp = false;
  #dropped = 0;
  #expiredAtMs = Number.NEGATIVE_INFINITY;
  #sequence = 0;
  #sequenceOfMs = 0;

  constructor(options: AuditTrailOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#batcher = new Batcher({ write: (rows) => this.#write(rows), maxItems: ROWS_PER_STATEMENT });
    this.#outage = new Outage({
      began: (error) => options.log.warn({ event: "audit.write_failed", err: error }, "cannot write the audit log, retrying"),
      ended: ({ seconds }) =>
        options.log.info({ event: "audit.write_recovered", seconds, dropped: this.#dropped }, "audit log can be written again"),
    });
  }

  /** Never throws, never waits. */
  add(entry: AuditEntry): void {
    const { waiting = MAX_WAITING_AUDIT_ENTRIES } = this.#options;
    const isFailedLogin = entry.action === "login.failed" || entry.action === "login.refused";
    const owner = entry.orgId ?? "";
    const omitted = isFailedLogin ? this.#admitFailedLogin(owner) : 0;
    if (omitted === undefined) return;
    if (!mayTake(1, { limit: waiting, used: this.#waiting, own: this.#waitingOf.get(owner) ?? 0 })) {
      this.#dropped += 1;
      return;
    }
    this.#countWaiting(owner, 1);
    void this.#batcher.add(this.#buildRow(entry, omitted > 0 ? { omitted_before: omitted } : {}));
  }

  /** Resolves when all entries so far are written or dropped. */
  async settled(): Promise<void> {
    await this.#batcher.flush();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    await this.#batcher.flush();
  }

  #countWaiting(owner: string, change: 1 | -1): void {
    this.#waiting += change;
    const own = (this.#waitingOf.get(owner) ?? 0) + change;
    if (own === 0) this.#waitingOf.delete(owner);
    else this.#waitingOf.set(owner, own);
  }

  /** The number of entries that were omitted since the last stored one; undefined if this one is omitted too. */
  #admitFailedLogin(orgId: string): number | undefined {
    const nowMs = this.#now();
    const bucket = this.#failedLogins.get(orgId) ?? { tokens: FAILED_LOGINS.burst, atMs: nowMs, omitted: 0 };
    this.#failedLogins.set(orgId, bucket);
    bucket.tokens = Math.min(FAILED_LOGINS.burst, bucket.tokens + Math.max(0, nowMs - bucket.atMs) / FAILED_LOGINS.everyMs);
    bucket.atMs = nowMs;
    if (bucket.tokens < 1) {
      bucket.omitted += 1;
      return undefined;
    }
    bucket.tokens -= 1;
    const { omitted } = bucket;
    bucket.omitted = 0;
    return omitted;
  }

  #buildRow({ action, orgId, actor, actorId, actorOrgId, address, requestId, subject }: AuditEntry, more: object): AuditRow {
    return {
      id: this.#nextId(),
      org_id: orgId ?? null,
      at: new Date(this.#now()),
      action,
      actor: actor ?? null,
      actor_id: actorId ?? null,
      actor_org_id: actorOrgId ?? null,
      // From a header of a trusted proxy, which may contain any text.
      address: address.slice(0, 100),
      request_id: requestId,
      subject: subjectText({ ...subject, ...more }),
    };
  }

  /** A UUID of version 7 (RFC 9562), which keeps the order of entries of one millisecond. */
  #nextId(): string {
    const nowMs = this.#now();
    this.#sequence = nowMs === this.#sequenceOfMs ? (this.#sequence + 1) % 4096 : 0;
    this.#sequenceOfMs = nowMs;
    const time = nowMs.toString(16).padStart(12, "0");
    return `${time.slice(0, 8)}-${time.slice(8)}-7${this.#sequence.toString(16).padStart(3, "0")}-${randomUUID().slice(19)}`;
  }

  /** Retries until the rows are written, or until one more try while the process stops. Never rejects. */
  async #write(rows: readonly AuditRow[]): Promise<void> {
    const { db, log } = this.#options;
    while (!this.#hasGivenUp) {
      try {
        const refused = await writeRows(rows, (batch) => db.insertInto("audit_log").values(batch).execute());
        for (const { id: _id, subject, ...entry } of refused) {
          const fields = { ...entry, subject: JSON.parse(subject) as unknown };
          log.error({ event: "audit.entry_dropped", audit: true, ...fields }, "database rejected an audit entry, dropping it");
        }
        break;
      } catch (error) {
        this.#outage.failed(error);
        this.#hasGivenUp = this.#stopping.signal.aborted;
        await sleep(RETRY_MS, undefined, { signal: this.#stopping.signal, ref: false }).catch(() => undefined);
      }
    }
    for (const { org_id: orgId } of rows) this.#countWaiting(orgId ?? "", -1);
    if (this.#hasGivenUp) return;
    try {
      await this.#expire(rows);
      this.#outage.recovered();
    } catch (error) {
      this.#outage.failed(error);
    }
  }

  /** Deletes entries that are too old, and those beyond the limit of an organisation. */
  async #expire(rows: readonly AuditRow[]): Promise<void> {
    const { db, maxPerOrg = MAX_AUDIT_ENTRIES_PER_ORG } = this.#options;
    const nowMs = this.#now();
    if (nowMs - this.#expiredAtMs >= EXPIRE_EVERY_MS) {
      this.#expiredAtMs = nowMs;
      await db
        .deleteFrom("audit_log")
        .where("at", "<", new Date(nowMs - RETENTION_MS))
        .execute();
    }
    for (const { org_id: orgId } of rows) if (orgId) this.#written.set(orgId, (this.#written.get(orgId) ?? 0) + 1);
    for (const [orgId, written] of this.#written) {
      if (written < Math.min(COUNT_EVERY, maxPerOrg)) continue;
      this.#written.delete(orgId);
      await sql`
        DELETE FROM audit_log WHERE org_id = ${orgId} AND at < (
          SELECT at FROM audit_log WHERE org_id = ${orgId} ORDER BY at DESC, id DESC LIMIT 1 OFFSET ${maxPerOrg})`.execute(db);
    }
  }
}

/** JSON without characters that a database refuses: names come from agents, which are not trusted. */
function subjectText(subject: Record<string, unknown>): string {
  const text = JSON.stringify(subject, (_name, value: unknown) =>
    typeof value === "string" ? value.toWellFormed().replaceAll("\0", "\ufffd") : value,
  );
  return Buffer.byteLength(text) <= MAX_SUBJECT_BYTES ? text : JSON.stringify({ too_large: text.length });
}
