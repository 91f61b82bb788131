// Updates data derived from spans in the background: service edges, series for Prometheus' API, and per-minute summaries that are kept
// longer than the spans. Invariants: the work for an organisation uses at most a tenth of the time and runs in the organisation's own query
// slots, so an organisation with many spans does not delay queries of others; a pass spends at most 40 seconds on one organisation; each
// step may be repeated, or done by another replica, and still counts once.
import { UNLIMITED } from "../../admission/query-queue.ts";
import { hash } from "node:crypto";
import { Loop } from "../../../common/loop.ts";
import { Outage } from "../../../common/outage.ts";
import type { Ask, ClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import { sql } from "../../engines/clickhouse/sql.ts";
import { ApiError } from "../../errors.ts";
import type { Log } from "../../log.ts";
import { ActiveSeries } from "../metrics/active-series.ts";
import type { MetricsStore } from "../metrics/metric-store.ts";
import { changedMinutes } from "../changed-minutes.ts";
import { storeEdges } from "./edges.ts";
import { keepMinutes } from "./keep-minutes.ts";
import { MINUTE_S, type MinuteRange } from "./red.ts";
import { atZero, edgeSeries, MAX_GROUPS, type SeriesGroup, spanSeries } from "./span-series.ts";

export interface SummariesOptions {
  readonly clickhouse: ClickHouse;
  /** True if no log record or span has ever been stored, so that the engine is not opened. */
  readonly isUnused: () => boolean;
  readonly metrics: Pick<MetricsStore, "write">;
  /** Retention of spans. */
  readonly retentionDays: number;
  readonly log: Log;
  readonly nowMs?: () => number;
  readonly everyMs?: number;
  /** Maximum time for one organisation in one pass, once for its edges and once for its series. */
  readonly deadlineMs?: number;
  /** Aborts when the process stops: queries are refused from then on, which is not a failure. */
  readonly stopping?: AbortSignal;
}

/** The counters that a pass has written for an organisation. */
interface WrittenGroups {
  readonly atMs: number;
  readonly names: ReadonlySet<string>;
}

const EVERY_MS = 60_000;
/** Longer than one query may take, so that each pass completes at least one. */
const DEADLINE_MS = 20_000;
/** An organisation whose last span was received longer ago is skipped. */
const ACTIVE_S = 600;
/** After a pass, an organisation is skipped for this many times the duration of the pass. */
const PAUSE_FACTOR = 9;
/** Rows that were received shortly before a pass may have been committed after it. */
const OVERLAP_S = 15;
/** Minutes per pass. Older minutes keep their edges even if new spans arrive. */
const MAX_MINUTES = 180;
/** Minutes that one query computes. */
const MINUTES_AT_ONCE = 10;
const KEEP_EVERY_MS = 3_600_000;
const DAY_S = 86_400;
/** Newer minutes are not counted, as counters must not fall: an edge without callee may be replaced when the callee's span arrives. */
const SETTLED_S = 120;
const REMIND_MS = 300_000;
/** Series of one organisation within half an hour, in addition to its own limit. */
const MAX_SERIES = 20_000;
/** Used in place of a host id: no key has this id, so no sender can write these series. */
export const SPAN_METRICS = "span-metrics";

export class SpanSummaries implements AsyncDisposable {
  readonly #options: SummariesOptions;
  readonly #nowMs: () => number;
  readonly #loop: Loop;
  readonly #series = new ActiveSeries({ limitOf: () => MAX_SERIES });
  /** By organisation: the time after which received spans are new, in seconds. */
  readonly #since = new Map<string, number>();
  /** Minutes with new spans whose edges are not stored yet, by organisation, in seconds. */
  readonly #changed = new Map<string, ReadonlySet<number>>();
  readonly #nextPassMs = new Map<string, number>();
  /** The groups of series that are written, by organisation. */
  readonly #written = new Map<string, WrittenGroups>();
  #passMs: number | undefined;
  #lastPassMs: number | undefined;
  /** The day whose last counters are written, by organisation. */
  readonly #closedDays = new Map<string, number>();
  #keptAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: SummariesOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? Date.now;
    const outage = new Outage({
      began: (err) => options.log.error({ event: "span_summaries.failed", err }, "span summaries cannot be updated, retrying"),
      ended: ({ failures, seconds }) =>
        options.log.info({ event: "span_summaries.recovered", failures, seconds }, "recovered: span summaries are updated"),
      remindEveryMs: REMIND_MS,
    });
    const everyMs = options.everyMs ?? EVERY_MS;
    this.#loop = new Loop({
      step: async (signal) => {
        await this.pass(signal);
        outage.recovered();
        return everyMs;
      },
      failed: (error) => outage.failed(error),
      firstAfterMs: everyMs,
      signal: options.stopping,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
  }

  /**
   * Updates every organisation that has new spans; those that have waited longest come first. A failure delays no other organisation; the
   * first one is thrown after the last organisation.
   */
  async pass(signal: AbortSignal): Promise<void> {
    const { clickhouse, retentionDays, isUnused } = this.#options;
    const nowMs = this.#nowMs();
    [this.#lastPassMs, this.#passMs] = [this.#passMs, nowMs];
    if (isUnused()) return;
    const active = await clickhouse.query<{ org_id: string }>(
      sql`SELECT DISTINCT org_id FROM spans WHERE received_at >= toDateTime(${Math.floor(nowMs / 1000) - ACTIVE_S})`,
    );
    const orgIds = active.map(({ org_id }) => org_id);
    this.#forget(new Set(orgIds));
    const failures: unknown[] = [];
    const nextPassMs = (orgId: string): number => this.#nextPassMs.get(orgId) ?? 0;
    for (const orgId of orgIds.toSorted((a, b) => nextPassMs(a) - nextPassMs(b))) {
      signal.throwIfAborted();
      if (nextPassMs(orgId) > nowMs) continue;
      const startedMs = performance.now();
      await this.#update(orgId, signal).catch((error: unknown) => failures.push(error));
      this.#nextPassMs.set(orgId, this.#nowMs() + PAUSE_FACTOR * (performance.now() - startedMs));
    }
    if (nowMs - this.#keptAtMs >= KEEP_EVERY_MS) {
      this.#keptAtMs = nowMs;
      for (const shard of clickhouse.shards)
        await keepMinutes(shard, retentionDays, signal, nowMs).catch((error: unknown) => failures.push(error));
    }
    if (failures.length > 0) throw failures[0];
  }

  #forget(active: ReadonlySet<string>): void {
    for (const map of [this.#since, this.#changed, this.#nextPassMs, this.#closedDays, this.#written])
      for (const orgId of map.keys()) if (!active.has(orgId)) map.delete(orgId);
  }

  /** Writes series even if the edges took too long or failed. Throws the first failure. */
  async #update(orgId: string, signal: AbortSignal): Promise<void> {
    const limit = (): AbortSignal => AbortSignal.any([signal, AbortSignal.timeout(this.#options.deadlineMs ?? DEADLINE_MS)]);
    const results = [await settle(this.#updateEdges(orgId, limit())), await settle(this.#updateSeries(orgId, limit()))];
    const failed = results.find((result) => result.status === "rejected");
    if (failed) throw failed.reason;
  }

  async #updateSeries(orgId: string, signal: AbortSignal): Promise<void> {
    const { clickhouse } = this.#options;
    const nowMs = this.#nowMs();
    const today = dayOf(nowMs);
    const read = (range: MinuteRange) =>
      clickhouse.read(orgId, { ...UNLIMITED, signal }, async (ask) => [
        ...(await spanSeries(ask, orgId, range)),
        ...(await edgeSeries(ask, orgId, { ...range, endS: Math.min(range.endS, Math.floor(nowMs / 1000) - SETTLED_S) })),
      ]);
    // One last sample of the previous day counts the spans of its last moments.
    if (this.#closedDays.get(orgId) === undefined && nowMs / 1000 - today * DAY_S > ACTIVE_S) this.#closedDays.set(orgId, today - 1);
    if (this.#closedDays.get(orgId) !== today - 1) {
      await this.#write(orgId, await read({ startS: (today - 1) * DAY_S, endS: today * DAY_S }), today * DAY_S * 1000 - 1);
      this.#closedDays.set(orgId, today - 1);
    }
    const groups = await read({ startS: today * DAY_S, endS: (today + 1) * DAY_S });
    const written = this.#written.get(orgId) ?? (await this.#readWritten(today, read));
    const isKnown = written !== undefined && dayOf(written.atMs) === today && written.names.size < MAX_GROUPS;
    const writtenNames = isKnown ? written.names : new Set<string>();
    // `rate` does not count the calls that a new counter begins with, so the counter is also written as zero at the time of the last pass.
    const added = groups.filter((group) => !writtenNames.has(nameOf(group)));
    if (isKnown) await this.#write(orgId, added.map(atZero), written.atMs);
    await this.#write(orgId, groups, nowMs);
    this.#written.set(orgId, { atMs: nowMs, names: new Set([...writtenNames, ...groups.map(nameOf)]) });
  }

  /** The counters of an organisation without new spans at the last pass; unknown in the first pass of a process or day. */
  async #readWritten(today: number, read: (range: MinuteRange) => Promise<SeriesGroup[]>): Promise<WrittenGroups | undefined> {
    const atMs = this.#lastPassMs;
    if (atMs === undefined || dayOf(atMs) !== today) return undefined;
    const endS = Math.floor(atMs / 1000 / MINUTE_S) * MINUTE_S - ACTIVE_S;
    const groups = endS > today * DAY_S ? await read({ startS: today * DAY_S, endS }) : [];
    return { atMs, names: new Set(groups.map(nameOf)) };
  }

  /** If the deadline passes, the next pass continues with the ranges that are not stored yet. */
  async #updateEdges(orgId: string, signal: AbortSignal): Promise<void> {
    const { clickhouse } = this.#options;
    const version = this.#nowMs();
    const sinceS = this.#since.get(orgId) ?? Math.floor(version / 1000) - ACTIVE_S;
    const question = { table: "spans", sinceS: sinceS - OVERLAP_S, limit: MAX_MINUTES } as const;
    const changed = await clickhouse.read(orgId, { ...UNLIMITED, signal }, (ask) => changedMinutes(ask, orgId, question));
    const minutes = [...new Set([...(this.#changed.get(orgId) ?? []), ...changed])].toSorted((a, b) => a - b).slice(-MAX_MINUTES);
    const remaining = new Set(minutes);
    this.#changed.set(orgId, remaining);
    this.#since.set(orgId, Math.floor(version / 1000));
    let failure: unknown;
    for (const range of rangesOf(minutes)) {
      try {
        await clickhouse.read(orgId, { ...UNLIMITED, signal }, (ask: Ask) => storeEdges(ask, clickhouse, orgId, range, version));
      } catch (error) {
        // A retry would fail too, and delay the minutes after it.
        if (!(error instanceof ApiError && error.code === "query_too_expensive")) throw error;
        failure ??= error;
      }
      for (let minuteS = range.startS; minuteS < range.endS; minuteS += MINUTE_S) remaining.delete(minuteS);
    }
    if (failure !== undefined) throw failure;
  }

  async #write(orgId: string, groups: readonly string[], timestampMs: number): Promise<void> {
    const identity = { orgId, hostId: SPAN_METRICS, node: SPAN_METRICS };
    const admitted: string[] = [];
    for (const group of groups) {
      if (await this.#series.admit(identity, Buffer.from(group)).then(() => true, skipOverLimit)) admitted.push(group);
    }
    if (admitted.length > 0) await this.#options.metrics.write(identity, Buffer.from(admitted.join("")), timestampMs);
  }
}

/** Groups neighbouring minutes, and adds the minute before each group, because the callee of its client spans may have arrived. */
function rangesOf(minutes: readonly number[]): MinuteRange[] {
  const ranges: { startS: number; endS: number }[] = [];
  for (const minuteS of minutes) {
    const last = ranges.at(-1);
    const isNext = last && minuteS - MINUTE_S <= last.endS && minuteS + MINUTE_S - last.startS <= MINUTES_AT_ONCE * MINUTE_S;
    if (isNext) last.endS = minuteS + MINUTE_S;
    else ranges.push({ startS: last && minuteS - MINUTE_S < last.endS ? last.endS : minuteS - MINUTE_S, endS: minuteS + MINUTE_S });
  }
  return ranges;
}

/** Days since 1970. */
function dayOf(ms: number): number {
  return Math.floor(ms / 1000 / DAY_S);
}

/** A hash of the name and labels of the first counter, because labels may be long. */
function nameOf(group: SeriesGroup): string {
  const line = group.slice(0, group.indexOf("\n"));
  return hash("sha1", line.slice(0, line.lastIndexOf(" ")), "base64");
}

/** Safe to skip: series above the limit are left out, and the native API still has their figures. Throws any other failure. */
function skipOverLimit(error: unknown): false {
  if (error instanceof ApiError && error.code === "over_quota") return false;
  throw error;
}

async function settle(work: Promise<void>): Promise<PromiseSettledResult<void>> {
  const [result] = await Promise.allSettled([work]);
  return result;
}
