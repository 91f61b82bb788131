// Which user of ours an identity provider speaks of. Invariant: a user is known by issuer and subject, never by an e-mail address that
// anybody could claim; organisation and role are what the groups of now say; who comes this way has no password, so that nobody who set one
// gets what the provider gives.
import type { Kysely, Transaction } from "kysely";
import { RANK, type Role } from "../auth/request-identity.ts";
import { ApiError } from "../errors.ts";
import { requireRoom } from "../accounts/room.ts";
import { type AccountTables, EMAIL_SCHEMA, insertUser, NO_PASSWORD, normalEmail, type UserRow } from "../accounts/table.ts";
import { keepOthers, lockOperators, usersOf } from "../accounts/users.ts";
import { tenantDatabase } from "../engines/relational/tenant-database.ts";

/** What the provider says, read within bounds. */
export interface Vouched {
  readonly issuer: string;
  readonly subject: string;
  readonly email: string | undefined;
  /** Undefined: it does not say. */
  readonly isEmailVerified: boolean | undefined;
  /** Whether a user may get this address who does not have it yet. */
  readonly mayClaimEmail: boolean;
  /** By the groups. */
  readonly orgId: string;
  readonly role: Role;
}

export interface SignedIn {
  readonly user: UserRow;
  /** What this login changed; undefined: nothing. */
  readonly change: "user.create" | "user.link" | "user.role" | "user.move" | "user.email" | undefined;
  readonly before?: UserRow;
}

const EMAIL = new RegExp(EMAIL_SCHEMA.pattern);
/** OpenID Connect Core, 2: `sub` has 255 characters of ASCII at most. */
const SUBJECT = /^[\u0020-\u007e]{1,255}$/;

/** Throws `forbidden` and `conflict`, in words for whoever logs in. */
export async function signIn(db: Kysely<AccountTables>, vouched: Vouched, now: Date): Promise<SignedIn> {
  if (!SUBJECT.test(vouched.subject)) throw new ApiError("forbidden", "the identity provider gave no usable subject (sub)");
  const known = await ofSubject(db, vouched);
  if (known && isUnchanged(known, vouched)) return { user: known, change: undefined };
  return await db.transaction().execute(async (trx) => {
    await lockOperators(trx);
    await trx.selectFrom("orgs").select("id").where("id", "=", vouched.orgId).forNoKeyUpdate().execute();
    const row = await ofSubject(trx, vouched);
    return row ? await changed(trx, row, vouched) : await first(trx, vouched, now);
  });
}

async function ofSubject(
  db: Kysely<AccountTables> | Transaction<AccountTables>,
  { issuer, subject }: Vouched,
): Promise<UserRow | undefined> {
  return await db.selectFrom("users").selectAll().where("sso_issuer", "=", issuer).where("sso_subject", "=", subject).executeTakeFirst();
}

function isUnchanged(row: UserRow, { orgId, role, ...vouched }: Vouched): boolean {
  const email = claimableEmail(vouched);
  return row.org_id === orgId && row.role === role && (email === undefined || row.email === email);
}

/** Undefined where there is none that may be used. */
function emailOf({ email, isEmailVerified }: Pick<Vouched, "email" | "isEmailVerified">): string | undefined {
  const isGood = email !== undefined && email.length <= EMAIL_SCHEMA.maxLength && EMAIL.test(email) && isEmailVerified !== false;
  return isGood ? normalEmail(email) : undefined;
}

/** Undefined: a user keeps the address that it has. */
function claimableEmail(vouched: Pick<Vouched, "email" | "isEmailVerified" | "mayClaimEmail">): string | undefined {
  return vouched.mayClaimEmail ? emailOf(vouched) : undefined;
}

async function changed(trx: Transaction<AccountTables>, row: UserRow, vouched: Vouched): Promise<SignedIn> {
  const { orgId, role } = vouched;
  const isMoved = row.org_id !== orgId;
  if (isMoved) await requireRoomForUser(trx, orgId);
  if (isMoved || RANK[role] < RANK[row.role]) await keepOthers(trx, row, isMoved ? undefined : role);
  const email = await freeEmail(trx, row, claimableEmail(vouched));
  const set = { org_id: orgId, role, email, session_epoch: row.session_epoch + Number(isMoved) };
  await trx.updateTable("users").set(set).where("id", "=", row.id).execute();
  const change = isMoved ? "user.move" : row.role === role ? "user.email" : "user.role";
  return { user: { ...row, ...set }, change: row.email === email && !isMoved && row.role === role ? undefined : change, before: row };
}

/** An address that another user has is not taken over: the old one stays. */
async function freeEmail(trx: Transaction<AccountTables>, row: UserRow, email = row.email): Promise<string> {
  if (email === row.email) return email;
  const other = await trx.selectFrom("users").select("id").where("email", "=", email).executeTakeFirst();
  return other ? row.email : email;
}

async function first(trx: Transaction<AccountTables>, vouched: Vouched, now: Date): Promise<SignedIn> {
  const { issuer: sso_issuer, subject: sso_subject, orgId, role } = vouched;
  const email = emailOf(vouched);
  if (email === undefined)
    throw new ApiError("forbidden", "the identity provider gave no e-mail address, or one that is not verified: OIDC_SCOPES asks for it");
  const row = await trx.selectFrom("users").selectAll().where("email", "=", email).forUpdate().executeTakeFirst();
  if (row) return await linked(trx, row, vouched);
  if (!vouched.mayClaimEmail)
    throw new ApiError(
      "forbidden",
      "the identity provider does not say whether your e-mail address is verified (email_verified): an operator can allow that (OIDC_ALLOW_UNVERIFIED_EMAIL)",
    );
  await requireRoomForUser(trx, orgId);
  const user = await insertUser(trx, { org_id: orgId, email, role, password_hash: NO_PASSWORD, sso_issuer, sso_subject }, now);
  return { user, change: "user.create" };
}

/** A user with a password becomes one without. Operators keep theirs: it is their way in while the provider is away. */
async function linked(
  trx: Transaction<AccountTables>,
  row: UserRow,
  { issuer, subject, orgId, role, isEmailVerified }: Vouched,
): Promise<SignedIn> {
  if (row.role === "operator" || row.org_id !== orgId || row.sso_issuer !== null || isEmailVerified !== true)
    throw new ApiError("conflict", "a user with this e-mail address exists, and is not known to be you: an operator can remove it");
  if (RANK[role] < RANK[row.role]) await keepOthers(trx, row, role);
  const set = { sso_issuer: issuer, sso_subject: subject, role, password_hash: NO_PASSWORD, session_epoch: row.session_epoch + 1 };
  await trx.updateTable("users").set(set).where("id", "=", row.id).execute();
  return { user: { ...row, ...set }, change: "user.link", before: row };
}

async function requireRoomForUser(trx: Transaction<AccountTables>, orgId: string): Promise<void> {
  await requireRoom(trx, orgId, "users", usersOf(tenantDatabase(trx, orgId), orgId));
}
