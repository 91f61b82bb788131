// Reads the labels of a row and of its resource into the index and writes them to two columns, keys and values. Invariant: labels are in
// the order of backend/ingest/otlp/labels.ts: those of the record first or, if it has many or another label precedes them, those of the
// resource.
import { putText } from "./fields";
import {
  attributes,
  ENTRY_BYTES,
  kept,
  resourceKeys,
  resourceKeysBytes,
  resourceLabels,
  resourceValues,
  resourceValuesBytes,
} from "./labels";
import { putBytes, putString, top } from "./memory";
import { ROW_LABEL_COUNT, ROW_LABELS, ROW_RESOURCE } from "./rows";

/** If a record has more labels than this, all of them follow those of its resource. */
const MAX_LABELS_FIRST: u32 = 16;

/** Where the next row's number of labels, keys and values are written. */
let countsTo: usize = 0;
let keysTo: usize = 0;
let valuesTo: usize = 0;

/** Reads the attributes of a record, or null, into its row; sets `keysBytes` and `valuesBytes` to their size. */
export function labelsInto(at: usize, owner: i32, row: usize): usize {
  store<u32>(row, top, ROW_LABELS);
  at = attributes(at, owner);
  store<u32>(row, kept, ROW_LABEL_COUNT);
  return at;
}

/** Call before the first row of a day. */
export function startLabels(counts: usize, keys: usize, values: usize): void {
  countsTo = counts;
  keysTo = keys;
  valuesTo = values;
}

/** Adds a label that is not an attribute, before `putLabels`; its value is in a place. */
export function putLabel(keyAt: usize, keyLength: u32, value: usize): void {
  keysTo = putString(keysTo, keyAt, keyLength);
  valuesTo = putText(valuesTo, value);
}

/** Writes the labels of a row. `before`: the number of calls of `putLabel`. */
export function putLabels(row: usize, before: u32): void {
  const resource = load<u32>(row, ROW_RESOURCE);
  const own = load<u32>(row, ROW_LABEL_COUNT);
  store<u32>(countsTo, before + own + resourceLabels(resource));
  countsTo += 4;
  const resourceAt = before != 0 || own > MAX_LABELS_FIRST ? 0 : own;
  let keys = keysTo;
  let values = valuesTo;
  let entry = load<u32>(row, ROW_LABELS);
  for (let index: u32 = 0; index <= own; index++) {
    if (index == resourceAt) {
      keys = putBytes(keys, resourceKeys(resource), resourceKeysBytes(resource));
      values = putBytes(values, resourceValues(resource), resourceValuesBytes(resource));
    }
    if (index == own) break;
    keys = putText(keys, entry);
    values = putText(values, entry + 8);
    entry += ENTRY_BYTES;
  }
  keysTo = keys;
  valuesTo = values;
}
