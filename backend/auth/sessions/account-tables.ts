// Tables of organisations, users, browser sessions, read tokens and invitations. E-mail addresses are unique across organisations, because a
// login names none; so the functions here find users of any organisation. Statements for one organisation are limited to it by
// engines/relational/tenant-database.ts.
import { randomUUID } from "node:crypto";
import { type Kysely, sql, type Transaction } from "kysely";
import { ApiError } from "../../errors.ts";
import type { Role } from "../../http/request-identity.ts";
import type { Watched } from "../../engines/relational/bulk-rows.ts";
import { FORBIDDEN_CHARACTERS } from "../../http/schemas.ts";

export interface OrgRow {
  id: string;
  name: string;
  created_at: Date;
}

export interface UserRow {
  id: string;
  org_id: string;
  /** Lower case. */
  email: string;
  password_hash: string;
  role: Role;
  /** Increases with each password change; sessions of an older epoch are refused. */
  session_epoch: number;
  created_at: Date;
  /** Issuer and subject of the identity provider; null without single sign-on. */
  sso_issuer: string | null;
  sso_subject: string | null;
  /** JSON text of LabelLimits; null: none. */
  label_limits: string | null;
}

/** `password_hash` of a user without a password; no hash has this form. */
export const NO_PASSWORD = "!";

export interface BrowserSessionRow {
  id: string;
  user_id: string;
  created_at: Date;
  expires_at: Date;
}

export interface ReadTokenRow {
  id: string;
  org_id: string;
  name: string;
  /** The e-mail address of the creator at that time. */
  created_by: string;
  created_at: Date;
  /** Whole seconds, as in the token. */
  expires_at: Date;
  /** JSON text of LabelLimits; null: none. */
  label_limits: string | null;
}

export interface InvitationRow {
  id: string;
  org_id: string;
  /** SHA-256, in hexadecimal. */
  token_hash: string;
  /** Lower case. */
  email: string;
  role: Role;
  /** JSON text of LabelLimits; null: none. */
  label_limits: string | null;
  /** The id of the user who invites. */
  created_by: string;
  created_at: Date;
  expires_at: Date;
}

export interface AccountTables {
  orgs: OrgRow;
  users: UserRow;
  browser_sessions: BrowserSessionRow;
  read_tokens: ReadTokenRow;
  invitations: InvitationRow;
  /** `pair`: a hash of the account and the network. */
  login_failures: { pair: string; failures: number; failed_at: Date };
}

export type AccountDb = Kysely<AccountTables> | Transaction<AccountTables>;

const EMAIL_PART = `[^\\s@${FORBIDDEN_CHARACTERS}]+`;
export const EMAIL_SCHEMA = {
  type: "string",
  maxLength: 254,
  pattern: `^${EMAIL_PART}@${EMAIL_PART}$`,
  description: "an e-mail address such as ops@example.com",
} as const;

/** E-mail addresses are compared without case. */
export function normalEmail(email: string): string {
  return email.trim().toLowerCase();
}

export async function findUserByEmail(db: AccountDb, email: string): Promise<UserRow | undefined> {
  return await db.selectFrom("users").selectAll().where("email", "=", normalEmail(email)).executeTakeFirst();
}

/** The operator of the first start. If that account was removed: the oldest operator with a password. */
export async function findFirstOperator(db: AccountDb): Promise<UserRow | undefined> {
  const oldest = db.selectFrom("users").selectAll().where("role", "=", "operator").where("password_hash", "<>", NO_PASSWORD);
  return await oldest.orderBy("created_at").orderBy("id").limit(1).executeTakeFirst();
}

export async function isFirstOperator(db: AccountDb, user: UserRow): Promise<boolean> {
  return (await findFirstOperator(db))?.id === user.id;
}

/** The columns of a user that decide what its sessions may do, as text. */
export const WATCHED_USERS: Watched = {
  table: "users",
  column: "id",
  type: "uuid",
  state: sql<string>`role || ' ' || session_epoch || ' ' || CAST(org_id AS text) || ' ' || email || ' ' || coalesce(label_limits, '')`,
};
export const WATCHED_BROWSER_SESSIONS: Watched = {
  table: "browser_sessions",
  column: "id",
  type: "uuid",
  state: sql<string>`CAST(user_id AS text)`,
};
export const WATCHED_READ_TOKENS: Watched = {
  table: "read_tokens",
  column: "id",
  type: "uuid",
  state: sql<string>`CAST(org_id AS text) || ' ' || coalesce(label_limits, '')`,
};

