// Collects decoded records as rows of a table, split by the day of their own time. Invariants: a record becomes one row in every column of
// its day; a record whose time is out of range is dropped and counted, so an insert never covers an absurd range of days.
import { hash } from "node:crypto";
import { type ColumnsOf, emptyColumns, type NativeColumns, type NativeRows, nativeRows } from "../../engines/clickhouse/native-block.ts";
import {
  type Column,
  ConstantColumn,
  encodedString,
  encodedUint32,
  encodedUint64,
  type GrowingColumn,
  Int64Column,
} from "../../engines/clickhouse/native-columns.ts";
import type { DayOperations } from "../../storage/traces/operations-of.ts";
import type { DayRows, WriterBatch } from "../../storage/write-path/once-writer.ts";
import { MAX_ROWS_BYTES } from "../ingest-limits.ts";
import type { RecordFaults } from "../record-faults.ts";
import { tooLarge } from "./batch.ts";

export type OtlpSignal = "logs" | "traces";

/** Identifies a body: the first 8 bytes of its SHA-256, as decimal digits. */
export function bodyHashOf(body: Uint8Array | string): string {
  return hash("sha256", body, "buffer").readBigUInt64BE().toString();
}

/** Columns that come from the key and the time of receipt, never from the payload. */
export interface RowContext {
  readonly orgId: string;
  readonly hostId: string;
  readonly node: string;
  readonly receivedAtMs: number;
  /** The first of the consecutive ids for this body, in decimal digits. */
  readonly firstId: string;
  /** See bodyHashOf. */
  readonly bodyHash: string;
  /** Records older than this are dropped. */
  readonly retentionDays: number;
  /** Scopes may mark their records as raw lines of log files (file-lines.ts): only on the signed route for logs. */
  readonly readsLines?: boolean | undefined;
  /** Counts invalid records, which are left out. Unset on signed routes, where an invalid record makes the whole body invalid. */
  readonly faults?: RecordFaults | undefined;
}

/** A decoded body. Plain data, so that it can be passed between threads. */
export interface DecodedBody {
  readonly sections: DayRows[];
  readonly accepted: number;
  readonly dropped: Readonly<Record<string, number>>;
  readonly faults?: RecordFaults;
  /** Set if every record has its own time: then the body is stored once, however often it is sent. */
  readonly bodyHash: string | undefined;
  /** Operations of the spans, if known. */
  readonly operations?: readonly DayOperations[];
}

/** A decoded body and its sender, as stores accept it. */
export interface OtlpBatch extends DecodedBody, WriterBatch {
  readonly sections: DayRows[];
}

/** The cells of the constant columns, in the order of COMMON_COLUMNS. */
export function senderCells({ orgId, hostId, node, receivedAtMs, bodyHash }: RowContext): Uint8Array[] {
  return [
    encodedString(orgId),
    encodedString(hostId),
    encodedString(node),
    encodedUint32(Math.floor(receivedAtMs / 1000)),
    encodedUint64(BigInt(bodyHash)),
  ];
}

/** The range of seconds; records outside it are dropped. */
export function keptTimes({ receivedAtMs, retentionDays }: Pick<RowContext, "receivedAtMs" | "retentionDays">): {
  oldestS: number;
  newestS: number;
} {
  const nowS = receivedAtMs / 1000;
  return { oldestS: nowS - retentionDays * DAY_S, newestS: nowS + DAY_S };
}

const DAY_S = 86_400;
const TWO_32 = 0x1_00_00_00_00;

/** The columns of one day: the common ones, then those of the signal. */
class Section<Cells extends NativeColumns> {
  readonly constants: ConstantColumn[];
  readonly time = new Int64Column();
  readonly id = new Int64Column();
  readonly cells: ColumnsOf<Cells>;
  readonly #growing: readonly GrowingColumn[];
  count = 0;

  constructor(constants: readonly Uint8Array[], cells: Cells) {
    this.constants = constants.map((bytes) => new ConstantColumn(bytes));
    this.cells = emptyColumns(cells);
    this.#growing = [this.time, this.id, ...Object.values<GrowingColumn>(this.cells)];
  }

