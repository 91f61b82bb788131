// Translates positions in stack traces to the sources, with the bundle's source map; hack/bundle.ts injects this module into every bundle.
// Node's own --enable-source-maps keeps the whole decoded map, 20 MB of memory on every node. This module reads the map only when a trace is
// formatted, in chunks of 64 KiB and only as far as necessary. It caches positions, and marks at which a later search continues, because the
// backend's map has 2 MB. Invariant: a trace is printed even if the map is missing or damaged.
import { closeSync, openSync, readSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const FOLDER = dirname(fileURLToPath(import.meta.url));
const MAX_CACHED_POSITIONS = 1000;
const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const VALUE_OF = Int8Array.from({ length: 256 }, (_, code) => DIGITS.indexOf(String.fromCharCode(code)));
const [COMMA, SEMICOLON] = [",", ";"].map((character) => character.charCodeAt(0));
const LINES_PER_MARK = 32;
const begun = new Map<string, Begun>();
/** Cache: `file:line:column` in the bundle → `path:line:column` in the sources. */
const known = new Map<string, string>();

Error.prepareStackTrace = (error, frames) => {
  // oxlint-disable-next-line typescript/no-base-to-string -- a CallSite of V8 has one, which its type does not say
  return [headOf(error), ...frames.map((frame) => `    at ${nameFrame(String(frame))}`)].join("\n");
};

function headOf(error: Error): string {
  try {
    return String(error);
  } catch {
    return "Error";
  }
}

/** Replaces the position in a frame such as `run (file:///app/agent.js:7:12)` by that in the sources. */
function nameFrame(frame: string): string {
  const position = /(?:file:\/\/)?(\/[^()]*):(\d+):(\d+)/.exec(frame);
  const [text = "", file = "", line = "", column = ""] = position ?? [];
  if (dirname(file) !== FOLDER) return frame;
  try {
    const source = known.get(text) ?? sourceOf(file, Number(line), Number(column)) ?? text;
    if (known.size < MAX_CACHED_POSITIONS) known.set(text, source);
    return frame.replace(text, source);
  } catch {
    return frame;
  }
}

/**
 * The source position of `line:column` (1-based) in a file. A map consists of differences, so everything before the position is read, but
 * not kept.
 */
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

/** A line of the bundle: where it begins in the map, and the values to which the following differences apply. */
interface Mark {
  readonly line: number;
  readonly offset: number;
  readonly at: readonly number[];
}

interface Begun {
  readonly sources: readonly string[];
  /** Sorted by line. */
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

/** Reads mappings from a mark up to one position in the bundle; `found` is then its source number, line and column. */
class Walk {
  found: number[] | undefined;
  /** Marks at regular distances, from which a later search continues. */
  readonly marks: Mark[] = [];
  readonly #line: number;
  readonly #column: number;
  /** Column in the bundle; source, line and column in the sources. The first restarts with each line of the bundle. */
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

  /** `offset`: the position of the bytes in the map. Returns false when nothing more has to be read. */
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
        if (this.#atLine % LINES_PER_MARK === 0) this.marks.push({ line: this.#atLine, offset: offset + index + 1, at: this.#at.slice(1) });
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
