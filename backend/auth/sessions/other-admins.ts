// Keeps an operator in the installation and an administrator in each organisation: code that removes or demotes a user calls these functions first.
// Invariant: two changes at once cannot remove the last ones, because both lock the operators first.
import type { Transaction } from "kysely";
import { ApiError } from "../../errors.ts";
import type { Role } from "../../http/request-identity.ts";
import type { AccountTables, UserRow } from "./account-tables.ts";

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
