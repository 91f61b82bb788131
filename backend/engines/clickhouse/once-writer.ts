// Stores the rows of a body once, however often the body comes within 10 minutes. A body is known by its sender and hash, and each of its
// days by itself, because the engine commits a partition whole or not at all, but not two together. Where the engine is embedded, small
// rows are stored once they are in its journal (journaled-commit.ts). Invariant: a day that was acknowledged is never stored again, one that
// was not is never taken for stored: after a failure of unknown outcome, and after a restart, the table itself is asked (columns org_id,
// host_id, body_hash, received_at), after the restart once what the journal held is in it.
import type { ClickHouse } from "./client.ts";
import { GroupCommit } from "./group-commit.ts";
import { asOurs } from "./journal-columns.ts";
import { formOf, type JournalEntry } from "./row-journal.ts";
import { JournaledCommit } from "./journaled-commit.ts";
import type { NativeColumns, NativeRows } from "./native-block.ts";
import { RecentBodies } from "./recent-bodies.ts";
import { sql } from "./sql.ts";
import { readStoredDays, storedEntries, WINDOW_S } from "./stored-days.ts";

export interface WriterBatch {
  readonly orgId: string;
  readonly hostId: string;
  /** Unset: stored always. */
  readonly bodyHash: string | undefined;
  readonly sections: readonly (NativeRows & { readonly day: number })[];
}

/** From this many rows on, the engine's own token also recognises a body that another replica stored. */
const TOKEN_ROWS = 1000;

/** Told of each commit of an organisation's rows. */
type Committed = (orgId: string) => void;

export class OnceWriter implements AsyncDisposable {
  readonly #clickhouse: ClickHouse;
  readonly #table: string;
  readonly #columns: NativeColumns;
  readonly #commit: GroupCommit;
  readonly #committed: Committed;
  readonly #form: number;
  /** Of the embedded engine. */
  readonly #journaled: JournaledCommit | undefined;
  readonly #stored = new RecentBodies(WINDOW_S * 1000);
  /** Days whose insert failed: they may be stored all the same. */
  readonly #uncertain = new RecentBodies(WINDOW_S * 1000);
  readonly #underWay = new Map<string, Promise<void>>();

  private constructor(clickhouse: ClickHouse, table: string, columns: NativeColumns, committed: Committed) {
    this.#clickhouse = clickhouse;
    this.#table = table;
    this.#columns = columns;
    this.#committed = committed;
    this.#form = formOf(columns);
    const commit = new GroupCommit(clickhouse, table, columns);
    const { pending } = clickhouse;
    const stored = (entries: readonly JournalEntry[]) => storedEntries(clickhouse, { name: table, columns }, entries);
    this.#commit = commit;
    if (!pending) return;
    const journal = pending.journalOf(table, columns);
    const ours = (entry: JournalEntry) => asOurs(journal.folder, columns, entry);
    const { log } = pending;
    this.#journaled = new JournaledCommit({ table, form: this.#form, journal, commit, committed, log, stored, asOurs: ours });
  }

  /** Stores what the journal of an earlier process holds, and reads back which bodies of the last 10 minutes are stored. */
  static async open(
    clickhouse: ClickHouse,
    table: string,
    columns: NativeColumns,
    committed: Committed = () => undefined,
  ): Promise<OnceWriter> {
    const writer = new OnceWriter(clickhouse, table, columns, committed);
    try {
      await writer.#recover();
      for (const row of await readStoredDays(clickhouse, table, sinceS(), sql`body_hash != 0`))
        writer.#stored.add(senderOf(row.org_id, row.host_id, row.day), BigInt(row.body_hash));
    } catch (error) {
      await writer[Symbol.asyncDispose]();
      throw error;
    }
    return writer;
  }

