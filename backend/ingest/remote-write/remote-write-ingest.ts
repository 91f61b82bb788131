// Stores a remote write request under the identity of its sender. Invariants: the limits of series, labels and times are those of
// exposition text; the request is sent to the engine's own remote write endpoint only after all of it was checked; the bodies built from it
// count as memory of the request.
import { FairQueue } from "../../admission/fair-queue.ts";
import type { ActiveSeries } from "../../storage/metrics/active-series.ts";
import type { MetricsStore } from "../../storage/metrics/metric-store.ts";
import { LARGE_QUEUE, storeLimits } from "../exposition/exposition-ingest.ts";
import type { IngestResult, IngestSignal } from "../ingest-handler.ts";
import { requireUsable } from "../record-faults.ts";
import { snappyLength } from "../snappy.ts";
import type { CheckedWrite, WriteTask } from "./check-write.ts";
import { addExemplars, type ExemplarIngest } from "./exemplar-ingest.ts";

export interface RemoteWriteOptions {
  readonly threads: { checkWrite(orgId: string, task: WriteTask): Promise<CheckedWrite> };
  readonly store: Pick<MetricsStore, "writeRequest">;
  readonly activeSeries: Pick<ActiveSeries, "hashKeyOf" | "admitHashes">;
  readonly storeExemplars: ExemplarIngest;
  /** Samples that are older than the organisation's retention are dropped and counted. */
  readonly retentionMs: (orgId: string) => number;
}

/** The engine takes about 10 ms to write more. */
const LARGE_BYTES = 1024 * 1024;

/** Throws as checkWrite; `over_quota` above the limit of active series; `storage_unavailable` and `unstorable` as the store does. */
export function createRemoteWriteIngest({ threads, store, activeSeries, storeExemplars, retentionMs }: RemoteWriteOptions): IngestSignal {
  const largeQueue = new FairQueue(LARGE_QUEUE);
  return async function ingestWrite(sender, body, { receivedAt, encoding, reservation }) {
    const limits = storeLimits(receivedAt.getTime(), retentionMs(sender.orgId));
    const hashKey = activeSeries.hashKeyOf(sender);
    const version = encoding === "remote_write_2" ? 2 : 1;
    // Counts as memory during the check, and as the cost of a rejected request.
    const decompressedBytes = snappyLength(body);
    reservation?.add(decompressedBytes);
    const checked = await threads.checkWrite(sender.orgId, { body, version, limits, hashKey });
    reservation?.add(-decompressedBytes);
    requireUsable(checked);
    const { accepted, dropped, faults, storedBytes, bodies, seriesHashes, histograms } = checked;
    const counts = { accepted, dropped, storedBytes, ...(faults && { faults }), ...(histograms !== undefined && { histograms }) };
    const withExemplars = async (result: IngestResult): Promise<IngestResult> =>
      await addExemplars(storeExemplars, checked.exemplars, result, { sender, receivedAt, reservation });
    if (accepted === 0) return await withExemplars(counts);
    reservation?.add(bodies.reduce((sum, { byteLength }) => sum + byteLength, seriesHashes.byteLength));
    const active = hashKey && (await activeSeries.admitHashes(sender, seriesHashes));
    const write = async (): Promise<void> => {
      for (const request of bodies) await store.writeRequest(sender, Buffer.from(request.buffer));
    };
    await (storedBytes > LARGE_BYTES ? largeQueue.run(sender.orgId, undefined, write) : write());
    return await withExemplars({ ...counts, ...(active !== undefined && { activeSeries: active }) });
  };
}
