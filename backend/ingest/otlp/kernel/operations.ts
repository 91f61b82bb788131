// Lists the operations that the spans of a request body name, as backend/storage/traces/operations-of.ts lists them from the rows. Invariant: the
// table is bounded; if there are more operations, it reports that, and the host lists them itself.
import { resourceService, resourceServiceBytes } from "./labels";
import { same } from "../../kernel/bytes";
import { OPERATION_LIST, OPERATION_SLOTS, OPERATION_TABLE } from "./memory";
import { ROW_RESOURCE, rowSection, sectionIndex } from "./rows";

/** Longer names are not listed. */
const MAX_NAME_BYTES: u32 = 512;
/** A service in the format of columns: its length in two bytes, then the text. */
const MAX_SERVICE_BYTES: u32 = 514;
const MAX_OPERATIONS: u32 = 2000;
const MAX_PROBES: u32 = 64;

/** Where a row has the name of the span and the number of its kind. */
let nameOffset: usize = 0;
let kindOffset: usize = 0;
let listed: u32 = 0;
let isFull: bool = false;

export function startOperations(nameAt: usize, kindAt: usize): void {
  memory.fill(OPERATION_TABLE, 0, OPERATION_SLOTS * 4);
  nameOffset = nameAt;
  kindOffset = kindAt;
  listed = 0;
  isFull = false;
}

/** Adds the operation of a row, unless it is listed already. */
export function addOperation(row: usize): void {
  const resource = load<u32>(row, ROW_RESOURCE);
  const service = resourceService(resource);
  const serviceBytes = resourceServiceBytes(resource);
  const length = load<u32>(row + nameOffset + 4);
  if (isFull || serviceBytes > MAX_SERVICE_BYTES || length > MAX_NAME_BYTES) return;
  let index = hashed(service, serviceBytes, load<u32>(row + kindOffset) + rowSection(row));
  index = hashed(load<u32>(row + nameOffset), length, index);
  for (let probes: u32 = 0; probes < MAX_PROBES; probes++) {
    const slot = OPERATION_TABLE + ((index & (OPERATION_SLOTS - 1)) << 2);
    const other = load<u32>(slot);
    if (other == 0) {
      if (listed == MAX_OPERATIONS) break;
      store<u32>(slot, row);
      store<u32>(OPERATION_LIST + listed * 4, row);
      listed++;
      return;
    }
    if (isSame(row, other)) return;
    index++;
  }
  isFull = true;
}

function isSame(a: usize, b: usize): bool {
  if (rowSection(a) != rowSection(b) || load<u32>(a + kindOffset) != load<u32>(b + kindOffset)) return false;
  const length = load<u32>(a + nameOffset + 4);
  if (length != load<u32>(b + nameOffset + 4) || !same(load<u32>(a + nameOffset), load<u32>(b + nameOffset), length)) return false;
  const ofA = load<u32>(a, ROW_RESOURCE);
  const ofB = load<u32>(b, ROW_RESOURCE);
  const bytes = resourceServiceBytes(ofA);
  return ofA == ofB || (bytes == resourceServiceBytes(ofB) && same(resourceService(ofA), resourceService(ofB), bytes));
}

function hashed(at: usize, length: u32, seed: u32): u32 {
  let hash: u64 = <u64>seed + length;
  let index: u32 = 0;
  for (; index + 8 <= length; index += 8) hash = mixed(hash ^ load<u64>(at + index));
  if (index < length) hash = mixed(hash ^ (load<u64>(at + index) << (64 - 8 * (length - index))));
  return <u32>(mixed(hash) >> 32);
}

function mixed(word: u64): u64 {
  word *= 0x9e3779b97f4a7c15;
  return word ^ (word >> 29);
}

/** The number of operations; -1 if there were too many. */
export function operations(): i32 {
  return isFull ? -1 : <i32>listed;
}

/** One operation: index of its day; address and length of its service and of its name; number of its kind. */
const PARTS = memory.data(24, 8);

export function operation(index: u32): usize {
  const row = load<u32>(OPERATION_LIST + index * 4);
  const resource = load<u32>(row, ROW_RESOURCE);
  const bytes = resourceServiceBytes(resource);
  const lengthBytes: u32 = bytes > 128 ? 2 : 1;
  store<u32>(PARTS, sectionIndex(row));
  store<u32>(PARTS, resourceService(resource) + lengthBytes, 4);
  store<u32>(PARTS, bytes - lengthBytes, 8);
  store<u32>(PARTS, load<u32>(row + nameOffset), 12);
  store<u32>(PARTS, load<u32>(row + nameOffset + 4), 16);
  store<u32>(PARTS, load<u32>(row + kindOffset), 20);
  return PARTS;
}
