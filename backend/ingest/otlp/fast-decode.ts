// The fast path from OTLP/JSON or OTLP/protobuf to rows: a WebAssembly kernel (backend/ingest/otlp/kernel) decodes request bodies as collectors
// write them and falls back for all others, which the slow path (decode-body.ts) decodes or rejects. Invariants: both paths produce the same
// bytes; the memory has a limit; the size of the rows is known before they are copied out. There is one kernel per thread, for one body at
// a time.
import { type DayRows } from "../../storage/write-path/once-writer.ts";
import { type DayOperations, type Operation } from "../../storage/traces/operations-of.ts";
import { isUtf8 } from "node:buffer";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { KernelFallback, KernelHost, LazyKernel } from "../kernel-host.ts";
import { encodedUint64 } from "../../engines/clickhouse/native-columns.ts";
import { type DecodedBody, keptTimes, type OtlpSignal, ROW_BYTES, type RowContext, senderCells } from "./decoded-rows.ts";

export const KERNEL_FILE = fileURLToPath(new URL("./kernel.wasm", import.meta.url));

export interface KernelLimits {
  /** The kernel is not tried with larger bodies. */
  readonly maxBodyBytes: number;
  /** The kernel falls back if the rows, without the columns of the sender, would be larger. */
  readonly maxRowsBytes: number;
}

export interface KernelBody {
  /** Default: JSON. */
  readonly encoding?: "json" | "protobuf" | undefined;
  readonly bytes: Uint8Array;
}

/** Decoded rows that are still in the kernel's memory, valid until the next body is decoded. */
export interface KernelRows {
  /** Stored or dropped. */
  readonly records: number;
  /** The most bytes that `take` will return. */
  readonly byteLength: number;
  take(bodyHash: string): DecodedBody;
}

/** A raw line of a log file (file-lines.ts). */
export interface FileLine {
  readonly message: string;
  /** Nanoseconds since 1970; 0 if unknown. */
  readonly time: bigint;
  /** 1 (trace) to 6 (fatal); 0 if unknown. */
  readonly level: number;
  /** Hex digits; "" if unknown. */
  readonly traceId: string;
  readonly spanId: string;
  readonly labels: Readonly<Record<string, string>>;
}

/** The hash is passed to `take`, because a rejected body needs none. */
type Context = Omit<RowContext, "bodyHash">;

interface Exports {
  inputAt(): number;
  rowsAt(): number;
  streamLengthsAt(): number;
  decode(
    signal: number,
    isProtobuf: number,
    length: number,
    indexBytes: number,
    maxRowsBytes: number,
    rowBytes: number,
    receivedAtMs: number,
    oldestS: number,
    newestS: number,
    readsLines: number,
  ): void;
  line(mark: number, length: number, indexBytes: number, time: bigint, observed: bigint, receivedAtMs: number): number;
  sections(): number;
  sectionDay(section: number): number;
  sectionRows(section: number): number;
  droppedRows(reason: number): number;
  untimedRows(): number;
  rowsBytes(): number;
  operations(): number;
  operation(index: number): number;
  write(signal: number, section: number, at: number, firstId: bigint): number;
}

const EXPORTS = [
  "decode",
  "droppedRows",
  "inputAt",
  "line",
  "operation",
  "operations",
  "rowsAt",
  "rowsBytes",
  "sectionDay",
  "sectionRows",
  "sections",
  "streamLengthsAt",
  "untimedRows",
  "write",
] as const satisfies readonly (keyof Exports)[];

