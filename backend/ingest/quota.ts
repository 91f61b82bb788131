// Bytes and records a second per organisation, by token buckets in this replica. Invariant: a body is refused only before it is read; what
// it then turns out to cost is charged in full, so that an organisation over its quota waits until the debt is worked off.
import { ApiError } from "../errors.ts";

export interface QuotaLimits {
  /** 0: unlimited. */
  readonly bytesPerSecond: number;
  /** 0: unlimited. */
  readonly recordsPerSecond: number;
}

/** An organisation that was idle may send this many seconds' worth at once. */
const BURST_S = 10;
/** Organisations whose buckets are full again are forgotten when there are more than this. */
const MAX_REMEMBERED = 10_000;

interface Bucket {
  bytes: number;
  records: number;
  filledAtMs: number;
}

export class Quota {
  readonly #limits: QuotaLimits;
  readonly #now: () => number;
  readonly #buckets = new Map<string, Bucket>();

  constructor(limits: QuotaLimits, now: () => number = () => performance.now()) {
    this.#limits = limits;
    this.#now = now;
  }

  /** Throws ApiError `over_quota` with the time until the debt is worked off. */
  admit(orgId: string): void {
    const { bytesPerSecond, recordsPerSecond } = this.#limits;
    if (bytesPerSecond === 0 && recordsPerSecond === 0) return;
    const bucket = this.#filled(orgId);
    const waitS = Math.max(debtS(bucket.bytes, bytesPerSecond), debtS(bucket.records, recordsPerSecond));
    if (waitS > 0)
      throw new ApiError("over_quota", "the organisation's ingest quota is used up; send it again later", {
        retryAfterS: Math.max(1, waitS),
      });
  }

  /** Charges what a body cost: bytes, decompressed or stored, whichever is more, and records whether stored or dropped. */
  charge(orgId: string, bytes: number, records: number): void {
    if (this.#limits.bytesPerSecond === 0 && this.#limits.recordsPerSecond === 0) return;
    const bucket = this.#filled(orgId);
    bucket.bytes -= bytes;
    bucket.records -= records;
  }

  #filled(orgId: string): Bucket {
    const { bytesPerSecond, recordsPerSecond } = this.#limits;
    const nowMs = this.#now();
    const full: Bucket = { bytes: bytesPerSecond * BURST_S, records: recordsPerSecond * BURST_S, filledAtMs: nowMs };
    const bucket = this.#buckets.get(orgId);
    if (!bucket) {
      if (this.#buckets.size >= MAX_REMEMBERED) this.#forgetFull(nowMs);
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
      if (isFull(bytes, this.#limits.bytesPerSecond) && isFull(records, this.#limits.recordsPerSecond)) this.#buckets.delete(orgId);
    }
  }
}

function debtS(held: number, perSecond: number): number {
  return perSecond > 0 && held <= 0 ? (1 - held) / perSecond : 0;
}
