// Stores OTLP metrics: converts them to exposition text, which the ingest of exposition text validates and writes. Invariant: data points that
// cannot be kept are counted by reason; a body that fails halfway may be sent again, because a sample is stored once; the text counts as memory
// of the request until it is stored.
import type { IngestSignal } from "../../ingest-handler.ts";
import type { MetricsThreads } from "./metrics-threads.ts";

/** `exposition`: stores one body of text. */
export function createOtlpMetricsIngest(threads: Pick<MetricsThreads, "convert">, exposition: IngestSignal): IngestSignal {
  return async (sender, body, { encoding, receivedAt, reservation }) =>
    await threads.convert(sender.orgId, { body, ...(encoding && { encoding }) }, async ({ texts, dropped }) => {
      reservation?.add(texts.reduce((sum, { byteLength }) => sum + byteLength, 0));
      const total = { accepted: 0, dropped: { ...dropped }, storedBytes: 0, activeSeries: 0 };
      for (const text of texts) {
        const stored = await exposition(sender, Buffer.from(text.buffer), { receivedAt });
        total.accepted += stored.accepted;
        total.storedBytes += text.byteLength;
        total.activeSeries = stored.activeSeries ?? 0;
        for (const [reason, count] of Object.entries(stored.dropped)) total.dropped[reason] = (total.dropped[reason] ?? 0) + count;
      }
      const { activeSeries, ...rest } = total;
      return activeSeries > 0 ? { ...rest, activeSeries } : rest;
    });
}
