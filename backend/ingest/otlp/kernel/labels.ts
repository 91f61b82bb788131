// Reads the attributes of a resource and of its records into index entries (key, value), as backend/ingest/otlp/labels.ts joins them.
// Invariants: reserved keys never become labels; the kernel falls back if a key occurs twice, or in both resource and record.
import { placeText, putText } from "./fields";
import * as json from "../../kernel/json";
import { fallBack, same, UNUSUAL } from "../../kernel/bytes";
import { hashOf, putString, RECORD_KEYS, RESOURCE_KEYS, SLOTS, stringBytes, take, top } from "./memory";
import { value } from "./value";

/** `{"key":"` and `,"value"`, as nearly every attribute is written. */
const KEY_START: u64 = 0x223a2279656b227b;
const VALUE_START: u64 = 0x2265756c6176222c;
const MAX_PROBES: u32 = 32;

/** An index entry: the places of a key and its value. */
export const ENTRY_BYTES: u32 = 16;

/** The owner of the attributes that are read. */
export const OWNER_RESOURCE: i32 = 0;
export const OWNER_RECORD: i32 = 1;
/** A record whose `service.name` does not become a label. */
export const OWNER_SPAN: i32 = 2;
/** Validated but not stored. */
export const OWNER_SCOPE: i32 = 3;

/** The last attribute that was read. */
let keyAt: usize = 0;
let keyLength: u32 = 0;
let valueAt: usize = 0;
let valueLength: u32 = 0;

/** Slots with an older generation are empty. */
let recordGeneration: u32 = 0;
let resourceGeneration: u32 = 0;
let resourceCount: u32 = 0;
let serviceAt: usize = 0;
let serviceLength: u32 = 0;
let hasService: bool = false;

/** Size of the last labels, in the format of columns. */
export let keysBytes: u32 = 0;
export let valuesBytes: u32 = 0;
export let kept: u32 = 0;

/** Reads a list of attributes, or null, into entries from `top` on. */
export function attributes(at: usize, owner: i32): usize {
  startAttributes();
  if (json.isNull(at)) return at + 4;
  for (at = json.open(at, json.OPEN_ARRAY); load<u8>(at) != json.CLOSE_ARRAY; at = json.next(at, json.CLOSE_ARRAY)) {
    at = attribute(at);
    if (owner != OWNER_SCOPE && !isLeftOut(owner)) keep(owner);
  }
  return at + 1;
}

/** Call before a list of attributes. */
export function startAttributes(): void {
  kept = 0;
  keysBytes = 0;
  valuesBytes = 0;
}

/** Adds one attribute that was read elsewhere. */
export function addAttribute(owner: i32, key: usize, keySize: u32, value: usize, valueSize: u32): void {
  keyAt = key;
  keyLength = keySize;
  valueAt = value;
  valueLength = valueSize;
  if (owner != OWNER_SCOPE && !isLeftOut(owner)) keep(owner);
}

/** Reads one attribute: its key and the text of its value. */
function attribute(at: usize): usize {
  let seen: u32 = 0;
  keyAt = at;
  keyLength = 0;
  valueAt = at;
  valueLength = 0;
  if (load<u64>(at) == KEY_START) {
    at = json.stringBody(at + 8);
    keyAt = json.textAt;
    keyLength = json.textLength;
    seen = 1;
    if (load<u64>(at) == VALUE_START && load<u8>(at + 8) == json.COLON) {
      at = value(at + 9);
      valueAt = json.textAt;
      valueLength = json.textLength;
      seen = 3;
    }
    if (load<u8>(at) == json.CLOSE_OBJECT) return at + 1;
    at = json.next(at, json.CLOSE_OBJECT);
  } else at = json.open(at, json.OPEN_OBJECT);
  for (; load<u8>(at) != json.CLOSE_OBJECT; at = json.next(at, json.CLOSE_OBJECT)) {
    at = json.name(at);
    if (isText("key", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 1);
      at = json.optionalString(at);
      keyAt = json.textAt;
      keyLength = json.textLength;
    } else if (isText("value", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 2);
      at = value(at);
      valueAt = json.textAt;
      valueLength = json.textLength;
    } else at = json.unknown(at);
  }
  return at + 1;
}

/** Whether a key is not stored as a label: keys that would claim an identity, and the name of the service if it has a column. */
function isLeftOut(owner: i32): bool {
  switch (keyLength) {
    case 4:
      return isText("node", keyAt, keyLength);
    case 6:
      return isText("org_id", keyAt, keyLength);
    case 7:
      return isText("host_id", keyAt, keyLength);
    case 8:
      return isText("instance", keyAt, keyLength);
    case 12:
      if (owner == OWNER_RECORD || !isText("service.name", keyAt, keyLength)) return false;
      if (owner == OWNER_RESOURCE) {
        if (hasService) fallBack(UNUSUAL);
        hasService = true;
        serviceAt = valueAt;
        serviceLength = valueLength;
      }
      return true;
    default:
      return false;
  }
}

