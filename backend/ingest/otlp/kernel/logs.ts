// Decodes a log record into a row of the logs table, as backend/ingest/otlp/decode-logs.ts maps it; its columns are LOG_COLUMNS after those
// of the sender.
import { idBytes, idInto, keepText, placeText, putId, putText, SPAN_DIGITS, textBytes, textInto, TRACE_DIGITS } from "./fields";
import * as json from "../../kernel/json";
import {
  keysBytes,
  mustBeNew,
  OWNER_RECORD,
  resourceKeysBytes,
  resourceService,
  resourceServiceBytes,
  resourceValuesBytes,
  startRecord,
  valuesBytes,
} from "./labels";
import { fallBack, UNUSUAL } from "../../kernel/bytes";
import { giveBack, putBytes, stringBytes, takeZeros, wordLength } from "./memory";
import { labelsInto, putLabel, putLabels, startLabels } from "./row-labels";
import { addRow, addSize, count, nextRow, ROW_BYTES, ROW_RESOURCE, ROW_SCOPE, rowOrdinal, rowTime, stream, total } from "./rows";
import { value } from "./value";

// Addresses and lengths that follow the common part of a row; the address of a missing id is 0.
const LEVEL = ROW_BYTES;
const LEVEL_LENGTH = ROW_BYTES + 4;
export const MESSAGE = ROW_BYTES + 8;
export const TRACE = ROW_BYTES + 16;
export const SPAN = ROW_BYTES + 20;
export const EVENT = ROW_BYTES + 24;
const EVENT_LENGTH = ROW_BYTES + 28;
const SEVERITY = ROW_BYTES + 32;
const LOG_ROW_BYTES: u32 = 72;

// Numbers of the columns of strings.
const LEVELS_OF = 0;
const SOURCES = 1;
const MESSAGES = 2;
const KEYS = 3;
const VALUES = 4;
const TRACES = 5;
const SPANS = 6;
const SCOPES = 7;
/** What `writeLogs` writes; level, source, keys and scope have dictionaries. */
export const LOG_STREAMS: u32 = 12;
export const LOG_DICTIONARIES: u32 = (1 << 2) | (1 << 4) | (1 << 7) | (1 << 11);
/** Time, id, severity number and number of labels. */
const FIXED_BYTES: u32 = 8 + 8 + 1 + 4;

const LEVELS = words("trace", "debug", "info", "warn", "error", "fatal");
const EVENT_NAME = text("event.name");
const EVENT_NAME_LENGTH: u32 = 10;

/** Starts the row of a record, before its fields are read into it. */
export function startLog(): usize {
  const row = takeZeros(LOG_ROW_BYTES);
  startRecord();
  return row;
}

export function logRecord(at: usize, resource: usize, scope: usize): usize {
  const row = startLog();
  let seen: u32 = 0;
  let time: u64 = 0;
  let observed: u64 = 0;
  let severity: u32 = 0;
  for (at = json.open(at, json.OPEN_OBJECT); load<u8>(at) != json.CLOSE_OBJECT; at = json.next(at, json.CLOSE_OBJECT)) {
    at = json.name(at);
    const n = json.nameAt;
    const length = json.nameLength;
    if (isText("timeUnixNano", n, length)) {
      seen = json.once(seen, 1);
      at = json.unsigned(at);
      time = json.integer;
    } else if (isText("observedTimeUnixNano", n, length)) {
      seen = json.once(seen, 2);
      at = json.unsigned(at);
      observed = json.integer;
    } else if (isText("severityNumber", n, length)) {
      seen = json.once(seen, 4);
      at = json.enumeration(at);
      severity = <u32>json.integer;
    } else if (isText("severityText", n, length)) {
      seen = json.once(seen, 8);
      at = json.optionalString(at);
      keepLevel(row);
    } else if (isText("body", n, length)) {
      seen = json.once(seen, 16);
      at = value(at);
      keepText(row + MESSAGE);
    } else if (isText("attributes", n, length)) {
      seen = json.once(seen, 32);
      at = labelsInto(at, OWNER_RECORD, row);
    } else if (isText("traceId", n, length)) {
      seen = json.once(seen, 64);
      at = idInto(at, TRACE_DIGITS, row + TRACE);
    } else if (isText("spanId", n, length)) {
      seen = json.once(seen, 128);
      at = idInto(at, SPAN_DIGITS, row + SPAN);
    } else if (isText("eventName", n, length)) {
      seen = json.once(seen, 256);
      at = textInto(at, row + EVENT);
    } else if (isText("flags", n, length)) {
      seen = json.once(seen, 512);
      at = json.unsigned32(at);
    } else if (isText("droppedAttributesCount", n, length)) {
      seen = json.once(seen, 1024);
      at = json.unsigned32(at);
    } else at = json.unknown(at);
  }
  endLog(row, resource, scope, time != 0 ? time : observed, severity);
  return at + 1;
}

