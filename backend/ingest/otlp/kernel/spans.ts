// Decodes a span into a row of the spans table, as backend/ingest/otlp/decode-spans.ts maps it; its columns are SPAN_COLUMNS after those of
// the sender.
import { events, links, parts, partsBytes, putEvents, putLinks } from "./events";
import { idBytes, idInto, putId, putText, SPAN_DIGITS, textBytes, textInto, TRACE_DIGITS } from "./fields";
import * as json from "../../kernel/json";
import {
  keysBytes,
  OWNER_SPAN,
  resourceKeysBytes,
  resourceService,
  resourceServiceBytes,
  resourceValuesBytes,
  startRecord,
  valuesBytes,
} from "./labels";
import { giveBack, putBytes, putString, putVarint, stringBytes, takeZeros, top, wordLength } from "./memory";
import { addOperation, startOperations } from "./operations";
import { labelsInto, putLabels, startLabels } from "./row-labels";
import {
  addRow,
  addSize,
  count,
  dropEmptyIds,
  nextRow,
  ROW_BYTES,
  ROW_RESOURCE,
  ROW_SCOPE,
  rowOrdinal,
  rowTime,
  stream,
  total,
} from "./rows";

// Addresses and lengths that follow the common part of a row; the address of a missing id is 0.
export const TRACE = ROW_BYTES;
export const SPAN = ROW_BYTES + 4;
export const PARENT = ROW_BYTES + 8;
export const NAME = ROW_BYTES + 12;
export const KIND = ROW_BYTES + 20;
export const STATUS = ROW_BYTES + 24;
const DURATION = ROW_BYTES + 28;
export const MESSAGE = ROW_BYTES + 36;
export const STATE = ROW_BYTES + 44;
export const EVENTS = ROW_BYTES + 52;
const EVENT_COUNT = ROW_BYTES + 56;
const EVENTS_BYTES = ROW_BYTES + 60;
export const LINKS = ROW_BYTES + 64;
const LINK_COUNT = ROW_BYTES + 68;
const LINKS_BYTES = ROW_BYTES + 72;
const SPAN_ROW_BYTES: u32 = 112;

const KINDS = words("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER");
const STATUSES = words("UNSET", "OK", "ERROR");

// Numbers of the columns of strings.
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
/** What `writeSpans` writes; service, kind, status, keys and the scope's name and version have dictionaries. */
export const SPAN_STREAMS: u32 = 19;
export const SPAN_DICTIONARIES: u32 = (1 << 5) | (1 << 7) | (1 << 9) | (1 << 12) | (1 << 14) | (1 << 15);
/** Time, id, duration and number of attributes. */
const FIXED_BYTES: u32 = 8 + 8 + 8 + 4;

/** Call before the first span of a body. */
export function startSpans(): void {
  startOperations(NAME, KIND);
}

/** Starts the row of a span, before its fields are read into it. */
export function startSpan(): usize {
  const row = takeZeros(SPAN_ROW_BYTES);
  startRecord();
  return row;
}

export function spanRecord(at: usize, resource: usize, scope: usize): usize {
  const row = startSpan();
  let seen: u32 = 0;
  let start: u64 = 0;
  let end: u64 = 0;
  for (at = json.open(at, json.OPEN_OBJECT); load<u8>(at) != json.CLOSE_OBJECT; at = json.next(at, json.CLOSE_OBJECT)) {
    at = json.name(at);
    const n = json.nameAt;
    const length = json.nameLength;
    if (isText("traceId", n, length)) {
      seen = json.once(seen, 1);
      at = idInto(at, TRACE_DIGITS, row + TRACE);
    } else if (isText("spanId", n, length)) {
      seen = json.once(seen, 2);
      at = idInto(at, SPAN_DIGITS, row + SPAN);
    } else if (isText("parentSpanId", n, length)) {
      seen = json.once(seen, 4);
      at = idInto(at, SPAN_DIGITS, row + PARENT);
    } else if (isText("name", n, length)) {
      seen = json.once(seen, 8);
      at = textInto(at, row + NAME);
    } else if (isText("kind", n, length)) {
      seen = json.once(seen, 16);
      at = json.enumeration(at);
      store<u32>(row + KIND, json.integer <= 5 ? <u32>json.integer : 0);
    } else if (isText("startTimeUnixNano", n, length)) {
      seen = json.once(seen, 32);
      at = json.unsigned(at);
      start = json.integer;
    } else if (isText("endTimeUnixNano", n, length)) {
      seen = json.once(seen, 64);
      at = json.unsigned(at);
      end = json.integer;
    } else if (isText("attributes", n, length)) {
      seen = json.once(seen, 128);
      at = labelsInto(at, OWNER_SPAN, row);
    } else if (isText("status", n, length)) {
      seen = json.once(seen, 256);
      at = status(at, row);
    } else if (isText("events", n, length)) {
      seen = json.once(seen, 512);
      store<u32>(row + EVENTS, top);
      at = events(at);
      store<u32>(row + EVENT_COUNT, parts);
      store<u32>(row + EVENTS_BYTES, partsBytes);
    } else if (isText("links", n, length)) {
      seen = json.once(seen, 1024);
      store<u32>(row + LINKS, top);
      at = links(at);
      store<u32>(row + LINK_COUNT, parts);
      store<u32>(row + LINKS_BYTES, partsBytes);
    } else if (isText("traceState", n, length)) {
      seen = json.once(seen, 2048);
      at = textInto(at, row + STATE);
    } else {
      const counter = counterOf(n, length);
      seen = json.once(seen, counter);
      at = counter == 0 ? json.unknown(at) : json.unsigned32(at);
    }
  }
  endSpan(row, resource, scope, start, end);
  return at + 1;
}