function keep(owner: i32): void {
  const hash = hashOf(keyAt, keyLength);
  if (resourceCount > 0 || owner == OWNER_RESOURCE) find(RESOURCE_KEYS, resourceGeneration, hash, keyAt, keyLength);
  const resourceSlot = slot;
  if (owner != OWNER_RESOURCE) find(RECORD_KEYS, recordGeneration, hash, keyAt, keyLength);
  const entry = take(ENTRY_BYTES);
  placeText(entry, keyAt, keyLength);
  placeText(entry + 8, valueAt, valueLength);
  const free = owner == OWNER_RESOURCE ? resourceSlot : slot;
  store<u32>(free, owner == OWNER_RESOURCE ? resourceGeneration : recordGeneration);
  store<u32>(free, entry, 4);
  kept++;
  keysBytes += stringBytes(keyLength);
  valuesBytes += stringBytes(valueLength);
}

/** The free slot that `find` reached. */
let slot: usize = 0;

/** Falls back if the key exists. */
function find(table: usize, generation: u32, hash: u32, at: usize, length: u32): void {
  let index = hash;
  for (let probes: u32 = 0; probes < MAX_PROBES; probes++) {
    slot = table + ((index & (SLOTS - 1)) << 3);
    if (load<u32>(slot) != generation) return;
    const entry = load<u32>(slot, 4);
    if (load<u32>(entry, 4) == length && same(load<u32>(entry), at, length)) fallBack(UNUSUAL);
    index++;
  }
  fallBack(UNUSUAL);
}

export function startBody(): void {
  memory.fill(RECORD_KEYS, 0, 8192);
  recordGeneration = 0;
  resourceGeneration = 0;
}

/** Call before the attributes of a record. */
export function startRecord(): void {
  recordGeneration++;
  startAttributes();
}

/** Falls back if the resource or the record has a label with this key, because another field also sets it. */
export function mustBeNew(at: usize, length: u32): void {
  const hash = hashOf(at, length);
  find(RESOURCE_KEYS, resourceGeneration, hash, at, length);
  find(RECORD_KEYS, recordGeneration, hash, at, length);
}

// The entry of a resource: the bytes that each of its rows needs for it.
const RESOURCE_BYTES: u32 = 32;

/** Writes `service.name` in the format of columns, then keys, values and their number. */
export function resourceService(resource: usize): usize {
  return load<u32>(resource);
}
export function resourceServiceBytes(resource: usize): u32 {
  return load<u32>(resource, 4);
}
export function resourceKeys(resource: usize): usize {
  return load<u32>(resource, 8);
}
export function resourceKeysBytes(resource: usize): u32 {
  return load<u32>(resource, 12);
}
export function resourceValues(resource: usize): usize {
  return load<u32>(resource, 16);
}
export function resourceValuesBytes(resource: usize): u32 {
  return load<u32>(resource, 20);
}
export function resourceLabels(resource: usize): u32 {
  return load<u32>(resource, 24);
}

/** Call before the resource of a part of the document, which may have none. */
export function startResource(): void {
  resourceGeneration++;
  resourceCount = 0;
  hasService = false;
  serviceLength = 0;
  startAttributes();
  entries = top;
}

let entries: usize = 0;

/** Reads a resource's message, or null. */
export function readResource(at: usize): usize {
  if (json.isNull(at)) return at + 4;
  let seen: u32 = 0;
  for (at = json.open(at, json.OPEN_OBJECT); load<u8>(at) != json.CLOSE_OBJECT; at = json.next(at, json.CLOSE_OBJECT)) {
    at = json.name(at);
    if (isText("attributes", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 1);
      at = attributes(at, OWNER_RESOURCE);
    } else at = json.unknown(at);
  }
  return at + 1;
}

const UNKNOWN = text("unknown");

/** Computes the size of a resource after all of it was read. */
export function endResource(): usize {
  const resource = take(RESOURCE_BYTES);
  if (serviceLength == 0) {
    serviceAt = UNKNOWN;
    serviceLength = 7;
  }
  const service = take(stringBytes(serviceLength));
  putString(service, serviceAt, serviceLength);
  const keys = take(keysBytes);
  const values = take(valuesBytes);
  let toKeys = keys;
  let toValues = values;
  for (let index: u32 = 0; index < kept; index++) {
    const entry = entries + index * ENTRY_BYTES;
    toKeys = putText(toKeys, entry);
    toValues = putText(toValues, entry + 8);
  }
  store<u32>(resource, service);
  store<u32>(resource, stringBytes(serviceLength), 4);
  store<u32>(resource, keys, 8);
  store<u32>(resource, keysBytes, 12);
  store<u32>(resource, values, 16);
  store<u32>(resource, valuesBytes, 20);
  store<u32>(resource, kept, 24);
  resourceCount = kept;
  return resource;
}
