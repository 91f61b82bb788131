// A LogRecord of OTLP/protobuf → a row of the table logs.
import { once } from "../../../../common/kernel/json";
import { refuse, UNUSUAL } from "../../../../common/kernel/bytes";
import { BYTES, content, expect, field, FIXED32, FIXED64, integer, number, VARINT } from "../../../../common/kernel/wire";
import { keepText, SPAN_DIGITS, TRACE_DIGITS } from "./fields";
import { OF_RECORD } from "./labels";
import { endLog, EVENT, keepLevel, MESSAGE, SPAN, startLog, TRACE } from "./logs";
import { wireLabel } from "./wire-document";
import { wireId, wireString, wireValue } from "./wire-values";

const ATTRIBUTES: u32 = 6;
const LAST: u32 = 12;
export const MOST_ENUMERATION: u64 = 999999999;

export function wireLogRecord(at: usize, end: usize, resource: usize, scope: usize): void {
  const row = startLog();
  let seen: u32 = 0;
  let time: u64 = 0;
  let observed: u64 = 0;
  let severity: u32 = 0;
  while (at < end) {
    at = field(at, end);
    if (number == ATTRIBUTES) {
      wireLabel(content, at, OF_RECORD, row);
      continue;
    }
    if (number > LAST) continue;
    seen = once(seen, 1 << number);
    switch (number) {
      case 1:
        expect(FIXED64);
        time = load<u64>(content);
        break;
      case 2:
        expect(VARINT);
        if (integer > MOST_ENUMERATION) refuse(UNUSUAL);
        severity = <u32>integer;
        break;
      case 3:
        wireString(content, at);
        keepLevel(row);
        break;
      case 5:
        expect(BYTES);
        wireValue(content, at);
        keepText(row + MESSAGE);
        break;
      case 7:
        expect(VARINT);
        break;
      case 8:
        expect(FIXED32);
        break;
      case 9:
        wireId(content, at, TRACE_DIGITS, row + TRACE);
        break;
      case 10:
        wireId(content, at, SPAN_DIGITS, row + SPAN);
        break;
      case 11:
        expect(FIXED64);
        observed = load<u64>(content);
        break;
      case 12:
        wireString(content, at);
        keepText(row + EVENT);
        break;
    }
  }
  endLog(row, resource, scope, time != 0 ? time : observed, severity);
}
