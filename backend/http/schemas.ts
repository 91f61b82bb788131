// Pieces of JSON schema and small readings that the routes of several rooms share: answers, ids, names. Invariant: a text that ends up as
// a label or a log field has bounds and no control characters.
import type { FastifyRequest } from "fastify";
import { ApiError } from "../errors.ts";

export const UUID_SCHEMA = { type: "string", format: "uuid" } as const;
export const TIME_SCHEMA = { type: "string", format: "date-time" } as const;
export const OPTIONAL_TIME_SCHEMA = { type: ["string", "null"], format: "date-time" } as const;
export const NOTHING = { 204: { type: "null" } } as const;
export const ID_PARAMS = { type: "object", properties: { id: { type: "string" } } } as const;

/** Control characters and halves of a character: what a database, a label or a terminal does not take. For `[^…]` in patterns. */
export const UNFIT_CHARACTERS = "\\u0000-\\u001f\\u007f\\ud800-\\udfff";

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** 1 to `maxLength` characters, none of them unfit. */
export function nameSchema(maxLength: number) {
  const description = `1 to ${maxLength} characters, none of them a control character`;
  return { type: "string", minLength: 1, maxLength, pattern: `^[^${UNFIT_CHARACTERS}]+$`, description } as const;
}

/** An object that has all of these. */
export function objectOf<T extends Record<string, object>>(properties: T) {
  return { type: "object", required: Object.keys(properties), properties } as const;
}

/** A 200 with a list of objects that have all of these. */
export function listOf(properties: Record<string, object>) {
  return { 200: { type: "array", items: objectOf(properties) } } as const;
}

/** A `preValidation` hook: no body is the same as `{}`. */
export async function bodyIsOptional(request: FastifyRequest): Promise<void> {
  request.body ??= {};
}

/** The UUID in lower case; undefined for any other text. */
export function uuidOf(text: string): string | undefined {
  return UUID.test(text) ? text.toLowerCase() : undefined;
}

/** The path's `id`. A malformed id is the id of nothing: throws ApiError not_found. */
export function idOf(request: FastifyRequest, what: string): string {
  const id = uuidOf((request.params as { id: string }).id);
  if (id === undefined) throw missing(what);
  return id;
}

export function missing(what: string): ApiError {
  return new ApiError("not_found", `there is no such ${what} in your organisation`);
}
