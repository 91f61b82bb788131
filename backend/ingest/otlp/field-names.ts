// Refuses the field names of protobuf in OTLP/JSON, such as `time_unix_nano`, which the OTLP specification does not allow: as unknown fields
// they would be ignored, and a sender would take records without their time or their text for stored.
import { ApiError } from "../../errors.ts";
import { type Message, REQUESTS } from "./protobuf/protobuf-messages.ts";

/** Names of fields in JSON, by the different names in protobuf. */
const JSON_NAMES = new Map<string, string>();
const visited = new Set<Message>();
for (const request of Object.values(REQUESTS)) collectNames(request);

function collectNames(message: Message): void {
  if (visited.has(message)) return;
  visited.add(message);
  for (const field of message) {
    if (!field) continue;
    const name = field.name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    if (name !== field.name) JSON_NAMES.set(name, field.name);
    collectNames(field.message());
  }
}

/** A quote within a string is escaped, so only a name of a member has a quote and a colon after it. */
const MEMBER = new RegExp(`"(${[...JSON_NAMES.keys()].join("|")})"\\s*:`);

/** Undefined if it is not such a name. */
export function jsonNameOf(name: string): string | undefined {
  return JSON_NAMES.get(name);
}

/** Returns the JSON text. Throws invalid_payload that names the field. */
export function checkNames(json: string): string {
  const name = MEMBER.exec(json)?.[1];
  if (name === undefined) return json;
  throw new ApiError("invalid_payload", `${name}: OTLP/JSON names this field ${JSON_NAMES.get(name)}; nothing was stored`);
}
