// Builds the labels of a record from the attributes of its resource and its own; on a clash, the record's value is used. Invariants:
// reserved keys, which identify the sender, never come from a payload; no key appears twice.
import { encodedString, type MapColumn, StringColumn } from "../../engines/clickhouse/native-columns.ts";
import type { Json } from "../json-message.ts";
import { eachAttribute } from "./value.ts";

/** Attributes that would claim an identity, which comes only from the key (docs/contract.md, "Ingest", rule 5). */
const RESERVED = new Set(["org_id", "host_id", "instance", "node"]);

/** Above this number, a Map finds a repeated key faster than comparisons. */
const MAX_COMPARED_KEYS = 16;

/** The attributes of a resource, encoded so that they can be added to those of its records. */
export interface ResourceLabels {
  /** `service.name`, or "unknown", in the format of a StringColumn. */
  readonly service: Uint8Array;
  readonly labels: ReadonlyMap<string, string>;
  readonly keys: Uint8Array;
  readonly values: Uint8Array;
  /** The size that the resource adds to each of its records. */
  readonly byteLength: number;
}

export function resourceLabels(resource: Json): ResourceLabels {
  const labels = new Map<string, string>();
  let service = "";
  eachAttribute(resource, (key, text) => {
    if (key === "service.name") service = text;
    else if (!RESERVED.has(key)) labels.set(key, text);
  });
  const encoded = {
    service: encodedString(service || "unknown"),
    keys: encodedStrings(labels.keys()),
    values: encodedStrings(labels.values()),
  };
  return { labels, ...encoded, byteLength: Object.values(encoded).reduce((sum, { length }) => sum + length, 0) };
}

export interface LabelRule {
  /** Another key that is not stored. */
  readonly omittedKey?: string;
  /** A label that is added unless the record or its resource has an attribute with that name. */
  readonly defaultLabel?: readonly [key: string, text: string] | undefined;
}

/** Adds the row's labels to `column`. */
export function addLabels(column: MapColumn, resource: ResourceLabels, record: Json, rule: LabelRule = {}): void {
  if (rule.defaultLabel) return addClashing(column, resource, record, rule);
  const { omittedKey } = rule;
  const { keys, values } = column;
  const start = [keys.byteLength, values.byteLength] as const;
  const seen: string[] = [];
  let hasClash = false;
  eachAttribute(record, (key, text) => {
    if (hasClash || RESERVED.has(key) || key === omittedKey) return;
    hasClash = seen.length === MAX_COMPARED_KEYS || resource.labels.has(key) || seen.includes(key);
    seen.push(key);
    keys.add(key);
    values.add(text);
  });
  if (hasClash) {
    keys.truncate(start[0]);
    values.truncate(start[1]);
    return addClashing(column, resource, record, rule);
  }
  keys.addEncoded(resource.keys);
  values.addEncoded(resource.values);
  column.endRow(seen.length + resource.labels.size);
}

function addClashing(column: MapColumn, resource: ResourceLabels, record: Json, { omittedKey, defaultLabel }: LabelRule): void {
  const labels = new Map([...(defaultLabel ? [defaultLabel] : []), ...resource.labels]);
  eachAttribute(record, (key, text) => {
    if (!RESERVED.has(key) && key !== omittedKey) labels.set(key, text);
  });
  for (const [key, text] of labels) {
    column.keys.add(key);
    column.values.add(text);
  }
  column.endRow(labels.size);
}

function encodedStrings(texts: Iterable<string>): Uint8Array {
  const column = new StringColumn();
  for (const text of texts) column.add(text);
  return column.streams()[0] as Uint8Array;
}
