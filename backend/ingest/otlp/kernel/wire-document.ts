// An OTLP/protobuf request: resources, their scopes, their records, with the bounds of a JSON document (document.ts). Invariant: a resource
// precedes its scopes and a scope its records, or the kernel gives up.
import { once, textAt, textLength } from "../../../../common/kernel/json";
import { refuse, TOO_LARGE, UNUSUAL } from "../../../../common/kernel/bytes";
import { BYTES, content, expect, field, number, VARINT } from "../../../../common/kernel/wire";
import { countPart, countRecord, LOGS, MOST_BYTES, signal, startScope } from "./document";
import { keepText } from "./fields";
import { addAttribute, ENTRY_BYTES, endResource, kept, OF_RESOURCE, OF_SCOPE, startAttributes, startResource } from "./labels";
import { INPUT, top } from "./memory";
import { ROW_LABEL_COUNT, ROW_LABELS } from "./rows";
import { wireLogRecord } from "./wire-logs";
import { wireSpanRecord } from "./wire-spans";
import { pairEnd, pairKey, pairKeyLength, pairValue, readPair, startWire, wireString, wireValue } from "./wire-values";

export function readWireDocument(length: u32): void {
  startWire();
  const end = INPUT + length;
  for (let at = INPUT; at < end;) {
    at = field(at, end);
    if (number != 1) continue;
    expect(BYTES);
    resourcePart(content, at);
  }
}

function resourcePart(at: usize, end: usize): void {
  countPart();
  startResource();
  let seen: u32 = 0;
  let resource: usize = 0;
  let sharedBytes: usize = 0;
  while (at < end) {
    at = field(at, end);
    if (number == 1) {
      expect(BYTES);
      if (seen & 2) refuse(UNUSUAL);
      seen = once(seen, 1);
      sharedBytes = at - content;
      if (sharedBytes > MOST_BYTES) refuse(TOO_LARGE);
      attributesOf(content, at, OF_RESOURCE);
    } else if (number == 2) {
      expect(BYTES);
      const start = content;
      if (!(seen & 2)) resource = endResource();
      seen |= 2;
      scopePart(start, at, resource, sharedBytes);
    }
  }
}

function scopePart(at: usize, end: usize, resource: usize, sharedBytes: usize): void {
  const scope = startScope();
  let seen: u32 = 0;
  while (at < end) {
    at = field(at, end);
    if (number == 1) {
      expect(BYTES);
      if (seen & 2) refuse(UNUSUAL);
      seen = once(seen, 1);
      const bytes = at - content;
      if (bytes > MOST_BYTES) refuse(TOO_LARGE);
      sharedBytes += bytes;
      readScope(content, at, scope);
    } else if (number == 2) {
      expect(BYTES);
      seen |= 2;
      const start = content;
      if (signal == LOGS) wireLogRecord(start, at, resource, scope);
      else wireSpanRecord(start, at, resource, scope);
      countRecord(at - start, sharedBytes);
    }
  }
}

function readScope(at: usize, end: usize, scope: usize): void {
  const start = at;
  let seen: u32 = 0;
  while (at < end) {
    at = field(at, end);
    if (number == 0 || number > 2) continue;
    seen = once(seen, number);
    wireString(content, at);
    keepText(number == 1 ? scope : scope + 8);
  }
  attributesOf(start, end, OF_SCOPE);
}

/** The attributes of a resource, its first field, or of a scope, its third, and behind them the number of those that its sender dropped. */
function attributesOf(at: usize, end: usize, owner: i32): void {
  const attributes: u32 = owner == OF_RESOURCE ? 1 : 3;
  let seen: u32 = 0;
  startAttributes();
  while (at < end) {
    at = field(at, end);
    if (number == attributes) wireAttribute(content, at, owner);
    else if (number == attributes + 1) {
      seen = once(seen, 1);
      expect(VARINT);
    }
  }
}

/** One attribute: an entry at `top`. */
function wireAttribute(at: usize, end: usize, owner: i32): void {
  expect(BYTES);
  readPair(at, end);
  const key = pairKey;
  const keyLength = pairKeyLength;
  wireValue(pairValue, pairEnd);
  addAttribute(owner, key, keyLength, textAt, textLength);
}

/** One attribute of a record, into its row. Something between the attributes that took memory gives up. */
export function wireLabel(at: usize, end: usize, owner: i32, row: usize): void {
  if (load<u32>(row, ROW_LABELS) == 0) store<u32>(row, top, ROW_LABELS);
  else if (load<u32>(row, ROW_LABELS) + kept * ENTRY_BYTES != <u32>top) refuse(UNUSUAL);
  wireAttribute(at, end, owner);
  store<u32>(row, kept, ROW_LABEL_COUNT);
}
