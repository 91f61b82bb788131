// Knows which lines of log files the backend has, as long as the collector may read or send them again. Invariants: a line counts as read
// again only if the same batch was stored, or if collectors of two starts have read it in the same period of doubt, because one collector
// reads no offset twice: new content of an overwritten file is not mistaken for the old content. Almost every line is read once, so lines are
// looked up one by one only in batches of a period of doubt or of an earlier start, and other batches are kept as they are.
import { MAX_RESENT_BATCHES, MAX_STORED_LINES } from "../../agent-limits.ts";
import type { BatchId, Read } from "./file-batch.ts";

/** A batch that the backend has, and how often the offsets had been saved before. */
interface StoredBatch extends BatchId {
  readonly saves: number;
  /** Its offsets were saved by the collector that read it. */
  isSaved?: boolean;
}

/** What a collector read between these times. */
export interface Span {
  readonly start: number;
  readonly fromMs: number;
  readonly toMs: number;
}

/**
 * A period whose lines may be read twice: the end of one start of the collector, the beginning of a later one, and those between them, which
 * saved no offsets. `to` is undefined until offsets are saved again.
 */
export interface Doubt {
  readonly from: Span;
  readonly to?: Span;
}

export class StoredLines {
  #doubts: readonly Doubt[] = [];
  readonly #maxLines: number;
  /** The number of the collector's last start. */
  #start = 0;
  /** How often the offsets were seen to be saved. */
  #saves = 0;
  /** Batches whose lines may be read again, oldest first, and the number of their lines. */
  readonly #batches = new Set<StoredBatch>();
  #lines = 0;
  /** Batches that may be sent again. */
  readonly #sent = new Set<string>();
  /**
   * For each period of doubt, the batch in which each line was last read; built when it is needed. A batch outside the period could be taken
   * for the later one, if it was accepted late and the clock was set back.
   */
  #lastReads: Map<Doubt, Map<number, StoredBatch>> | undefined;

  constructor(maxLines = MAX_STORED_LINES) {
    this.#maxLines = maxLines;
  }

  /** Oldest first. */
  get doubts(): readonly Doubt[] {
    return this.#doubts;
  }

  set doubts(doubts: readonly Doubt[]) {
    this.#doubts = doubts;
    this.#lastReads = undefined;
  }

  get start(): number {
    return this.#start;
  }

  set start(start: number) {
    this.#start = start;
    this.#lastReads = undefined;
  }