/** Adds the row after the whole span was read; its attributes have to be the last ones read. */
export function endSpan(row: usize, resource: usize, scope: usize, start: u64, end: u64): void {
  store<u64>(row + DURATION, start != 0 && end > start ? end - start : 0);
  store<u32>(row, resource, ROW_RESOURCE);
  store<u32>(row, scope, ROW_SCOPE);
  let isKept = false;
  if (load<u32>(row + TRACE) == 0 || load<u32>(row + SPAN) == 0) dropEmptyIds();
  else isKept = addRow(row, start != 0 ? start : end);
  measure(row, resource, scope, keysBytes, valuesBytes, isKept);
  if (isKept) addOperation(row);
  else giveBack(row);
}

/** The bit of a number that is validated but not stored. */
function counterOf(at: usize, length: u32): u32 {
  if (isText("flags", at, length)) return 4096;
  if (isText("droppedAttributesCount", at, length)) return 8192;
  if (isText("droppedEventsCount", at, length)) return 16384;
  return isText("droppedLinksCount", at, length) ? 32768 : 0;
}

/** Reads a status message, or null. */
function status(at: usize, row: usize): usize {
  if (json.isNull(at)) return at + 4;
  let seen: u32 = 0;
  for (at = json.open(at, json.OPEN_OBJECT); load<u8>(at) != json.CLOSE_OBJECT; at = json.next(at, json.CLOSE_OBJECT)) {
    at = json.name(at);
    if (isText("code", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 1);
      at = json.enumeration(at);
      store<u32>(row + STATUS, json.integer <= 2 ? <u32>json.integer : 0);
    } else if (isText("message", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 2);
      at = textInto(at, row + MESSAGE);
    } else at = json.unknown(at);
  }
  return at + 1;
}

function kindOf(row: usize): usize {
  return KINDS + 16 * load<u32>(row + KIND);
}

function statusOf(row: usize): usize {
  return STATUSES + 16 * load<u32>(row + STATUS);
}

function measure(row: usize, resource: usize, scope: usize, keysLength: u32, valuesLength: u32, isKept: bool): void {
  const trace = idBytes(row + TRACE, TRACE_DIGITS);
  const span = idBytes(row + SPAN, SPAN_DIGITS);
  const parent = idBytes(row + PARENT, SPAN_DIGITS);
  const service = resourceServiceBytes(resource);
  const operation = textBytes(row + NAME);
  const kind = stringBytes(wordLength(kindOf(row)));
  const code = stringBytes(wordLength(statusOf(row)));
  const message = textBytes(row + MESSAGE);
  const keys = keysLength + resourceKeysBytes(resource);
  const values = valuesLength + resourceValuesBytes(resource);
  const scopeName = textBytes(scope);
  const scopeVersion = textBytes(scope + 8);
  const state = textBytes(row + STATE);
  const ofEvents = stringBytes(load<u32>(row + EVENTS_BYTES));
  const ofLinks = stringBytes(load<u32>(row + LINKS_BYTES));
  const identity = trace + span + parent + service + operation + kind + code + message;
  addSize(<u64>FIXED_BYTES + identity + keys + values + scopeName + scopeVersion + state + ofEvents + ofLinks, isKept);
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

/** Writes the rows of the current day at `at`; returns the address after them. */
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
  const labels = (at = stream(at, total(MESSAGES)));
  const keys = (at = stream(at, rows * 4));
  const values = (at = stream(at, total(KEYS)));
  let scopeName = (at = stream(at, total(VALUES)));
  let scopeVersion = (at = stream(at, total(SCOPE_NAMES)));
  let state = (at = stream(at, total(SCOPE_VERSIONS)));
  let ofEvents = (at = stream(at, total(STATES)));
  let ofLinks = (at = stream(at, total(ALL_EVENTS)));
  const end = stream(at, total(ALL_LINKS));
  startLabels(labels, keys, values);
  for (let row = nextRow(0); row != 0; row = nextRow(row)) {
    store<u64>(time, rowTime(row));
    time += 8;
    store<u64>(id, firstId + rowOrdinal(row));
    id += 8;
    trace = putId(trace, row + TRACE, TRACE_DIGITS);
    span = putId(span, row + SPAN, SPAN_DIGITS);
    parent = putId(parent, row + PARENT, SPAN_DIGITS);
    operation = putText(operation, row + NAME);
    kind = putString(kind, kindOf(row), wordLength(kindOf(row)));
    store<u64>(duration, load<u64>(row + DURATION));
    duration += 8;
    code = putString(code, statusOf(row), wordLength(statusOf(row)));
    message = putText(message, row + MESSAGE);
    const scope = load<u32>(row, ROW_SCOPE);
    scopeName = putText(scopeName, scope);
    scopeVersion = putText(scopeVersion, scope + 8);
    state = putText(state, row + STATE);
    ofEvents = putVarint(ofEvents, load<u32>(row + EVENTS_BYTES));
    if (load<u32>(row + EVENT_COUNT) != 0) ofEvents = putEvents(ofEvents, load<u32>(row + EVENTS), load<u32>(row + EVENT_COUNT));
    ofLinks = putVarint(ofLinks, load<u32>(row + LINKS_BYTES));
    if (load<u32>(row + LINK_COUNT) != 0) ofLinks = putLinks(ofLinks, load<u32>(row + LINKS), load<u32>(row + LINK_COUNT));
    const resource = load<u32>(row, ROW_RESOURCE);
    service = putBytes(service, resourceService(resource), resourceServiceBytes(resource));
    putLabels(row, 0);
  }
  return end;
}
