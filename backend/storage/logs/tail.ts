// Follows the log records of an organisation in the order of arrival. Invariants: a record is sent once, even if it is committed up to
// OVERLAP_MS after later ones; one read returns a bounded number of rows and bytes, and covers at most the last hour of record times.
import type { Ask } from "../../engines/clickhouse/clickhouse-client.ts";
import { and, Sql, sql } from "../../engines/clickhouse/sql.ts";
import { mayTake } from "../../admission/share.ts";
import { ApiError, TooLargeError } from "../../errors.ts";
import { firstIdAt, idsWithin, receivedAtMsOf } from "../ids.ts";
import {
  MAX_TAIL_BYTES,
  MAX_TAIL_LAG_MS,
  MAX_TAIL_RECORD_AGE_MS,
  MAX_TAIL_REMEMBERED,
  MAX_TAIL_ROWS,
  MAX_TAILS,
  MAX_TAILS_PER_ORG,
} from "../storage-limits.ts";
import { nanoseconds } from "../page.ts";
import { matchingIn, recordConditions, type RecordFilter } from "./filter.ts";

/** A record may be committed this long after records with larger ids, because bodies are queued and the clocks of replicas differ. */
const OVERLAP_MS = 10_000;
/** Ids run ahead of the clock if many records arrive within a millisecond. */
const AHEAD_MS = 60_000;

export interface TailEvent {
  /** The id to resume after. */
  readonly id: string;
  /** A row in JSON; undefined: records were skipped before the next event. */
  readonly row: string | undefined;
}

export interface Arrived {
  readonly events: readonly TailEvent[];
  /** The limit was reached, so more records may be available already. */
  readonly isFull: boolean;
}

export class Tail {
  readonly #orgId: string;
  readonly #filter: RecordFilter;
  readonly #columns: Sql;
  /** All records up to this id were sent or skipped. */
  #horizon: bigint;
  #newest: bigint;
  #limit = MAX_TAIL_ROWS;
  readonly #sent = new Set<string>();

  /** `after`: the id of an event; undefined: from now on. */
  constructor(orgId: string, filter: RecordFilter, columns: Sql, after: bigint | undefined, nowMs: number) {
    this.#orgId = orgId;
    this.#filter = filter;
    this.#columns = columns;
    this.#horizon = after ?? firstIdAt(nowMs);
    this.#newest = this.#horizon;
  }

