// Stores the silences of organisations, in Alertmanager's format. Invariants: every statement names the organisation. A silence has a
// selective matcher, an end and a comment; its author is the user of the request, never a value of the request body. Once a silence has been in
// force, only its end and comment can change, so that users can read for some days what was silenced when, and by whom.
import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { Kysely, Selectable, Transaction } from "kysely";
import { parseTime } from "../../../common/time.ts";
import { ApiError } from "../../errors.ts";
import { notFound, objectSchema, TIME_SCHEMA, UUID_SCHEMA, invalidField } from "../../http/schemas.ts";
import { MAX_MATCHERS, MAX_SILENCE_BYTES, MAX_SILENCE_MS, MAX_SILENCES_PER_ORG } from "../notification-limits.ts";
import { changeOrganisation, checkExpressions } from "../model/organisation-rows.ts";
import type { NotificationDb, NotificationTables, SilencesTable } from "../model/notification-tables.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";
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

const INVALID_CHARACTERS = /[\u0000\ud800-\udfff]/u;

const MATCHER = objectSchema(["name", "value"], {
  name: { type: "string" },
  value: { type: "string" },
  isRegex: { type: "boolean", default: false },
  isEqual: { type: "boolean", default: true, description: "false: the label's value must differ" },
});
const MATCHERS = { type: "array", minItems: 1, maxItems: MAX_MATCHERS, items: MATCHER };

/** JSON schema of a body; like Alertmanager, it accepts and ignores other fields. */
export const SILENCE_BODY_SCHEMA = objectSchema(["matchers", "endsAt", "comment"], {
  id: { type: ["string", "null"], description: "the id of a silence to replace" },
  matchers: { ...MATCHERS, description: "an alert's labels must match all of them" },
  startsAt: { type: "string", maxLength: 50, description: "RFC 3339; default and earliest: now" },
  endsAt: { type: "string", maxLength: 50, description: "RFC 3339; at most 366 days from now" },
  createdBy: { type: "string", description: "ignored: the backend sets it to the user who sends the request" },
  comment: { type: "string", maxLength: 2000 },
});

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

/** Checks what a schema cannot express. Throws ApiError `invalid_field`, which names the field. */
export function validateSilence(body: SilenceBody, nowMs: number): CheckedSilence {
  const matchers = body.matchers.map(({ name, value, isRegex, isEqual }) => ({ name, value, isRegex, isEqual }));
  checkMatchers(matchers, { anyAlert: false });
  const bytes = Buffer.byteLength(JSON.stringify(matchers)) + Buffer.byteLength(body.comment);
  if (bytes > MAX_SILENCE_BYTES)
    throw invalidField("silence", `its matchers and its comment have ${bytes} bytes, more than ${MAX_SILENCE_BYTES}`);
  if (INVALID_CHARACTERS.test(body.comment)) throw invalidField("comment", "must be well-formed text without a NUL");
  const startsMs = Math.max(nowMs, body.startsAt === undefined ? nowMs : parseTimeMs("startsAt", body.startsAt));
  const endsMs = parseTimeMs("endsAt", body.endsAt);
  if (endsMs <= nowMs) throw invalidField("endsAt", "must not be in the past");
  if (endsMs <= startsMs) throw invalidField("endsAt", "must be after startsAt");
  if (endsMs > nowMs + MAX_SILENCE_MS)
    throw invalidField("endsAt", `must be within ${MAX_SILENCE_MS / 86_400_000} days: disable the rule instead`);
  return { matchers, startsAt: new Date(startsMs), endsAt: new Date(endsMs), comment: body.comment };
}

export function silenceState({ startsAt, endsAt }: Pick<CheckedSilence, "startsAt" | "endsAt">, nowMs: number): SilenceState {
  if (endsAt.getTime() <= nowMs) return "expired";
  return startsAt.getTime() <= nowMs ? "active" : "pending";
}

export function describeSilence(silence: StoredSilence, nowMs: number): Record<string, unknown> {
  const { id, matchers, startsAt, endsAt, createdBy, comment, updatedAt } = silence;
  return {
    id,
    status: { state: silenceState(silence, nowMs) },
    matchers,
    startsAt: startsAt.toISOString(),
    endsAt: endsAt.toISOString(),
    createdBy,
    comment,
    updatedAt: updatedAt.toISOString(),
  };
}

function parseTimeMs(field: string, text: string): number {
  const time = parseTime(text);
  if (time === undefined) throw invalidField(field, "must be an RFC 3339 time such as 2026-11-22T09:00:00Z");
  return Math.floor(Number(time) / 1e6);
}

export class SilenceStore {
  readonly #db: Kysely<NotificationTables>;
  readonly #nowMs: () => number;

  constructor(db: Kysely<NotificationTables>, nowMs: () => number = Date.now) {
    this.#db = db;
    this.#nowMs = nowMs;
  }

