// Lists the operations that the decoded spans of a body name. It reads the bytes of their columns, so it does not matter which path decoded
// them. Invariant: the function is pure, runs on any thread, and is bounded, however many names a body contains.
import type { NativeRows } from "../../engines/clickhouse/native-block.ts";
import { MAX_OPERATIONS_PER_BODY, MAX_OPERATION_NAME_BYTES } from "../limits.ts";
import type { DayOperations, DaySection, Operation } from "./rows.ts";
import { SPAN_COLUMNS } from "./decode-spans.ts";

export function operationsOf(sections: readonly DaySection[]): DayOperations[] {
  let room = MAX_OPERATIONS_PER_BODY;
  return sections.map((section) => {
    const operations = distinct(section, room);
    room -= operations.length;
    return { day: section.day, operations };
  });
}

function distinct(rows: NativeRows, room: number): Operation[] {
  const service = new Strings(rows, streamOf("service"));
  const operation = new Strings(rows, streamOf("operation"));
  const kind = new Strings(rows, streamOf("kind"));
  const seen = new Map<string, Operation>();
  for (let row = 0; row < rows.count && seen.size < room; row += 1) {
    const longest = Math.max(service.next(), operation.next(), kind.next());
    if (longest > MAX_OPERATION_NAME_BYTES) continue;
    const key = `${service.key()}\0${kind.key()}\0${operation.key()}`;
    if (!seen.has(key)) seen.set(key, { service: service.text(), operation: operation.text(), kind: kind.text() });
  }
  return [...seen.values()];
}

/** The number of a column's stream within a section. */
function streamOf(name: "service" | "operation" | "kind"): number {
  const at = SPAN_COLUMNS.findIndex(([column]) => column === name);
  // A map has three streams, so maps have to follow the columns that are read here.
  if (SPAN_COLUMNS.slice(0, at).some(([, type]) => type === "Map(String, String)")) throw new Error("a map precedes the names");
  return at;
}

/** A stream of strings, each preceded by its length as a varint. */
class Strings {
  readonly #bytes: Buffer;
  #start = 0;
  #end: number;

  constructor({ bytes, streamLengths }: NativeRows, stream: number) {
    const before = streamLengths.slice(0, stream).reduce((sum, length) => sum + length, 0);
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#end = before;
  }

  /** Moves to the next string and returns its length. */
  next(): number {
    let length = 0;
    let at = this.#end;
    for (let factor = 1; ; factor *= 128) {
      const byte = this.#bytes[at] as number;
      at += 1;
      length += (byte & 0x7f) * factor;
      if (byte < 0x80) break;
    }
    this.#start = at;
    this.#end = at + length;
    return length;
  }

  /** A key that is different for each text. */
  key(): string {
    return this.#bytes.toString("latin1", this.#start, this.#end);
  }

  text(): string {
    return this.#bytes.toString("utf8", this.#start, this.#end);
  }
}
