// Stores the exemplars of remote write requests and of OTLP metrics next to the spans that they link to, with the retention of spans.
// Invariants: an organisation stores a limited number per minute; exemplars that are not stored are counted by reason and never fail a
// request, so an unavailable store of spans delays no samples.
import type { Sender } from "../../http/request-identity.ts";
import type { MapColumn } from "../../engines/clickhouse/native-columns.ts";
import { ApiError } from "../../errors.ts";
import type { IngestContext, IngestResult } from "../ingest-handler.ts";
import { MAX_EXEMPLARS_PER_MINUTE } from "../ingest-limits.ts";
import { EXEMPLAR_CELLS } from "../../storage/table-columns.ts";
import { createIds } from "../../storage/ids.ts";
import { bodyHashOf, type OtlpBatch, RowCollector } from "../otlp/decoded-rows.ts";
import { addCounts } from "../record-faults.ts";
import type { Exemplar, LabelPairs } from "./exemplar-list.ts";

export interface ExemplarIngestOptions {
  readonly store: { insertExemplars(batch: OtlpBatch): Promise<void> };
  readonly retentionDays: (orgId: string) => number;
}

export interface StoredExemplars {
  readonly stored: number;
  readonly dropped: Readonly<Record<string, number>>;
}

export type ExemplarIngest = (sender: Sender, exemplars: readonly Exemplar[], receivedAtMs: number) => Promise<StoredExemplars>;

/** Memory that is reserved for each exemplar; the labels of all exemplars of a request take at most 1 MiB. */
const EXEMPLAR_BYTES = 1024;

/** Stores the exemplars of a request whose samples are stored; returns the result of both. */
export async function addExemplars(
  store: ExemplarIngest,
  exemplars: readonly Exemplar[],
  result: IngestResult,
  { sender, receivedAt, reservation }: { sender: Sender; receivedAt: Date; reservation: IngestContext["reservation"] },
): Promise<IngestResult> {
  if (exemplars.length === 0) return result;
  reservation?.add(exemplars.length * EXEMPLAR_BYTES);
  const { stored, dropped } = await store(sender, exemplars, receivedAt.getTime());
  return { ...result, dropped: addCounts(result.dropped, dropped), exemplars: stored };
}

/** The limit per minute applies to each replica separately. */
export function createExemplarIngest({ store, retentionDays }: ExemplarIngestOptions): ExemplarIngest {
  const nextId = createIds();
  const counts = new Map<string, number>();
  let minute = 0;
  const admit = (orgId: string, wanted: number, nowMs: number): number => {
    const now = Math.floor(nowMs / 60_000);
    if (now !== minute) counts.clear();
    minute = now;
    const before = counts.get(orgId) ?? 0;
    const admitted = Math.min(wanted, MAX_EXEMPLARS_PER_MINUTE - before);
    counts.set(orgId, before + admitted);
    return admitted;
  };
  return async (sender, exemplars, receivedAtMs) => {
    const { orgId } = sender;
    const admitted = admit(orgId, exemplars.length, receivedAtMs);
    const refused = exemplars.length - admitted;
    const text = JSON.stringify(exemplars.slice(0, admitted));
    const context = {
      receivedAtMs,
      firstId: nextId(receivedAtMs, text.length),
      // Exemplars are stored once if the sender repeats the request, like bodies of logs and spans.
      bodyHash: bodyHashOf(text),
      retentionDays: retentionDays(orgId),
    };
    const rows = new RowCollector({ ...sender, ...context }, EXEMPLAR_CELLS);
    for (const exemplar of exemplars.slice(0, admitted)) addRow(rows, exemplar, sender);
    const batch = { ...rows.finish(), orgId, hostId: sender.hostId };
    const dropped: Record<string, number> = { ...(refused > 0 && { exemplar_limit: refused }) };
    for (const [reason, count] of Object.entries(batch.dropped)) dropped[`exemplar_${reason}`] = count;
    if (batch.accepted === 0) return { stored: 0, dropped };
    try {
      await store.insertExemplars(batch);
      return { stored: batch.accepted, dropped };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      return { stored: 0, dropped: { ...dropped, exemplar_store_unavailable: batch.accepted } };
    }
  };
}

function addRow(rows: RowCollector<typeof EXEMPLAR_CELLS>, { series, labels, value, timeMs }: Exemplar, { hostId, node }: Sender): void {
  const cells = rows.row(`${timeMs}000000`);
  cells.name.add(series.find(([name]) => name === "__name__")?.[1] ?? "");
  const others = series.filter(([name, value]) => name !== "__name__" && value !== "");
  addPairs(cells.series, [...others, ["host_id", hostId], ["node", node]]);
  addPairs(cells.labels, labels);
  cells.value.add(value);
}

function addPairs(column: MapColumn, pairs: LabelPairs): void {
  for (const [name, value] of pairs) {
    column.keys.add(name);
    column.values.add(value);
  }
  column.endRow(pairs.length);
}