  mark(): void {
    for (const column of this.#growing) column.mark();
  }

  undoRow(): void {
    for (const column of this.#growing) column.undo();
    this.count -= 1;
  }

  get byteLength(): number {
    return bytesOf([...this.constants, this.time, this.id, ...Object.values<Column>(this.cells)]);
  }

  rows(): NativeRows {
    return nativeRows([...this.constants, this.time, this.id, ...Object.values<Column>(this.cells)], this.count);
  }
}

function bytesOf(columns: readonly Column[]): number {
  return columns.reduce((sum, column) => sum + column.byteLength, 0);
}

/** The size of the rows is measured again each time they may have grown by this much. */
const MEASURED_BYTES = 1024 * 1024;
/** Approximate size of a row without its record, its resource and its scope. */
export const ROW_BYTES = 256;

export class RowCollector<Cells extends NativeColumns> {
  readonly #cells: Cells;
  readonly #days = new Map<number, Section<Cells>>();
  readonly #constants: readonly Uint8Array[];
  readonly #receivedAtMs: number;
  readonly #bodyHash: string;
  readonly #oldestS: number;
  readonly #newestS: number;
  #idLow: number;
  #idHigh: number;
  #accepted = 0;
  #everyRecordTimed = true;
  #unmeasuredBytes = 0;
  readonly #dropped: Record<string, number> = {};
  readonly #mayUndo: boolean;
  /** The current record: whether all records before it have a time, and its section or why it was dropped. */
  #current: { wasTimed: boolean; section: Section<Cells> | undefined; reason: string } = { wasTimed: true, section: undefined, reason: "" };
  #last: { day: number; section: Section<Cells> } | undefined;
  #discarded: ColumnsOf<Cells> | undefined;

  /** `cells` are the columns of the signal, after the common ones. */
  constructor(context: RowContext, cells: Cells) {
    this.#cells = cells;
    this.#constants = senderCells(context);
    this.#receivedAtMs = context.receivedAtMs;
    this.#bodyHash = context.bodyHash;
    this.#mayUndo = context.faults !== undefined;
    const { oldestS, newestS } = keptTimes(context);
    this.#oldestS = oldestS;
    this.#newestS = newestS;
    const firstId = BigInt(context.firstId);
    this.#idLow = Number(firstId % BigInt(TWO_32));
    this.#idHigh = Number(firstId / BigInt(TWO_32));
  }

  /**
   * Call before each row, with the size that its resource and scope add. Throws batch_too_large if the rows so far, including dropped ones,
   * exceed the limit.
   */
  admit(sharedBytes: number): void {
    this.#current.wasTimed = this.#everyRecordTimed;
    this.#current.section = undefined;
    this.#current.reason = "";
    this.#unmeasuredBytes += sharedBytes + ROW_BYTES;
    if (this.#unmeasuredBytes >= MEASURED_BYTES) this.#measure();
  }

  /**
   * Starts a row at `nanoseconds` (decimal digits; "": the time of receipt) and returns the columns; add one cell to each. The cells of a
   * record whose time is out of range are discarded.
   */
  row(nanoseconds: string): ColumnsOf<Cells> {
    const seconds = nanoseconds === "" ? Math.floor(this.#receivedAtMs / 1000) : Number(nanoseconds.slice(0, -9));
    const fraction = nanoseconds === "" ? (this.#receivedAtMs % 1000) * 1_000_000 : Number(nanoseconds.slice(-9));
    if (nanoseconds === "") this.#everyRecordTimed = false;
    if (seconds < this.#oldestS) return this.drop("too_old");
    if (seconds > this.#newestS) return this.drop("too_far_ahead");
    const section = this.#section(Math.floor(seconds / DAY_S));
    if (this.#mayUndo) section.mark();
    this.#current.section = section;
    section.count += 1;
    this.#accepted += 1;
    addTime(section.time, seconds, fraction);
    section.id.add(this.#idLow, this.#idHigh);
    this.#idLow += 1;
    if (this.#idLow === TWO_32) {
      this.#idLow = 0;
      this.#idHigh += 1;
    }
    return section.cells;
  }

  /** Counts a record that is well-formed but cannot be stored; its cells are discarded. */
  drop(reason: string): ColumnsOf<Cells> {
    this.#dropped[reason] = (this.#dropped[reason] ?? 0) + 1;
    this.#current.reason = reason;
    this.#discarded ??= emptyColumns(this.#cells);
    return this.#discarded;
  }

  /** Takes back the current record, whatever was read of it. Only for a context with `faults`. */
  undo(): void {
    const { wasTimed, section, reason } = this.#current;
    this.#everyRecordTimed = wasTimed;
    if (section) {
      section.undoRow();
      this.#accepted -= 1;
    } else if (reason !== "") {
      this.#dropped[reason] = (this.#dropped[reason] ?? 0) - 1;
      if (this.#dropped[reason] === 0) delete this.#dropped[reason];
    }
  }

  finish(): DecodedBody {
    this.#measure();
    const days = [...this.#days].filter(([, { count }]) => count > 0);
    return {
      sections: days.map(([day, section]) => ({ day, ...section.rows() })),
      accepted: this.#accepted,
      dropped: this.#dropped,
      bodyHash: this.#everyRecordTimed ? this.#bodyHash : undefined,
    };
  }

  #measure(): void {
    this.#unmeasuredBytes = 0;
    let bytes = this.#discarded ? bytesOf(Object.values<Column>(this.#discarded)) : 0;
    for (const section of this.#days.values()) bytes += section.byteLength;
    if (bytes > MAX_ROWS_BYTES)
      throw tooLarge(`more than ${MAX_ROWS_BYTES / 1024 / 1024} MiB, because each record repeats the attributes of its resource`);
  }

  #section(day: number): Section<Cells> {
    if (this.#last?.day === day) return this.#last.section;
    const section = this.#days.get(day) ?? new Section(this.#constants, this.#cells);
    this.#days.set(day, section);
    this.#last = { day, section };
    return section;
  }
}

/** Adds seconds × 10⁹ + fraction as two exact halves of 32 bits; no product or sum here reaches 2^53. */
function addTime(column: Int64Column, seconds: number, fraction: number): void {
  const high = Math.floor(seconds / 0x1_00_00) * 1_000_000_000;
  const low = (seconds % 0x1_00_00) * 1_000_000_000 + fraction + (high % 0x1_00_00) * 0x1_00_00;
  column.add(low % TWO_32, Math.floor(high / 0x1_00_00) + Math.floor(low / TWO_32));
}
