// Pieces of JSON schema and small readings that several enrolment routes share the meaning of: answers, ids, texts. Invariant: a text
// that ends up as a label or a log field has bounds and no control characters. Used within enrolment/.
import type { FastifyRequest } from "fastify";
import { ApiError } from "../errors.ts";
import type { SessionUser, SigningKey } from "../auth/request-identity.ts";

export const UUID_SCHEMA = { type: "string", format: "uuid" } as const;
export const TIME_SCHEMA = { type: "string", format: "date-time" } as const;
export const OPTIONAL_TIME_SCHEMA = { type: ["string", "null"], format: "date-time" } as const;
export const NOTHING = { 204: { type: "null" } } as const;
export const ID_PARAMS = { type: "object", properties: { id: { type: "string" } } } as const;

/** Control characters and halves of a character: what a database, a label or a terminal does not take. For `[^…]` in patterns. */
export const UNFIT_CHARACTERS = "\\u0000-\\u001f\\u007f\\ud800-\\udfff";

/** Of the name of an installation: `<namespace>/<Secret>`. */
export const MAX_INSTALLATION = 400;

/** 1 to `maxLength` characters, none of them unfit. */
export function nameSchema(maxLength: number) {
  const description = `1 to ${maxLength} characters, none of them a control character`;
  return { type: "string", minLength: 1, maxLength, pattern: `^[^${UNFIT_CHARACTERS}]+$`, description } as const;
}

/** A `preValidation` hook: no body is the same as `{}`. */
export async function bodyIsOptional(request: FastifyRequest): Promise<void> {
  request.body ??= {};
}

/** A malformed id is the id of nothing: 404. */
export function idOf(request: FastifyRequest, what: string): string {
  const { id } = request.params as { id: string };
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id)) return id.toLowerCase();
  throw missing(what);
}

export function missing(what: string): ApiError {
  return new ApiError("not_found", `there is no such ${what} in your organisation`);
}

export function signer(request: FastifyRequest): SigningKey {
  if (!request.signingKey) throw new Error("route without a signed guard");
  return request.signingKey;
}

export function caller(request: FastifyRequest): SessionUser {
  if (!request.user) throw new Error("route without a user guard");
  return request.user;
}

export const COLLECTOR_SCHEMA = {
  type: ["object", "null"],
  properties: { state: { type: "string" }, restarts: { type: "number" }, last_error: { type: "string" } },
} as const;
