// Keeps recent writes on disk until VictoriaMetrics certainly has them on disk too, and replays them after it crashed. The engine keeps
// acknowledged samples in memory for up to about six seconds, whatever its flush interval (two to sort, two to store, two to notice).
// Invariants: a write whose `append` has resolved is kept until the engine has run for KEEP_MS after it or after its replay; what a crashed
// engine may have lost is never removed before it is replayed; replaying a write twice is harmless, because its timestamps are fixed and
// the engine removes duplicates.
import type { Log } from "../../log.ts";
import { AppendLog, type AppendLogOptions, readSegments, type Segment, type SegmentContent } from "../append-log/append-log.ts";
import type { Deletions } from "../append-log/dead-letters.ts";
import type { LogRecord } from "../append-log/record.ts";
import { MAX_JOURNAL_BYTES } from "../engine-limits.ts";

/** Twice what the engine needs, plus a margin. */
const KEEP_MS = 15_000;
const REMOVE_EVERY_MS = 1000;
const ORG_LABEL = "org_id=";
const SEGMENT_BYTES = 64 * 1024 * 1024;
/** One after the other, thousands of small writes would take as long to replay as they took to arrive. */
const REPLAYS_AT_ONCE = 16;

/** Sends a write to the engine again; rejects if the engine does not accept it. */
export type Resend = (path: string, body: NonSharedBuffer) => Promise<void>;

export interface WriteJournalOptions extends Pick<AppendLogOptions, "isSynced" | "calls"> {
  readonly maxBytes?: number;
  /** Called for each segment that is damaged or has a torn tail. */
  readonly onDamage?: (segment: Segment, content: SegmentContent) => void;
}

export class WriteJournal implements AsyncDisposable {
  readonly #log: AppendLog;
  readonly #nowMs: () => number;
  readonly #onDamage: WriteJournalOptions["onDamage"];
  /** Running appends, each with the number of crashes before it. */
  readonly #appending = new Map<Promise<void>, number>();
  readonly #pendingReplay: Set<Segment>;
  readonly #replayedAtMs = new WeakMap<Segment, number>();
  #removeAtMs = Number.NEGATIVE_INFINITY;
  #crashes = 0;

  /** The content that an earlier process left in the folder is pending replay. */
  constructor(folder: string, { maxBytes = MAX_JOURNAL_BYTES, onDamage, ...options }: WriteJournalOptions = {}) {
    this.#log = new AppendLog(folder, { ...options, maxBytes, segmentBytes: SEGMENT_BYTES });
    this.#nowMs = options.calls?.nowMs ?? (() => performance.now());
    this.#onDamage = onDamage;
    this.#pendingReplay = new Set(this.#log.segments);
  }

  get isReplayPending(): boolean {
    return this.#pendingReplay.size > 0 || [...this.#appending.values()].some((crashes) => crashes < this.#crashes);
  }

  /** For `append` of a write that the engine has already accepted. */
  get crashes(): number {
    return this.#crashes;
  }

  /**
   * Resolves when the write is on disk. `path` is the request target for its replay; `crashes` is the number before the engine got the
   * write. Rejects with LogFullError or the file system's error.
   */
  async append(path: string, body: Buffer, crashes = this.#crashes): Promise<void> {
    const appending = this.#append(path, body, crashes);
    this.#appending.set(appending, crashes);
    try {
      await appending;
    } finally {
      this.#appending.delete(appending);
    }
  }

