// Maps the identity of the identity provider to a user. Invariant: users are identified by issuer and subject, never by an unverified e-mail
// address. Organisation and role come from the current groups, and a user without a granted group gets no access. Users of single sign-on
// have no password, so a password that was set earlier does not give access to what the provider grants.
import type { Kysely, Transaction } from "kysely";
import { MAX_GROUPS } from "../auth-limits.ts";
import { type LabelLimits, writeLabelLimits } from "../../admission/limited-labels.ts";
import { RANK, type Role } from "../../http/request-identity.ts";
import { ApiError } from "../../errors.ts";
import type { GroupGrant } from "../../settings.ts";
import { requireCapacity } from "../../engines/relational/row-limits.ts";
import {
  type AccountTables,
  EMAIL_SCHEMA,
  insertUser,
  lockOperators,
  NO_PASSWORD,
  normalEmail,
  requireOtherAdmins,
  type UserRow,
} from "../sessions/account-tables.ts";
import { lockOrg, tenantDatabase } from "../../engines/relational/tenant-database.ts";

export interface ProviderIdentity {
  readonly issuer: string;
  readonly subject: string;
  readonly email: string | undefined;
  /** Undefined if the provider does not state it. */
  readonly isEmailVerified: boolean | undefined;
  /** Whether this address may be assigned to a user who does not have it yet. */
  readonly mayClaimEmail: boolean;
  /** Granted by the groups. */
  readonly orgId: string;
  readonly role: Role;
  /** Null: none; undefined: as an administrator has set them. */
  readonly labelLimits: LabelLimits | null | undefined;
}

export interface SignedIn {
  readonly user: UserRow;
  /** What this login changed, if anything. */
  readonly change: "user.create" | "user.link" | "user.role" | "user.label_limits" | "user.move" | "user.email" | undefined;
  readonly before?: UserRow;
}

const EMAIL = new RegExp(EMAIL_SCHEMA.pattern);
/** OpenID Connect Core, section 2: `sub` has at most 255 ASCII characters. */
const SUBJECT = /^[\u0020-\u007e]{1,255}$/;

/** Throws `forbidden` and `conflict`, with messages for the user. */
export async function signIn(db: Kysely<AccountTables>, identity: ProviderIdentity, now: Date): Promise<SignedIn> {
  if (!SUBJECT.test(identity.subject)) throw new ApiError("forbidden", "the identity provider sent no usable subject (sub)");
  const known = await findBySubject(db, identity);
  if (known && isUnchanged(known, identity)) return { user: known, change: undefined };
  return await db.transaction().execute(async (trx) => {
    await lockOperators(trx);
    await lockOrg(trx, identity.orgId);
    const row = await findBySubject(trx, identity);
    return row ? await updateUser(trx, row, identity) : await createOrLink(trx, identity, now);
  });
}

async function findBySubject(
  db: Kysely<AccountTables> | Transaction<AccountTables>,
  { issuer, subject }: ProviderIdentity,
): Promise<UserRow | undefined> {
  return await db.selectFrom("users").selectAll().where("sso_issuer", "=", issuer).where("sso_subject", "=", subject).executeTakeFirst();
}

function isUnchanged(row: UserRow, identity: ProviderIdentity): boolean {
  const email = claimableEmail(identity);
  const isSame = row.org_id === identity.orgId && row.role === identity.role && row.label_limits === limitsAfter(row, identity);
  return isSame && (email === undefined || row.email === email);
}

/** Only viewers have limits, and those that the user had are about the telemetry of that organisation. */
function limitsAfter(row: UserRow | undefined, { orgId, role, labelLimits: granted }: ProviderIdentity): string | null {
  if (role !== "viewer") return null;
  if (granted !== undefined) return writeLabelLimits(granted);
  return row?.org_id === orgId ? row.label_limits : null;
}

/** Undefined if there is no usable address. */
function usableEmail({ email, isEmailVerified }: Pick<ProviderIdentity, "email" | "isEmailVerified">): string | undefined {
  const isUsable = email !== undefined && email.length <= EMAIL_SCHEMA.maxLength && EMAIL.test(email) && isEmailVerified !== false;
  return isUsable ? normalEmail(email) : undefined;
}

/** Undefined if the user keeps the current address. */
function claimableEmail(identity: Pick<ProviderIdentity, "email" | "isEmailVerified" | "mayClaimEmail">): string | undefined {
  return identity.mayClaimEmail ? usableEmail(identity) : undefined;
}