const SIGNALS: Record<OtlpSignal, number> = { logs: 0, traces: 1 };
const DROP_REASONS = ["too_old", "too_far_ahead", "empty_ids"] as const;
/** The number of streams of a signal after the sender's columns. */
const STREAMS: Record<OtlpSignal, number> = { logs: 16, traces: 25 };
/** Indexed by the kernel's numbers, which are OTLP's. */
const SPAN_KINDS = ["UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"] as const;
/** The rows, and a byte for each label while its keys are numbered; a label has at least two bytes of the rows. */
const ROWS_AND_NUMBERS = 1.5;
const FIRST_PAGES = 4;
const MAX_PAGES = 800;
/** Zeros after the body. */
const GUARD_BYTES = 64;
/** Size of the index relative to the body: the index entry of a row is smaller than a record as collectors write it. */
const INDEX_OF_BODY = { json: 1.5, protobuf: 3 } as const;
const MIN_INDEX_BYTES = 64 * 1024;
/** `String` makes a number at most this much longer than its original text. */
const MAX_LONGER = 12;

export class Kernel extends KernelHost<Exports> {
  constructor(bytes: Uint8Array) {
    const host = {
      number: (at: number, length: number) => this.#writeNumber(at, length),
      double: (value: number, to: number) => this.bytes().write(String(value), to, "latin1"),
    };
    super(bytes, { names: EXPORTS, pages: { initial: FIRST_PAGES, maximum: MAX_PAGES }, host });
  }

  /** Undefined if the kernel fell back. */
  read(signal: OtlpSignal, { encoding = "json", bytes }: KernelBody, context: Context, limits: KernelLimits): KernelRows | undefined {
    // For protobuf, the kernel itself checks each text.
    if (bytes.byteLength > limits.maxBodyBytes || (encoding === "json" && !isUtf8(bytes))) return undefined;
    try {
      this.#decode(signal, { encoding, bytes }, context, limits.maxRowsBytes);
      return this.#rows(signal, context);
    } catch (error) {
      return this.fallBack(error);
    }
  }

  /** Parses a raw line with a mark of file-lines.ts; undefined if the kernel falls back. Rows that were not taken are lost. */
  line(mark: number, bytes: Buffer, times: { time: bigint; observed: bigint; receivedAtMs: number }): FileLine | undefined {
    const { length } = bytes;
    const inputAt = this.exports.inputAt();
    const indexBytes = Math.max(MIN_INDEX_BYTES, length * INDEX_OF_BODY.protobuf);
    try {
      this.growTo(inputAt + length + GUARD_BYTES + indexBytes + 32);
      this.bytes().set(bytes, inputAt);
      return this.#readLine(this.exports.line(mark, length, indexBytes, times.time, times.observed, times.receivedAtMs));
    } catch (error) {
      return this.fallBack(error);
    }
  }

