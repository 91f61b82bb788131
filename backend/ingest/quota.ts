// Bytes and records a second of organisations, and of ingest tokens with limits of their own, by token buckets in this replica. Invariant: a
// body is refused only before it is read; what it then turns out to cost is charged in full, so that an owner over its quota waits until the debt is worked off.
import type { RateLimits } from "../auth/request-identity.ts";
import { ApiError } from "../errors.ts";
import { MAX_REMEMBERED_QUOTAS } from "./limits.ts";

/** An owner that was idle may send this many seconds' worth at once. */
const BURST_S = 10;

interface Bucket {
  limits: RateLimits;
  bytes: number;
  records: number;
  filledAtMs: number;
}

export class Quota {
  readonly #owners: string;
  readonly #now: () => number;
  readonly #buckets = new Map<string, Bucket>();

  /** `owners`: whose quota it is, in messages. */
  constructor(owners: string, now: () => number = () => performance.now()) {
    this.#owners = owners;
    this.#now = now;
  }

  /** Throws ApiError `over_quota` with the limit and the time until the debt is worked off. */
  admit(owner: string, limits: RateLimits): void {
    const { bytesPerSecond, recordsPerSecond } = limits;
    if (bytesPerSecond === 0 && recordsPerSecond === 0) return;
    const bucket = this.#filled(owner, limits);
    const [bytesS, recordsS] = [debtS(bucket.bytes, bytesPerSecond), debtS(bucket.records, recordsPerSecond)];
    const waitS = Math.max(bytesS, recordsS);
    if (waitS <= 0) return;
    const limit = bytesS >= recordsS ? `bytes_per_second is ${bytesPerSecond}` : `records_per_second is ${recordsPerSecond}`;
    throw new ApiError("over_quota", `the ${this.#owners} ingest quota is used up (${limit}); send it again later`, {
      retryAfterS: Math.max(1, waitS),
    });
  }

  /** Charges what a body cost: bytes, decompressed or stored, whichever is more, and records whether stored or dropped. */
  charge(owner: string, limits: RateLimits, { bytes, records }: { readonly bytes: number; readonly records: number }): void {
    if (limits.bytesPerSecond === 0 && limits.recordsPerSecond === 0) return;
    const bucket = this.#filled(owner, limits);
    // What is unlimited makes no debt that a limit of later would have to be waited for.
    if (limits.bytesPerSecond > 0) bucket.bytes -= bytes;
    if (limits.recordsPerSecond > 0) bucket.records -= records;
  }

  #filled(owner: string, limits: RateLimits): Bucket {
    const { bytesPerSecond, recordsPerSecond } = limits;
    const nowMs = this.#now();
    const full: Bucket = { limits, bytes: bytesPerSecond * BURST_S, records: recordsPerSecond * BURST_S, filledAtMs: nowMs };
    const bucket = this.#buckets.get(owner);
    if (!bucket) {
      if (this.#buckets.size >= MAX_REMEMBERED_QUOTAS) this.#forgetFull(nowMs);
      this.#buckets.set(owner, full);
      return full;
    }
    bucket.limits = limits;
    const elapsedS = (nowMs - bucket.filledAtMs) / 1000;
    bucket.bytes = Math.min(full.bytes, bucket.bytes + elapsedS * bytesPerSecond);
    bucket.records = Math.min(full.records, bucket.records + elapsedS * recordsPerSecond);
    bucket.filledAtMs = nowMs;
    return bucket;
  }

  #forgetFull(nowMs: number): void {
    for (const [owner, { limits, bytes, records, filledAtMs }] of this.#buckets) {
      const elapsedS = (nowMs - filledAtMs) / 1000;
      const isFull = (held: number, perSecond: number) => held + elapsedS * perSecond >= perSecond * BURST_S;
      const { bytesPerSecond, recordsPerSecond } = limits;
      if (isFull(bytes, bytesPerSecond) && isFull(records, recordsPerSecond)) this.#buckets.delete(owner);
    }
  }
}

function debtS(held: number, perSecond: number): number {
  return perSecond > 0 && held <= 0 ? (1 - held) / perSecond : 0;
}