  /** The lines of this batch that the backend has, and that the collector has read or sent again. `others`: lines of the same request. */
  repeated(batch: BatchId, others: ReadonlyMap<number, Read>): readonly number[] {
    if (this.#sent.has(batch.id)) return batch.lines;
    if (!this.mayRepeat(batch)) return [];
    const lastReads = [...(this.#lastReads ??= this.#findLastReads())];
    const earlier: ReadonlyMap<number, Read>[] = [...lastReads.flatMap(([doubt, reads]) => (isWithin(doubt, batch) ? reads : [])), others];
    return batch.lines.filter((line) => earlier.some((reads) => this.areSame(batch, reads.get(line))));
  }

  /** Whether another batch may have some of its lines. */
  mayRepeat(read: Read): boolean {
    return read.start !== this.#start || this.#isInDoubt(read);
  }

  /** One collector reads no offset twice, so the lines of another batch of it are new. */
  areSame(read: Read, other: Read | undefined): boolean {
    if (!other || other.start === read.start) return other?.readAtMs === read.readAtMs;
    return this.doubts.some((doubt) => isWithin(doubt, other) && isWithin(doubt, read));
  }

  /** Whether requests with these batches may have lines in common. */
  mayShare(batches: readonly BatchId[], others: readonly BatchId[]): boolean {
    const ids = new Set(batches.map(({ id }) => id));
    if (others.some(({ id }) => ids.has(id))) return true;
    const lines = new Map<number, Read>();
    for (const batch of batches) if (this.#isInDoubt(batch)) for (const line of batch.lines) lines.set(line, batch);
    return lines.size > 0 && others.some((batch) => batch.lines.some((line) => this.areSame(batch, lines.get(line))));
  }

  /** The backend has the lines of this batch. */
  add(batch: BatchId): void {
    this.#sent.add(batch.id);
    if (this.#sent.size > MAX_RESENT_BATCHES) this.#sent.delete(oldest(this.#sent));
    if (batch.lines.length === 0 || (batch.start !== this.#start && !this.#isInDoubt(batch))) return;
    const stored = { ...batch, saves: this.#saves };
    this.#batches.add(stored);
    this.#lines += batch.lines.length;
    if (this.#lastReads) noteReads(this.#lastReads, stored);
    while (this.#lines > this.#maxLines) this.#forget(oldest(this.#batches));
  }

  /** Lines that were stored before the last save but one cannot be read again. Returns false if there is nothing to remember. */
  offsetsSaved(): boolean {
    let isNeeded = false;
    for (const batch of this.#batches) {
      if (batch.start !== this.#start || batch.isSaved) continue;
      isNeeded = true;
      if (batch.saves >= this.#saves) continue;
      // The collector before may have read it, too.
      if (this.#isInDoubt(batch)) batch.isSaved = true;
      else this.#forget(batch);
    }
    this.#saves += 1;
    return isNeeded;
  }

  /** Everything that was read in a period of doubt has arrived. */
  settle(): void {
    this.doubts = [];
    for (const batch of this.#batches) if (batch.start !== this.#start || batch.isSaved) this.#forget(batch);
  }

  /** Ids of batches that may be sent again, and batches that were stored before and after the offsets were last saved. */
  remembered(): { sent: readonly string[]; earlier: readonly BatchId[]; latest: readonly BatchId[] } {
    const { earlier = [], latest = [] } = Object.groupBy(this.#batches, ({ saves }) => (saves === this.#saves ? "latest" : "earlier"));
    return { sent: [...this.#sent], earlier, latest };
  }

  #findLastReads(): Map<Doubt, Map<number, StoredBatch>> {
    const lastReads = new Map(this.#doubts.map((doubt) => [doubt, new Map<number, StoredBatch>()]));
    for (const batch of this.#batches) noteReads(lastReads, batch);
    return lastReads;
  }

  #forget(batch: StoredBatch): void {
    this.#batches.delete(batch);
    this.#lines -= batch.lines.length;
    for (const reads of this.#lastReads?.values() ?? []) for (const line of batch.lines) if (reads.get(line) === batch) reads.delete(line);
  }

  #isInDoubt(read: Read): boolean {
    return this.doubts.some((doubt) => isWithin(doubt, read));
  }
}

function noteReads(lastReads: ReadonlyMap<Doubt, Map<number, StoredBatch>>, batch: StoredBatch): void {
  for (const [doubt, reads] of lastReads) {
    if (!isWithin(doubt, batch)) continue;
    for (const line of batch.lines) {
      const other = reads.get(line);
      if (!other || isBefore(other, batch)) reads.set(line, batch);
    }
  }
}

/** The clock may have been set back between two reads of one start: only the one whose offset is not saved can be read again. */
function isBefore(a: StoredBatch, b: StoredBatch): boolean {
  if (a.start !== b.start) return a.start < b.start;
  return a.isSaved === b.isSaved ? a.readAtMs < b.readAtMs : a.isSaved === true;
}

export function isWithin({ from, to }: Doubt, { start, readAtMs, isSaved }: Read & { isSaved?: boolean }): boolean {
  if (start === from.start) return !isSaved && from.fromMs <= readAtMs && readAtMs <= from.toMs;
  if (start === to?.start) return to.fromMs <= readAtMs && readAtMs < to.toMs;
  return from.start < start && (!to || start < to.start);
}

function oldest<Value>(values: ReadonlySet<Value>): Value {
  return values.values().next().value as Value;
}