  /** Reads LINE_RESULT of kernel/file-lines.ts. */
  #readLine(at: number): FileLine {
    const memory = this.bytes();
    const field = (number: number): number => memory.readUInt32LE(at + 4 * number);
    const id = (address: number, digits: number): string => (address === 0 ? "" : memory.toString("latin1", address, address + digits));
    const stream = ["", "stdout", "stderr"][field(5)];
    return {
      message: memory.toString("utf8", field(2), field(2) + field(3)),
      time: memory.readBigUInt64LE(at),
      level: field(4),
      traceId: id(field(7), 32),
      spanId: id(field(8), 16),
      labels: { ...(stream && { "log.iostream": stream }), ...(field(6) !== 0 && { "log.incomplete": "end" }) },
    };
  }

  #decode(signal: OtlpSignal, { encoding, bytes }: Required<KernelBody>, context: Context, maxRowsBytes: number): void {
    const { length } = bytes;
    const exports = this.exports;
    const inputAt = exports.inputAt();
    const indexBytes = Math.max(MIN_INDEX_BYTES, Math.floor(length * INDEX_OF_BODY[encoding]));
    this.growTo(inputAt + length + GUARD_BYTES + indexBytes + 32);
    this.bytes().set(bytes, inputAt);
    const rowBytes = ROW_BYTES + context.orgId.length + context.hostId.length + context.node.length;
    const { oldestS, newestS } = keptTimes(context);
    const isProtobuf = Number(encoding === "protobuf");
    const { receivedAtMs, readsLines } = context;
    const readsLine = Number(readsLines === true);
    exports.decode(SIGNALS[signal], isProtobuf, length, indexBytes, maxRowsBytes, rowBytes, receivedAtMs, oldestS, newestS, readsLine);
  }

  #rows(signal: OtlpSignal, context: Context): KernelRows {
    const exports = this.exports;
    const cells = senderCells({ ...context, bodyHash: "0" });
    const senderBytes = bytesOf(cells);
    // Grows the memory now: if that fails, the slow path can still decode the body. `take` needs no more.
    this.growTo(exports.rowsAt() + exports.rowsBytes() * ROWS_AND_NUMBERS + GUARD_BYTES);
    let accepted = 0;
    for (let section = 0; section < exports.sections(); section += 1) accepted += exports.sectionRows(section);
    const droppedRows = DROP_REASONS.reduce((sum, _, index) => sum + exports.droppedRows(index), 0);
    return {
      records: accepted + droppedRows,
      byteLength: exports.rowsBytes() + exports.sections() * senderBytes,
      take: (bodyHash) => {
        const sender = [...cells.slice(0, -1), encodedUint64(BigInt(bodyHash))];
        const firstId = BigInt.asIntN(64, BigInt(context.firstId));
        const sections = Array.from({ length: exports.sections() }, (_, section) => this.#section(signal, section, firstId, sender));
        const dropped = Object.fromEntries(
          DROP_REASONS.map((reason, index) => [reason, exports.droppedRows(index)] as const).filter(([, count]) => count > 0),
        );
        const operations = signal === "traces" ? this.#operations(sections.map(({ day }) => day)) : undefined;
        return {
          sections,
          accepted,
          dropped,
          bodyHash: exports.untimedRows() === 0 ? bodyHash : undefined,
          ...(operations && { operations }),
        };
      },
    };
  }

  /** The operations that the spans name; undefined if there are more than the kernel lists. */
  #operations(days: readonly number[]): DayOperations[] | undefined {
    const exports = this.exports;
    const count = exports.operations();
    if (count < 0) return undefined;
    const lists = days.map((day) => ({ day, operations: [] as Operation[] }));
    const memory = this.bytes();
    for (let index = 0; index < count; index += 1) {
      const at = exports.operation(index);
      const field = (number: number): number => memory.readUInt32LE(at + 4 * number);
      const text = (number: number): string => memory.toString("utf8", field(number), field(number) + field(number + 1));
      lists[field(0)]?.operations.push({ service: text(1), operation: text(3), kind: SPAN_KINDS[field(5)] as string });
    }
    return lists;
  }

  /** The rows of one day: the sender's cells, then what the kernel writes. */
  #section(signal: OtlpSignal, section: number, firstId: bigint, sender: readonly Uint8Array[]): DayRows {
    const exports = this.exports;
    const count = exports.sectionRows(section);
    const at = exports.rowsAt();
    const length = exports.write(SIGNALS[signal], section, at, firstId);
    const bytes = new Uint8Array(bytesOf(sender) + length);
    let to = 0;
    for (const cell of sender) {
      bytes.set(cell, to);
      to += cell.length;
    }
    bytes.set(this.bytes().subarray(at, at + length), to);
    const lengths = new Uint32Array(this.bytes().buffer, exports.streamLengthsAt(), STREAMS[signal]);
    return { day: exports.sectionDay(section), count, bytes, streamLengths: [...sender.map((cell) => cell.length), ...lengths] };
  }

  /** Rewrites a JSON number as JavaScript would, with the same end address; returns its length. */
  #writeNumber(at: number, length: number): number {
    const memory = this.bytes();
    const read = memory.toString("latin1", at, at + length);
    const text = String(Number(read));
    if (text.length > length + MAX_LONGER) throw KernelFallback.instance;
    if (text !== read) memory.write(text, at + length - text.length, "latin1");
    return text.length;
  }
}

function bytesOf(cells: readonly Uint8Array[]): number {
  return cells.reduce((sum, { length }) => sum + length, 0);
}

export const OTLP_KERNEL = new LazyKernel(() => new Kernel(readFileSync(KERNEL_FILE)));
