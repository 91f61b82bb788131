// Bytes and records a second per organisation, by token buckets in this replica. Invariant: a body is refused only before it is read; what
// it then turns out to cost is charged in full, so that an organisation over its quota waits until the debt is worked off.
import { ApiError } from "../errors.ts";
import { MAX_REMEMBERED_QUOTAS } from "./limits.ts";

export interface QuotaLimits {
  /** 0: unlimited. */
  readonly bytesPerSecond: number;
  /** 0: unlimited. */
  readonly recordsPerSecond: number;
}

/** An organisation that was idle may send this many seconds' worth at once. */
const BURST_S = 10;

interface Bucket {
  bytes: number;
  records: number;
  filledAtMs: number;
}

export class Quota {
  readonly #limitsOf: (orgId: string) => QuotaLimits;
  readonly #now: () => number;
  readonly #buckets = new Map<string, Bucket>();

  constructor(limitsOf: (orgId: string) => QuotaLimits, now: () => number = () => performance.now()) {
    this.#limitsOf = limitsOf;
    this.#now = now;
  }

  /** Throws ApiError `over_quota` with the limit and the time until the debt is worked off. */
  admit(orgId: string): void {
    const limits = this.#limitsOf(orgId);
    const { bytesPerSecond, recordsPerSecond } = limits;
    if (bytesPerSecond === 0 && recordsPerSecond === 0) return;
    const bucket = this.#filled(orgId, limits);
    const [bytesS, recordsS] = [debtS(bucket.bytes, bytesPerSecond), debtS(bucket.records, recordsPerSecond)];
    const waitS = Math.max(bytesS, recordsS);
    if (waitS <= 0) return;
    const limit = bytesS >= recordsS ? `bytes_per_second is ${bytesPerSecond}` : `records_per_second is ${recordsPerSecond}`;
    throw new ApiError("over_quota", `the organisation's ingest quota is used up (${limit}); send it again later`, {
      retryAfterS: Math.max(1, waitS),
    });
  }

  /** Charges what a body cost: bytes, decompressed or stored, whichever is more, and records whether stored or dropped. */
  charge(orgId: string, bytes: number, records: number): void {
    const limits = this.#limitsOf(orgId);
    if (limits.bytesPerSecond === 0 && limits.recordsPerSecond === 0) return;
    const bucket = this.#filled(orgId, limits);
    // What is unlimited makes no debt that a limit of later would have to be waited for.
    if (limits.bytesPerSecond > 0) bucket.bytes -= bytes;
    if (limits.recordsPerSecond > 0) bucket.records -= records;
  }

  #filled(orgId: string, { bytesPerSecond, recordsPerSecond }: QuotaLimits): Bucket {
    const nowMs = this.#now();
    const full: Bucket = { bytes: bytesPerSecond * BURST_S, records: recordsPerSecond * BURST_S, filledAtMs: nowMs };
    const bucket = this.#buckets.get(orgId);
    if (!bucket) {
      if (this.#buckets.size >= MAX_REMEMBERED_QUOTAS) this.#forgetFull(nowMs);
      this.#buckets.set(orgId, full);
      return full;
    }
    const elapsedS = (nowMs - bucket.filledAtMs) / 1000;
    bucket.bytes = Math.min(full.bytes, bucket.bytes + elapsedS * bytesPerSecond);
    bucket.records = Math.min(full.records, bucket.records + elapsedS * recordsPerSecond);
    bucket.filledAtMs = nowMs;
    return bucket;
  }

  #forgetFull(nowMs: number): void {
    for (const [orgId, { bytes, records, filledAtMs }] of this.#buckets) {
      const elapsedS = (nowMs - filledAtMs) / 1000;
      const isFull = (held: number, perSecond: number) => held + elapsedS * perSecond >= perSecond * BURST_S;
      const { bytesPerSecond, recordsPerSecond } = this.#limitsOf(orgId);
      if (isFull(bytes, bytesPerSecond) && isFull(records, recordsPerSecond)) this.#buckets.delete(orgId);
    }
  }
}

function debtS(held: number, perSecond: number): number {
  return perSecond > 0 && held <= 0 ? (1 - held) / perSecond : 0;
}
