// A Span of OTLP/protobuf → a row of the table spans.
import { once, textAt, textLength } from "../../../../common/kernel/json";
import { refuse, UNUSUAL } from "../../../../common/kernel/bytes";
import { BYTES, content, expect, field, FIXED32, FIXED64, integer, number, VARINT } from "../../../../common/kernel/wire";
import { continueList, endEvent, endLink, PART_BYTES, parts, partsBytes, startEvent, startLink } from "./events";
import { keepText, placeText, SPAN_DIGITS, TRACE_DIGITS } from "./fields";
import { OF_SPAN } from "./labels";
import { top } from "./memory";
import { endSpan, EVENTS, KIND, LINKS, MESSAGE, NAME, PARENT, SPAN, startSpan, STATE, STATUS, TRACE } from "./spans";
import { wireLabel } from "./wire-document";
import { MOST_ENUMERATION } from "./wire-logs";
import { attributesJsonInto, digitsText, stringJsonInto, wireId, wireString } from "./wire-values";

const ATTRIBUTES: u32 = 9;
const EVENT_LIST: u32 = 11;
const LINK_LIST: u32 = 13;
const LAST: u32 = 16;

export function wireSpanRecord(at: usize, end: usize, resource: usize, scope: usize): void {
  const row = startSpan();
  let seen: u32 = 0;
  let startTime: u64 = 0;
  let endTime: u64 = 0;
  while (at < end) {
    at = field(at, end);
    if (number == ATTRIBUTES) wireLabel(content, at, OF_SPAN, row);
    else if (number == EVENT_LIST || number == LINK_LIST) listItem(content, at, row);
    else if (number <= LAST) {
      seen = once(seen, 1 << number);
      switch (number) {
        case 7:
          expect(FIXED64);
          startTime = load<u64>(content);
          break;
        case 8:
          expect(FIXED64);
          endTime = load<u64>(content);
          break;
        default:
          spanField(content, at, row);
      }
    }
  }
  endSpan(row, resource, scope, startTime, endTime);
}

function spanField(at: usize, end: usize, row: usize): void {
  switch (number) {
    case 1:
      return wireId(at, end, TRACE_DIGITS, row + TRACE);
    case 2:
      return wireId(at, end, SPAN_DIGITS, row + SPAN);
    case 3:
      wireString(at, end);
      return keepText(row + STATE);
    case 4:
      return wireId(at, end, SPAN_DIGITS, row + PARENT);
    case 5:
      wireString(at, end);
      return keepText(row + NAME);
    case 6:
      return store<u32>(row + KIND, enumeration(5));
    case 15:
      return status(at, end, row);
    case 16:
      return expect(FIXED32);
    default:
      if (number != 0) expect(VARINT);
  }
}

/** The number of an enum; 0 above `most`. */
function enumeration(most: u64): u32 {
  expect(VARINT);
  if (integer > MOST_ENUMERATION) refuse(UNUSUAL);
  return integer <= most ? <u32>integer : 0;
}

function status(at: usize, end: usize, row: usize): void {
  expect(BYTES);
  let seen: u32 = 0;
  while (at < end) {
    at = field(at, end);
    if (number != 2 && number != 3) continue;
    seen = once(seen, 1 << number);
    if (number == 3) store<u32>(row + STATUS, enumeration(2));
    else {
      wireString(content, at);
      keepText(row + MESSAGE);
    }
  }
}

/** One event or link, behind those that the row has. Something between them that took memory gives up. */
function listItem(at: usize, end: usize, row: usize): void {
  expect(BYTES);
  const isEvent = number == EVENT_LIST;
  const list = row + (isEvent ? EVENTS : LINKS);
  const count = load<u32>(list, 4);
  if (count == 0) store<u32>(list, top);
  else if (load<u32>(list) + count * PART_BYTES != <u32>top) refuse(UNUSUAL);
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
    at = field(at, end);
    if (number == 0 || number > 4) continue;
    if (number == 3 && seen & 8) continue;
    seen = once(seen, 1 << number);
    if (number == 1) {
      expect(FIXED64);
      const time = load<u64>(content);
      if (time == 0) continue;
      digitsText(time);
      placeText(entry, textAt, textLength);
    } else if (number == 2) stringJsonInto(content, at, entry + 8);
    else if (number == 3) attributesJsonInto(start, end, 3, entry + 16);
    else expect(VARINT);
  }
  endEvent(entry);
}

function link(at: usize, end: usize): void {
  const entry = startLink();
  const start = at;
  let seen: u32 = 0;
  while (at < end) {
    at = field(at, end);
    if (number == 0 || number > 6) continue;
    if (number == 4 && seen & 16) continue;
    seen = once(seen, 1 << number);
    if (number == 1) wireId(content, at, TRACE_DIGITS, entry);
    else if (number == 2) wireId(content, at, SPAN_DIGITS, entry + 4);
    else if (number == 3) stringJsonInto(content, at, entry + 8);
    else if (number == 4) attributesJsonInto(start, end, 4, entry + 16);
    else expect(number == 5 ? VARINT : FIXED32);
  }
  endLink(entry);
}