  /** Silences in force first, the next to end before others; then future ones, then ended ones, most recently ended first. */
  async list(orgId: string): Promise<StoredSilence[]> {
    const silences = await findSilences(tenantDatabase(this.#db, orgId), orgId);
    const nowMs = this.#nowMs();
    const rank = { active: 0, pending: 1, expired: 2 };
    const sortTime = (silence: StoredSilence): number => {
      const state = silenceState(silence, nowMs);
      return state === "active" ? silence.endsAt.getTime() : state === "pending" ? silence.startsAt.getTime() : -silence.endsAt.getTime();
    };
    return silences.toSorted((a, b) => rank[silenceState(a, nowMs)] - rank[silenceState(b, nowMs)] || sortTime(a) - sortTime(b));
  }

  /** Undefined also for a silence of another organisation. */
  async find(orgId: string, id: string): Promise<StoredSilence | undefined> {
    return await findSilence(tenantDatabase(this.#db, orgId), orgId, id);
  }

  /** Throws ApiError `limit_reached`. */
  async create(orgId: string, createdBy: string, silence: CheckedSilence): Promise<StoredSilence> {
    return await this.#change(orgId, async (trx, now) => await insert(trx, orgId, { ...silence, createdBy }, now));
  }

  /**
   * Replaces a silence, as Alertmanager does: it is updated if only its end, its comment or a future start differ; otherwise, it ends now,
   * and a new one begins. Throws ApiError `not_found`, `limit_reached`.
   */
  async replace(orgId: string, id: string, createdBy: string, silence: CheckedSilence): Promise<StoredSilence> {
    return await this.#change(orgId, async (trx, now) => {
      const before = await findSilence(trx, orgId, id);
      if (!before) throw notFound("silence");
      const state = silenceState(before, now.getTime());
      if (state === "expired" || !isDeepStrictEqual(before.matchers, silence.matchers)) {
        await expireNow(trx, orgId, before, now);
        return await insert(trx, orgId, { ...silence, createdBy }, now);
      }
      const { endsAt, comment } = silence;
      const startsAt = state === "active" ? before.startsAt : silence.startsAt;
      const row = { starts_at: startsAt, ends_at: endsAt, comment, updated_at: now };
      await trx.updateTable("silences").set(row).where("org_id", "=", orgId).where("id", "=", id).execute();
      return { ...before, startsAt, endsAt, comment, updatedAt: now };
    });
  }

  /** Ends it now; if it has already ended, it does not change. Throws ApiError `not_found`. */
  async expire(orgId: string, id: string): Promise<void> {
    await this.#change(orgId, async (trx, now) => {
      const before = await findSilence(trx, orgId, id);
      if (!before) throw notFound("silence");
      await expireNow(trx, orgId, before, now);
    });
  }

  async #change<T>(orgId: string, change: (trx: Transaction<NotificationTables>, now: Date) => Promise<T>): Promise<T> {
    const now = new Date(this.#nowMs());
    return await changeOrganisation(this.#db, orgId, now, async (trx) => await change(trx, now));
  }
}

async function findSilences(db: NotificationDb, orgId: string): Promise<StoredSilence[]> {
  const rows = await db.selectFrom("silences").selectAll().where("org_id", "=", orgId).orderBy("ends_at", "desc").orderBy("id").execute();
  return rows.map(toSilence);
}

async function findSilence(db: NotificationDb, orgId: string, id: string): Promise<StoredSilence | undefined> {
  const row = await db.selectFrom("silences").selectAll().where("org_id", "=", orgId).where("id", "=", id).executeTakeFirst();
  return row && toSilence(row);
}

async function insert(
  trx: Transaction<NotificationTables>,
  orgId: string,
  silence: CheckedSilence & { readonly createdBy: string },
  now: Date,
): Promise<StoredSilence> {
  const all = await findSilences(trx, orgId);
  const ended = all.filter((silence) => silenceState(silence, now.getTime()) === "expired");
  if (all.length - ended.length >= MAX_SILENCES_PER_ORG)
    throw new ApiError("limit_reached", `an organisation has at most ${MAX_SILENCES_PER_ORG} silences: expire one first`);
  const old = ended.slice(MAX_SILENCES_PER_ORG - 1).map(({ id }) => id);
  if (old.length > 0) await trx.deleteFrom("silences").where("org_id", "=", orgId).where("id", "in", old).execute();
  const { matchers, startsAt, endsAt, comment, createdBy } = silence;
  const id = randomUUID();
  const times = { starts_at: startsAt, ends_at: endsAt, created_at: now, updated_at: now };
  const row = { id, org_id: orgId, matchers: JSON.stringify(matchers), comment, created_by: createdBy, ...times };
  await trx.insertInto("silences").values(row).execute();
  await checkExpressions(trx, orgId, now, matchers);
  return { ...silence, id, updatedAt: now };
}

async function expireNow(trx: Transaction<NotificationTables>, orgId: string, silence: StoredSilence, now: Date): Promise<void> {
  const state = silenceState(silence, now.getTime());
  if (state === "expired") return;
  const row = { ...(state === "pending" && { starts_at: now }), ends_at: now, updated_at: now };
  await trx.updateTable("silences").set(row).where("org_id", "=", orgId).where("id", "=", silence.id).execute();
}

function toSilence(row: Selectable<SilencesTable>): StoredSilence {
  return {
    id: row.id,
    matchers: row.matchers,
    startsAt: row.starts_at,
    endsAt: row.ends_at,
    createdBy: row.created_by,
    comment: row.comment,
    updatedAt: row.updated_at,
  };
}
