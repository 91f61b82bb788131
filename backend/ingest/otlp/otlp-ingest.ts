// Decodes an authenticated, decompressed OTLP body and stores its rows. Invariant: it resolves once every accepted record is stored, and
// throws if any insert fails; the counts include dropped records.
import type { SigningKey } from "../../auth/request-identity.ts";
import { type OtlpSignal, rowsBytes } from "./decode-body.ts";
import type { OtlpDecoder } from "./otlp-decoder.ts";
import type { IngestContext } from "../ingest-handler.ts";
import { createIds } from "./ids.ts";
import type { OtlpBatch } from "./rows.ts";

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
export type IngestOtlp = (key: SigningKey, body: Buffer, context: IngestContext) => Promise<Ingested>;

export interface OtlpIngestOptions {
  readonly signal: OtlpSignal;
  readonly decoder: OtlpDecoder;
  readonly store: { insert(batch: OtlpBatch): Promise<void> };
  readonly retentionDays: number;
}

export function createOtlpIngest({ signal, decoder, store, retentionDays }: OtlpIngestOptions): IngestOtlp {
  const nextId = createIds();
  return async (key, body, { receivedAt, encoding }) => {
    const { orgId, hostId, node } = key;
    const receivedAtMs = receivedAt.getTime();
    // The shortest record has three bytes of JSON and two of protobuf.
    const firstId = nextId(receivedAtMs, encoding === undefined ? body.byteLength : body.byteLength * 1.5);
    const context = { orgId, hostId, node, receivedAtMs, firstId, retentionDays };
    using held = decoder.open(orgId);
    const decoding = decoder.decode({ signal, body, context, ...(encoding && { encoding }) }, held);
    const decoded = decoding instanceof Promise ? await decoding : decoding;
    const storedBytes = rowsBytes(decoded);
    if (decoded.accepted > 0) await store.insert({ ...decoded, orgId, hostId });
    return { accepted: decoded.accepted, dropped: decoded.dropped, storedBytes };
  };
}
