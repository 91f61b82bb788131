// A log record → a row of the table logs, as backend/logs/decode.ts maps it; its columns are LOG_COLUMNS behind those of the sender.
import {
  CLOSE_OBJECT,
  enumeration,
  hexId,
  integer,
  name,
  nameAt,
  nameLength,
  next,
  once,
  open,
  OPEN_OBJECT,
  optionalString,
  skip,
  textAt,
  textLength,
  unsigned,
  unsigned32,
} from "./json";
import {
  attributes,
  ENTRY_BYTES,
  kept,
  keysBytes,
  mustBeNew,
  OF_RECORD,
  resourceKeys,
  resourceKeysBytes,
  resourceLabels,
  resourceService,
  resourceServiceBytes,
  resourceValues,
  resourceValuesBytes,
  startRecord,
  valuesBytes,
} from "./labels";
import { copy, giveBack, putString, refuse, stringBytes, take, top, UNUSUAL } from "./memory";
import {
  isAttributes,
  isBody,
  isDroppedAttributesCount,
  isEventName,
  isFlags,
  isObservedTimeUnixNano,
  isSeverityNumber,
  isSeverityText,
  isSpanId,
  isTimeUnixNano,
  isTraceId,
} from "./names";
import {
  addRow,
  count,
  make,
  MOST_LABELS_FIRST,
  nextRow,
  ROW_BYTES,
  ROW_LABEL_COUNT,
  ROW_LABELS,
  ROW_RESOURCE,
  ROW_SCOPE,
  rowOrdinal,
  rowTime,
  stream,
  total,
} from "./rows";
import { value } from "./value";

// A row goes on with addresses and lengths; no address where there is no id.
const LEVEL = ROW_BYTES;
const LEVEL_LENGTH = ROW_BYTES + 4;
const MESSAGE = ROW_BYTES + 8;
const MESSAGE_LENGTH = ROW_BYTES + 12;
const TRACE = ROW_BYTES + 16;
const SPAN = ROW_BYTES + 20;
const EVENT = ROW_BYTES + 24;
const EVENT_LENGTH = ROW_BYTES + 28;
const SEVERITY = ROW_BYTES + 32;
const LOG_ROW_BYTES: u32 = 72;

// Columns of strings.
const LEVELS_OF = 0;
const SOURCES = 1;
const MESSAGES = 2;
const KEYS = 3;
const VALUES = 4;
const TRACES = 5;
const SPANS = 6;
const SCOPES = 7;
/** Time, id, severity number and number of labels. */
const FIXED_BYTES: u32 = 8 + 8 + 1 + 4;

/** trace, debug, info, warn, error, fatal, each in eight bytes. */
const LEVELS = memory.data<u8>([
  0x74, 0x72, 0x61, 0x63, 0x65, 0, 0, 5, 0x64, 0x65, 0x62, 0x75, 0x67, 0, 0, 5, 0x69, 0x6e, 0x66, 0x6f, 0, 0, 0, 4, 0x77, 0x61, 0x72, 0x6e,
  0, 0, 0, 4, 0x65, 0x72, 0x72, 0x6f, 0x72, 0, 0, 5, 0x66, 0x61, 0x74, 0x61, 0x6c, 0, 0, 5,
]);
const EVENT_NAME = memory.data<u8>([0x65, 0x76, 0x65, 0x6e, 0x74, 0x2e, 0x6e, 0x61, 0x6d, 0x65]);
const EVENT_NAME_LENGTH: u32 = 10;

export function logRecord(at: usize, resource: usize, scope: usize): usize {
  const row = take(LOG_ROW_BYTES);
  const labels = top;
  startRecord();
  let seen: u32 = 0;
  let time: u64 = 0;
  let observed: u64 = 0;
  let severity: u32 = 0;
  let keysLength: u32 = 0;
  let valuesLength: u32 = 0;
  memory.fill(row, 0, LOG_ROW_BYTES);
  for (at = open(at, OPEN_OBJECT); load<u8>(at) != CLOSE_OBJECT; at = next(at, CLOSE_OBJECT)) {
    at = name(at);
    const n = nameAt;
    const length = nameLength;
    if (isTimeUnixNano(n, length)) {
      seen = once(seen, 1);
      at = unsigned(at);
      time = integer;
    } else if (isObservedTimeUnixNano(n, length)) {
      seen = once(seen, 2);
      at = unsigned(at);
      observed = integer;
    } else if (isSeverityNumber(n, length)) {
      seen = once(seen, 4);
      at = enumeration(at);
      severity = <u32>integer;
    } else if (isSeverityText(n, length)) {
      seen = once(seen, 8);
      at = optionalString(at);
      lowercase(textAt, textLength);
      storeText(row + LEVEL);
    } else if (isBody(n, length)) {
      seen = once(seen, 16);
      at = value(at);
      storeText(row + MESSAGE);
    } else if (isAttributes(n, length)) {
      seen = once(seen, 32);
      at = attributes(at, OF_RECORD);
      store<u32>(row, kept, ROW_LABEL_COUNT);
      keysLength = keysBytes;
      valuesLength = valuesBytes;
    } else if (isTraceId(n, length)) {
      seen = once(seen, 64);
      at = hexId(at, 32);
      if (textLength != 0) store<u32>(row + TRACE, textAt);
    } else if (isSpanId(n, length)) {
      seen = once(seen, 128);
      at = hexId(at, 16);
      if (textLength != 0) store<u32>(row + SPAN, textAt);
    } else if (isEventName(n, length)) {
      seen = once(seen, 256);
      at = optionalString(at);
      storeText(row + EVENT);
    } else if (isFlags(n, length)) {
      seen = once(seen, 512);
      at = unsigned32(at);
    } else if (isDroppedAttributesCount(n, length)) {
      seen = once(seen, 1024);
      at = unsigned32(at);
    } else at = skip(at, 0);
  }
  if (load<u32>(row + EVENT_LENGTH) != 0) {
    // The label event.name must have no other source.
    mustBeNew(EVENT_NAME, EVENT_NAME_LENGTH);
    keysLength += stringBytes(EVENT_NAME_LENGTH);
    valuesLength += stringBytes(load<u32>(row + EVENT_LENGTH));
  }
  if (load<u32>(row + LEVEL_LENGTH) == 0) {
    const level = LEVELS + 8 * levelOf(severity);
    store<u32>(row + LEVEL, level);
    store<u32>(row + LEVEL_LENGTH, load<u8>(level, 7));
  }
  store<u32>(row + SEVERITY, severity <= 24 ? severity : 0);
  store<u32>(row, resource, ROW_RESOURCE);
  store<u32>(row, scope, ROW_SCOPE);
  store<u32>(row, labels, ROW_LABELS);
  const isKept = addRow(row, time != 0 ? time : observed);
  measure(row, resource, scope, keysLength, valuesLength, isKept);
  if (!isKept) giveBack(row);
  return at + 1;
}

