// Part of every bundle (hack/bundle.ts injects it first): stack traces name the sources, by the bundle's source map. Node's own
// --enable-source-maps decodes all of the map at the start and keeps it, 20 MB resident on every node. This reads the map when a trace
// is formatted (by Node too, whenever a stream ends with an error), 64 KiB at a time and as far as it must, and keeps what it found.
// Invariant: whatever is wrong with the map, there is a trace.
import { closeSync, openSync, readSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const FOLDER = dirname(fileURLToPath(import.meta.url));
const MOST_KNOWN = 1000;
const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const VALUE_OF = Int8Array.from({ length: 256 }, (_, code) => DIGITS.indexOf(String.fromCharCode(code)));
const [COMMA, SEMICOLON] = [",", ";"].map((character) => character.charCodeAt(0));
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

/** What stands at `line:column` (from 1) of a file. A map is a text of differences, so all before it is read, and nothing kept. */
function sourceOf(file: string, line: number, column: number): string | undefined {
  const map = openSync(`${file}.map`, "r");
  try {
    const chunk = Buffer.allocUnsafeSlow(64 * 1024);
    let head = "";
    while (!head.includes('"mappings": "')) {
      const bytes = readSync(map, chunk);
      if (bytes === 0) return undefined;
      head += chunk.toString("latin1", 0, bytes);
    }
    const [sources = "", mappings = ""] = head.split('"mappings": "');
    const walk = new Walk(line, column);
    let more = walk.take(Buffer.from(mappings, "latin1"));
    while (more) {
      const bytes = readSync(map, chunk);
      more = bytes > 0 && walk.take(chunk.subarray(0, bytes));
    }
    return walk.found && placeIn(`${sources.trimEnd().replace(/,$/, "")}}`, walk.found);
  } finally {
    closeSync(map);
  }
}

function placeIn(head: string, [source = 0, line = 0, column = 0]: readonly number[]): string {
  const { sources } = JSON.parse(head) as { sources: readonly string[] };
  return `${join(FOLDER, sources[source] ?? "")}:${line + 1}:${column + 1}`;
}

/** Reads mappings up to one place of the bundle; `found` is then its source's number, line and column. */
class Walk {
  found: number[] | undefined;
  readonly #line: number;
  readonly #column: number;
  /** Column in the bundle; source, line and column there. The first begins anew with each line of the bundle. */
  readonly #at = [0, 0, 0, 0];
  #atLine = 1;
  #field = 0;
  #value = 0;
  #shift = 0;

  constructor(line: number, column: number) {
    this.#line = line;
    this.#column = column;
  }

  /** False when there is nothing more to read. */
  take(bytes: Uint8Array): boolean {
    for (const byte of bytes) {
      const digit = VALUE_OF[byte] ?? -1;
      if (digit >= 0) this.#digit(digit);
      else {
        this.#endSegment();
        if (byte === COMMA) continue;
        if (byte !== SEMICOLON || this.#atLine === this.#line) return false;
        this.#at[0] = 0;
        this.#atLine += 1;
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
