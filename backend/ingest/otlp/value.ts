// Converts OTLP's AnyValue and attributes to text, as the mapping tables of the contract define: scalars as they are written, lists and
// maps as plain JSON, bytes as base64, the empty value as "". Invariant: every kind is accepted, and no nesting overflows the stack.
import { MAX_VALUE_DEPTH } from "../ingest-limits.ts";
import { FieldError, type Json } from "../json-message.ts";
import { double, each, int64, within } from "./json.ts";

const KINDS = ["stringValue", "boolValue", "intValue", "doubleValue", "arrayValue", "kvlistValue", "bytesValue"] as const;
type Kind = (typeof KINDS)[number];

/** The text of the AnyValue in `parent[name]`; errors are relative to `parent`. */
export function valueText(parent: Json, name: string): string {
  return within(parent, name, (any) => {
    const kind = kindOf(any);
    if (kind === undefined) return "";
    return kind === "arrayValue" || kind === "kvlistValue" ? toJson(any, 1) : scalarText(any, kind);
  });
}

/** The kind that is set; undefined for the empty value, and for kinds that OTLP may add later. */
function kindOf(any: Json): Kind | undefined {
  let found: Kind | undefined;
  for (const kind of KINDS) {
    const value = any[kind];
    if (value === undefined || value === null) continue;
    if (found !== undefined) throw new FieldError(kind, `a value has one kind, but ${found} is set too`);
    found = kind;
  }
  return found;
}

function scalarText(any: Json, kind: Kind): string {
  const value = any[kind];
  switch (kind) {
    case "stringValue":
      if (typeof value !== "string") throw new FieldError(kind, "must be a string");
      return value;
    case "boolValue":
      if (typeof value !== "boolean") throw new FieldError(kind, "must be true or false");
      return String(value);
    case "intValue":
      return int64(value, kind);
    case "doubleValue":
      return String(double(value, kind));
    default:
      return base64(value, kind);
  }
}

function base64(value: unknown, name: string): string {
  if (typeof value !== "string" || !/^[A-Za-z0-9+/_-]*={0,2}$/.test(value) || value.replace(/=+$/, "").length % 4 === 1) {
    throw new FieldError(name, "must be base64");
  }
  return Buffer.from(value, "base64").toString("base64");
}

/** Plain JSON of an AnyValue. Integers remain exact, NaN and infinities become strings, the empty value becomes null. */
function toJson(any: Json, depth: number): string {
  if (depth > MAX_VALUE_DEPTH) throw new FieldError("", `is nested deeper than ${MAX_VALUE_DEPTH} levels`);
  const kind = kindOf(any);
  if (kind === undefined) return "null";
  if (kind === "arrayValue") return within(any, kind, (list) => listJson(list, depth));
  if (kind === "kvlistValue") return within(any, kind, (map) => mapJson(map, depth));
  const plain = scalarText(any, kind);
  const bare = kind === "boolValue" || kind === "intValue" || (kind === "doubleValue" && Number.isFinite(Number(plain)));
  return bare ? plain : JSON.stringify(plain);
}

function listJson(list: Json, depth: number): string {
  const items: string[] = [];
  each(list, "values", (item) => items.push(toJson(item, depth + 1)));
  return `[${items.join(",")}]`;
}

function mapJson(map: Json, depth: number): string {
  const items = new Map<string, string>();
  each(map, "values", (item) =>
    items.set(
      keyOf(item),
      within(item, "value", (value) => toJson(value, depth + 1)),
    ),
  );
  return `{${[...items].map(([key, json]) => `${JSON.stringify(key)}:${json}`).join(",")}}`;
}

function keyOf(item: Json): string {
  const key = item["key"] ?? "";
  if (typeof key !== "string") throw new FieldError("key", "must be a string");
  return key;
}

/** Calls `visit` with the key and text of each attribute of `parent.attributes`, in order. */
export function eachAttribute(parent: Json, visit: (key: string, text: string) => void): void {
  each(parent, "attributes", (item) => visit(keyOf(item), valueText(item, "value")));
}