function storeText(to: usize): void {
  store<u32>(to, textAt);
  store<u32>(to, textLength, 4);
}

/** JavaScript's lower case of ASCII; of anything else, gives up. */
function lowercase(at: usize, length: u32): void {
  for (let index: u32 = 0; index < length; index++) {
    const byte = load<u8>(at + index);
    if (byte > 0x7f) refuse(UNUSUAL);
    if (byte >= 0x41 && byte <= 0x5a) store<u8>(at + index, byte | 0x20);
  }
}

function levelOf(severity: u32): u32 {
  return severity == 0 || severity > 24 ? 2 : (severity - 1) >> 2;
}

function measure(row: usize, resource: usize, scope: usize, keysLength: u32, valuesLength: u32, isKept: bool): void {
  const level = stringBytes(load<u32>(row + LEVEL_LENGTH));
  const source = resourceServiceBytes(resource);
  const message = stringBytes(load<u32>(row + MESSAGE_LENGTH));
  const keys = keysLength + resourceKeysBytes(resource);
  const values = valuesLength + resourceValuesBytes(resource);
  const trace: u32 = load<u32>(row + TRACE) == 0 ? 1 : 33;
  const span: u32 = load<u32>(row + SPAN) == 0 ? 1 : 17;
  const scopeName = stringBytes(load<u32>(scope, 4));
  make(<u64>FIXED_BYTES + level + source + message + keys + values + trace + span + scopeName, isKept);
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

/** The rows of the day that is written, from `at` on; returns behind them. */
export function writeLogs(at: usize, rows: u32, firstId: u64): usize {
  let time = at;
  let id = (at = stream(at, rows * 8));
  let level = (at = stream(at, rows * 8));
  let severity = (at = stream(at, total(LEVELS_OF)));
  let source = (at = stream(at, rows));
  let message = (at = stream(at, total(SOURCES)));
  let labels = (at = stream(at, total(MESSAGES)));
  let keys = (at = stream(at, rows * 4));
  let values = (at = stream(at, total(KEYS)));
  let trace = (at = stream(at, total(VALUES)));
  let span = (at = stream(at, total(TRACES)));
  let scope = (at = stream(at, total(SPANS)));
  const end = stream(at, total(SCOPES));
  for (let row = nextRow(0); row != 0; row = nextRow(row)) {
    store<u64>(time, rowTime(row));
    time += 8;
    store<u64>(id, firstId + rowOrdinal(row));
    id += 8;
    level = putString(level, load<u32>(row + LEVEL), load<u32>(row + LEVEL_LENGTH));
    store<u8>(severity, <u8>load<u32>(row + SEVERITY));
    severity++;
    message = putString(message, load<u32>(row + MESSAGE), load<u32>(row + MESSAGE_LENGTH));
    trace = putString(trace, load<u32>(row + TRACE), load<u32>(row + TRACE) == 0 ? 0 : 32);
    span = putString(span, load<u32>(row + SPAN), load<u32>(row + SPAN) == 0 ? 0 : 16);
    const ofScope = load<u32>(row, ROW_SCOPE);
    scope = putString(scope, load<u32>(ofScope), load<u32>(ofScope, 4));
    const resource = load<u32>(row, ROW_RESOURCE);
    copy(source, resourceService(resource), resourceServiceBytes(resource));
    source += resourceServiceBytes(resource);

    const own = load<u32>(row, ROW_LABEL_COUNT);
    const isEvent = load<u32>(row + EVENT_LENGTH) != 0;
    store<u32>(labels, own + resourceLabels(resource) + <u32>isEvent);
    labels += 4;
    if (isEvent) {
      keys = putString(keys, EVENT_NAME, EVENT_NAME_LENGTH);
      values = putString(values, load<u32>(row + EVENT), load<u32>(row + EVENT_LENGTH));
    }
    // Those of the resource stand before those of an event or many of the record, and behind few.
    const resourceAt = isEvent || own > MOST_LABELS_FIRST ? 0 : own;
    let entry = load<u32>(row, ROW_LABELS);
    for (let index: u32 = 0; index <= own; index++) {
      if (index == resourceAt) {
        copy(keys, resourceKeys(resource), resourceKeysBytes(resource));
        keys += resourceKeysBytes(resource);
        copy(values, resourceValues(resource), resourceValuesBytes(resource));
        values += resourceValuesBytes(resource);
      }
      if (index == own) break;
      keys = putString(keys, load<u32>(entry), load<u32>(entry, 4));
      values = putString(values, load<u32>(entry, 8), load<u32>(entry, 12));
      entry += ENTRY_BYTES;
    }
  }
  return end;
}
