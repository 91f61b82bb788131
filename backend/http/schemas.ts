// Defines JSON schema fragments and parsers that the routes of several folders share. Invariant: a text that becomes a label or a log field
// has a maximum length and no control characters.
import type { FastifyRequest } from "fastify";
import { type DurationBounds, durationWanted, durationWithin } from "../../common/duration.ts";
import { ApiError } from "../errors.ts";

export const UUID_SCHEMA = { type: "string", format: "uuid" } as const;
export const TIME_SCHEMA = { type: "string", format: "date-time" } as const;
export const OPTIONAL_TIME_SCHEMA = { type: ["string", "null"], format: "date-time" } as const;
export const NO_CONTENT = { 204: { type: "null" } } as const;
export const ID_PARAMS = { type: "object", properties: { id: { type: "string" } } } as const;

/** Control characters and lone surrogates, which databases, labels and terminals reject. For `[^…]` in patterns. */
export const FORBIDDEN_CHARACTERS = "\\u0000-\\u001f\\u007f\\ud800-\\udfff";

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** 1 to `maxLength` characters without forbidden characters. */
export function nameSchema(maxLength: number) {
  const description = `1 to ${maxLength} characters, none of them a control character`;
  return { type: "string", minLength: 1, maxLength, pattern: `^[^${FORBIDDEN_CHARACTERS}]+$`, description } as const;
}

type Properties = Readonly<Record<string, object>>;
/** The names of required properties, unless all are required, then the properties. */
type ObjectParts<T extends Properties> = [properties: T] | [required: readonly string[], properties: T];

/** An object with all of these properties, or at least with the required ones. */
export function objectSchema<T extends Properties>(...parts: ObjectParts<T>) {
  const [required, properties] = parts.length === 1 ? [Object.keys(parts[0]), parts[0]] : parts;
  return { type: "object", required, properties } as const;
}

/** Like `objectSchema`, but rejects additional properties. */
export function closedSchema<T extends Properties>(...parts: ObjectParts<T>) {
  return { ...objectSchema(...parts), additionalProperties: false } as const;
}

/** An object with any of these properties. */
export function optionalSchema<T extends Properties>(properties: T) {
  return { type: "object", properties } as const;
}

/** A list of objects that have all of these properties. */
export function listSchema(properties: Record<string, object>) {
  return { type: "array", items: objectSchema(properties) } as const;
}

/** A 200 response with a list of objects that have all of these properties. */
export function listResponse(properties: Record<string, object>) {
  return { 200: listSchema(properties) } as const;
}

/** The UUID in lower case; undefined for any other text. */
export function parseUuid(text: string): string | undefined {
  return UUID.test(text) ? text.toLowerCase() : undefined;
}

/** Reads the path's `id`. Throws ApiError not_found, including for a malformed id. */
export function readId(request: FastifyRequest, resource: string): string {
  const id = parseUuid((request.params as { id: string }).id);
  if (id === undefined) throw notFound(resource);
  return id;
}

/** Throws ApiError invalid_field. */
export function readDurationMs(field: string, text: string, bounds: DurationBounds, example: string): number {
  const ms = durationWithin(text, bounds);
  if (ms === undefined) throw invalidField(field, `must be ${durationWanted(bounds, example)}`);
  return ms;
}

export function invalidField(field: string, reason: string, cause?: unknown): ApiError {
  return new ApiError("invalid_field", `${field}: ${reason}`, { cause });
}

export function notFound(resource: string): ApiError {
  return new ApiError("not_found", `${resource} not found in your organisation`);
}
