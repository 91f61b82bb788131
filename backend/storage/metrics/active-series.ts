// Counts the active series of each organisation (those with a sample in the last 30 to 60 minutes) and enforces their limit. Replicas
// exchange their counts (series-sketches.ts), so the limit applies to the whole installation. Only organisations with a
// limit are counted, in 8 KiB each. Invariant: a request body with only known series is accepted whatever the limit is; a body that would exceed
// the limit is rejected as a whole.
import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import type { SigningKey } from "../../http/request-identity.ts";
import { ApiError } from "../../errors.ts";
import { MAX_REMEMBERED_ORGS } from "../storage-limits.ts";
import { eachSeries, type HashKey, keyOfHost, newHashKey, rankOf, Ranks, registerOf, REGISTERS } from "./series-hash.ts";

const PERIOD_MS = 30 * 60_000;
const RETRY_AFTER_S = 60;
/** After this many bytes, the event loop serves other requests. */
const SLICE_BYTES = 256 * 1024;
const SLICE_HASHES = 10_000;

type SeriesSender = Pick<SigningKey, "orgId" | "hostId">;

export interface ActiveSeriesOptions {
  /** 0: unlimited, and not counted. */
  readonly limitOf: (orgId: string) => number;
  /** Unix milliseconds, from a clock that never goes back. Periods begin at the same time in all replicas. */
  readonly now?: () => number;
  /** Must be the same in all replicas that exchange counts. */
  readonly key?: HashKey;
}

/** The count of an organisation in one period. */
export interface SeriesSketch {
  readonly orgId: string;
  readonly period: number;
  readonly registers: Uint8Array;
}

export class ActiveSeries {
  readonly #limitOf: (orgId: string) => number;
  readonly #now: () => number;
  readonly #key: HashKey;
  readonly #orgs = new Map<string, Recent>();

  constructor({ limitOf, now = () => performance.timeOrigin + performance.now(), key = newHashKey() }: ActiveSeriesOptions) {
    this.#limitOf = limitOf;
    this.#now = now;
    this.#key = key;
  }

  /** The number of active series including those of a validated body; undefined if they are not counted. Throws ApiError over_quota. */
  async admit(sender: SeriesSender, body: Buffer): Promise<number | undefined> {
    const key = this.hashKeyOf(sender);
    if (!key) return undefined;
    return await this.#count(sender.orgId, async (visit) => {
      for (let at = 0; at < body.length;) {
        if (at > 0) await yieldToEventLoop();
        at = eachSeries(body, { from: at, to: at + SLICE_BYTES }, key, visit);
      }
    });
  }

  /** The key for hashes of the sender's series; undefined: they are not counted. */
  hashKeyOf({ orgId, hostId }: SeriesSender): HashKey | undefined {
    if (this.#limitOf(orgId) > 0) return keyOfHost(this.#key, hostId);
    this.#orgs.delete(orgId);
    return undefined;
  }

  /** The same as `admit`, for series whose hashes were computed with `hashKeyOf`. */
  async admitHashes({ orgId }: SeriesSender, hashes: Int32Array): Promise<number> {
    return await this.#count(orgId, async (visit) => {
      for (let from = 0; from < hashes.length; from += SLICE_HASHES) {
        if (from > 0) await yieldToEventLoop();
        for (const hash of hashes.subarray(from, from + SLICE_HASHES)) visit(hash);
      }
    });
  }

  get period(): number {
    return Math.floor(this.#now() / PERIOD_MS);
  }

  /** The counts that changed since the last call. */
  takeChanged(): SeriesSketch[] {
    return [...this.#orgs].flatMap(([orgId, recent]) => {
      const registers = recent.takeChanged(this.period);
      return registers ? { orgId, period: this.period, registers } : [];
    });
  }

  /** Adds the count of another replica for this period. */
  merge({ orgId, period, registers }: SeriesSketch): void {
    if (period !== this.period || registers.length !== REGISTERS || this.#limitOf(orgId) === 0) return;
    this.#recentOf(orgId).merge(registers);
  }

  async #count(orgId: string, eachHash: (visit: (hash: number) => void) => Promise<void>): Promise<number> {
    const limit = this.#limitOf(orgId);
    const recent = this.#recentOf(orgId);
    const raised = new Map<number, number>();
    await eachHash((hash) => recent.add(hash, raised));
    const [before, after] = [recent.estimate(), recent.estimate(raised)];
    if (limit > 0 && after > Math.max(limit, before)) throw overLimit(limit);
    recent.raise(raised);
    return after;
  }

  #recentOf(orgId: string): Recent {
    const { period } = this;
    let recent = this.#orgs.get(orgId);
    if (!recent) {
      if (this.#orgs.size >= MAX_REMEMBERED_ORGS)
        for (const [other, { isOver }] of this.#orgs) if (isOver(period)) this.#orgs.delete(other);
      recent = new Recent(period);
      this.#orgs.set(orgId, recent);
    }
    recent.moveTo(period);
    return recent;
  }
}

