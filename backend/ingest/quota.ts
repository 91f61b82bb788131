// Limits the bytes and records per second of organisations, and of ingest tokens with limits of their own, by token buckets. A limit
// applies to the whole installation: each replica's buckets have a share of it. Invariant: a request body is rejected only before it is
// read; its real cost is charged in full afterwards, so an owner over its quota waits until the debt is paid off.
import type { RateLimits } from "../http/request-identity.ts";
import { ApiError } from "../errors.ts";
import { type ReplicaSet, singleReplica } from "../replicas/replica-set.ts";
import { MAX_REMEMBERED_QUOTAS } from "./ingest-limits.ts";

/** An idle owner may send this many seconds' worth in a burst. */
const BURST_S = 10;

interface Bucket {
  limits: RateLimits;
  bytes: number;
  records: number;
  filledAtMs: number;
  /** Cost of the last body in seconds of the limit: the assumed cost of a rejected body. */
  lastCostS: number;
}

export interface QuotaOptions {
  /** The kind of owner, for messages. */
  readonly owners: string;
  /** Default: there are no other replicas. */
  readonly replicas?: Pick<ReplicaSet, "shareOf" | "recordDemand"> | undefined;
  readonly now?: () => number;
}

export class Quota {
  readonly #owners: string;
  readonly #replicas: Pick<ReplicaSet, "shareOf" | "recordDemand">;
  readonly #now: () => number;
  readonly #buckets = new Map<string, Bucket>();

  constructor({ owners, replicas = singleReplica(), now = () => performance.now() }: QuotaOptions) {
    this.#owners = owners;
    this.#replicas = replicas;
    this.#now = now;
  }

  /** Throws ApiError `over_quota` with the limit and the time until the debt is paid off. */
  admit(owner: string, limits: RateLimits): void {
    const { bytesPerSecond, recordsPerSecond } = limits;
    if (bytesPerSecond === 0 && recordsPerSecond === 0) return;
    const bucket = this.#refill(owner, limits);
    const [bytesS, recordsS] = [debtS(bucket.bytes, bucket.limits.bytesPerSecond), debtS(bucket.records, bucket.limits.recordsPerSecond)];
    const waitS = Math.max(bytesS, recordsS);
    if (waitS <= 0) return;
    this.#replicas.recordDemand(owner, bucket.lastCostS);
    const limit = bytesS >= recordsS ? `bytes_per_second is ${bytesPerSecond}` : `records_per_second is ${recordsPerSecond}`;
    throw new ApiError("over_quota", `the ${this.#owners} ingest quota is used up (${limit}); send it again later`, {
      retryAfterS: Math.max(1, waitS),
    });
  }

  /** Charges what a body cost: bytes, decompressed or stored, whichever is more, and records, stored or dropped. */
  charge(owner: string, limits: RateLimits, { bytes, records }: { readonly bytes: number; readonly records: number }): void {
    const { bytesPerSecond, recordsPerSecond } = limits;
    if (bytesPerSecond === 0 && recordsPerSecond === 0) return;
    const bucket = this.#refill(owner, limits);
    bucket.lastCostS = Math.max(bytesPerSecond > 0 ? bytes / bytesPerSecond : 0, recordsPerSecond > 0 ? records / recordsPerSecond : 0);
    this.#replicas.recordDemand(owner, bucket.lastCostS);
    // Unlimited bytes leave no debt that a later limit would have to wait for.
    if (bytesPerSecond > 0) bucket.bytes -= bytes;
    if (recordsPerSecond > 0) bucket.records -= records;
  }

  /** Returns the refilled bucket. Its limits are this replica's share. */
  #refill(owner: string, { bytesPerSecond: allBytes, recordsPerSecond: allRecords }: RateLimits): Bucket {
    const part = this.#replicas.shareOf(owner);
    const limits = { bytesPerSecond: allBytes * part, recordsPerSecond: allRecords * part };
    const { bytesPerSecond, recordsPerSecond } = limits;
    const nowMs = this.#now();
    const full = { limits, bytes: bytesPerSecond * BURST_S, records: recordsPerSecond * BURST_S, filledAtMs: nowMs, lastCostS: 0 };
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
      const isFull = (tokens: number, perSecond: number) => tokens + elapsedS * perSecond >= perSecond * BURST_S;
      const { bytesPerSecond, recordsPerSecond } = limits;
      if (isFull(bytes, bytesPerSecond) && isFull(records, recordsPerSecond)) this.#buckets.delete(owner);
    }
  }
}

/** Seconds until the bucket has a token. */
function debtS(tokens: number, perSecond: number): number {
  return perSecond > 0 && tokens <= 0 ? (1 - tokens) / perSecond : 0;
}
