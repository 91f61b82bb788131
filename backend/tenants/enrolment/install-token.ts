// What an agent enrols with: a one-time install token, or the token of a trusted issuer. Invariant: an install token registers one agent; an
// enrolment with an identity token is recorded like a used install token, by subject and Idempotency-Key. The same Idempotency-Key gets the
// same key again until that key has signed a request, is revoked, or 24 hours have passed, so a crash of the agent loses nothing. Only
// hashes of tokens are stored.
import { createHash, randomBytes, randomUUID } from "node:crypto";
import type { FastifyRequest } from "fastify";
import type { Kysely, Transaction } from "kysely";
import { IDEMPOTENCY_KEY_HEADER } from "../../../common/protocol/enrolment.ts";
import { ApiError } from "../../errors.ts";
import { isJwt } from "../../auth/issuers/identity-token.ts";
import type { TrustedIssuers } from "../../auth/issuers/trusted-issuers.ts";
import type { RouteGuard } from "../../http/route.ts";
import { parseUuid } from "../../http/schemas.ts";
import type { MasterKeys } from "./master-key.ts";
import type { EnrolmentTables, InstallTokenRow, KeyRow } from "./enrolment-tables.ts";
import { addEnrolment, enrolmentOf, type EnrollingIdentity, type EnrolPermission, permitEnrolment } from "./identity-enrolment.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";

/** How long a lost response can be requested again. */
export const REPLAY_MS = 24 * 60 * 60_000;

export function newInstallToken(): string {
  return `it_${randomBytes(32).toString("base64url")}`;
}

/** The row of an unused token. */
export function installTokenRow(orgId: string, token: string | Buffer, createdAtMs: number, ttlMs: number): InstallTokenRow {
  const [createdAt, expiresAt] = [new Date(createdAtMs), new Date(createdAtMs + ttlMs)];
  const unused = { used_at: null, used_idempotency_key: null, used_body_hash: null, used_key_id: null, issuer_id: null };
  return { id: randomUUID(), org_id: orgId, token_hash: hashOf(token), created_at: createdAt, expires_at: expiresAt, ...unused };
}

function hashOf(token: string | Buffer): string {
  return createHash("sha256").update(token).digest("hex");
}

/** The Idempotency-Key, lower case. Throws `missing_idempotency_key`. */
export function idempotencyKey(request: FastifyRequest): string {
  const value = request.headers[IDEMPOTENCY_KEY_HEADER];
  const key = typeof value === "string" ? parseUuid(value) : undefined;
  if (key !== undefined) return key;
  throw new ApiError("missing_idempotency_key", "send `Idempotency-Key: <uuid>`, and the same one when you repeat the request");
}

export interface EnrolmentAuth {
  readonly db: Kysely<EnrolmentTables>;
  readonly issuers: Pick<TrustedIssuers, "verify">;
  readonly masterKeys: MasterKeys;
  readonly now: () => number;
}

/** Access for valid install tokens, and for tokens of trusted issuers that may enrol this kind. */
export function enrolmentAccess({ db, issuers, now }: EnrolmentAuth, permission: EnrolPermission): RouteGuard {
  const onRequest: RouteGuard["onRequest"] = async (request) => {
    const token = bearerToken(request);
    if (isJwt(token)) request.enrolling = await permitEnrolment(issuers, token, permission);
    else {
      const row = await db.selectFrom("install_tokens").selectAll().where("token_hash", "=", hashOf(token)).executeTakeFirst();
      const idempotency = request.headers[IDEMPOTENCY_KEY_HEADER];
      checkUsable(row, typeof idempotency === "string" ? idempotency.toLowerCase() : undefined, new Date(now()));
    }
    idempotencyKey(request);
  };
  return { security: ["installToken", "identityToken"], onRequest };
}

function bearerToken(request: FastifyRequest): string {
  const token = /^Bearer +(\S+)$/i.exec(request.headers.authorization ?? "")?.[1];
  if (!token) throw new ApiError("invalid_install_token", "send `Authorization: Bearer <install token>`");
  return token;
}

function checkUsable(row: InstallTokenRow | undefined, idempotencyKey: string | undefined, now: Date): asserts row is InstallTokenRow {
  if (!row) throw tokenRefused("unknown or expired");
  if (row.used_at ? row.used_idempotency_key !== idempotencyKey : row.expires_at <= now)
    throw tokenRefused(row.used_at ? "used" : "expired");
}

function tokenRefused(why: string): ApiError {
  return new ApiError("invalid_install_token", `this install token is ${why}: ask an administrator for a new one`);
}

/** Finds or creates the cluster or host, and creates its key. `by`: undefined for an install token. */
export type Enrol = (trx: Transaction<EnrolmentTables>, orgId: string, by?: EnrollingIdentity) => Promise<{ row: KeyRow; rawKey: string }>;

/**
 * Uses up the request's install token, or records the enrolment of its identity token, and runs `enrol`; or repeats the earlier response
 * (`repeated`). `body`: the path and every field of the request.
 */
export async function spendEnrolment(
  { db, masterKeys, now }: EnrolmentAuth,
  request: FastifyRequest,
  body: readonly string[],
  enrol: Enrol,
): Promise<{ row: KeyRow; rawKey: string; repeated: boolean }> {
  const idempotency = idempotencyKey(request);
  const bodyHash = hashOf(JSON.stringify(body));
  const at = new Date(now());
  const { enrolling } = request;
  const secret = enrolling ? enrolmentOf(enrolling, idempotency) : bearerToken(request);
  return await db.transaction().execute(async (trx) => {
    if (enrolling) await addEnrolment(tenantDatabase(trx, enrolling.orgId), enrolling, secret, at.getTime());
    const token = await trx
      .selectFrom("install_tokens")
      .selectAll()
      .where("token_hash", "=", hashOf(secret))
      .forUpdate()
      .executeTakeFirst();
    checkUsable(token, idempotency, at);
    const tenantTrx = tenantDatabase(trx, token.org_id);
    if (token.used_at) return { ...(await repeatResponse(tenantTrx, masterKeys, token, bodyHash, at)), repeated: true };
    const minted = await enrol(tenantTrx, token.org_id, enrolling);
    await tenantTrx
      .updateTable("install_tokens")
      .set({ used_at: at, used_idempotency_key: idempotency, used_body_hash: bodyHash, used_key_id: minted.row.id })
      .where("id", "=", token.id)
      .execute();
    return { ...minted, repeated: false };
  });
}

async function repeatResponse(
  trx: Transaction<EnrolmentTables>,
  masterKeys: MasterKeys,
  token: InstallTokenRow,
  bodyHash: string,
  at: Date,
) {
  if (token.used_body_hash !== bodyHash)
    throw new ApiError("idempotency_key_reused", "this Idempotency-Key was used with another body: repeat the first body");
  const row = await trx.selectFrom("api_keys").selectAll().where("id", "=", token.used_key_id).executeTakeFirstOrThrow();
  const isOver = row.first_used_at !== null || row.revoked_at !== null || (row.expires_at !== null && row.expires_at <= at);
  if (isOver || at.getTime() - row.created_at.getTime() > REPLAY_MS) throw tokenRefused("used");
  return { row, rawKey: masterKeys.decrypt(row, row.org_id, row.id) };
}
