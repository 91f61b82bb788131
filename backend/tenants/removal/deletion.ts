// Deletes an organisation in two steps. The first, in one transaction, removes its users, keys, tokens, rules and everything else, so that
// it can no longer log in, send data or evaluate rules. The second removes the organisation itself, once no telemetry of it has been found
// for a while. The row of org_deletions is kept as a record.
import type { ColumnType, Kysely, Transaction } from "kysely";
import { sql } from "kysely";
import type { AccountTables } from "../../auth/sessions/account-tables.ts";
import { tenantDatabase, TENANT_TABLES } from "../../engines/relational/tenant-database.ts";
import { ApiError } from "../../errors.ts";

export interface OrgDeletionRow {
  org_id: string;
  name: string;
  requested_by: string;
  requested_at: Date;
  /** When rows of its telemetry were last found. */
  last_found_at: Date;
  /** Store → rows that the last pass found. */
  found: ColumnType<Record<string, number>, string, string>;
  erased_at: Date | null;
}

export interface DeletionTables extends AccountTables {
  org_deletions: OrgDeletionRow;
  rule_sets: { org_id: string; revision: number };
}

/** Kept until the second step: rows that are written before it refer to the organisation, and the evaluator needs the new revision. */
const TABLES_KEPT_UNTIL_ERASED = new Set(["orgs", "rule_sets", "org_deletions"]);

type AnyTables = Record<string, Record<string, unknown>>;

/** Returns the removed users. Throws ApiError not_found, conflict. */
export async function beginDeletion(
  db: Kysely<DeletionTables>,
  { orgId, name, by, at }: { readonly orgId: string; readonly name: string; readonly by: string; readonly at: Date },
): Promise<string[]> {
  return await db.transaction().execute(async (trx) => {
    const tenantDb = tenantDatabase(trx, orgId);
    const org = await tenantDb.selectFrom("orgs").selectAll().where("id", "=", orgId).forUpdate().executeTakeFirst();
    const deletion = await tenantDb.selectFrom("org_deletions").select("org_id").where("org_id", "=", orgId).executeTakeFirst();
    if (!org || deletion) throw new ApiError("not_found", "organisation not found");
    if (org.name !== name) throw new ApiError("conflict", "name: this is not the name of the organisation");
    const users = await tenantDb.selectFrom("users").select(["id", "role"]).where("org_id", "=", orgId).execute();
    if (users.some(({ role }) => role === "operator"))
      throw new ApiError("conflict", "the organisation has operators of this installation: change their role or remove them first");
    await removeRows(trx, orgId, TABLES_KEPT_UNTIL_ERASED);
    await unloadRules(trx, orgId);
    await tenantDb
      .updateTable("orgs")
      .set({ name: `deleted-${orgId}` })
      .where("id", "=", orgId)
      .execute();
    const times = { requested_at: at, last_found_at: at, erased_at: null };
    await tenantDb
      .insertInto("org_deletions")
      .values({ org_id: orgId, name, requested_by: by, found: "{}", ...times })
      .execute();
    return users.map(({ id }) => id);
  });
}

/** Records what telemetry a pass found. If none was found for `quietMs`, removes the organisation itself. Returns whether it is erased. */
export async function settleDeletion(
  db: Kysely<DeletionTables>,
  { org_id: orgId, last_found_at }: Pick<OrgDeletionRow, "org_id" | "last_found_at">,
  found: Readonly<Record<string, number>>,
  { at, quietMs }: { readonly at: Date; readonly quietMs: number },
): Promise<boolean> {
  const isQuiet = Object.keys(found).length === 0;
  const isErased = isQuiet && at.getTime() - last_found_at.getTime() >= quietMs;
  await db.transaction().execute(async (trx) => {
    const tenantDb = tenantDatabase(trx, orgId);
    // For some seconds after the deletion, other replicas accept the organisation's sessions, which may create a user, a token or a rule.
    const removed = await removeRows(trx, orgId, isErased ? new Set(["org_deletions"]) : TABLES_KEPT_UNTIL_ERASED);
    if (!isErased && (removed.has("rules") || removed.has("slos"))) await unloadRules(trx, orgId);
    const times = { ...(!isQuiet && { last_found_at: at }), ...(isErased && { erased_at: at }) };
    await tenantDb
      .updateTable("org_deletions")
      .set({ found: JSON.stringify(found), ...times })
      .where("org_id", "=", orgId)
      .execute();
  });
  return isErased;
}

/** Increases the revision of the now empty rule set, so that the evaluator unloads its rules. */
async function unloadRules(trx: Transaction<DeletionTables>, orgId: string): Promise<void> {
  await tenantDatabase(trx, orgId)
    .updateTable("rule_sets")
    .set({ revision: sql`revision + 1` })
    .where("org_id", "=", orgId)
    .execute();
}

/**
 * Deletes the organisation's rows from all tables except `kept`, in reverse order of TENANT_TABLES, which lists a table after those that it
 * references. Returns the tables that had rows.
 */
async function removeRows(trx: Transaction<DeletionTables>, orgId: string, kept: ReadonlySet<string>): Promise<Set<string>> {
  const tenantDb = tenantDatabase(trx, orgId).withTables<AnyTables>();
  const removed = new Set<string>();
  for (const table of Object.keys(TENANT_TABLES).toReversed()) {
    if (kept.has(table)) continue;
    const { numDeletedRows } = await tenantDb.deleteFrom(table).executeTakeFirstOrThrow();
    if (numDeletedRows > 0n) removed.add(table);
  }
  return removed;
}
