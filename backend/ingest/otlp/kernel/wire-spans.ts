// Decodes a Span of OTLP/protobuf into a row of the spans table. If anything is unusual, such as a repeated field, the kernel falls back:
// its call ends, and the host decodes the request in TypeScript instead (backend/ingest/kernel/bytes.ts).
import { once, textAt, textLength } from "../../kernel/json";
import { fallBack, UNUSUAL } from "../../kernel/bytes";
import * as wire from "../../kernel/wire";
import { continueList, endEvent, endLink, PART_BYTES, parts, partsBytes, startEvent, startLink } from "./events";
import { keepText, placeText, SPAN_DIGITS, TRACE_DIGITS } from "./fields";
import { OWNER_SPAN } from "./labels";
import { top } from "./memory";
import { endSpan, EVENTS, KIND, LINKS, MESSAGE, NAME, PARENT, SPAN, startSpan, STATE, STATUS, TRACE } from "./spans";
import { wireLabel } from "./wire-document";
import { attributesJsonInto, stringJsonInto } from "./wire-json";
import { digitsText, wireEnumeration, wireId, wireString } from "./wire-values";

// Field numbers of Span (opentelemetry/proto/trace/v1/trace.proto).
const START_TIME: u32 = 7;
const END_TIME: u32 = 8;
const ATTRIBUTES: u32 = 9;
const EVENT_LIST: u32 = 11;
const LINK_LIST: u32 = 13;
const LAST_FIELD: u32 = 16;

export function wireSpanRecord(at: usize, end: usize, resource: usize, scope: usize): void {
  const row = startSpan();
  let seen: u32 = 0;
  let startTime: u64 = 0;
  let endTime: u64 = 0;
  while (at < end) {
    at = wire.field(at, end);
    if (wire.number == ATTRIBUTES) wireLabel(wire.content, at, OWNER_SPAN, row);
    else if (wire.number == EVENT_LIST || wire.number == LINK_LIST) listItem(wire.content, at, row);
    else if (wire.number <= LAST_FIELD) {
      seen = once(seen, 1 << wire.number);
      switch (wire.number) {
        case START_TIME:
          wire.expect(wire.FIXED64);
          startTime = load<u64>(wire.content);
          break;
        case END_TIME:
          wire.expect(wire.FIXED64);
          endTime = load<u64>(wire.content);
          break;
        default:
          spanField(wire.content, at, row);
      }
    }
  }
  endSpan(row, resource, scope, startTime, endTime);
}

function spanField(at: usize, end: usize, row: usize): void {
  switch (wire.number) {
    case 1: // trace_id
      return wireId(at, end, TRACE_DIGITS, row + TRACE);
    case 2: // span_id
      return wireId(at, end, SPAN_DIGITS, row + SPAN);
    case 3: // trace_state
      wireString(at, end);
      return keepText(row + STATE);
    case 4: // parent_span_id
      return wireId(at, end, SPAN_DIGITS, row + PARENT);
    case 5: // name
      wireString(at, end);
      return keepText(row + NAME);
    case 6: // kind
      return store<u32>(row + KIND, enumeration(5));
    case 15: // status
      return status(at, end, row);
    case 16: // flags
      return wire.expect(wire.FIXED32);
    default:
      if (wire.number != 0) wire.expect(wire.VARINT);
  }
}

/** Reads the number of an enum; 0 if it is larger than `max`. */
function enumeration(max: u32): u32 {
  const value = wireEnumeration();
  return value <= max ? value : 0;
}

function status(at: usize, end: usize, row: usize): void {
  wire.expect(wire.BYTES);
  let seen: u32 = 0;
  while (at < end) {
    at = wire.field(at, end);
    if (wire.number != 2 && wire.number != 3) continue;
    seen = once(seen, 1 << wire.number);
    if (wire.number == 3) store<u32>(row + STATUS, enumeration(2));
    else {
      wireString(wire.content, at);
      keepText(row + MESSAGE);
    }
  }
}

/**
 * Adds an event or a link to the row. The entries of a list are contiguous in memory, so the kernel falls back if a field in between took
 * memory.
 */
function listItem(at: usize, end: usize, row: usize): void {
  wire.expect(wire.BYTES);
  const isEvent = wire.number == EVENT_LIST;
  const list = row + (isEvent ? EVENTS : LINKS);
  const count = load<u32>(list, 4);
  if (count == 0) store<u32>(list, top);
  else if (load<u32>(list) + count * PART_BYTES != <u32>top) fallBack(UNUSUAL);
  continueList(count, load<u32>(list, 8));
  if (isEvent) event(at, end);
  else link(at, end);
  store<u32>(list, parts, 4);
  store<u32>(list, partsBytes, 8);
}

function event(at: usize, end: usize): void {
  const entry = startEvent();
  const start = at;
  let seen: u32 = 0;
  while (at < end) {
    at = wire.field(at, end);
    if (wire.number == 0 || wire.number > 4) continue;
    // The first attribute has encoded all attributes of the event.
    if (wire.number == 3 && seen & 8) continue;
    seen = once(seen, 1 << wire.number);
    if (wire.number == 1) {
      wire.expect(wire.FIXED64);
      const time = load<u64>(wire.content);
      if (time == 0) continue;
      digitsText(time);
      placeText(entry, textAt, textLength);
    } else if (wire.number == 2) stringJsonInto(wire.content, at, entry + 8);
    else if (wire.number == 3) attributesJsonInto(start, end, 3, entry + 16);
    else wire.expect(wire.VARINT);
  }
  endEvent(entry);
}

function link(at: usize, end: usize): void {
  const entry = startLink();
  const start = at;
  let seen: u32 = 0;
  while (at < end) {
    at = wire.field(at, end);
    if (wire.number == 0 || wire.number > 6) continue;
    // The first attribute has encoded all attributes of the link.
    if (wire.number == 4 && seen & 16) continue;
    seen = once(seen, 1 << wire.number);
    if (wire.number == 1) wireId(wire.content, at, TRACE_DIGITS, entry);
    else if (wire.number == 2) wireId(wire.content, at, SPAN_DIGITS, entry + 4);
    else if (wire.number == 3) stringJsonInto(wire.content, at, entry + 8);
    else if (wire.number == 4) attributesJsonInto(start, end, 4, entry + 16);
    else wire.expect(wire.number == 5 ? wire.VARINT : wire.FIXED32);
  }
  endLink(entry);
}
