// Reads an OTLP/JSON document: resources, their scopes, their records. Invariants: the kernel falls back unless a resource precedes its
// scopes and a scope its records; each part is bounded, so that everything that the host's decoder would reject as too large is left to it.
import { placeText, textInto } from "./fields";
import { markOf } from "./file-lines";
import * as json from "../../kernel/json";
import { attributes, endResource, OWNER_SCOPE, readResource, startResource } from "./labels";
import { logRecord } from "./logs";
import { fallBack, SYNTAX, TOO_LARGE, UNUSUAL } from "../../kernel/bytes";
import { INPUT, takeZeros } from "./memory";
import { estimate } from "./rows";
import { spanRecord, startSpans } from "./spans";

export const LOGS: i32 = 0;
export const SPANS: i32 = 1;

/**
 * Maximum size of a resource, scope or record. It is smaller than the number of tokens that the host's decoder accepts, so no part has too
 * many.
 */
export const MAX_BYTES: usize = 256 * 1024;
/** Maximum number of resources and scopes; the host's decoder accepts more. */
const MAX_PARTS: u32 = 10000;
/** The entry of a scope: places for its name and its version. */
const SCOPE_BYTES: u32 = 16;

export let signal: i32 = 0;
/** How the records of the current scope are parsed (file-lines.ts); 0 unless they are raw lines. */
export let mark: u32 = 0;
let readsLines: bool = false;
let rowBytes: u64 = 0;
let parts: u32 = 0;

/** Call before a document in either encoding. */
export function startDocument(ofSignal: i32, bytesOfRow: u32, mayHaveLines: bool): void {
  signal = ofSignal;
  readsLines = mayHaveLines;
  rowBytes = bytesOfRow;
  parts = 0;
  if (signal == SPANS) startSpans();
}

export function readDocument(length: u32): void {
  let seen: u32 = 0;
  let at = json.open(json.blanks(INPUT), json.OPEN_OBJECT);
  for (; load<u8>(at) != json.CLOSE_OBJECT; at = json.next(at, json.CLOSE_OBJECT)) {
    at = json.name(at);
    if (signal == LOGS ? isText("resourceLogs", json.nameAt, json.nameLength) : isText("resourceSpans", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 1);
      at = resources(at);
    } else at = json.unknown(at);
  }
  if (json.blanks(at + 1) != INPUT + length) fallBack(SYNTAX);
}

function resources(at: usize): usize {
  if (json.isNull(at)) return at + 4;
  for (at = json.open(at, json.OPEN_ARRAY); load<u8>(at) != json.CLOSE_ARRAY; at = json.next(at, json.CLOSE_ARRAY)) at = resourcePart(at);
  return at + 1;
}

export function countPart(): void {
  parts++;
  if (parts > MAX_PARTS) fallBack(TOO_LARGE);
}

function resourcePart(at: usize): usize {
  countPart();
  startResource();
  let seen: u32 = 0;
  let sliceBytes: usize = 0;
  for (at = json.open(at, json.OPEN_OBJECT); load<u8>(at) != json.CLOSE_OBJECT; at = json.next(at, json.CLOSE_OBJECT)) {
    at = json.name(at);
    if (isText("resource", json.nameAt, json.nameLength)) {
      if (seen & 2) fallBack(UNUSUAL);
      seen = json.once(seen, 1);
      const start = at;
      at = readResource(at);
      sliceBytes = at - start;
      if (sliceBytes > MAX_BYTES) fallBack(TOO_LARGE);
    } else if (signal == LOGS ? isText("scopeLogs", json.nameAt, json.nameLength) : isText("scopeSpans", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 2);
      at = scopes(at, endResource(), sliceBytes);
    } else at = json.unknown(at);
  }
  return at + 1;
}

function scopes(at: usize, resource: usize, resourceBytes: usize): usize {
  if (json.isNull(at)) return at + 4;
  for (at = json.open(at, json.OPEN_ARRAY); load<u8>(at) != json.CLOSE_ARRAY; at = json.next(at, json.CLOSE_ARRAY))
    at = scopePart(at, resource, resourceBytes);
  return at + 1;
}

/** A scope without a name and a version. */
export function startScope(): usize {
  countPart();
  mark = 0;
  return takeZeros(SCOPE_BYTES);
}

/** Call after a scope was read. The name of a scope of raw lines is not stored. */
export function markScope(scope: usize): void {
  if (!readsLines) return;
  mark = markOf(load<u32>(scope), load<u32>(scope, 4), load<u32>(scope, 8), load<u32>(scope, 12));
  if (mark != 0) placeText(scope, 0, 0);
}

/** Checks the size of a record without its raw line, and of its row including what it shares with others. */
export function countRecord(bytes: usize, sharedBytes: usize, lineBytes: usize): void {
  if (bytes - lineBytes > MAX_BYTES) fallBack(TOO_LARGE);
  estimate(rowBytes + sharedBytes + bytes);
}

function scopePart(at: usize, resource: usize, resourceBytes: usize): usize {
  const scope = startScope();
  let seen: u32 = 0;
  let sliceBytes: usize = 0;
  for (at = json.open(at, json.OPEN_OBJECT); load<u8>(at) != json.CLOSE_OBJECT; at = json.next(at, json.CLOSE_OBJECT)) {
    at = json.name(at);
    if (isText("scope", json.nameAt, json.nameLength)) {
      if (seen & 2) fallBack(UNUSUAL);
      seen = json.once(seen, 1);
      const start = at;
      at = readScope(at, scope);
      markScope(scope);
      // The agent sends lines only as protobuf.
      if (mark != 0) fallBack(UNUSUAL);
      sliceBytes = at - start;
      if (sliceBytes > MAX_BYTES) fallBack(TOO_LARGE);
    } else if (signal == LOGS ? isText("logRecords", json.nameAt, json.nameLength) : isText("spans", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 2);
      at = records(at, resource, scope, resourceBytes + sliceBytes);
    } else at = json.unknown(at);
  }
  return at + 1;
}

/** Reads a scope's message, or null. */
function readScope(at: usize, scope: usize): usize {
  if (json.isNull(at)) return at + 4;
  let seen: u32 = 0;
  for (at = json.open(at, json.OPEN_OBJECT); load<u8>(at) != json.CLOSE_OBJECT; at = json.next(at, json.CLOSE_OBJECT)) {
    at = json.name(at);
    if (isText("name", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 1);
      at = textInto(at, scope);
    } else if (isText("version", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 2);
      at = textInto(at, scope + 8);
    } else if (isText("attributes", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 4);
      at = attributes(at, OWNER_SCOPE);
    } else at = json.unknown(at);
  }
  return at + 1;
}

function records(at: usize, resource: usize, scope: usize, sharedBytes: usize): usize {
  if (json.isNull(at)) return at + 4;
  for (at = json.open(at, json.OPEN_ARRAY); load<u8>(at) != json.CLOSE_ARRAY; at = json.next(at, json.CLOSE_ARRAY)) {
    const start = at;
    at = signal == LOGS ? logRecord(at, resource, scope) : spanRecord(at, resource, scope);
    countRecord(at - start, sharedBytes, 0);
  }
  return at + 1;
}
