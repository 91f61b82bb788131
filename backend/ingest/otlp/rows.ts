// Collects decoded records as rows of a table, cut by day of their own time. Invariant: a record is one row in every column of its day; a
// time that cannot be kept is dropped and counted, so no insert ever spans an absurd range of days.
import { type ColumnsOf, emptyColumns, type NativeColumns, type NativeRows, nativeRows } from "../../engines/clickhouse/native-block.ts";
import {
  type Column,
  ConstantColumn,
  encodedString,
  encodedUint32,
  encodedUint64,
  Int64Column,
} from "../../engines/clickhouse/native-columns.ts";
import { MAX_ROWS_BYTES } from "../limits.ts";
import { tooLarge } from "./batch.ts";

/** What the rows of a body carry in addition to the records: from the key and the receipt, never from the payload. */
export interface RowContext {
  readonly orgId: string;
  readonly hostId: string;
  readonly node: string;
  readonly receivedAtMs: number;
  /** The first of the ids that this body may use, consecutive; decimal digits. */
  readonly firstId: string;
  /** First 8 bytes of the body's SHA-256 as an unsigned integer. */
  readonly bodyHash: string;
  /** Records older than this are dropped. */
  readonly retentionDays: number;
}

/** The rows of one day (of the record's time, UTC): one partition. */
export interface DaySection extends NativeRows {
  /** Days since 1970-01-01. */
  readonly day: number;
}

/** A body decoded. Plain data, so that it passes between threads. */
export interface DecodedBody {
  readonly sections: DaySection[];
  readonly accepted: number;
  readonly dropped: Record<string, number>;
  /** Set when every record carries its own time: the body is then stored once however often it comes. */
  readonly bodyHash: string | undefined;
  /** Operations of the spans, if known. */
  readonly operations?: readonly DayOperations[];
}

/** What spans of one day are of. */
export interface DayOperations {
  /** Days since 1970-01-01. */
  readonly day: number;
  readonly operations: readonly Operation[];
}

export interface Operation {
  readonly service: string;
  readonly operation: string;
  readonly kind: string;
}

/** A decoded body and the sender it came from: what a store takes. */
export interface OtlpBatch extends DecodedBody {
  readonly orgId: string;
  readonly hostId: string;
}

/** The first columns of every table; `RowCollector` fills them. */
export const COMMON_COLUMNS = [
  ["org_id", "String"],
  ["host_id", "String"],
  ["node", "String"],
  ["received_at", "DateTime"],
  ["body_hash", "UInt64"],
  ["time", "DateTime64(9)"],
  ["id", "UInt64"],
] as const satisfies NativeColumns;

/** The cells that are the same in every row of a body, in the order of COMMON_COLUMNS. */
export function senderCells({ orgId, hostId, node, receivedAtMs, bodyHash }: RowContext): Uint8Array[] {
  return [
    encodedString(orgId),
    encodedString(hostId),
    encodedString(node),
    encodedUint32(Math.floor(receivedAtMs / 1000)),
    encodedUint64(BigInt(bodyHash)),
  ];
}

/** A record of an earlier or a later second is dropped. */
export function keptTimes({ receivedAtMs, retentionDays }: Pick<RowContext, "receivedAtMs" | "retentionDays">): {
  oldestS: number;
  newestS: number;
} {
  const nowS = receivedAtMs / 1000;
  return { oldestS: nowS - retentionDays * DAY_S, newestS: nowS + DAY_S };
}

const DAY_S = 86_400;
const TWO_32 = 0x1_00_00_00_00;

/** The columns of one day: the common ones, and those of the signal. */
class Section<Cells extends NativeColumns> {
  readonly constants: ConstantColumn[];
  readonly time = new Int64Column();
  readonly id = new Int64Column();
  readonly cells: ColumnsOf<Cells>;
  count = 0;

  constructor(constants: readonly Uint8Array[], cells: Cells) {
    this.constants = constants.map((bytes) => new ConstantColumn(bytes));
    this.cells = emptyColumns(cells);
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

/** Rows are measured each time that they may have grown by this. */
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
  #last: { day: number; section: Section<Cells> } | undefined;
  #discarded: ColumnsOf<Cells> | undefined;

  /** `cells` are the columns of the signal, after the common ones. */
  constructor(context: RowContext, cells: Cells) {
    this.#cells = cells;
    this.#constants = senderCells(context);
    this.#receivedAtMs = context.receivedAtMs;
    this.#bodyHash = context.bodyHash;
    const { oldestS, newestS } = keptTimes(context);
    this.#oldestS = oldestS;
    this.#newestS = newestS;
    const firstId = BigInt(context.firstId);
    this.#idLow = Number(firstId % BigInt(TWO_32));
    this.#idHigh = Number(firstId / BigInt(TWO_32));
  }

  /**
   * To be called before each row, with what it takes of its resource and scope. Throws batch_too_large when the rows so far, those that
   * are dropped too, are more than may be held.
   */
  admit(sharedBytes: number): void {
    this.#unmeasuredBytes += sharedBytes + ROW_BYTES;
    if (this.#unmeasuredBytes >= MEASURED_BYTES) this.#measure();
  }

  /**
   * Starts a row at `nanoseconds` (decimal digits; "": the time of receipt) and returns the columns to add its cells to, one to each. The
   * cells of a record whose time cannot be kept go nowhere.
   */
  row(nanoseconds: string): ColumnsOf<Cells> {
    const seconds = nanoseconds === "" ? Math.floor(this.#receivedAtMs / 1000) : Number(nanoseconds.slice(0, -9));
    const fraction = nanoseconds === "" ? (this.#receivedAtMs % 1000) * 1_000_000 : Number(nanoseconds.slice(-9));
    if (nanoseconds === "") this.#everyRecordTimed = false;
    if (seconds < this.#oldestS) return this.drop("too_old");
    if (seconds > this.#newestS) return this.drop("too_far_ahead");
    const section = this.#section(Math.floor(seconds / DAY_S));
    section.count += 1;
    this.#accepted += 1;
    for (const constant of section.constants) constant.endRow();
    addTime(section.time, seconds, fraction);
    section.id.add(this.#idLow, this.#idHigh);
    this.#idLow += 1;
    if (this.#idLow === TWO_32) {
      this.#idLow = 0;
      this.#idHigh += 1;
    }
    return section.cells;
  }

  /** Counts a record that is well-formed but cannot be kept; its cells go nowhere. */
  drop(reason: string): ColumnsOf<Cells> {
    this.#dropped[reason] = (this.#dropped[reason] ?? 0) + 1;
    this.#discarded ??= emptyColumns(this.#cells);
    return this.#discarded;
  }

  finish(): DecodedBody {
    this.#measure();
    return {
      sections: [...this.#days].map(([day, section]) => ({ day, ...section.rows() })),
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

/** seconds × 10⁹ + fraction as two exact halves of 32 bits; no product or sum here reaches 2^53. */
function addTime(column: Int64Column, seconds: number, fraction: number): void {
  const high = Math.floor(seconds / 0x1_00_00) * 1_000_000_000;
  const low = (seconds % 0x1_00_00) * 1_000_000_000 + fraction + (high % 0x1_00_00) * 0x1_00_00;
  column.add(low % TWO_32, Math.floor(high / 0x1_00_00) + Math.floor(low / TWO_32));
}
