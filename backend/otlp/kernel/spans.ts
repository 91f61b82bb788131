// A span → a row of the table spans, as backend/traces/decode.ts maps it; its columns are SPAN_COLUMNS behind those of the sender.
import { events, links, parts, partsBytes, putEvents, putLinks } from "./events";
import {
  CLOSE_OBJECT,
  enumeration,
  hexId,
  integer,
  isNull,
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
  OF_SPAN,
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
import { copy, giveBack, putString, putVarint, stringBytes, take, top } from "./memory";
import {
  isAttributes,
  isCode,
  isDroppedAttributesCount,
  isDroppedEventsCount,
  isDroppedLinksCount,
  isEndTimeUnixNano,
  isEvents,
  isFlags,
  isKind,
  isLinks,
  isMessage,
  isName,
  isParentSpanId,
  isSpanId,
  isStartTimeUnixNano,
  isStatus,
  isTraceId,
  isTraceState,
} from "./names";
import { addOperation, startOperations } from "./operations";
import {
  addRow,
  count,
  dropEmptyIds,
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

// A row goes on with addresses and lengths; no address where there is no id.
const TRACE = ROW_BYTES;
const SPAN = ROW_BYTES + 4;
const PARENT = ROW_BYTES + 8;
const NAME = ROW_BYTES + 12;
const NAME_LENGTH = ROW_BYTES + 16;
const KIND = ROW_BYTES + 20;
const STATUS = ROW_BYTES + 24;
const DURATION = ROW_BYTES + 28;
const MESSAGE = ROW_BYTES + 36;
const MESSAGE_LENGTH = ROW_BYTES + 40;
const STATE = ROW_BYTES + 44;
const STATE_LENGTH = ROW_BYTES + 48;
const EVENTS = ROW_BYTES + 52;
const EVENT_COUNT = ROW_BYTES + 56;
const EVENTS_BYTES = ROW_BYTES + 60;
const LINKS = ROW_BYTES + 64;
const LINK_COUNT = ROW_BYTES + 68;
const LINKS_BYTES = ROW_BYTES + 72;
const SPAN_ROW_BYTES: u32 = 112;

// Columns of strings.
const TRACES = 0;
const SPANS = 1;
const PARENTS = 2;
const SERVICES = 3;
const NAMES = 4;
const KINDS_OF = 5;
const STATUSES_OF = 6;
const MESSAGES = 7;
const KEYS = 8;
const VALUES = 9;
const SCOPE_NAMES = 10;
const SCOPE_VERSIONS = 11;
const STATES = 12;
const ALL_EVENTS = 13;
const ALL_LINKS = 14;
/** Time, id, duration and number of attributes. */
const FIXED_BYTES: u32 = 8 + 8 + 8 + 4;

/** UNSPECIFIED, INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER, each in sixteen bytes with its length in the last. */
const KINDS = memory.data<u8>([
  0x55, 0x4e, 0x53, 0x50, 0x45, 0x43, 0x49, 0x46, 0x49, 0x45, 0x44, 0, 0, 0, 0, 11, 0x49, 0x4e, 0x54, 0x45, 0x52, 0x4e, 0x41, 0x4c, 0, 0, 0,
  0, 0, 0, 0, 8, 0x53, 0x45, 0x52, 0x56, 0x45, 0x52, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0x43, 0x4c, 0x49, 0x45, 0x4e, 0x54, 0, 0, 0, 0, 0, 0, 0,
  0, 0, 6, 0x50, 0x52, 0x4f, 0x44, 0x55, 0x43, 0x45, 0x52, 0, 0, 0, 0, 0, 0, 0, 8, 0x43, 0x4f, 0x4e, 0x53, 0x55, 0x4d, 0x45, 0x52, 0, 0, 0,
  0, 0, 0, 0, 8,
]);
/** UNSET, OK, ERROR, each in eight bytes with its length in the last. */
const STATUSES = memory.data<u8>([
  0x55, 0x4e, 0x53, 0x45, 0x54, 0, 0, 5, 0x4f, 0x4b, 0, 0, 0, 0, 0, 2, 0x45, 0x52, 0x52, 0x4f, 0x52, 0, 0, 5,
]);

/** Before the first span of a body. */
export function startSpans(): void {
  startOperations(NAME, KIND);
}

export function spanRecord(at: usize, resource: usize, scope: usize): usize {
  const row = take(SPAN_ROW_BYTES);
  memory.fill(row, 0, SPAN_ROW_BYTES);
  startRecord();
  let seen: u32 = 0;
  let start: u64 = 0;
  let end: u64 = 0;
  let keysLength: u32 = 0;
  let valuesLength: u32 = 0;
  for (at = open(at, OPEN_OBJECT); load<u8>(at) != CLOSE_OBJECT; at = next(at, CLOSE_OBJECT)) {
    at = name(at);
    const n = nameAt;
    const length = nameLength;
    if (isTraceId(n, length)) {
      seen = once(seen, 1);
      at = idInto(at, 32, row + TRACE);
    } else if (isSpanId(n, length)) {
      seen = once(seen, 2);
      at = idInto(at, 16, row + SPAN);
    } else if (isParentSpanId(n, length)) {
      seen = once(seen, 4);
      at = idInto(at, 16, row + PARENT);
    } else if (isName(n, length)) {
      seen = once(seen, 8);
      at = textInto(at, row + NAME);
    } else if (isKind(n, length)) {
      seen = once(seen, 16);
      at = enumeration(at);
      store<u32>(row + KIND, integer <= 5 ? <u32>integer : 0);
    } else if (isStartTimeUnixNano(n, length)) {
      seen = once(seen, 32);
      at = unsigned(at);
      start = integer;
    } else if (isEndTimeUnixNano(n, length)) {
      seen = once(seen, 64);
      at = unsigned(at);
      end = integer;
    } else if (isAttributes(n, length)) {
      seen = once(seen, 128);
      store<u32>(row, top, ROW_LABELS);
      at = attributes(at, OF_SPAN);
      store<u32>(row, kept, ROW_LABEL_COUNT);
      keysLength = keysBytes;
      valuesLength = valuesBytes;
    } else if (isStatus(n, length)) {
      seen = once(seen, 256);
      at = status(at, row);
    } else if (isEvents(n, length)) {
      seen = once(seen, 512);
      store<u32>(row + EVENTS, top);
      at = events(at);
      store<u32>(row + EVENT_COUNT, parts);
      store<u32>(row + EVENTS_BYTES, partsBytes);
    } else if (isLinks(n, length)) {
      seen = once(seen, 1024);
      store<u32>(row + LINKS, top);
      at = links(at);
      store<u32>(row + LINK_COUNT, parts);
      store<u32>(row + LINKS_BYTES, partsBytes);
    } else if (isTraceState(n, length)) {
      seen = once(seen, 2048);
      at = textInto(at, row + STATE);
    } else {
      const counter = counterOf(n, length);
      seen = once(seen, counter);
      at = counter == 0 ? skip(at, 0) : unsigned32(at);
    }
  }
  store<u64>(row + DURATION, start != 0 && end > start ? end - start : 0);
  store<u32>(row, resource, ROW_RESOURCE);
  store<u32>(row, scope, ROW_SCOPE);
  let isKept = false;
  if (load<u32>(row + TRACE) == 0 || load<u32>(row + SPAN) == 0) dropEmptyIds();
  else isKept = addRow(row, start != 0 ? start : end);
  measure(row, resource, scope, keysLength, valuesLength, isKept);
  if (isKept) addOperation(row);
  else giveBack(row);
  return at + 1;
}

/** Numbers that are checked and not stored, each with its bit. */
function counterOf(at: usize, length: u32): u32 {
  if (isFlags(at, length)) return 4096;
  if (isDroppedAttributesCount(at, length)) return 8192;
  if (isDroppedEventsCount(at, length)) return 16384;
  return isDroppedLinksCount(at, length) ? 32768 : 0;
}

function idInto(at: usize, length: u32, to: usize): usize {
  at = hexId(at, length);
  if (textLength != 0) store<u32>(to, textAt);
  return at;
}

function textInto(at: usize, to: usize): usize {
  at = optionalString(at);
  store<u32>(to, textAt);
  store<u32>(to, textLength, 4);
  return at;
}

/** A status message, or null. */
function status(at: usize, row: usize): usize {
  if (isNull(at)) return at + 4;
  let seen: u32 = 0;
  for (at = open(at, OPEN_OBJECT); load<u8>(at) != CLOSE_OBJECT; at = next(at, CLOSE_OBJECT)) {
    at = name(at);
    if (isCode(nameAt, nameLength)) {
      seen = once(seen, 1);
      at = enumeration(at);
      store<u32>(row + STATUS, integer <= 2 ? <u32>integer : 0);
    } else if (isMessage(nameAt, nameLength)) {
      seen = once(seen, 2);
      at = textInto(at, row + MESSAGE);
    } else at = skip(at, 0);
  }
  return at + 1;
}

function kindOf(row: usize): usize {
  return KINDS + 16 * load<u32>(row + KIND);
}

function statusOf(row: usize): usize {
  return STATUSES + 8 * load<u32>(row + STATUS);
}

function measure(row: usize, resource: usize, scope: usize, keysLength: u32, valuesLength: u32, isKept: bool): void {
  const trace: u32 = load<u32>(row + TRACE) == 0 ? 1 : 33;
  const span: u32 = load<u32>(row + SPAN) == 0 ? 1 : 17;
  const parent: u32 = load<u32>(row + PARENT) == 0 ? 1 : 17;
  const service = resourceServiceBytes(resource);
  const operation = stringBytes(load<u32>(row + NAME_LENGTH));
  const kind: u32 = 1 + load<u8>(kindOf(row), 15);
  const code: u32 = 1 + load<u8>(statusOf(row), 7);
  const message = stringBytes(load<u32>(row + MESSAGE_LENGTH));
  const keys = keysLength + resourceKeysBytes(resource);
  const values = valuesLength + resourceValuesBytes(resource);
  const scopeName = stringBytes(load<u32>(scope, 4));
  const scopeVersion = stringBytes(load<u32>(scope, 12));
  const state = stringBytes(load<u32>(row + STATE_LENGTH));
  const ofEvents = stringBytes(load<u32>(row + EVENTS_BYTES));
  const ofLinks = stringBytes(load<u32>(row + LINKS_BYTES));
  const identity = trace + span + parent + service + operation + kind + code + message;
  make(<u64>FIXED_BYTES + identity + keys + values + scopeName + scopeVersion + state + ofEvents + ofLinks, isKept);
  if (!isKept) return;
  count(row, TRACES, trace);
  count(row, SPANS, span);
  count(row, PARENTS, parent);
  count(row, SERVICES, service);
  count(row, NAMES, operation);
  count(row, KINDS_OF, kind);
  count(row, STATUSES_OF, code);
  count(row, MESSAGES, message);
  count(row, KEYS, keys);
  count(row, VALUES, values);
  count(row, SCOPE_NAMES, scopeName);
  count(row, SCOPE_VERSIONS, scopeVersion);
  count(row, STATES, state);
  count(row, ALL_EVENTS, ofEvents);
  count(row, ALL_LINKS, ofLinks);
}

/** The rows of the day that is written, from `at` on; returns behind them. */
export function writeSpans(at: usize, rows: u32, firstId: u64): usize {
  let time = at;
  let id = (at = stream(at, rows * 8));
  let trace = (at = stream(at, rows * 8));
  let span = (at = stream(at, total(TRACES)));
  let parent = (at = stream(at, total(SPANS)));
  let service = (at = stream(at, total(PARENTS)));
  let operation = (at = stream(at, total(SERVICES)));
  let kind = (at = stream(at, total(NAMES)));
  let duration = (at = stream(at, total(KINDS_OF)));
  let code = (at = stream(at, rows * 8));
  let message = (at = stream(at, total(STATUSES_OF)));
  let labels = (at = stream(at, total(MESSAGES)));
  let keys = (at = stream(at, rows * 4));
  let values = (at = stream(at, total(KEYS)));
  let scopeName = (at = stream(at, total(VALUES)));
  let scopeVersion = (at = stream(at, total(SCOPE_NAMES)));
  let state = (at = stream(at, total(SCOPE_VERSIONS)));
  let ofEvents = (at = stream(at, total(STATES)));
  let ofLinks = (at = stream(at, total(ALL_EVENTS)));
  const end = stream(at, total(ALL_LINKS));
  for (let row = nextRow(0); row != 0; row = nextRow(row)) {
    store<u64>(time, rowTime(row));
    time += 8;
    store<u64>(id, firstId + rowOrdinal(row));
    id += 8;
    trace = putString(trace, load<u32>(row + TRACE), 32);
    span = putString(span, load<u32>(row + SPAN), 16);
    parent = putString(parent, load<u32>(row + PARENT), load<u32>(row + PARENT) == 0 ? 0 : 16);
    operation = putString(operation, load<u32>(row + NAME), load<u32>(row + NAME_LENGTH));
    kind = putString(kind, kindOf(row), load<u8>(kindOf(row), 15));
    store<u64>(duration, load<u64>(row + DURATION));
    duration += 8;
    code = putString(code, statusOf(row), load<u8>(statusOf(row), 7));
    message = putString(message, load<u32>(row + MESSAGE), load<u32>(row + MESSAGE_LENGTH));
    const scope = load<u32>(row, ROW_SCOPE);
    scopeName = putString(scopeName, load<u32>(scope), load<u32>(scope, 4));
    scopeVersion = putString(scopeVersion, load<u32>(scope, 8), load<u32>(scope, 12));
    state = putString(state, load<u32>(row + STATE), load<u32>(row + STATE_LENGTH));
    ofEvents = putVarint(ofEvents, load<u32>(row + EVENTS_BYTES));
    if (load<u32>(row + EVENT_COUNT) != 0) ofEvents = putEvents(ofEvents, load<u32>(row + EVENTS), load<u32>(row + EVENT_COUNT));
    ofLinks = putVarint(ofLinks, load<u32>(row + LINKS_BYTES));
    if (load<u32>(row + LINK_COUNT) != 0) ofLinks = putLinks(ofLinks, load<u32>(row + LINKS), load<u32>(row + LINK_COUNT));
    const resource = load<u32>(row, ROW_RESOURCE);
    copy(service, resourceService(resource), resourceServiceBytes(resource));
    service += resourceServiceBytes(resource);

    const own = load<u32>(row, ROW_LABEL_COUNT);
    store<u32>(labels, own + resourceLabels(resource));
    labels += 4;
    // Those of the resource stand before many of the record, and behind few.
    const resourceAt = own > MOST_LABELS_FIRST ? 0 : own;
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
