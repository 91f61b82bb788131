// From an authenticated, decompressed OTLP body to stored rows: decode, insert. Invariant: it resolves only when every accepted
// record is stored; what it answers is counted, never partial.
import { randomInt } from "node:crypto";
import type { SigningKey } from "../auth/request-identity.ts";
import { type OtlpDecoder, type OtlpSignal, rowsBytes } from "./otlp-decoder.ts";
import type { OtlpBatch } from "../otlp/rows.ts";

export interface Ingested {
  readonly accepted: number;
  /** reason → records that were well-formed but could not be kept. */
  readonly dropped: Record<string, number>;
  /** What the rows took. */
  readonly storedBytes: number;
}

/**
 * Takes the body over. Throws ApiError: malformed_body, invalid_payload naming the field, batch_too_large, unstorable,
 * storage_unavailable, unavailable.
 */
export type IngestOtlp = (key: SigningKey, body: Buffer, context: { receivedAt: Date }) => Promise<Ingested>;

export interface OtlpIngestOptions {
  readonly signal: OtlpSignal;
  readonly decoder: OtlpDecoder;
  readonly store: { insert(batch: OtlpBatch): Promise<void> };
  readonly retentionDays: number;
}

export function createOtlpIngest({ signal, decoder, store, retentionDays }: OtlpIngestOptions): IngestOtlp {
  const nextId = createIds();
  return async (key, body, { receivedAt }) => {
    const { orgId, hostId, node } = key;
    const receivedAtMs = receivedAt.getTime();
    const firstId = nextId(receivedAtMs, body.byteLength);
    const context = { orgId, hostId, node, receivedAtMs, firstId, retentionDays };
    using held = decoder.open(orgId);
    const decoded = await decoder.decode({ signal, body, context }, held);
    const storedBytes = rowsBytes(decoded);
    if (decoded.accepted > 0) await store.insert({ ...decoded, orgId, hostId });
    return { accepted: decoded.accepted, dropped: decoded.dropped, storedBytes };
  };
}

/** 2020-01-01. */
const ID_EPOCH_MS = 1_577_836_800_000;
/** Milliseconds are the high bits, so that ids grow with time and across restarts. */
const ID_LOW_BITS = 21n;

/**
 * Ids for the records of a body, unique in this process and, by their random start within the millisecond, in all likelihood among
 * replicas. They only order records of equal time. A record takes at least one byte, so a body of n bytes takes n ids.
 */
function createIds(): (receivedAtMs: number, count: number) => string {
  let next = 0n;
  return (receivedAtMs, count) => {
    const now = (BigInt(Math.max(0, receivedAtMs - ID_EPOCH_MS)) << ID_LOW_BITS) + BigInt(randomInt(1 << 20));
    const first = now > next ? now : next;
    // {} is the shortest record, and comes with a comma.
    next = first + BigInt(Math.ceil(count / 3));
    return first.toString();
  };
}
