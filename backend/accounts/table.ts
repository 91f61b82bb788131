// Organisations, users, browsers' sessions and read tokens in the database. Invariant: every statement about a user of an organisation is bound to its org_id, so
// that a user of another organisation is the same as none; an e-mail address is unique over all, because a login names none.
import { randomUUID } from "node:crypto";
import { type Kysely, sql, type Transaction } from "kysely";
import { ApiError } from "../errors.ts";
import type { ReadToken, Role } from "../auth/request-identity.ts";
import { changedRows, type Watched } from "../engines/relational/changed-rows.ts";
import { UNFIT_CHARACTERS } from "../http/schemas.ts";

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
  /** Grows with each password change: sessions of an older epoch are refused. */
  session_epoch: number;
  created_at: Date;
  /** Who vouches for the user, and under which name; null: nobody. */
  sso_issuer: string | null;
  sso_subject: string | null;
}

/** Of a user who has no password: nothing that a hash could be. */
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
  /** The e-mail address of whoever made it, as it was then. */
  created_by: string;
  created_at: Date;
  /** Whole seconds, as in the token. */
  expires_at: Date;
}

export interface AccountTables {
  orgs: OrgRow;
  users: UserRow;
  browser_sessions: BrowserSessionRow;
  read_tokens: ReadTokenRow;
}

export type AccountDb = Kysely<AccountTables> | Transaction<AccountTables>;

const EMAIL_PART = `[^\\s@${UNFIT_CHARACTERS}]+`;
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

/** The operator of the first start; where that account is gone, the oldest operator who has a password. */
export async function findFirstOperator(db: AccountDb): Promise<UserRow | undefined> {
  const oldest = db.selectFrom("users").selectAll().where("role", "=", "operator").where("password_hash", "<>", NO_PASSWORD);
  return await oldest.orderBy("created_at").orderBy("id").limit(1).executeTakeFirst();
}

export async function isFirstOperator(db: AccountDb, user: UserRow): Promise<boolean> {
  return (await findFirstOperator(db))?.id === user.id;
}

/** What of a user can change and decides what the sessions may do, as text. */
const USERS: Watched = {
  table: "users",
  column: "id",
  type: "uuid",
  state: sql<string>`role || ' ' || session_epoch || ' ' || CAST(org_id AS text) || ' ' || email`,
};
const BROWSER_SESSIONS: Watched = {
  table: "browser_sessions",
  column: "id",
  type: "uuid",
  state: sql<string>`CAST(user_id AS text)`,
};
const READ_TOKENS: Watched = { table: "read_tokens", column: "id", type: "uuid", state: sql<string>`CAST(org_id AS text)` };

/** Those of these ids that there are. */
export async function findUsers(db: AccountDb, ids: readonly string[]): Promise<(UserRow & { state: string })[]> {
  return await db.selectFrom("users").selectAll().select(USERS.state.as("state")).where("id", "in", ids).execute();
}

/** `states`: id → the `state` that it was found with. Answers those that have another one now, or are gone. */
export async function changedUsers(db: AccountDb, states: Readonly<Record<string, string>>): Promise<string[]> {
  return await changedRows(db, USERS, states);
}

/** Those of these ids that there are. */
export async function findBrowserSessions(db: AccountDb, ids: readonly string[]): Promise<BrowserSessionRow[]> {
  return await db.selectFrom("browser_sessions").selectAll().where("id", "in", ids).execute();
}

/** `states`: id → user_id. Answers those that are gone. */
export async function changedBrowserSessions(db: AccountDb, states: Readonly<Record<string, string>>): Promise<string[]> {
  return await changedRows(db, BROWSER_SESSIONS, states);
}

/** Those of these ids that there are. */
export async function findReadTokens(db: AccountDb, ids: readonly string[]): Promise<ReadToken[]> {
  const rows = await db.selectFrom("read_tokens").select(["id", "org_id"]).where("id", "in", ids).execute();
  return rows.map((row) => ({ tokenId: row.id, orgId: row.org_id }));
}

/** `states`: id → org_id. Answers those that are gone. */
export async function changedReadTokens(db: AccountDb, states: Readonly<Record<string, string>>): Promise<string[]> {
  return await changedRows(db, READ_TOKENS, states);
}

export async function insertOrg(db: AccountDb, name: string, now: Date): Promise<OrgRow> {
  const row = { id: randomUUID(), name, created_at: now };
  const done = await db
    .insertInto("orgs")
    .values(row)
    .onConflict((conflict) => conflict.column("name").doNothing())
    .executeTakeFirst();
  if (done.numInsertedOrUpdatedRows !== 1n) throw nameTaken();
  return row;
}

/** Throws `conflict`. For what is costly to make for nothing; the insert asks again. */
export async function requireFreeName(db: AccountDb, name: string): Promise<void> {
  if (await db.selectFrom("orgs").select("id").where("name", "=", name).executeTakeFirst()) throw nameTaken();
}

/** Throws `conflict`. As requireFreeName. */
export async function requireFreeEmail(db: AccountDb, email: string): Promise<void> {
  if (await findUserByEmail(db, email)) throw emailTaken();
}

function nameTaken(): ApiError {
  return new ApiError("conflict", "name: another organisation has this name");
}

function emailTaken(): ApiError {
  return new ApiError("conflict", "email: a user with this address exists, in this organisation or another; an operator can free it");
}

/** Throws `conflict` when the e-mail address is taken, in whichever organisation. */
export async function insertUser(
  db: AccountDb,
  user: Pick<UserRow, "org_id" | "email" | "password_hash" | "role"> & Partial<Pick<UserRow, "sso_issuer" | "sso_subject">>,
  now: Date,
): Promise<UserRow> {
  const row = {
    sso_issuer: null,
    sso_subject: null,
    ...user,
    id: randomUUID(),
    email: normalEmail(user.email),
    session_epoch: 0,
    created_at: now,
  };
  const done = await db
    .insertInto("users")
    .values(row)
    .onConflict((conflict) => conflict.column("email").doNothing())
    .executeTakeFirst();
  if (done.numInsertedOrUpdatedRows !== 1n) throw emailTaken();
  return row;
}