  /** Marks everything in the journal as pending replay. */
  engineCrashed(): void {
    this.#crashes += 1;
    this.#log.rotate();
    for (const segment of this.#log.segments) this.#pendingReplay.add(segment);
  }

  /** Sends all pending writes to a running engine and returns their number. Segments that were sent before a failure are not sent again. */
  async replay(resend: Resend): Promise<number> {
    await Promise.allSettled(this.#appending.keys());
    let count = 0;
    const unreadable: unknown[] = [];
    for (const segment of this.#pendingReplay) {
      const crashes = this.#crashes;
      const content = await this.#log.read(segment).catch((error: unknown) => void unreadable.push(error));
      if (!content) continue;
      // Unfinished or failed writes of this process were never acknowledged, so a torn tail matters only at the start.
      if (content.damagedBytes > 0 || (content.tornBytes > 0 && crashes === 0)) this.#onDamage?.(segment, content);
      count += await sendAll(content.records, resend);
      // If the engine has crashed since, it may have lost writes that it had accepted.
      if (this.#crashes !== crashes) throw new Error("the engine crashed during the replay of its journal");
      this.#replayedAtMs.set(segment, this.#nowMs());
      this.#pendingReplay.delete(segment);
    }
    if (unreadable.length > 0) throw unreadable[0];
    return count;
  }

  /** See `AppendLog#linkInto`: afterwards each write is in `folder`, or the engine has it on disk. */
  async linkInto(folder: string): Promise<void> {
    await this.#log.linkInto(folder);
  }

  /** Removes what the engine certainly has on disk, including the open segment once it is old enough. */
  expire(): void {
    this.#log.rotate();
    this.#removeAtMs = Number.NEGATIVE_INFINITY;
    this.#removeSettled();
  }

  /** Deletes the dead letters of deleted organisations. Returns how many there were. */
  async eraseDeadLetters(deletions: Deletions): Promise<number> {
    return await this.#log.eraseDeadLetters(orgIdOf, deletions);
  }

  /** Removes everything: the engine has stopped cleanly, so it has written everything to disk. */
  async clear(): Promise<void> {
    this.#log.rotate();
    for (const segment of this.#log.segments) this.#log.remove(segment);
    await this.#log.flush();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#log[Symbol.asyncDispose]();
  }

  async #append(path: string, body: Buffer, crashes: number): Promise<void> {
    this.#removeSettled();
    const segment = await this.#log.append({ path }, body);
    // The engine that accepted the write has crashed, although the write is in a later segment.
    if (this.#crashes !== crashes) this.#pendingReplay.add(segment);
  }

  /** Runs at most once per second. */
  #removeSettled(): void {
    const nowMs = this.#nowMs();
    if (nowMs < this.#removeAtMs) return;
    this.#removeAtMs = nowMs + REMOVE_EVERY_MS;
    for (const segment of this.#log.segments) {
      const settledAtMs = Math.max(segment.closedAtMs ?? nowMs, this.#replayedAtMs.get(segment) ?? 0);
      if (!this.#pendingReplay.has(segment) && nowMs - settledAtMs >= KEEP_MS) this.#log.remove(segment);
    }
  }
}

function orgIdOf(header: unknown): string | undefined {
  const labels = new URLSearchParams((header as { path: string }).path.split("?")[1]).getAll("extra_label");
  return labels.find((label) => label.startsWith(ORG_LABEL))?.slice(ORG_LABEL.length);
}

/** Opens the journal of a running backend, which logs damaged files. */
export function openWriteJournal(folder: string, { isSynced, log }: { readonly isSynced: boolean; readonly log: Log }): WriteJournal {
  return new WriteJournal(folder, {
    isSynced,
    onDamage({ path }, { damagedBytes, tornBytes, quarantined }) {
      if (damagedBytes > 0)
        log.error(
          { event: "journal.damaged", path, damagedBytes, quarantined },
          `journal file is damaged: acknowledged metrics may be lost; ${quarantined ? "a copy is quarantined" : "no copy could be quarantined"}; check the disk`,
        );
      if (tornBytes > 0)
        log.warn({ event: "journal.torn_tail", path, tornBytes }, "journal has a torn tail (incomplete write), ignoring it");
    },
  });
}

async function sendAll(records: readonly LogRecord[], resend: Resend): Promise<number> {
  const rest = records.values();
  let count = 0;
  const send = async (): Promise<void> => {
    for (const { header, body } of rest) {
      await resend((header as { path: string }).path, body);
      count += 1;
    }
  };
  const sent = await Promise.allSettled(Array.from({ length: REPLAYS_AT_ONCE }, send));
  for (const outcome of sent) if (outcome.status === "rejected") throw outcome.reason;
  return count;
}

const LEFT_WRITES_ADVICE =
  "start once without METRICS_WRITE_URL and METRICS_QUERY_URL, which replays them, stop in order, then carry its samples over (docs/from-one-to-many.md, Metrics)";

/**
 * Logs a warning if an embedded engine that was replaced by an external one left acknowledged writes in its journal. The files stay unchanged,
 * because the embedded engine may not have all of these writes. Never rejects.
 */
export async function reportLeftWrites(folder: string, log: Log): Promise<void> {
  try {
    const totals = { writes: 0, bytes: 0 };
    for await (const { bytes, records } of readSegments(folder)) {
      totals.writes += records.length;
      totals.bytes += bytes;
    }
    if (totals.writes > 0)
      log.warn(
        { event: "journal.writes_left", folder, ...totals },
        `the journal of the embedded engine contains acknowledged metrics; ${LEFT_WRITES_ADVICE}`,
      );
  } catch (err) {
    // The files are unchanged, and the operator knows where to look.
    log.warn(
      { event: "journal.writes_left_unknown", folder, err },
      `the journal of the embedded engine cannot be read and may contain acknowledged metrics; ${LEFT_WRITES_ADVICE}`,
    );
  }
}