async function updateUser(trx: Transaction<AccountTables>, row: UserRow, identity: ProviderIdentity): Promise<SignedIn> {
  const { orgId, role } = identity;
  const isMoved = row.org_id !== orgId;
  if (isMoved) await requireUserCapacity(trx, orgId);
  if (isMoved || RANK[role] < RANK[row.role]) await requireOtherAdmins(trx, row, isMoved ? undefined : role);
  const email = await freeEmail(trx, row, claimableEmail(identity));
  const label_limits = limitsAfter(row, identity);
  const set = { org_id: orgId, role, label_limits, email, session_epoch: row.session_epoch + Number(isMoved) };
  await trx.updateTable("users").set(set).where("id", "=", row.id).execute();
  return { user: { ...row, ...set }, change: findChange(row, set), before: row };
}

function findChange(before: UserRow, after: Pick<UserRow, "org_id" | "role" | "label_limits" | "email">): SignedIn["change"] {
  if (before.org_id !== after.org_id) return "user.move";
  if (before.role !== after.role) return "user.role";
  if (before.label_limits !== after.label_limits) return "user.label_limits";
  return before.email === after.email ? undefined : "user.email";
}

/** If another user has the new address, the old one stays. */
async function freeEmail(trx: Transaction<AccountTables>, row: UserRow, email = row.email): Promise<string> {
  if (email === row.email) return email;
  const other = await trx.selectFrom("users").select("id").where("email", "=", email).executeTakeFirst();
  return other ? row.email : email;
}

async function createOrLink(trx: Transaction<AccountTables>, identity: ProviderIdentity, now: Date): Promise<SignedIn> {
  const { issuer: sso_issuer, subject: sso_subject, orgId, role } = identity;
  const email = usableEmail(identity);
  if (email === undefined)
    throw new ApiError("forbidden", "the identity provider sent no verified e-mail address: ask an operator to check OIDC_SCOPES");
  const row = await trx.selectFrom("users").selectAll().where("email", "=", email).forUpdate().executeTakeFirst();
  if (row) return await linkUser(trx, row, identity);
  if (!identity.mayClaimEmail)
    throw new ApiError(
      "forbidden",
      "the identity provider sent no email_verified: an operator can allow this (OIDC_ALLOW_UNVERIFIED_EMAIL)",
    );
  await requireUserCapacity(trx, orgId);
  const label_limits = limitsAfter(undefined, identity);
  const user = await insertUser(
    trx,
    { org_id: orgId, email, role, label_limits, password_hash: NO_PASSWORD, sso_issuer, sso_subject },
    now,
  );
  return { user, change: "user.create" };
}

/** Turns a user with a password into one without. Operators keep theirs, to log in while the provider is unreachable. */
async function linkUser(trx: Transaction<AccountTables>, row: UserRow, identity: ProviderIdentity): Promise<SignedIn> {
  const { issuer, subject, orgId, role, isEmailVerified } = identity;
  if (row.role === "operator" || row.org_id !== orgId || row.sso_issuer !== null || isEmailVerified !== true)
    throw new ApiError("conflict", "a user with this e-mail address exists and cannot be linked to you: an operator can remove it");
  if (RANK[role] < RANK[row.role]) await requireOtherAdmins(trx, row, role);
  const identified = { sso_issuer: issuer, sso_subject: subject, password_hash: NO_PASSWORD, session_epoch: row.session_epoch + 1 };
  const set = { ...identified, role, label_limits: limitsAfter(row, identity) };
  await trx.updateTable("users").set(set).where("id", "=", row.id).execute();
  return { user: { ...row, ...set }, change: "user.link", before: row };
}

async function requireUserCapacity(trx: Transaction<AccountTables>, orgId: string): Promise<void> {
  await requireCapacity(trx, orgId, "users", tenantDatabase(trx, orgId).selectFrom("users").where("org_id", "=", orgId));
}

/** The matching grant with the highest role; of equal ones the first in the settings. A claim with a single group may be a text. */
export function findGrant(claim: unknown, grants: readonly GroupGrant[]): GroupGrant | undefined {
  const groups = typeof claim === "string" ? [claim] : Array.isArray(claim) ? claim.slice(0, MAX_GROUPS) : [];
  const names = new Set<unknown>(groups);
  const matching = grants.filter(({ group }) => names.has(group));
  return matching.reduce<GroupGrant | undefined>((best, grant) => (best && RANK[best.role] >= RANK[grant.role] ? best : grant), undefined);
}