  /** Reads the records that have arrived. Throws as Ask does. */
  async next(ask: Ask, nowMs: number): Promise<Arrived> {
    const events: TailEvent[] = [];
    if (this.#horizon < firstIdAt(nowMs - MAX_TAIL_LAG_MS)) {
      this.#moveTo(firstIdAt(nowMs - OVERLAP_MS));
      events.push({ id: String(this.#newest), row: undefined });
    }
    const lines = await this.#read(ask, nowMs);
    for (const line of lines ?? []) events.push(this.#send(line));
    if (!lines) events.push(await this.#skipRow(ask, nowMs));
    const isFull = !lines || lines.length >= this.#limit;
    this.#limit = Math.min(MAX_TAIL_ROWS, this.#limit * 2);
    this.#moveTo(isFull ? this.#newest - idsWithin(OVERLAP_MS) : firstIdAt(nowMs - OVERLAP_MS));
    return { events, isFull };
  }

  /** Undefined if a single row is too large. */
  async #read(ask: Ask, nowMs: number): Promise<string[] | undefined> {
    for (;;) {
      try {
        const statement = this.#select(sql`id, ${this.#columns}`, nowMs, this.#limit);
        return (await ask(statement, MAX_TAIL_BYTES, matchingIn(this.#filter).blockRows)).toString("utf8").split("\n").filter(Boolean);
      } catch (error) {
        if (!(error instanceof TooLargeError)) throw error;
        if (this.#limit === 1) return undefined;
        this.#limit = Math.max(1, Math.floor(this.#limit / 10));
      }
    }
  }

  #send(line: string): TailEvent {
    const [prefix, id] = /^\{"id":"(\d+)",/.exec(line) ?? [];
    if (prefix === undefined || id === undefined) throw new Error("the engine answered something other than rows");
    this.#remember(id);
    return { id: String(this.#newest), row: `{${line.slice(prefix.length)}` };
  }

  /** Skips the next row, which alone exceeds the size limit. */
  async #skipRow(ask: Ask, nowMs: number): Promise<TailEvent> {
    const [line = "{}"] = (await ask(this.#select(sql`id`, nowMs, 1), undefined, matchingIn(this.#filter).blockRows))
      .toString("utf8")
      .split("\n");
    const { id } = JSON.parse(line) as { id?: string };
    if (id !== undefined) this.#remember(id);
    return { id: String(this.#newest), row: undefined };
  }

  #select(columns: Sql, nowMs: number, limit: number): Sql {
    const receivedS = Math.floor((receivedAtMsOf(this.#horizon) - AHEAD_MS) / 1000);
    const conditions = [
      sql`org_id = ${this.#orgId}`,
      sql`received_at >= toDateTime(${receivedS})`,
      sql`time >= ${nanoseconds(BigInt(nowMs - MAX_TAIL_RECORD_AGE_MS) * 1_000_000n)}`,
      sql`id > ${this.#horizon}`,
    ];
    // Not an injection: ids consist of digits.
    if (this.#sent.size > 0) conditions.push(new Sql(`id NOT IN (${[...this.#sent].join(", ")})`));
    const { from } = matchingIn(this.#filter);
    return sql`SELECT ${columns} FROM ${from} WHERE ${and([...conditions, ...recordConditions(this.#filter)])} ORDER BY logs.id LIMIT ${limit}`;
  }

  #remember(id: string): void {
    this.#sent.add(id);
    if (BigInt(id) > this.#newest) this.#newest = BigInt(id);
  }

  /** Moves the horizon, forward only. */
  #moveTo(horizon: bigint): void {
    if (horizon > this.#horizon) this.#horizon = horizon;
    if (this.#newest < this.#horizon) this.#newest = this.#horizon;
    const sent = [...this.#sent].map(BigInt).sort((a, b) => (a < b ? -1 : 1));
    const newestForgotten = sent[sent.length - MAX_TAIL_REMEMBERED - 1];
    if (newestForgotten !== undefined && newestForgotten > this.#horizon) this.#horizon = newestForgotten;
    for (const id of sent) if (id <= this.#horizon) this.#sent.delete(String(id));
  }
}

// Counts the open tails per organisation and in total. Invariant: neither limit is exceeded, organisations share the total by the rule of
// admission/share.ts, and closed tails are not counted.

const RETRY_AFTER_S = 5;

export class TailCounts {
  readonly perOrg: number;
  readonly #inAll: number;
  readonly #counts = new Map<string, number>();

  constructor({ perOrg = MAX_TAILS_PER_ORG, inAll = MAX_TAILS }: { perOrg?: number; inAll?: number } = {}) {
    this.perOrg = perOrg;
    this.#inAll = inAll;
  }

  /** Throws ApiError too_many_queries if the organisation has reached its limit, unavailable if all organisations together have. */
  enter(orgId: string): void {
    const orgCount = this.#counts.get(orgId) ?? 0;
    if (orgCount >= this.perOrg) {
      const message = `this organisation has ${this.perOrg} tails under way: close one, or ask /query/logs`;
      throw new ApiError("too_many_queries", message, { retryAfterS: RETRY_AFTER_S });
    }
    const used = [...this.#counts.values()].reduce((sum, count) => sum + count, 0);
    if (!mayTake(1, { limit: this.#inAll, used, own: orgCount }))
      throw new ApiError("unavailable", "there are too many tails: try again", { retryAfterS: RETRY_AFTER_S });
    this.#counts.set(orgId, orgCount + 1);
  }

  leave(orgId: string): void {
    const remaining = (this.#counts.get(orgId) ?? 1) - 1;
    if (remaining === 0) this.#counts.delete(orgId);
    else this.#counts.set(orgId, remaining);
  }
}
