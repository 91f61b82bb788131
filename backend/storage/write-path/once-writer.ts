// Stores the rows of a request body exactly once, even if the body arrives again within 10 minutes. A body is identified by its sender and hash,
// separately for each of its days, because the engine commits one partition atomically but not two together. With an embedded engine, small
// rows count as stored once they are in its journal (journaled-commit.ts). Invariant: an unacknowledged day is never assumed to be stored.
// After a failure of unknown outcome, and after a restart once the journal is replayed, the table is queried (columns org_id, host_id,
// body_hash, received_at). If replicas share the table, the earlier insert is first made void, because it may still be under way: the engine
// stores one insert per deduplication token and partition, so a repetition under the earlier token leaves nothing for the earlier insert. It
// goes to the shard of the earlier insert: another replica may know fewer or more shards.
import { runFor } from "../../admission/request-owner.ts";
import type { ClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import { convertEntry } from "../../engines/clickhouse/journal-columns.ts";
import type { NativeColumns, NativeRows } from "../../engines/clickhouse/native-block.ts";
import { columnsIdOf, firstRow, type JournalEntry } from "../../engines/clickhouse/row-journal.ts";
import { sql } from "../../engines/clickhouse/sql.ts";
import { ApiError } from "../../errors.ts";
import type { BodyClaims, ClaimedInsert } from "../../replicas/body-claims.ts";
import { GroupCommit, shardOfInsert, withShard } from "./group-commit.ts";
import { JournaledCommit } from "./journaled-commit.ts";
import { RecentBodies } from "./recent-bodies.ts";
import { findStoredEntries, readNewestMinutesS, readStoredDays, ReceivedWindow, WINDOW_S } from "./stored-days.ts";

export interface WriterBatch {
  readonly orgId: string;
  readonly hostId: string;
  /** Undefined if the body is stored each time it arrives. */
  readonly bodyHash: string | undefined;
  readonly sections: readonly DayRows[];
}

/** The rows of one day (of the record's time, UTC): one partition. */
export interface DayRows extends NativeRows {
  /** Days since 1970-01-01. */
  readonly day: number;
}

/** With this many rows or more, the engine's own deduplication token also recognises a body that another replica stored. */
const TOKEN_ROWS = 1000;

/** Called after each acknowledgement and each commit of an organisation's rows: from then on queries see them. */
type OnStored = (orgId: string) => void;

export interface OnceWriterOptions {
  readonly onStored?: OnStored;
  /** Set if replicas share the tables. */
  readonly claims?: Pick<BodyClaims, "claim" | "findInsert" | "takeOver" | "release"> | undefined;
}

export class OnceWriter implements AsyncDisposable {
  readonly #clickhouse: ClickHouse;
  readonly #table: string;
  readonly #columns: NativeColumns;
  /** One per shard. */
  readonly #commits: readonly GroupCommit[];
  readonly #onStored: OnStored;
  readonly #claims: OnceWriterOptions["claims"];
  readonly #columnsId: number;
  /** Set if the engine is embedded. */
  readonly #journaled: JournaledCommit | undefined;
  readonly #stored = new RecentBodies(WINDOW_S * 1000);
  /** Days whose insert failed but may have been stored nevertheless. */
  readonly #uncertain = new RecentBodies(WINDOW_S * 1000);
  readonly #inProgress = new Map<string, Promise<void>>();
  /** Days in the journal of an earlier process that a power cut could still lose, by token. */
  readonly #unsynced = new Set<string>();
  /** Earlier inserts that can no longer store anything, by day. */
  readonly #voided = new RecentBodies(WINDOW_S * 1000);
  readonly #startedMs = performance.now();
  readonly #window = new ReceivedWindow();
  /** When the newest rows of earlier processes were received. */
  #newestMinutesS = Number.POSITIVE_INFINITY;

  private constructor(
    clickhouse: ClickHouse,
    table: string,
    columns: NativeColumns,
    { onStored = () => undefined, claims }: OnceWriterOptions,
  ) {
    this.#clickhouse = clickhouse;
    this.#table = table;
    this.#columns = columns;
    this.#onStored = onStored;
    this.#claims = claims;
    this.#columnsId = columnsIdOf(columns);
    this.#commits = clickhouse.shards.map((_, shard) => new GroupCommit({ clickhouse, table, columns, shard, claims }));
    const { pending } = clickhouse;
    const [commit] = this.#commits;
    if (!pending || !commit) return;
    const journal = pending.openJournal(table, columns);
    const findStored = (entries: readonly JournalEntry[]) => findStoredEntries(clickhouse, { name: table, columns }, entries);
    const convert = (entry: JournalEntry) => convertEntry(journal.folder, columns, entry);
    const { log } = pending;
    this.#journaled = new JournaledCommit({ table, columnsId: this.#columnsId, journal, commit, onStored, log, findStored, convert });
  }

  /** Replays the journal of an earlier process, and reads which bodies of the last 10 minutes are stored. */
  static async open(clickhouse: ClickHouse, table: string, columns: NativeColumns, options: OnceWriterOptions = {}): Promise<OnceWriter> {
    const writer = new OnceWriter(clickhouse, table, columns, options);
    try {
      await writer.#recover();
      writer.#newestMinutesS = await readNewestMinutesS(clickhouse, table);
      for (const row of await readStoredDays(clickhouse, table, writer.#sinceS(), sql`body_hash != 0`))
        writer.#stored.add(senderOf(row.org_id, row.host_id, row.day), BigInt(row.body_hash));
    } catch (error) {
      await writer[Symbol.asyncDispose]();
      throw error;
    }
    return writer;
  }

  /** Resolves when every row is stored. Throws ApiError storage_unavailable or unstorable. */
  async write(batch: WriterBatch): Promise<void> {
    this.#window.note();
    const [first, ...others] = batch.sections;
    if (first && others.length === 0) return this.#writeDay(batch, first);
    const outcomes = await Promise.allSettled(batch.sections.map((section) => this.#writeDay(batch, section)));
    for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
  }

  /** Commits what is in progress. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const commit of this.#journaled ? [this.#journaled] : this.#commits) await commit[Symbol.asyncDispose]();
    await Promise.allSettled(this.#inProgress.values());
    if (this.#journaled) this.#clickhouse.pending?.delete(this.#journaled);
  }

  async #recover(): Promise<void> {
    if (!this.#journaled) return;
    this.#clickhouse.pending?.add(this.#journaled);
    // Includes entries that the engine has not accepted yet.
    for (const { orgId, hostId, bodyHash, day, settled } of await this.#journaled.recover()) {
      if (bodyHash === undefined) continue;
      const identity = identifyDay({ orgId, hostId }, bodyHash, day);
      if (settled) void this.#recogniseLater(identity, settled);
      else this.#stored.add(identity.sender, identity.hash);
    }
  }

  /** Until `settled` resolves, a repetition is neither acknowledged nor stored. */
  async #recogniseLater({ sender, hash, token }: DayIdentity, settled: Promise<void>): Promise<void> {
    this.#unsynced.add(token);
    await settled;
    this.#unsynced.delete(token);
    this.#stored.add(sender, hash);
  }

  async #writeDay(batch: WriterBatch, section: DayRows): Promise<void> {
    if (batch.bodyHash === undefined) return void (await this.#add(batch, section));
    const identity = identifyDay(batch, batch.bodyHash, section.day);
    const { sender, hash, token } = identity;
    // The same body may be in progress: a sender whose request timed out here sends it again.
    for (let earlier = this.#inProgress.get(token); earlier; earlier = this.#inProgress.get(token)) await earlier.catch(() => {});
    if (this.#stored.has(sender, hash)) return;
    if (this.#unsynced.has(token)) throw new ApiError("storage_unavailable", "the journal cannot be written; try again");
    const writing = this.#writeNew(batch, section, identity);
    this.#inProgress.set(token, writing);
    try {
      await writing;
    } finally {
      this.#inProgress.delete(token);
    }
  }

  async #writeNew(batch: WriterBatch, section: DayRows, { sender, hash, token }: DayIdentity): Promise<void> {
    const isStored = this.#uncertain.has(sender, hash) && (await this.#isStored(batch, section.day));
    if (!isStored) {
      try {
        await this.#insert(batch, section, token);
      } catch (error) {
        this.#uncertain.add(sender, hash);
        throw error;
      }
    }
    this.#stored.add(sender, hash);
  }

  /** Throws ApiError `unavailable` while another replica may be waiting for an insert of this body. */
  async #insert(batch: WriterBatch, section: DayRows, token: string): Promise<void> {
    if (this.#journaled) return void (await this.#add(batch, section));
    const claim = `${this.#table}:${token}`;
    // The owner of statements in the account database: requests of ingest have none, because few of them need the database.
    const own = <T>(work: () => Promise<T>): Promise<T> => runFor(batch.orgId, work);
    if (this.#clickhouse.shared && section.count >= TOKEN_ROWS) return own(() => this.#insertAlone(batch, section, { token, claim }));
    while (!(await this.#add(batch, section, claim))) if (await own(() => this.#isStoredByEarlier(batch, section, claim))) return;
  }

  /** All inserts of such a body have the same token, so they may overlap. */
  async #insertAlone(batch: WriterBatch, section: DayRows, { token, claim }: { token: string; claim: string }): Promise<void> {
    const insertId = withShard(token, this.#clickhouse.shardOf(batch));
    const isNew = (await this.#claims?.claim([claim], { insertId, receivedS: this.#receivedS(section) }))?.isOurs[0] ?? true;
    if (isNew) return this.#insertWith(token, batch, section);
    if (await this.#isStored(batch, section.day)) return;
    await this.#insertWith(token, batch, section, await this.#claims?.findInsert(claim));
  }

  /** True if an earlier insert has stored the body. If not, it never will, and the body is not claimed any more. */
  async #isStoredByEarlier(batch: WriterBatch, section: DayRows, claim: string): Promise<boolean> {
    if (!this.#claims) return false;
    let earlier: ClaimedInsert;
    try {
      earlier = await this.#claims.takeOver(claim, this.#receivedS(section));
    } catch (error) {
      if (await this.#isStored(batch, section.day)) return true;
      throw error;
    }
    const { insertId, receivedS } = earlier;
    const day = BigInt(section.day);
    if (insertId !== undefined && !this.#voided.has(insertId, day)) {
      // Stores the rows, unless the earlier insert has been committed, or has been made void for another body.
      await this.#insertWith(insertId, batch, section);
      this.#voided.add(insertId, day);
    }
    if (await this.#isStored(batch, section.day, receivedS)) return true;
    await this.#claims.release([claim]);
    return false;
  }

  /** `insertId`: of the earlier insert with this token. */
  async #insertWith(deduplicationToken: string, batch: WriterBatch, section: DayRows, insertId = deduplicationToken): Promise<void> {
    const shard = shardOfInsert(insertId) ?? this.#clickhouse.shardOf(batch);
    if (!this.#clickhouse.shards[shard]) throw new ApiError("unavailable", "this replica does not know the shard yet; try again");
    await this.#clickhouse.insert({ table: this.#table, columns: this.#columns, rows: [section], deduplicationToken, shard });
    this.#onStored(batch.orgId);
  }

  /** False if another insert has claimed the body. */
  async #add({ orgId, hostId, bodyHash }: WriterBatch, section: DayRows, claim?: string): Promise<boolean> {
    if (this.#journaled) {
      await this.#journaled.add({ orgId, hostId, bodyHash, day: section.day, columnsId: this.#columnsId, rows: section });
      return true;
    }
    const commit = this.#commits[this.#clickhouse.shardOf({ orgId, hostId, bodyHash })] as GroupCommit;
    const isStored = await commit.add(orgId, { rows: section, claim });
    if (isStored) this.#onStored(orgId);
    return isStored;
  }

  /** Start of the deduplication window, in seconds since 1970. The clock may have been set forward before this process started. */
  #sinceS(): number {
    const sinceS = this.#window.sinceS();
    return performance.now() - this.#startedMs < WINDOW_S * 1000 ? Math.min(sinceS, this.#newestMinutesS) : sinceS;
  }

  #receivedS(section: DayRows): number {
    return firstRow(this.#columns, section).receivedS;
  }

  /** `receivedS`: when other replicas received the body, by their clocks. */
  async #isStored(batch: WriterBatch, day: number, receivedS = Number.POSITIVE_INFINITY): Promise<boolean> {
    const rows = await readStoredDays(
      this.#clickhouse,
      this.#clickhouse.everyReplica(this.#table).text,
      Math.min(this.#sinceS(), receivedS),
      sql`org_id = ${batch.orgId} AND host_id = ${batch.hostId} AND body_hash = ${BigInt(batch.bodyHash ?? 0)} AND toRelativeDayNum(time) = ${day}`,
    );
    return rows.length > 0;
  }
}

/** Identifies the rows of a body that belong to one day. */
interface DayIdentity {
  readonly sender: string;
  readonly hash: bigint;
  /** Must not change between versions: otherwise bodies that are sent again during an upgrade would be stored twice. */
  readonly token: string;
}

function identifyDay({ orgId, hostId }: Pick<WriterBatch, "orgId" | "hostId">, hash: string, day: number): DayIdentity {
  return { sender: senderOf(orgId, hostId, day), hash: BigInt(hash), token: `${orgId}:${hostId}:${hash}:${day}` };
}

/** Each day of a sender is treated as its own sender, because days are stored independently. */
function senderOf(orgId: string, hostId: string, day: number): string {
  return `${orgId}:${hostId}:${day}`;
}
