// Part of every bundle (hack/bundle.ts injects it first): stack traces name the sources, by the bundle's source map. Node's own
// --enable-source-maps decodes all of the map at the start and keeps it, 20 MB resident on every node; this reads the map when a trace
// is formatted, as far as it must, and keeps what it found. Invariant: whatever is wrong with the map, there is a trace.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const BUNDLE = fileURLToPath(import.meta.url);
const MOST_KNOWN = 1000;
const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/** `line:column` in the bundle → `path:line:column` in the sources. */
const known = new Map<string, string>();

interface SourceMap {
  readonly sources: readonly string[];
  readonly mappings: string;
}

Error.prepareStackTrace = (error, frames) => {
  let map: SourceMap | undefined;
  const readMap = (): SourceMap => (map ??= JSON.parse(readFileSync(`${BUNDLE}.map`, "utf8")) as SourceMap);
  // oxlint-disable-next-line typescript/no-base-to-string -- a CallSite of V8 has one, which its type does not say
  return [headOf(error), ...frames.map((frame) => `    at ${named(String(frame), readMap)}`)].join("\n");
};

function headOf(error: Error): string {
  try {
    return String(error);
  } catch {
    return "Error";
  }
}

/** A frame such as `run (file:///app/agent.js:7:12)` with its place in the sources. */
function named(frame: string, readMap: () => SourceMap): string {
  const place = /(?:file:\/\/)?(\/[^()]*):(\d+):(\d+)/.exec(frame);
  if (place?.[1] !== BUNDLE) return frame;
  const [text, , line = "", column = ""] = place;
  const key = `${line}:${column}`;
  try {
    const source = known.get(key) ?? sourceOf(readMap(), Number(line), Number(column)) ?? text;
    if (known.size < MOST_KNOWN) known.set(key, source);
    return frame.replace(text, source);
  } catch {
    return frame;
  }
}

/** What stands at `line:column` (from 1) of the bundle. A map is a text of differences, so all before it is read, and nothing kept. */
export function sourceOf({ sources, mappings }: SourceMap, line: number, column: number): string | undefined {
  let found: string | undefined;
  /** Column in the bundle; source, line and column there. The first begins anew with each line of the bundle. */
  const at = [0, 0, 0, 0];
  let [atLine, field, value, shift] = [1, 0, 0, 0];
  const endSegment = (): void => {
    if (atLine === line && field >= 4 && (at[0] ?? 0) < column) {
      found = `${join(dirname(BUNDLE), sources[at[1] ?? 0] ?? "")}:${(at[2] ?? 0) + 1}:${(at[3] ?? 0) + 1}`;
    }
    field = 0;
  };
  for (const character of mappings) {
    if (character === ";" || character === ",") {
      endSegment();
      if (character === ",") continue;
      at[0] = 0;
      atLine += 1;
      if (atLine > line) return found;
      continue;
    }
    const digit = DIGITS.indexOf(character);
    value += (digit & 31) << shift;
    shift += 5;
    if (digit & 32) continue;
    if (field < 4) at[field] = (at[field] ?? 0) + (value & 1 ? -(value >> 1) : value >> 1);
    [field, value, shift] = [field + 1, 0, 0];
  }
  endSegment();
  return found;
}
