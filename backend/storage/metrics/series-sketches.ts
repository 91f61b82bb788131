// Exchanges counts of active series between replicas: every few seconds, each replica writes the HyperLogLog registers that changed and
// merges those of the others, so that each knows the series of all. Invariant: counting and admitting never wait for the exchange; while
// the database is unavailable, each replica continues with what it knows.
import { type Kysely, sql } from "kysely";
import { Loop } from "../../../common/loop.ts";
import type { ActiveSeries, SeriesSketch } from "./active-series.ts";

const EVERY_MS = 5000;
/** Covers transactions that overlap, so that none of their rows is missed. */
const OVERLAP_S = 5;

export interface SketchExchangeOptions {
  readonly db: Kysely<unknown>;
  readonly replicaId: string;
  readonly series: Pick<ActiveSeries, "period" | "takeChanged" | "merge">;
  readonly everyMs?: number;
}

/** Runs until it is disposed. */
export function exchangeSeriesSketches({ db, replicaId, series, everyMs = EVERY_MS }: SketchExchangeOptions): AsyncDisposable {
  let readAtMs: number | undefined;
  const unwritten = new Map<string, SeriesSketch>();
  const step = async (): Promise<number> => {
    for (const sketch of series.takeChanged()) unwritten.set(sketch.orgId, sketch);
    const changed = [...unwritten.values()].map(({ orgId, period, registers }) => ({
      org_id: orgId,
      period,
      registers: Buffer.from(registers).toString("base64"),
    }));
    if (changed.length > 0)
      await sql`
        INSERT INTO series_sketches (org_id, replica, period, registers, changed_at)
        SELECT org_id, ${replicaId}::uuid, period, registers, now()
        FROM json_to_recordset(${JSON.stringify(changed)}::json) AS changed (org_id uuid, period integer, registers text)
        ON CONFLICT (org_id, replica) DO UPDATE
        SET period = excluded.period, registers = excluded.registers, changed_at = excluded.changed_at`.execute(db);
    unwritten.clear();
    const startedMs = performance.now();
    // The first pass reads everything of this period, because this replica may have been restarted.
    const sinceS = readAtMs === undefined ? 3600 : (startedMs - readAtMs) / 1000 + OVERLAP_S;
    const { rows } = await sql<{ org_id: string; registers: string }>`
      SELECT org_id, registers FROM series_sketches
      WHERE replica <> ${replicaId}::uuid AND period = ${series.period} AND changed_at > now() - make_interval(secs => ${sinceS})`.execute(
      db,
    );
    readAtMs = startedMs;
    for (const { org_id: orgId, registers } of rows)
      series.merge({ orgId, period: series.period, registers: Buffer.from(registers, "base64") });
    await sql`DELETE FROM series_sketches WHERE period < ${series.period}`.execute(db);
    return everyMs;
  };
  // Safe to ignore: other users of the database report the outage.
  return new Loop({ step, failed: () => undefined, backoffMs: [everyMs, everyMs] });
}