function overLimit(limit: number): ApiError {
  const reason = `active_series is ${limit}: a new series is taken when others have had no sample for an hour`;
  return new ApiError("over_quota", `the organisation has as many active series as it may (${reason}); send it again later`, {
    retryAfterS: RETRY_AFTER_S,
  });
}

/** The registers of the current period and of the one before. */
class Recent {
  #period: number;
  #previous = new Uint8Array(REGISTERS);
  #current = new Uint8Array(REGISTERS);
  #ranks = new Ranks();
  #isChanged = false;

  constructor(period: number) {
    this.#period = period;
  }

  isOver = (period: number): boolean => period > this.#period + 1;

  moveTo(period: number): void {
    if (period === this.#period) return;
    this.#previous = period === this.#period + 1 ? this.#current : new Uint8Array(REGISTERS);
    this.#current = new Uint8Array(REGISTERS);
    this.#ranks = new Ranks(this.#previous);
    this.#period = period;
  }

  /** A hash that does not raise the estimate is recorded immediately; others are added to `raised`, by register. */
  add(hash: number, raised: Map<number, number>): void {
    const [register, rank] = [registerOf(hash), rankOf(hash)];
    if (rank <= (this.#current[register] as number)) return;
    if (rank <= (this.#previous[register] as number)) this.#set(register, rank);
    else if (rank > (raised.get(register) ?? 0)) raised.set(register, rank);
  }

  raise(raised: ReadonlyMap<number, number>): void {
    for (const [register, rank] of raised) {
      const currentRank = this.#highestRank(register);
      // Another body may have raised the register in the meantime.
      if (rank <= currentRank) continue;
      this.#ranks.move(currentRank, rank);
      this.#set(register, rank);
    }
  }

  /** The registers of this period, if they changed since the last call. */
  takeChanged(period: number): Uint8Array | undefined {
    this.moveTo(period);
    if (!this.#isChanged) return undefined;
    this.#isChanged = false;
    return this.#current;
  }

  /** Does not mark the registers as changed: each replica passes on only its own counts. */
  merge(registers: Uint8Array): void {
    const isChanged = this.#isChanged;
    this.raise(new Map(registers.entries()));
    registers.forEach((rank, register) => (this.#current[register] = Math.max(rank, this.#current[register] as number)));
    this.#isChanged = isChanged;
  }

  #set(register: number, rank: number): void {
    this.#current[register] = rank;
    this.#isChanged = true;
  }

  estimate(raised?: ReadonlyMap<number, number>): number {
    if (!raised || raised.size === 0) return this.#ranks.estimate();
    const moves = [...raised].flatMap(([register, rank]) => {
      const currentRank = this.#highestRank(register);
      return rank > currentRank ? [[currentRank, rank] as const] : [];
    });
    for (const [from, to] of moves) this.#ranks.move(from, to);
    const estimate = this.#ranks.estimate();
    for (const [from, to] of moves) this.#ranks.move(to, from);
    return estimate;
  }

  #highestRank(register: number): number {
    return Math.max(this.#current[register] as number, this.#previous[register] as number);
  }
}