  /** Resolves when every row is stored. Throws ApiError storage_unavailable or unstorable. */
  async write(batch: WriterBatch): Promise<void> {
    const [first, ...others] = batch.sections;
    if (first && others.length === 0) return this.#writeDay(batch, first);
    const done = await Promise.allSettled(batch.sections.map((section) => this.#writeDay(batch, section)));
    for (const outcome of done) if (outcome.status === "rejected") throw outcome.reason;
  }

  /** Commits what is under way. */
  async [Symbol.asyncDispose](): Promise<void> {
    await (this.#journaled ?? this.#commit)[Symbol.asyncDispose]();
    await Promise.allSettled(this.#underWay.values());
    if (this.#journaled) this.#clickhouse.pending?.delete(this.#journaled);
  }

  async #recover(): Promise<void> {
    if (!this.#journaled) return;
    this.#clickhouse.pending?.add(this.#journaled);
    // Also those that the engine does not take yet.
    for (const { orgId, hostId, bodyHash, day } of await this.#journaled.recover())
      if (bodyHash !== undefined) this.#stored.add(senderOf(orgId, hostId, day), BigInt(bodyHash));
  }

  async #writeDay(batch: WriterBatch, section: WriterBatch["sections"][number]): Promise<void> {
    if (batch.bodyHash === undefined) return this.#add(batch, section);
    const body = dayOfBody(batch, batch.bodyHash, section.day);
    const { token } = body;
    // The same body may be under way: a sender that timed out sends again while the first one still waits.
    for (let first = this.#underWay.get(token); first; first = this.#underWay.get(token)) await first.catch(() => {});
    if (this.#stored.has(body.sender, body.hash)) return;
    const writing = this.#writeNew(batch, section, body);
    this.#underWay.set(token, writing);
    try {
      await writing;
    } finally {
      this.#underWay.delete(token);
    }
  }

  async #writeNew(batch: WriterBatch, section: WriterBatch["sections"][number], { sender, hash, token }: DayOfBody): Promise<void> {
    if (!this.#uncertain.has(sender, hash) || !(await this.#isStored(batch, section.day))) {
      try {
        await this.#insert(batch, section, token);
      } catch (error) {
        this.#uncertain.add(sender, hash);
        throw error;
      }
    }
    this.#stored.add(sender, hash);
  }

  async #insert(batch: WriterBatch, section: WriterBatch["sections"][number], token: string): Promise<void> {
    if (!this.#clickhouse.shared || section.count < TOKEN_ROWS) return this.#add(batch, section);
    await this.#clickhouse.insert({ table: this.#table, columns: this.#columns, rows: [section], deduplicationToken: token });
    this.#committed(batch.orgId);
  }

  async #add({ orgId, hostId, bodyHash }: WriterBatch, section: WriterBatch["sections"][number]): Promise<void> {
    if (this.#journaled) return this.#journaled.add({ orgId, hostId, bodyHash, day: section.day, form: this.#form, rows: section });
    await this.#commit.add(orgId, section);
    this.#committed(orgId);
  }

  async #isStored(batch: WriterBatch, day: number): Promise<boolean> {
    const rows = await readStoredDays(
      this.#clickhouse,
      this.#table,
      sinceS(),
      sql`org_id = ${batch.orgId} AND host_id = ${batch.hostId} AND body_hash = ${BigInt(batch.bodyHash ?? 0)} AND toRelativeDayNum(time) = ${day}`,
    );
    return rows.length > 0;
  }
}

/** Since when bodies are known. */
function sinceS(): number {
  return Math.floor(Date.now() / 1000) - WINDOW_S;
}

/** One of a body's days. */
interface DayOfBody {
  readonly sender: string;
  readonly hash: bigint;
  /** Replicas of other versions make the same one: a change of its form would store twice what is sent again during an upgrade. */
  readonly token: string;
}

function dayOfBody({ orgId, hostId }: WriterBatch, hash: string, day: number): DayOfBody {
  return { sender: senderOf(orgId, hostId, day), hash: BigInt(hash), token: `${orgId}:${hostId}:${hash}:${day}` };
}

/** A sender's day is a sender of its own: days are stored or not one by one. */
function senderOf(orgId: string, hostId: string, day: number): string {
  return `${orgId}:${hostId}:${day}`;
}
