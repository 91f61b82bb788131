// Entries on their way into the audit log: those that come while some are being written go with the next write. Invariant: what waits is
// bounded in number and bytes, and so is what strangers can have written down: of failed logins, so many a minute are kept one by one and
// the rest as a number, of each organisation apart, so that nobody hides an attack on one behind another. What finds no room is still in the log of the process.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { type Insertable, type Kysely, sql } from "kysely";
import { Outage } from "../../agent/common/outage.ts";
import type { AuditEntry } from "../auth/audit-log.ts";
import { writeRows } from "../engines/relational/write-rows.ts";
import type { Log } from "../observability/log.ts";
import type { AuditTable, AuditTables } from "./table.ts";

export const KEPT_MS = 90 * 86_400_000;
/** The newest of an organisation, whatever it does. */
const MOST_OF_AN_ORG = 200_000;
const ROWS = 200;
const WAITING = 5_000;
const MAX_SUBJECT_BYTES = 4096;
const RETRY_MS = 1000;
const FORGET_EVERY_MS = 3_600_000;
/** An organisation that wrote as many since they were last counted is counted. */
const COUNTED_EVERY = 20_000;

interface Strangers {
  room: number;
  atMs: number;
  leftOut: number;
}

/** Of strangers' entries: as many at once, then one in this time. */
const STRANGERS = { burst: 200, everyMs: 10_000 };

export interface AuditTrailOptions {
  readonly db: Kysely<AuditTables>;
  readonly log: Log;
  readonly now?: () => number;
  readonly mostOfAnOrg?: number;
  readonly waiting?: number;
}

type Row = Insertable<AuditTable>;

export class AuditTrail implements AsyncDisposable {
  readonly #options: AuditTrailOptions;
  readonly #now: () => number;
  readonly #outage: Outage;
  readonly #waiting: Row[] = [];
  readonly #stopping = new AbortController();
  readonly #written = new Map<string, number>();
  /** Of failed logins: by the organisation of the account, and together those of no account. */
  readonly #strangers = new Map<string, Strangers>();
  #writing: Promise<void> | undefined;
  #dropped = 0;
  #forgottenAtMs = Number.NEGATIVE_INFINITY;
  #sequence = 0;
  #sequenceOfMs = 0;

  constructor(options: AuditTrailOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#outage = new Outage({
      began: (error) => options.log.warn({ err: error }, "the audit log cannot be written; retrying"),
      ended: ({ seconds }) => options.log.info({ seconds, dropped: this.#dropped }, "recovered: the audit log is written"),
    });
  }

  /** Never throws, never waits. */
  add(entry: AuditEntry): void {
    const { waiting = WAITING } = this.#options;
    const isStrangers = entry.action === "login.failed" || entry.action === "login.refused";
    const leftOut = isStrangers ? this.#admitStranger(entry.orgId ?? "") : 0;
    if (leftOut === undefined) return;
    if (this.#waiting.length >= waiting) {
      this.#dropped += 1;
      return;
    }
    this.#waiting.push(this.#rowOf(entry, leftOut > 0 ? { not_kept_before: leftOut } : {}));
    this.#writing ??= this.#writeAll().finally(() => (this.#writing = undefined));
  }

  /** Resolves when all that was added before is written, or cannot be. */
  async settled(): Promise<void> {
    await this.#writing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    await this.#writing;
  }

  /** How many were left out since the last one that was kept; undefined: this one is left out too. */
  #admitStranger(of: string): number | undefined {
    const nowMs = this.#now();
    const strangers = this.#strangers.get(of) ?? { room: STRANGERS.burst, atMs: nowMs, leftOut: 0 };
    this.#strangers.set(of, strangers);
    strangers.room = Math.min(STRANGERS.burst, strangers.room + Math.max(0, nowMs - strangers.atMs) / STRANGERS.everyMs);
    strangers.atMs = nowMs;
    if (strangers.room < 1) {
      strangers.leftOut += 1;
      return undefined;
    }
    strangers.room -= 1;
    const { leftOut } = strangers;
    strangers.leftOut = 0;
    return leftOut;
  }

  #rowOf({ action, orgId, actor, actorId, actorOrgId, address, requestId, subject }: AuditEntry, more: object): Row {
    return {
      id: this.#nextId(),
      org_id: orgId ?? null,
      at: new Date(this.#now()),
      action,
      actor: actor ?? null,
      actor_id: actorId ?? null,
      actor_org_id: actorOrgId ?? null,
      // Of a trusted proxy's header, which may say anything.
      address: address.slice(0, 100),
      request_id: requestId,
      subject: subjectText({ ...subject, ...more }),
    };
  }

  /** A UUID of version 7 (RFC 9562): entries of one millisecond stay in their order. */
  #nextId(): string {
    const nowMs = this.#now();
    this.#sequence = nowMs === this.#sequenceOfMs ? (this.#sequence + 1) % 4096 : 0;
    this.#sequenceOfMs = nowMs;
    const time = nowMs.toString(16).padStart(12, "0");
    return `${time.slice(0, 8)}-${time.slice(8)}-7${this.#sequence.toString(16).padStart(3, "0")}-${randomUUID().slice(19)}`;
  }

  /** Never throws. While the process stops, one more try is made. */
  async #writeAll(): Promise<void> {
    // Not before all that this turn of the event loop adds have come.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const rows = this.#waiting.slice(0, ROWS);
      try {
        const refused = await writeRows(rows, (some) => this.#options.db.insertInto("audit_log").values(some).execute());
        for (const { action, org_id } of refused) this.#options.log.error({ action, org_id }, "an audit entry cannot be kept");
        this.#waiting.splice(0, rows.length);
        this.#outage.recovered();
        await this.#forget(rows);
      } catch (error) {
        this.#outage.failed(error);
        if (this.#stopping.signal.aborted) return;
        await sleep(RETRY_MS, undefined, { signal: this.#stopping.signal, ref: false }).catch(() => undefined);
      }
    }
  }

  /** What is too old, and what is too much of one organisation. */
  async #forget(rows: readonly Row[]): Promise<void> {
    const { db, mostOfAnOrg = MOST_OF_AN_ORG } = this.#options;
    const nowMs = this.#now();
    if (nowMs - this.#forgottenAtMs >= FORGET_EVERY_MS) {
      this.#forgottenAtMs = nowMs;
      await db
        .deleteFrom("audit_log")
        .where("at", "<", new Date(nowMs - KEPT_MS))
        .execute();
    }
    for (const { org_id: orgId } of rows) if (orgId) this.#written.set(orgId, (this.#written.get(orgId) ?? 0) + 1);
    for (const [orgId, written] of this.#written) {
      if (written < Math.min(COUNTED_EVERY, mostOfAnOrg)) continue;
      this.#written.delete(orgId);
      await sql`
        DELETE FROM audit_log WHERE org_id = ${orgId} AND at < (
          SELECT at FROM audit_log WHERE org_id = ${orgId} ORDER BY at DESC, id DESC LIMIT 1 OFFSET ${mostOfAnOrg})`.execute(db);
    }
  }
}

/** Without what a database or a reader cannot take: names come from agents, which may be anybody's. */
function subjectText(subject: Record<string, unknown>): string {
  const text = JSON.stringify(subject, (_name, value: unknown) =>
    typeof value === "string" ? value.toWellFormed().replaceAll("\0", "\ufffd") : value,
  );
  return Buffer.byteLength(text) <= MAX_SUBJECT_BYTES ? text : JSON.stringify({ too_large: text.length });
}
