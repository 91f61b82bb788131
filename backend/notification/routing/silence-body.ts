// A silence as a user sends it, in Alertmanager's format, and how it is returned. Invariant: a silence has a selective matcher, ends, and says
// why it is there; who made it is who asked for it, never what the body says.
import { ApiError } from "../../errors.ts";
import { objectSchema, TIME_SCHEMA, UUID_SCHEMA } from "../../http/schemas.ts";
import { MAX_MATCHERS, MAX_SILENCE_BYTES, MAX_SILENCE_MS } from "../limits.ts";
import { checkMatchers, type Matcher } from "../model/matchers.ts";

export interface SilenceBody {
  readonly id?: string;
  readonly matchers: readonly Matcher[];
  readonly startsAt?: string;
  readonly endsAt: string;
  readonly comment: string;
}

export interface CheckedSilence {
  readonly matchers: readonly Matcher[];
  readonly startsAt: Date;
  readonly endsAt: Date;
  readonly comment: string;
}

export interface StoredSilence extends CheckedSilence {
  readonly id: string;
  readonly createdBy: string;
  readonly updatedAt: Date;
}

export type SilenceState = "active" | "pending" | "expired";

const UNFIT = /[\u0000\ud800-\udfff]/u;

const MATCHER = {
  type: "object",
  required: ["name", "value"],
  properties: {
    name: { type: "string" },
    value: { type: "string" },
    isRegex: { type: "boolean", default: false },
    isEqual: { type: "boolean", default: true, description: "false: the label must be another" },
  },
};
const MATCHERS = { type: "array", minItems: 1, maxItems: MAX_MATCHERS, items: MATCHER };

/** JSON schema of a body; like Alertmanager, it takes what else there is and leaves it alone. */
export const SILENCE_BODY_SCHEMA = {
  type: "object",
  required: ["matchers", "endsAt", "comment"],
  properties: {
    id: { type: ["string", "null"], description: "of a silence that this one takes the place of" },
    matchers: { ...MATCHERS, description: "all of them have to hold for an alert's labels" },
    startsAt: { type: "string", maxLength: 50, description: "RFC 3339; default and earliest: now" },
    endsAt: { type: "string", maxLength: 50, description: "RFC 3339; at most a year from now" },
    createdBy: { type: "string", description: "not taken: it is who asks" },
    comment: { type: "string", maxLength: 2000 },
  },
};

export const SILENCE_SCHEMA = objectSchema({
  id: UUID_SCHEMA,
  status: objectSchema({ state: { type: "string", enum: ["active", "pending", "expired"] } }),
  matchers: { ...MATCHERS, items: { ...MATCHER, required: Object.keys(MATCHER.properties) } },
  startsAt: TIME_SCHEMA,
  endsAt: TIME_SCHEMA,
  createdBy: { type: "string" },
  comment: { type: "string" },
  updatedAt: TIME_SCHEMA,
});

/** Checks what a schema cannot say. Throws ApiError `invalid_field` naming the field. */
export function checkedSilence(body: SilenceBody, nowMs: number): CheckedSilence {
  const matchers = body.matchers.map(({ name, value, isRegex, isEqual }) => ({ name, value, isRegex, isEqual }));
  checkMatchers(matchers, { anyAlert: false });
  const bytes = Buffer.byteLength(JSON.stringify(matchers)) + Buffer.byteLength(body.comment);
  if (bytes > MAX_SILENCE_BYTES)
    throw invalid("silence", `its matchers and its comment are ${bytes} bytes, more than ${MAX_SILENCE_BYTES}`);
  if (UNFIT.test(body.comment)) throw invalid("comment", "must be well-formed text without a NUL");
  const startsMs = Math.max(nowMs, body.startsAt === undefined ? nowMs : momentMs("startsAt", body.startsAt));
  const endsMs = momentMs("endsAt", body.endsAt);
  if (endsMs <= nowMs) throw invalid("endsAt", "must not be in the past");
  if (endsMs <= startsMs) throw invalid("endsAt", "must be after startsAt");
  if (endsMs > nowMs + MAX_SILENCE_MS) throw invalid("endsAt", "must be within a year: disable the rule instead");
  return { matchers, startsAt: new Date(startsMs), endsAt: new Date(endsMs), comment: body.comment };
}

export function stateOf({ startsAt, endsAt }: Pick<CheckedSilence, "startsAt" | "endsAt">, nowMs: number): SilenceState {
  if (endsAt.getTime() <= nowMs) return "expired";
  return startsAt.getTime() <= nowMs ? "active" : "pending";
}

export function silenceObject(silence: StoredSilence, nowMs: number): Record<string, unknown> {
  const { id, matchers, startsAt, endsAt, createdBy, comment, updatedAt } = silence;
  return {
    id,
    status: { state: stateOf(silence, nowMs) },
    matchers,
    startsAt: startsAt.toISOString(),
    endsAt: endsAt.toISOString(),
    createdBy,
    comment,
    updatedAt: updatedAt.toISOString(),
  };
}

function momentMs(field: string, text: string): number {
  const ms = /^\d{4}-\d\d-\d\dT/i.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(ms)) throw invalid(field, "must be an RFC 3339 time such as 2026-11-22T09:00:00Z");
  return ms;
}

function invalid(field: string, reason: string): ApiError {
  return new ApiError("invalid_field", `${field}: ${reason}`);
}
