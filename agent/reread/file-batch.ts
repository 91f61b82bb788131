// One request of the collector with lines of files: its batches, which lines they are, when they were read, and their bytes as they leave the
// node. Invariant: two batches have the same key only when they hold the same lines of the same places in files of the same name; the place
// goes no further. Lines that are read again get other attributes' order and another time of reading, so bytes cannot tell.
import { createHash } from "node:crypto";

/** Of a request that comes from files; its value is the token that this run of the agent gave to its collector. */
export const FILES_HEADER = "x-atherops-files";

/** Lines that the collector handed over at once: one entry of its disk queue, in a request with others. */
export interface FileBatch {
  /** Undefined when not every record is a line with its place. */
  readonly key: string | undefined;
  /** Of the first line; Unix milliseconds, rounded down. */
  readonly readAtMs: number;
  /** Of `resourceLogs`, without the places of its lines. */
  readonly json: readonly Buffer[];
}

export interface FileRequest {
  readonly batches: readonly FileBatch[];
  /** OTLP/JSON of some of its batches, in their order; of all: the request as it came, without the places of its lines. */
  readonly bodyOf: (batches: readonly FileBatch[]) => Buffer;
}

// The collector writes no space between the parts of its JSON, and within a text each quote has a backslash: none of these is ever part of one.
const LIST = '{"resourceLogs":[';
const LIST_END = "]}";
/** The end of a batch and the beginning of the next, which begins with the only field of that name. */
const BETWEEN = '},{"resource":';
const COMMA = Buffer.from(",");
const OBSERVED = '"observedTimeUnixNano":"';
const TIME = '"timeUnixNano":"';
const BODY = '"body":{"stringValue":"';
const PATH = '{"key":"log.file.path","value":{"stringValue":"';
const PLACE = '{"key":"log.file.record_offset","value":{"intValue":"';

/** As logrotate and the kubelet rename a file: it is the same one. */
const ROTATED = /\.log(?:\.1|\.\d{8}-\d{6})$/;

const KEY_LENGTH = 20;

/** `json`: OTLP/JSON of the collector. Of anything else the body is one batch as it is, without a key. */
export function fileRequest(json: Buffer): FileRequest {
  const text = json.toString("latin1");
  const isList = text.startsWith(LIST) && text.endsWith(LIST_END);
  const [start, end] = isList ? [LIST.length, text.length - LIST_END.length] : [0, text.length];
  const batches: FileBatch[] = [];
  for (let from = start; from <= end;) {
    const next = isList ? text.indexOf(BETWEEN, from) : -1;
    const to = next < 0 ? end : next + 1;
    batches.push(fileBatch(json.subarray(from, to), text.slice(from, to)));
    from = next < 0 ? end + 1 : to + 1;
  }
  return {
    batches,
    bodyOf: (some) => {
      const parts = some.flatMap((batch, i) => (i === 0 ? batch.json : [COMMA, ...batch.json]));
      return Buffer.concat(isList ? [Buffer.from(LIST), ...parts, Buffer.from(LIST_END)] : parts);
    },
  };
}

function fileBatch(json: Buffer, text: string): FileBatch {
  const observed = [...valuesOf(text, OBSERVED)];
  const places = [...valuesOf(text, PLACE)];
  const readAtMs = Math.floor(Number(observed[0]?.value ?? 0) / 1e6);
  return { json: without(json, text, places), key: keyOf(text, observed.length, places), readAtMs };
}

interface Value {
  readonly value: string;
  /** Of the value's own text. */
  readonly start: number;
  /** Behind its closing quote. */
  readonly end: number;
}

/** What stands behind each `prefix`, up to the quote that ends it. */
function* valuesOf(text: string, prefix: string): Generator<Value> {
  for (let at = text.indexOf(prefix); at >= 0;) {
    const start = at + prefix.length;
    const end = endOfText(text, start);
    yield { value: text.slice(start, end), start, end: end + 1 };
    at = text.indexOf(prefix, end);
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

function keyOf(text: string, records: number, places: readonly Value[]): string | undefined {
  let hashed = "";
  const add = (values: Iterable<Value>, change = (value: string): string => value): number => {
    let count = 0;
    for (const { value } of values) {
      hashed += `${change(value)}"`;
      count += 1;
    }
    hashed += "\n";
    return count;
  };
  const counts = [add(places), add(valuesOf(text, PATH), (path) => path.replace(ROTATED, ".log")), add(valuesOf(text, BODY))];
  add(valuesOf(text, TIME));
  const isOfLines = records > 0 && counts.every((count) => count === records);
  // At once: a call for each value would cost as much as all the rest.
  return isOfLines ? createHash("sha256").update(hashed, "latin1").digest("base64url").slice(0, KEY_LENGTH) : undefined;
}

/** Cuts the attributes out, each with a comma beside it. */
function without(json: Buffer, text: string, places: readonly Value[]): Buffer[] {
  const parts: Buffer[] = [];
  let from = 0;
  for (const { start, end } of places) {
    // Behind the value: `}}`.
    const attribute = { start: start - PLACE.length, end: end + 2 };
    const cutsBefore = text[attribute.start - 1] === "," && attribute.start - 1 >= from;
    const cutsAfter = !cutsBefore && text[attribute.end] === ",";
    parts.push(json.subarray(from, cutsBefore ? attribute.start - 1 : attribute.start));
    from = cutsAfter ? attribute.end + 1 : attribute.end;
  }
  parts.push(json.subarray(from));
  return parts;
}
