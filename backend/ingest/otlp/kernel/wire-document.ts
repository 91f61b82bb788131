// Reads an OTLP/protobuf request: its resources, their scopes, and their records, with the limits of a JSON document (document.ts).
// Invariant: the kernel falls back unless a resource precedes its scopes and a scope its records.
import { once, textAt, textLength } from "../../kernel/json";
import { fallBack, TOO_LARGE, UNUSUAL } from "../../kernel/bytes";
import * as wire from "../../kernel/wire";
import { countPart, countRecord, LOGS, markScope, MAX_BYTES, signal, startScope } from "./document";
import { keepText } from "./fields";
import {
  addAttribute,
  ENTRY_BYTES,
  endResource,
  kept,
  OWNER_RECORD,
  OWNER_RESOURCE,
  OWNER_SCOPE,
  startAttributes,
  startResource,
} from "./labels";
import { INPUT, top } from "./memory";
import { ROW_LABEL_COUNT, ROW_LABELS } from "./rows";
import { startWire } from "./wire-json";
import { wireLogRecord } from "./wire-logs";
import { lineBytes } from "./wire-lines";
import { wireSpanRecord } from "./wire-spans";
import * as wireValues from "./wire-values";

export function readWireDocument(length: u32): void {
  startWire();
  const end = INPUT + length;
  for (let at = INPUT; at < end;) {
    at = wire.field(at, end);
    if (wire.number != 1) continue;
    wire.expect(wire.BYTES);
    resourcePart(wire.content, at);
  }
}

function resourcePart(at: usize, end: usize): void {
  countPart();
  startResource();
  let seen: u32 = 0;
  let resource: usize = 0;
  let sharedBytes: usize = 0;
  while (at < end) {
    at = wire.field(at, end);
    if (wire.number == 1) {
      sharedBytes = headBytes(seen, at);
      seen = 1;
      attributesOf(wire.content, at, OWNER_RESOURCE);
    } else if (wire.number == 2) {
      wire.expect(wire.BYTES);
      if (!(seen & 2)) resource = endResource();
      seen |= 2;
      scopePart(wire.content, at, resource, sharedBytes);
    }
  }
}

/**
 * The size of the first field of a resource or a scope, which ends at `end`. Falls back if it is large, or another field was `seen` before
 * it.
 */
function headBytes(seen: u32, end: usize): usize {
  wire.expect(wire.BYTES);
  if (seen != 0) fallBack(UNUSUAL);
  const bytes = end - wire.content;
  if (bytes > MAX_BYTES) fallBack(TOO_LARGE);
  return bytes;
}

function scopePart(at: usize, end: usize, resource: usize, sharedBytes: usize): void {
  const scope = startScope();
  let seen: u32 = 0;
  while (at < end) {
    at = wire.field(at, end);
    if (wire.number == 1) {
      sharedBytes += headBytes(seen, at);
      seen = 1;
      readScope(wire.content, at, scope);
    } else if (wire.number == 2) {
      wire.expect(wire.BYTES);
      seen |= 2;
      const start = wire.content;
      if (signal == LOGS) {
        wireLogRecord(start, at, resource, scope);
        countRecord(at - start, sharedBytes, lineBytes());
      } else {
        wireSpanRecord(start, at, resource, scope);
        countRecord(at - start, sharedBytes, 0);
      }
    }
  }
}

function readScope(at: usize, end: usize, scope: usize): void {
  const start = at;
  let seen: u32 = 0;
  while (at < end) {
    at = wire.field(at, end);
    if (wire.number == 0 || wire.number > 2) continue;
    seen = once(seen, wire.number);
    wireValues.wireString(wire.content, at);
    keepText(wire.number == 1 ? scope : scope + 8);
  }
  attributesOf(start, end, OWNER_SCOPE);
  markScope(scope);
}

/**
 * Attributes are the first field of a resource and the third of a scope; the next field is the number of attributes that the sender
 * dropped.
 */
function attributesOf(at: usize, end: usize, owner: i32): void {
  const attributes: u32 = owner == OWNER_RESOURCE ? 1 : 3;
  let seen: u32 = 0;
  startAttributes();
  while (at < end) {
    at = wire.field(at, end);
    if (wire.number == attributes) wireAttribute(wire.content, at, owner);
    else if (wire.number == attributes + 1) {
      seen = once(seen, 1);
      wire.expect(wire.VARINT);
    }
  }
}

/** Stores an attribute as an entry at `top`. */
function wireAttribute(at: usize, end: usize, owner: i32): void {
  wire.expect(wire.BYTES);
  wireValues.readPair(at, end);
  const key = wireValues.pairKey;
  const keyLength = wireValues.pairKeyLength;
  wireValues.wireValue(wireValues.pairValue, wireValues.pairEnd);
  addAttribute(owner, key, keyLength, textAt, textLength);
}

/**
 * Adds an attribute to the row of its record. The entries of a row follow each other, so the kernel falls back if a field in between took
 * memory.
 */
export function wireLabel(at: usize, end: usize, owner: i32, row: usize): void {
  startLabel(row);
  wireAttribute(at, end, owner);
  store<u32>(row, kept, ROW_LABEL_COUNT);
}

/** The same for a label that was read elsewhere. */
export function addLabel(row: usize, key: usize, keyLength: u32, value: usize, valueLength: u32): void {
  startLabel(row);
  addAttribute(OWNER_RECORD, key, keyLength, value, valueLength);
  store<u32>(row, kept, ROW_LABEL_COUNT);
}

function startLabel(row: usize): void {
  if (load<u32>(row, ROW_LABELS) == 0) store<u32>(row, top, ROW_LABELS);
  else if (load<u32>(row, ROW_LABELS) + kept * ENTRY_BYTES != <u32>top) fallBack(UNUSUAL);
}
