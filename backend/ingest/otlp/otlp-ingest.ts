// Decodes an authenticated, decompressed OTLP request body and stores its rows. Invariant: it resolves once every accepted record is stored, and
// throws if any insert fails; the counts include dropped records.
import { decompressedBytes, type OtlpBodyEncoding, rowsBytes } from "./decode-body.ts";
import type { OtlpDecoder } from "./otlp-decoder.ts";
import type { IngestContext, IngestSignal } from "../ingest-handler.ts";
import { noFaults, requireNoFaults, requireUsable } from "../record-faults.ts";
import { createIds } from "../../storage/ids.ts";
import type { OtlpBatch, OtlpSignal } from "./decoded-rows.ts";

interface OtlpIngestOptions {
  readonly signal: OtlpSignal;
  readonly decoder: OtlpDecoder;
  readonly store: { insert(batch: OtlpBatch): Promise<void> };
  /** Older records of an organisation are dropped. */
  readonly retentionDays: (orgId: string) => number;
}

/**
 * The result takes ownership of the body. It throws ApiError: malformed_body, invalid_payload that names the field, batch_too_large,
 * unstorable, storage_unavailable, unavailable.
 */
export function createOtlpIngest({ signal, decoder, store, retentionDays }: OtlpIngestOptions): IngestSignal {
  const nextId = createIds();
  return async ({ orgId, hostId, node }, body, { receivedAt, encoding: bodyEncoding, isTolerant, readsLines, reservation }) => {
    const encoding = checkEncoding(bodyEncoding);
    const receivedAtMs = receivedAt.getTime();
    // The shortest record takes three bytes in JSON and two in protobuf.
    const bytes = decompressedBytes({ body, ...(encoding && { encoding }) });
    // Counts as memory of the request, and as its cost if it is rejected.
    reservation?.add(bytes - body.byteLength);
    const firstId = nextId(receivedAtMs, encoding === undefined ? bytes : bytes * 1.5);
    // The slow path of JSON refuses a body at its first fault; all other formats are decoded to the end.
    const faults = isTolerant || encoding !== undefined ? noFaults() : undefined;
    const context = { orgId, hostId, node, receivedAtMs, firstId, retentionDays: retentionDays(orgId), readsLines, faults };
    using rowsReservation = decoder.open(orgId);
    const decoding = decoder.decode({ signal, body, context, ...(encoding && { encoding }) }, rowsReservation);
    const decoded = decoding instanceof Promise ? await decoding : decoding;
    const { accepted, dropped, faults: found } = decoded;
    const result = { accepted, dropped, storedBytes: rowsBytes(decoded), ...(found && { faults: found }) };
    if (isTolerant) requireUsable(result);
    else requireNoFaults(found);
    if (accepted > 0) await store.insert({ ...decoded, orgId, hostId });
    return result;
  };
}

function checkEncoding(encoding: IngestContext["encoding"]): OtlpBodyEncoding | undefined {
  if (encoding === "remote_write" || encoding === "remote_write_2") throw new Error("remote write has neither logs nor spans");
  return encoding;
}
