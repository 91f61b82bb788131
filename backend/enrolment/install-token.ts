// One-time install tokens: who may register, once. Invariant: a token enrols one agent; the same Idempotency-Key gets the same key again
// until that key has signed, is revoked, or 24 hours have passed, so that a crashed agent loses nothing. Stored hashed only. Source:
// docs/decisions.md, "Enrolment".
import { createHash, randomBytes } from "node:crypto";
import type { FastifyRequest, onRequestAsyncHookHandler } from "fastify";
import type { Kysely, Transaction } from "kysely";
import { IDEMPOTENCY_KEY_HEADER } from "../../agent/protocol/enrolment.ts";
import { ApiError } from "../errors.ts";
import { uuidOf } from "../http/schemas.ts";
import type { MasterKeys } from "./master-key.ts";
import type { EnrolmentTables, InstallTokenRow, KeyRow } from "./table.ts";
import { tenantDatabase } from "../engines/relational/tenant-database.ts";

/** How long a lost answer can be asked for again. */
export const REPLAY_MS = 24 * 60 * 60_000;

export function newInstallToken(): { token: string; hash: string } {
  const token = `it_${randomBytes(32).toString("base64url")}`;
  return { token, hash: hashOf(token) };
}

function hashOf(token: string): string {
  return createHash("sha256").update(token, "utf8").digest("hex");
}

/** The Idempotency-Key, lower case. Throws `missing_idempotency_key`. */
export function idempotencyKey(request: FastifyRequest): string {
  const value = request.headers[IDEMPOTENCY_KEY_HEADER];
  const key = typeof value === "string" ? uuidOf(value) : undefined;
  if (key !== undefined) return key;
  throw new ApiError("missing_idempotency_key", "send `Idempotency-Key: <uuid>`, the same one when this call is repeated");
}

/** Refuses before the body is read what no body could make acceptable. */
export function installTokenGuard(db: Kysely<EnrolmentTables>, now: () => number): onRequestAsyncHookHandler {
  return async (request) => {
    const row = await db.selectFrom("install_tokens").selectAll().where("token_hash", "=", bearerHash(request)).executeTakeFirst();
    const given = request.headers[IDEMPOTENCY_KEY_HEADER];
    checkUsable(row, typeof given === "string" ? given.toLowerCase() : undefined, new Date(now()));
    idempotencyKey(request);
  };
}

function bearerHash(request: FastifyRequest): string {
  const token = /^Bearer +(\S+)$/i.exec(request.headers.authorization ?? "")?.[1];
  if (!token) throw new ApiError("invalid_install_token", "send `Authorization: Bearer <install token>`");
  return hashOf(token);
}

function checkUsable(row: InstallTokenRow | undefined, idempotencyKey: string | undefined, now: Date): asserts row is InstallTokenRow {
  if (!row) throw refused("unknown");
  if (row.used_at ? row.used_idempotency_key !== idempotencyKey : row.expires_at <= now) throw refused(row.used_at ? "used" : "expired");
}

function refused(why: string): ApiError {
  return new ApiError("invalid_install_token", `this install token is ${why}: ask an administrator for a new one`);
}

/** What a registration does once its token is spent: finds or makes the cluster or host, and mints its key. */
export type Enrol = (trx: Transaction<EnrolmentTables>, orgId: string) => Promise<{ row: KeyRow; rawKey: string }>;

export interface Enrolled {
  row: KeyRow;
  rawKey: string;
  /** True when an earlier answer was given again. */
  repeated: boolean;
}

/** Spends the request's token on `enrol`, or gives the earlier answer again. `body`: every field of the request and its path. */
export async function spendInstallToken(
  { db, masterKeys, now }: { db: Kysely<EnrolmentTables>; masterKeys: MasterKeys; now: () => number },
  request: FastifyRequest,
  body: readonly string[],
  enrol: Enrol,
): Promise<Enrolled> {
  const idempotency = idempotencyKey(request);
  const bodyHash = hashOf(JSON.stringify(body));
  const at = new Date(now());
  return await db.transaction().execute(async (trx) => {
    const token = await trx
      .selectFrom("install_tokens")
      .selectAll()
      .where("token_hash", "=", bearerHash(request))
      .forUpdate()
      .executeTakeFirst();
    checkUsable(token, idempotency, at);
    const own = tenantDatabase(trx, token.org_id);
    if (token.used_at) return { ...(await earlierAnswer(own, masterKeys, token, bodyHash, at)), repeated: true };
    const minted = await enrol(own, token.org_id);
    await own
      .updateTable("install_tokens")
      .set({ used_at: at, used_idempotency_key: idempotency, used_body_hash: bodyHash, used_key_id: minted.row.id })
      .where("id", "=", token.id)
      .execute();
    return { ...minted, repeated: false };
  });
}

async function earlierAnswer(
  trx: Transaction<EnrolmentTables>,
  masterKeys: MasterKeys,
  token: InstallTokenRow,
  bodyHash: string,
  at: Date,
) {
  if (token.used_body_hash !== bodyHash)
    throw new ApiError("idempotency_key_reused", "this Idempotency-Key was used with another body: repeat the first body");
  const row = await trx.selectFrom("api_keys").selectAll().where("id", "=", token.used_key_id).executeTakeFirstOrThrow();
  const over = row.first_used_at !== null || row.revoked_at !== null || (row.expires_at !== null && row.expires_at <= at);
  if (over || at.getTime() - row.created_at.getTime() > REPLAY_MS) throw refused("used");
  return { row, rawKey: masterKeys.decrypt(row, row.org_id, row.id) };
}
