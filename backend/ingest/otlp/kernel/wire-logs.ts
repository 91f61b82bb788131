// Decodes a LogRecord of OTLP/protobuf into a row of the logs table.
import { once } from "../../kernel/json";
import * as wire from "../../kernel/wire";
import { keepText, SPAN_DIGITS, TRACE_DIGITS } from "./fields";
import { OWNER_RECORD } from "./labels";
import { endLog, EVENT, keepLevel, MESSAGE, SPAN, startLog, TRACE } from "./logs";
import { mark } from "./document";
import { wireLabel } from "./wire-document";
import { findLine, lineSeverity, lineTime, readLine, startLine } from "./wire-lines";
import { wireEnumeration, wireId, wireString, wireValue } from "./wire-values";

const ATTRIBUTES: u32 = 6;
const LAST: u32 = 12;

export function wireLogRecord(at: usize, end: usize, resource: usize, scope: usize): void {
  const row = startLog();
  startLine();
  let seen: u32 = 0;
  let time: u64 = 0;
  let observed: u64 = 0;
  let severity: u32 = 0;
  let body: usize = 0;
  while (at < end) {
    at = wire.field(at, end);
    if (wire.number == ATTRIBUTES) {
      wireLabel(wire.content, at, OWNER_RECORD, row);
      continue;
    }
    if (wire.number > LAST) continue;
    seen = once(seen, 1 << wire.number);
    switch (wire.number) {
      case 1:
        wire.expect(wire.FIXED64);
        time = load<u64>(wire.content);
        break;
      case 2:
        severity = wireEnumeration();
        break;
      case 3:
        wireString(wire.content, at);
        keepLevel(row);
        break;
      case 5:
        wire.expect(wire.BYTES);
        body = wire.content;
        if (mark != 0 && findLine(body, at)) break;
        wireValue(body, at);
        keepText(row + MESSAGE);
        break;
      case 7:
        wire.expect(wire.VARINT);
        break;
      case 8:
        wire.expect(wire.FIXED32);
        break;
      case 9:
        wireId(wire.content, at, TRACE_DIGITS, row + TRACE);
        break;
      case 10:
        wireId(wire.content, at, SPAN_DIGITS, row + SPAN);
        break;
      case 11:
        wire.expect(wire.FIXED64);
        observed = load<u64>(wire.content);
        break;
      case 12:
        wireString(wire.content, at);
        keepText(row + EVENT);
        break;
    }
  }
  readLine(row, time, observed, severity);
  endLog(row, resource, scope, lineTime, lineSeverity);
}
