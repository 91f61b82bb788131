// Splits a request with log file lines into its batches, identifies each batch and its read time, and removes file offsets. Invariants: two
// batches have the same key only if they contain the same lines at the same offsets in files of the same name; offsets never leave the node.
// Lines that are read again differ in attribute order and read time, so comparing bytes is not enough.
import { createHash } from "node:crypto";

/** Header of requests with log file lines; its value is the token that the agent gave to its collector. */
export const FILES_HEADER = "x-atherops-files";

/** The lines of one entry of the collector's disk queue. A request may contain several batches. */
export interface FileBatch {
  /** Undefined if a record of the batch has no file offset. */
  readonly key: string | undefined;
  /** When the first line was read; Unix milliseconds, rounded down. */
  readonly readAtMs: number;
  /** The JSON of `resourceLogs`, without the offsets of its lines. */
  readonly json: readonly Buffer[];
}

export interface FileRequest {
  readonly batches: readonly FileBatch[];
  /** Builds the OTLP/JSON body of some batches; for all batches, this is the original request without offsets. */
  readonly buildBody: (batches: readonly FileBatch[]) => Buffer;
}

// The collector writes no spaces between JSON tokens, and escapes quotes within strings, so none of these can occur inside a value.
const LIST = '{"resourceLogs":[';
const LIST_END = "]}";
/** End of one batch and beginning of the next; no other field has this name. */
const BETWEEN = prefix('},{"resource":', "u");
const OBSERVED = prefix('"observedTimeUnixNano":"', "U");
const TIME = prefix('"timeUnixNano":"', "U");
const BODY = prefix('"body":{"stringValue":"', "y");
const PATH = prefix('{"key":"log.file.path","value":{"stringValue":"', "p");
const OFFSET = prefix('{"key":"log.file.record_offset","value":{"intValue":"', "_");

/** Suffixes that logrotate and the kubelet add to a renamed file: it is still the same file. */
const ROTATED = /\.log(?:\.1|\.\d{8}-\d{6})$/;

const KEY_LENGTH = 20;
const COMMA = Buffer.from(",");

/** The search begins with the rarest character: V8 stops at each occurrence of the first one, and JSON is full of quotes and braces. */
interface Prefix {
  readonly text: string;
  readonly rare: string;
  readonly before: number;
}

function prefix(text: string, character: string): Prefix {
  const before = text.indexOf(character);
  return { text, rare: text.slice(before), before };
}

/** Returns the same as `text.indexOf(prefix.text, from)`. */
function find(text: string, { text: prefix, rare, before }: Prefix, from: number): number {
  for (let at = text.indexOf(rare, from + before); at >= 0; at = text.indexOf(rare, at + 1)) {
    if (text.startsWith(prefix, at - before)) return at - before;
  }
  return -1;
}

/** `json`: OTLP/JSON of the collector. Any other body becomes one unchanged batch without a key. */
export function parseFileRequest(json: Buffer): FileRequest {
  const text = json.toString("latin1");
  const isList = text.startsWith(LIST) && text.endsWith(LIST_END);
  const [start, end] = isList ? [LIST.length, text.length - LIST_END.length] : [0, text.length];
  const batches: FileBatch[] = [];
  for (let from = start; from <= end;) {
    const next = isList ? find(text, BETWEEN, from) : -1;
    const to = next < 0 ? end : next + 1;
    batches.push(parseBatch(json.subarray(from, to), text.slice(from, to)));
    from = next < 0 ? end + 1 : to + 1;
  }
  return {
    batches,
    buildBody: (some) => {
      const parts = some.flatMap((batch, i) => (i === 0 ? batch.json : [COMMA, ...batch.json]));
      return Buffer.concat(isList ? [Buffer.from(LIST), ...parts, Buffer.from(LIST_END)] : parts);
    },
  };
}

function parseBatch(json: Buffer, text: string): FileBatch {
  const observed = new Values(text, OBSERVED);
  const offsets = new Values(text, OFFSET);
  return {
    json: removeOffsets(json, text, offsets),
    key: computeKey(text, observed.count, offsets),
    readAtMs: Math.floor(Number(observed.first) / 1e6),
  };
}

/** The JSON strings that follow each `prefix`. They are joined instead of listed, because a batch has about five hundred. */
class Values {
  count = 0;
  first = "";
  /** All values, each followed by a quote. */
  joined = "";
  /** Start and end (after the closing quote) of each value. */
  readonly bounds: number[] = [];

  constructor(text: string, prefix: Prefix, change = (value: string): string => value) {
    // Consecutive lines of a file have the same path.
    let [last, changed] = ["", change("")];
    for (let at = find(text, prefix, 0); at >= 0;) {
      const start = at + prefix.text.length;
      const end = endOfText(text, start);
      const value = text.slice(start, end);
      if (value !== last) [last, changed] = [value, change(value)];
      if (this.count === 0) this.first = value;
      this.count += 1;
      this.joined += `${changed}"`;
      this.bounds.push(start, end + 1);
      at = find(text, prefix, end);
    }
  }
}

function endOfText(text: string, start: number): number {
  for (let quote = text.indexOf('"', start); quote >= 0; quote = text.indexOf('"', quote + 1)) {
    let before = quote;
    while (text[before - 1] === "\\") before--;
    if ((quote - before) % 2 === 0) return quote;
  }
  return text.length;
}

function computeKey(text: string, records: number, offsets: Values): string | undefined {
  const paths = new Values(text, PATH, (path) => path.replace(ROTATED, ".log"));
  const bodies = new Values(text, BODY);
  if (records === 0 || [offsets, paths, bodies].some(({ count }) => count !== records)) return undefined;
  const hashed = [offsets, paths, bodies, new Values(text, TIME)].map(({ joined }) => `${joined}\n`).join("");
  // Hashed at once: a call per value would cost as much as everything else.
  return createHash("sha256").update(hashed, "latin1").digest("base64url").slice(0, KEY_LENGTH);
}

/** Removes the offset attributes, each with an adjacent comma. */
function removeOffsets(json: Buffer, text: string, { bounds }: Values): Buffer[] {
  const parts: Buffer[] = [];
  let from = 0;
  for (let i = 0; i < bounds.length; i += 2) {
    const [start, end] = [bounds[i] ?? 0, bounds[i + 1] ?? 0];
    // The value is followed by `}}`.
    const attribute = { start: start - OFFSET.text.length, end: end + 2 };
    const cutsBefore = text[attribute.start - 1] === "," && attribute.start - 1 >= from;
    const cutsAfter = !cutsBefore && text[attribute.end] === ",";
    parts.push(json.subarray(from, cutsBefore ? attribute.start - 1 : attribute.start));
    from = cutsAfter ? attribute.end + 1 : attribute.end;
  }
  parts.push(json.subarray(from));
  return parts;
}
