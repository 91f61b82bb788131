// Decodes log records whose scope marks them as raw lines of files (file-lines.ts): text, time, level, ids and labels of the line complete what
// the record has.
import { fallBack, UNUSUAL } from "../../kernel/bytes";
import * as wire from "../../kernel/wire";
import { mark } from "./document";
import { placeText, SPAN_DIGITS, TRACE_DIGITS } from "./fields";
import { isCut, messageAt, messageEnd, parseLine, stream, writtenAt } from "./file-lines";
import * as fields from "./line-fields";
import { hasLevel, MESSAGE, SPAN, TRACE } from "./logs";
import { takeText } from "./memory";
import { receivedNs } from "./rows";
import { addLabel } from "./wire-document";

const STREAM = text("log.iostream");
const STREAM_LENGTH: u32 = 12;
const STREAM_NAMES = words("stdout", "stderr");
const INCOMPLETE = text("log.incomplete");
const INCOMPLETE_LENGTH: u32 = 14;
const END = text("end");

/** The body of the current record, if it is a text; 0 if not. */
let lineAt: usize = 0;
let lineEnd: usize = 0;

/** Of the current record, after its line. */
export let lineTime: u64 = 0;
export let lineSeverity: u32 = 0;

export function startLine(): void {
  lineAt = 0;
  lineEnd = 0;
}

/** The size of the line, which has no nested values. */
export function lineBytes(): usize {
  return lineEnd - lineAt;
}

/** Whether the AnyValue from `at` to `end` is a text, which need not be UTF-8. */
export function findLine(at: usize, end: usize): bool {
  let isSet = false;
  while (at < end) {
    at = wire.field(at, end);
    if (wire.number == 0 || wire.number > 7) continue;
    if (isSet) fallBack(UNUSUAL);
    isSet = true;
    if (wire.number != 1) continue;
    wire.expect(wire.BYTES);
    lineAt = wire.content;
    lineEnd = at;
  }
  return lineAt != 0;
}

/** Call after all fields of the record were read; its fields are passed, and result in `lineTime` and `lineSeverity`. */
export function readLine(row: usize, time: u64, observed: u64, severity: u32): void {
  lineTime = time != 0 ? time : observed;
  lineSeverity = severity;
  if (lineAt == 0) return;
  parseLine(mark, lineAt, lineEnd, time, observed, receivedNs);
  placeText(row + MESSAGE, messageAt, <u32>(messageEnd - messageAt));
  if (fields.time != 0) lineTime = fields.time;
  else if (writtenAt != 0) lineTime = writtenAt;
  if (severity == 0 && !hasLevel(row) && fields.level != 0) lineSeverity = 4 * fields.level - 3;
  if (fields.hasTrace && load<u32>(row + TRACE) == 0 && load<u32>(row + SPAN) == 0) {
    keepId(row + TRACE, fields.TRACE_TEXT, TRACE_DIGITS);
    if (fields.hasSpan) keepId(row + SPAN, fields.SPAN_TEXT, SPAN_DIGITS);
  }
  if (stream != 0) addLabel(row, STREAM, STREAM_LENGTH, STREAM_NAMES + 16 * (stream - 1), 6);
  if (isCut) addLabel(row, INCOMPLETE, INCOMPLETE_LENGTH, END, 3);
}

function keepId(place: usize, from: usize, digits: u32): void {
  const to = takeText(digits);
  memory.copy(to, from, digits);
  store<u32>(place, to);
}