export async function findUsers(db: AccountDb, ids: readonly string[]): Promise<(UserRow & { state: string })[]> {
  return await db.selectFrom("users").selectAll().select(WATCHED_USERS.state.as("state")).where("id", "in", ids).execute();
}

export async function findBrowserSessions(db: AccountDb, ids: readonly string[]): Promise<BrowserSessionRow[]> {
  return await db.selectFrom("browser_sessions").selectAll().where("id", "in", ids).execute();
}

export async function findReadTokens(db: AccountDb, ids: readonly string[]) {
  const columns = ["id", "org_id", "label_limits", WATCHED_READ_TOKENS.state.as("state")] as const;
  return await db.selectFrom("read_tokens").select(columns).where("id", "in", ids).execute();
}

export async function insertOrg(db: AccountDb, name: string, now: Date): Promise<OrgRow> {
  const row = { id: randomUUID(), name, created_at: now };
  const result = await db
    .insertInto("orgs")
    .values(row)
    .onConflict((conflict) => conflict.column("name").doNothing())
    .executeTakeFirst();
  if (result.numInsertedOrUpdatedRows !== 1n) throw nameTaken();
  return row;
}

/** Throws `conflict` before costly work; the insert checks again. */
export async function requireFreeName(db: AccountDb, name: string): Promise<void> {
  if (await db.selectFrom("orgs").select("id").where("name", "=", name).executeTakeFirst()) throw nameTaken();
}

export async function requireFreeEmail(db: AccountDb, email: string): Promise<void> {
  if (await findUserByEmail(db, email)) throw emailTaken();
}

function nameTaken(): ApiError {
  return new ApiError("conflict", "name: another organisation has this name");
}

function emailTaken(): ApiError {
  return new ApiError("conflict", "email: a user with this address exists, in this organisation or another; an operator can free it");
}

/** Throws `conflict` if a user of any organisation has this e-mail address. */
export async function insertUser(
  db: AccountDb,
  user: Pick<UserRow, "org_id" | "email" | "password_hash" | "role"> &
    Partial<Pick<UserRow, "sso_issuer" | "sso_subject" | "label_limits">>,
  now: Date,
): Promise<UserRow> {
  const row = {
    sso_issuer: null,
    sso_subject: null,
    label_limits: null,
    ...user,
    id: randomUUID(),
    email: normalEmail(user.email),
    session_epoch: 0,
    created_at: now,
  };
  const result = await db
    .insertInto("users")
    .values(row)
    .onConflict((conflict) => conflict.column("email").doNothing())
    .executeTakeFirst();
  if (result.numInsertedOrUpdatedRows !== 1n) throw emailTaken();
  return row;
}

// An operator stays in the installation and an administrator in each organisation: code that removes or demotes a user calls the next two
// functions first. Invariant: two changes at once cannot remove the last ones, because both lock the operators first.

/** Always the first lock, and in a fixed order, so that two operators cannot remove each other concurrently. */
export async function lockOperators(trx: Transaction<AccountTables>): Promise<void> {
  await trx.selectFrom("users").select("id").where("role", "=", "operator").orderBy("id").forUpdate().execute();
}

/**
 * Throws `conflict` if `row` is the last operator, or the last administrator of its organisation. The operators and the organisation must be
 * locked. `role`: the new role, undefined if the user is removed.
 */
export async function requireOtherAdmins(trx: Transaction<AccountTables>, row: UserRow, role?: Role): Promise<void> {
  const others = trx.selectFrom("users").select("id").where("id", "<>", row.id).limit(1);
  if (row.role === "operator" && !(await others.where("role", "=", "operator").executeTakeFirst()))
    throw new ApiError("conflict", "this is the last operator: make another user operator first");
  if (row.role === "viewer" || role === "admin") return;
  // Single sign-on can make an administrator of a user with limits, who can then administer nothing.
  const administrators = others.where("org_id", "=", row.org_id).where("role", "<>", "viewer").where("label_limits", "is", null);
  if (!(await administrators.executeTakeFirst()))
    throw new ApiError("conflict", "this is the organisation's last administrator: make another user admin first");
}
