// Statements of dashboards and saved views. Invariant: every statement names the organisation, and concurrent inserts cannot exceed the limit
// of a kind.
import { randomUUID } from "node:crypto";
import { type Kysely, sql, type Transaction } from "kysely";
import type { OrgTable } from "../../engines/relational/tenant-database.ts";
import { notFound } from "../../http/schemas.ts";
import { requireCapacity, requireUniqueName } from "../../engines/relational/row-limits.ts";

export type SavedKind = "dashboard" | "view";

export interface SavedItemRow {
  id: string;
  org_id: string;
  kind: SavedKind;
  name: string;
  /** JSON. */
  body: string;
  created_by: string;
  created_at: Date;
  updated_by: string;
  updated_at: Date;
}

export interface SavedTables {
  saved_items: SavedItemRow;
}

export interface Owner {
  readonly orgId: string;
  readonly kind: SavedKind;
  readonly maxItems: number;
}

export interface Saved {
  readonly name: string;
  readonly body: string;
  readonly email: string;
  readonly at: Date;
}

/** Returns the new id. Throws `conflict` if the name is taken, `limit_reached`. */
export async function insertItem(db: Kysely<SavedTables>, { orgId, kind, maxItems }: Owner, saved: Saved): Promise<string> {
  const { name, body, email, at } = saved;
  const id = randomUUID();
  const row = { id, org_id: orgId, kind, name, body, created_by: email, created_at: at, updated_by: email, updated_at: at };
  await requireUniqueName(kind, name, async () => {
    await db.transaction().execute(async (trx: Transaction<SavedTables>) => {
      const items = trx.selectFrom("saved_items").where("org_id", "=", orgId).where("kind", "=", kind);
      await requireCapacity(trx.$extendTables<OrgTable>(), orgId, `${kind}s`, items, maxItems);
      await trx.insertInto("saved_items").values(row).execute();
    });
  });
  return id;
}

/** Throws `not_found`, or `conflict` if the name is taken. */
export async function replaceItem(db: Kysely<SavedTables>, { orgId, kind }: Owner, id: string, saved: Saved): Promise<void> {
  const { name, body, email, at } = saved;
  const updated = await requireUniqueName(
    kind,
    name,
    async () =>
      await db
        .updateTable("saved_items")
        .set({ name, body, updated_by: email, updated_at: at })
        .where("id", "=", id)
        .where("org_id", "=", orgId)
        .where("kind", "=", kind)
        .returning("id")
        .executeTakeFirst(),
  );
  if (!updated) throw notFound(kind);
}

/** Throws `not_found`. */
export async function readItem(db: Kysely<SavedTables>, { orgId, kind }: Owner, id: string): Promise<SavedItemRow> {
  const row = await db
    .selectFrom("saved_items")
    .selectAll()
    .where("id", "=", id)
    .where("org_id", "=", orgId)
    .where("kind", "=", kind)
    .executeTakeFirst();
  if (!row) throw notFound(kind);
  return row;
}

/** The bodies of dashboards are omitted, because they are large. */
export function selectItems(db: Kysely<SavedTables>, { orgId, kind }: Owner) {
  return db
    .selectFrom("saved_items")
    .select(["id", "org_id", "kind", "name", "created_by", "created_at", "updated_by", "updated_at"])
    .select(kind === "view" ? sql<string>`body`.as("body") : sql<string>`'{}'`.as("body"))
    .where("org_id", "=", orgId)
    .where("kind", "=", kind);
}

/** Returns its name. Throws `not_found`. */
export async function removeItem(db: Kysely<SavedTables>, { orgId, kind }: Owner, id: string): Promise<string> {
  const removed = await db
    .deleteFrom("saved_items")
    .where("id", "=", id)
    .where("org_id", "=", orgId)
    .where("kind", "=", kind)
    .returning("name")
    .executeTakeFirst();
  if (!removed) throw notFound(kind);
  return removed.name;
}
