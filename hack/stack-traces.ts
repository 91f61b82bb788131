// Part of every bundle (hack/bundle.ts injects it first): stack traces name the sources, by the bundle's source map. Node's own
// --enable-source-maps decodes all of the map at the start and keeps it, 20 MB resident on every node. This reads the map when a trace
// is formatted (by Node too, whenever a stream ends with an error), 64 KiB at a time and as far as it must, and keeps what it found and
// some places to go on from: the backend's map has 2 MB, which to read for each frame took 150 ms of its start.
// Invariant: whatever is wrong with the map, there is a trace.
import { closeSync, openSync, readSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const FOLDER = dirname(fileURLToPath(import.meta.url));
const MOST_KNOWN = 1000;
const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const VALUE_OF = Int8Array.from({ length: 256 }, (_, code) => DIGITS.indexOf(String.fromCharCode(code)));
const [COMMA, SEMICOLON] = [",", ";"].map((character) => character.charCodeAt(0));
const LINES_APART = 32;
const begun = new Map<string, Begun>();
/** `file:line:column` in the bundle → `path:line:column` in the sources. */
const known = new Map<string, string>();

Error.prepareStackTrace = (error, frames) => {
  // oxlint-disable-next-line typescript/no-base-to-string -- a CallSite of V8 has one, which its type does not say
  return [headOf(error), ...frames.map((frame) => `    at ${named(String(frame))}`)].join("\n");
};

function headOf(error: Error): string {
  try {
    return String(error);
  } catch {
    return "Error";
  }
}

/** A frame such as `run (file:///app/agent.js:7:12)` with its place in the sources. */
function named(frame: string): string {
  const place = /(?:file:\/\/)?(\/[^()]*):(\d+):(\d+)/.exec(frame);
  const [text = "", file = "", line = "", column = ""] = place ?? [];
  if (dirname(file) !== FOLDER) return frame;
  try {
    const source = known.get(text) ?? sourceOf(file, Number(line), Number(column)) ?? text;
    if (known.size < MOST_KNOWN) known.set(text, source);
    return frame.replace(text, source);
  } catch {
    return frame;
  }
}

/** The source position of `line:column` (from 1) of a file. A map is a text of differences, so all before it is read, and nothing kept. */
function sourceOf(file: string, line: number, column: number): string | undefined {
  const map = openSync(`${file}.map`, "r");
  try {
    const { sources, marks } = begun.get(file) ?? begin(file, map);
    const from = marks.findLast((mark) => mark.line <= line) as Mark;
    const walk = new Walk(from, line, column);
    const chunk = Buffer.allocUnsafeSlow(64 * 1024);
    let at = from.offset;
    let bytes = readSync(map, chunk, { position: at });
    while (bytes > 0 && walk.take(chunk.subarray(0, bytes), at)) {
      at += bytes;
      bytes = readSync(map, chunk, { position: at });
    }
    marks.push(...walk.marks.filter((mark) => mark.line > (marks.at(-1)?.line ?? 0)));
    const [source = 0, sourceLine = 0, sourceColumn = 0] = walk.found ?? [];
    return walk.found && `${join(FOLDER, sources[source] ?? "")}:${sourceLine + 1}:${sourceColumn + 1}`;
  } finally {
    closeSync(map);
  }
}

/** A line of the bundle, where it begins in the map, and what the differences there are to. */
interface Mark {
  readonly line: number;
  readonly offset: number;
  readonly at: readonly number[];
}

interface Begun {
  readonly sources: readonly string[];
  /** In the order of their lines. */
  readonly marks: Mark[];
}

function begin(file: string, map: number): Begun {
  const chunk = Buffer.allocUnsafeSlow(64 * 1024);
  const key = '"mappings": "';
  let head = "";
  while (!head.includes(key)) {
    const bytes = readSync(map, chunk);
    if (bytes === 0) throw new Error("no source map");
    head += chunk.toString("latin1", 0, bytes);
  }
  const at = head.indexOf(key);
  const { sources } = JSON.parse(`${head.slice(0, at).trimEnd().replace(/,$/, "")}}`) as { sources: readonly string[] };
  const beginning = { sources, marks: [{ line: 1, offset: at + key.length, at: [0, 0, 0] }] };
  begun.set(file, beginning);
  return beginning;
}

/** Reads mappings from a mark up to one place of the bundle; `found` is then its source's number, line and column. */
class Walk {
  found: number[] | undefined;
  /** Marks at regular distances, from which a later search continues. */
  readonly marks: Mark[] = [];
  readonly #line: number;
  readonly #column: number;
  /** Column in the bundle; source, line and column there. The first begins anew with each line of the bundle. */
  readonly #at: number[];
  #atLine: number;
  #field = 0;
  #value = 0;
  #shift = 0;

  constructor(from: Mark, line: number, column: number) {
    this.#at = [0, ...from.at];
    this.#atLine = from.line;
    this.#line = line;
    this.#column = column;
  }

  /** `offset`: where the bytes are in the map. False when there is nothing more to read. */
  take(bytes: Uint8Array, offset: number): boolean {
    for (let index = 0; index < bytes.length; index += 1) {
      const byte = bytes[index] ?? 0;
      const digit = VALUE_OF[byte] ?? -1;
      if (digit >= 0) this.#digit(digit);
      else {
        this.#endSegment();
        if (byte === COMMA) continue;
        if (byte !== SEMICOLON || this.#atLine === this.#line) return false;
        this.#at[0] = 0;
        this.#atLine += 1;
        if (this.#atLine % LINES_APART === 0) this.marks.push({ line: this.#atLine, offset: offset + index + 1, at: this.#at.slice(1) });
      }
    }
    return true;
  }

  #digit(digit: number): void {
    this.#value += (digit & 31) << this.#shift;
    this.#shift += 5;
    if (digit & 32) return;
    if (this.#field < 4) this.#at[this.#field] = (this.#at[this.#field] ?? 0) + (this.#value & 1 ? -(this.#value >> 1) : this.#value >> 1);
    this.#field += 1;
    this.#value = 0;
    this.#shift = 0;
  }

  #endSegment(): void {
    if (this.#atLine === this.#line && this.#field >= 4 && (this.#at[0] ?? 0) < this.#column) this.found = this.#at.slice(1);
    this.#field = 0;
  }
}