/** Uses the last text as the level of the record. */
export function keepLevel(row: usize): void {
  lowercase(json.textAt, json.textLength);
  keepText(row + LEVEL);
}

/** Whether the record has a text as its level. */
export function hasLevel(row: usize): bool {
  return load<u32>(row + LEVEL_LENGTH) != 0;
}

/** Adds the row after the whole record was read; its attributes have to be the last ones read. */
export function endLog(row: usize, resource: usize, scope: usize, time: u64, severity: u32): void {
  let keysLength = keysBytes;
  let valuesLength = valuesBytes;
  if (load<u32>(row + EVENT_LENGTH) != 0) {
    // The kernel falls back if the event.name label has a second source.
    mustBeNew(EVENT_NAME, EVENT_NAME_LENGTH);
    keysLength += stringBytes(EVENT_NAME_LENGTH);
    valuesLength += textBytes(row + EVENT);
  }
  if (load<u32>(row + LEVEL_LENGTH) == 0) {
    // A missing or unknown number means info.
    const level = LEVELS + 16 * (severity == 0 || severity > 24 ? 2 : (severity - 1) >> 2);
    placeText(row + LEVEL, level, wordLength(level));
  }
  store<u32>(row + SEVERITY, severity <= 24 ? severity : 0);
  store<u32>(row, resource, ROW_RESOURCE);
  store<u32>(row, scope, ROW_SCOPE);
  const isKept = addRow(row, time);
  measure(row, resource, scope, keysLength, valuesLength, isKept);
  if (!isKept) giveBack(row);
}

/** Converts ASCII to lower case as JavaScript does; falls back for other characters. */
function lowercase(at: usize, length: u32): void {
  for (let index: u32 = 0; index < length; index++) {
    const byte = load<u8>(at + index);
    if (byte > 0x7f) fallBack(UNUSUAL);
    if (byte >= 0x41 && byte <= 0x5a) store<u8>(at + index, byte | 0x20);
  }
}

function measure(row: usize, resource: usize, scope: usize, keysLength: u32, valuesLength: u32, isKept: bool): void {
  const level = textBytes(row + LEVEL);
  const source = resourceServiceBytes(resource);
  const message = textBytes(row + MESSAGE);
  const keys = keysLength + resourceKeysBytes(resource);
  const values = valuesLength + resourceValuesBytes(resource);
  const trace = idBytes(row + TRACE, TRACE_DIGITS);
  const span = idBytes(row + SPAN, SPAN_DIGITS);
  const scopeName = textBytes(scope);
  addSize(<u64>FIXED_BYTES + level + source + message + keys + values + trace + span + scopeName, isKept);
  if (!isKept) return;
  count(row, LEVELS_OF, level);
  count(row, SOURCES, source);
  count(row, MESSAGES, message);
  count(row, KEYS, keys);
  count(row, VALUES, values);
  count(row, TRACES, trace);
  count(row, SPANS, span);
  count(row, SCOPES, scopeName);
}

/** Writes the rows of the current day at `at`; returns the address after them. */
export function writeLogs(at: usize, rows: u32, firstId: u64): usize {
  let time = at;
  let id = (at = stream(at, rows * 8));
  let level = (at = stream(at, rows * 8));
  let severity = (at = stream(at, total(LEVELS_OF)));
  let source = (at = stream(at, rows));
  let message = (at = stream(at, total(SOURCES)));
  const labels = (at = stream(at, total(MESSAGES)));
  const keys = (at = stream(at, rows * 4));
  const values = (at = stream(at, total(KEYS)));
  let trace = (at = stream(at, total(VALUES)));
  let span = (at = stream(at, total(TRACES)));
  let scope = (at = stream(at, total(SPANS)));
  const end = stream(at, total(SCOPES));
  startLabels(labels, keys, values);
  for (let row = nextRow(0); row != 0; row = nextRow(row)) {
    store<u64>(time, rowTime(row));
    time += 8;
    store<u64>(id, firstId + rowOrdinal(row));
    id += 8;
    level = putText(level, row + LEVEL);
    store<u8>(severity, <u8>load<u32>(row + SEVERITY));
    severity++;
    message = putText(message, row + MESSAGE);
    trace = putId(trace, row + TRACE, TRACE_DIGITS);
    span = putId(span, row + SPAN, SPAN_DIGITS);
    scope = putText(scope, load<u32>(row, ROW_SCOPE));
    const resource = load<u32>(row, ROW_RESOURCE);
    source = putBytes(source, resourceService(resource), resourceServiceBytes(resource));
    const isEvent = load<u32>(row + EVENT_LENGTH) != 0;
    if (isEvent) putLabel(EVENT_NAME, EVENT_NAME_LENGTH, row + EVENT);
    putLabels(row, <u32>isEvent);
  }
  return end;
}
