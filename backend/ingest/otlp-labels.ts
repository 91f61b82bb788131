// The labels of a record: resource and record attributes together, the record's winning a clash. Invariant: reserved keys, which name
// the sender, never come from a payload, and no key appears twice. Used by decode.ts of logs and traces.
import { eachAttribute } from "./otlp-value.ts";
import type { Json } from "./otlp-json.ts";
import { quote } from "./otlp-rows.ts";

/** Attributes that would claim an identity; it comes from the key alone (interface.md, "Ingest", rule 5). */
const RESERVED = new Set(["org_id", "host_id", "instance", "node"]);

/** The attributes of one resource, ready to be joined with those of its records. */
export interface ResourceLabels {
  /** `service.name`, or "unknown". */
  readonly service: string;
  readonly cells: ReadonlyMap<string, string>;
  /** The same, as it stands in a Map cell. */
  readonly joined: string;
}

export function resourceLabels(resource: Json): ResourceLabels {
  const cells = new Map<string, string>();
  let service = "";
  eachAttribute(resource, (key, text) => {
    if (key === "service.name") service = text;
    else if (!RESERVED.has(key)) cells.set(key, `${quote(key)}:${quote(text)}`);
  });
  return { service: service || "unknown", cells, joined: [...cells.values()].join(",") };
}

/** The Map cell of a record. `leftOut` names one more key that is not stored. */
export function labelsCell(resource: ResourceLabels, record: Json, leftOut?: string): string {
  const own = new Map<string, string>();
  let clash = false;
  eachAttribute(record, (key, text) => {
    if (RESERVED.has(key) || key === leftOut) return;
    clash ||= resource.cells.has(key);
    own.set(key, `${quote(key)}:${quote(text)}`);
  });
  if (own.size === 0) return `{${resource.joined}}`;
  let cell = "";
  for (const pair of own.values()) cell += cell === "" ? pair : `,${pair}`;
  if (!clash) return resource.joined === "" ? `{${cell}}` : `{${cell},${resource.joined}}`;
  for (const [key, pair] of resource.cells) if (!own.has(key)) cell += `,${pair}`;
  return `{${cell}}`;
}
