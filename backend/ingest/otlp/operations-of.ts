// Which operations the decoded spans of a body name: read from the bytes of their columns, so that it does not matter who decoded them.
// Invariant: pure, callable on any thread; bounded, however many names a body makes up.
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

/** Which of the streams of a section. */
function streamOf(name: "service" | "operation" | "kind"): number {
  const at = SPAN_COLUMNS.findIndex(([column]) => column === name);
  // A map has three and follows them.
  if (SPAN_COLUMNS.slice(0, at).some(([, type]) => type === "Map(String, String)")) throw new Error("a map precedes the names");
  return at;
}

/** One stream of strings, each after its length as a varint. */
class Strings {
  readonly #bytes: Buffer;
  #start = 0;
  #end: number;

  constructor({ bytes, streamLengths }: NativeRows, stream: number) {
    const before = streamLengths.slice(0, stream).reduce((sum, length) => sum + length, 0);
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#end = before;
  }

  /** Goes on to the next one and answers its length. */
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

  /** Another one for each text. */
  key(): string {
    return this.#bytes.toString("latin1", this.#start, this.#end);
  }

  text(): string {
    return this.#bytes.toString("utf8", this.#start, this.#end);
  }
}
