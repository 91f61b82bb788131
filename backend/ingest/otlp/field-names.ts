// Refuses the field names of protobuf in OTLP/JSON, such as `time_unix_nano`, which the OTLP specification does not allow: as unknown fields
// they would be ignored, and a sender would take records without their time or their text for stored. A name counts only in a message that
// has this field, so what unknown fields contain is ignored, as in the kernel.
import { FieldError, type Json, unreadableMessage } from "../json-message.ts";
import type { JsonPath } from "../../../common/otlp-metrics/json-members.ts";
import { type Field, type Message, REQUESTS } from "../../../common/protobuf/protobuf-messages.ts";

/** Fields of each message, by their names in JSON and in protobuf. */
const FIELDS = new Map<Message, ReadonlyMap<string, Field>>();
/** Names in JSON, by the different names in protobuf. */
const JSON_NAMES = new Map<string, string>();
/** Messages of records and of what they share, by the names of their fields. */
const PARTS = new Map<string, Message>();
for (const request of Object.values(REQUESTS)) collectFields(request);

function collectFields(message: Message): void {
  if (FIELDS.has(message)) return;
  const fields = new Map<string, Field>();
  FIELDS.set(message, fields);
  for (const field of message) {
    if (!field) continue;
    const name = field.name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    fields.set(name, field).set(field.name, field);
    if (name !== field.name) JSON_NAMES.set(name, field.name);
    if (field.isPart) PARTS.set(field.name, field.message());
    if (field.kind === "message") collectFields(field.message());
  }
}

/** A name of protobuf as a member's, or a member's name with an escape. It is searched first, because looking at each member takes longer. */
const MEMBER = new RegExp(String.raw`"(?:${[...JSON_NAMES.keys()].join("|")}|[^"\\]*\\u[^"]*)"\s*:`);
/** Limits the recursion. Logs and spans with values of more than 64 levels are refused anyway. */
const MAX_DEPTH = 500;

/** Undefined if it is not such a name. */
export function jsonNameOf(name: string): string | undefined {
  return JSON_NAMES.get(name);
}

/** False if the JSON text has no such name. */
export function mayHaveWrongNames(json: string): boolean {
  return MEMBER.test(json);
}

/** Names the first such field; `part` is the field's name of a record, a resource or a scope. */
export function findWrongName(part: string, value: unknown): FieldError | undefined {
  return search(value, PARTS.get(part) ?? [], 0);
}

/** Replaces each resource, scope, metric and data point that has such a name by JSON that no reader accepts. Names the field of any other. */
export function replaceWrongNames(document: unknown): FieldError | undefined {
  return search(document, REQUESTS.metrics, 0);
}

/**
 * Whether a path leads to what is ignored: an unknown field, or a part of one. `part` is the field's name of a record, a resource or a scope;
 * default: a request of metrics.
 */
export function isUnknownField(path: JsonPath, part?: string): boolean {
  let message: Message | undefined = part === undefined ? REQUESTS.metrics : PARTS.get(part);
  return path.some((step) => {
    if (typeof step === "number") return false;
    const field: Field | undefined = message && FIELDS.get(message)?.get(step);
    message = field?.kind === "message" ? field.message() : undefined;
    return field?.name !== step;
  });
}

function search(value: unknown, message: Message, depth: number): FieldError | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value) || depth > MAX_DEPTH) return undefined;
  for (const key of Object.keys(value)) {
    const field = FIELDS.get(message)?.get(key);
    if (!field) continue;
    if (field.name !== key) return new FieldError(key, `OTLP/JSON names this field ${field.name}`);
    const fault = field.kind === "message" ? searchField(value as Json, field, depth) : undefined;
    if (fault) return fault.within(key);
  }
  return undefined;
}

function searchField(parent: Json, field: Field, depth: number): FieldError | undefined {
  const value = parent[field.name];
  if (!Array.isArray(value)) {
    const fault = search(value, field.message(), depth + 1);
    if (fault && field.isPart) parent[field.name] = unreadableMessage(fault.text);
    return field.isPart ? undefined : fault;
  }
  for (const [index, item] of value.entries()) {
    const fault = search(item, field.message(), depth + 1);
    if (fault && !field.isPart && !hasParts(field)) return fault.within(`[${index}]`);
    if (fault) value[index] = unreadableMessage(fault.text);
  }
  return undefined;
}

function hasParts(field: Field): boolean {
  return field.message().some((inner) => inner?.isPart);
}
