// The table of trusted issuers for kysely; engines/relational/migrations/130-trusted-issuers.sql creates it.
import type { Kysely, Transaction } from "kysely";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";

export interface TrustedIssuerRow {
  id: string;
  org_id: string;
  name: string;
  /** The claim `iss` of its tokens. */
  issuer: string;
  /** The claim `aud` of its tokens; contains the organisation's id. */
  audience: string;
  /** JSON text: `{"keys": […]}`. */
  jwks: string;
  /** Null: an administrator gave the keys. */
  keys_fetched_at: Date | null;
  /** JSON text: the rules of claim-rules.ts. */
  rules: string;
  version: number;
  created_by: string;
  created_at: Date;
  updated_by: string;
  updated_at: Date;
}

export interface IssuerTables {
  trusted_issuers: TrustedIssuerRow;
}

export type IssuerDb = Kysely<IssuerTables> | Transaction<IssuerTables>;

/** The issuers of these organisations, by organisation. Those that have none are missing. */
export async function findIssuers(db: IssuerDb, orgIds: readonly string[]): Promise<Map<string, TrustedIssuerRow[]>> {
  const rows = await db.selectFrom("trusted_issuers").selectAll().where("org_id", "in", orgIds).orderBy("name").execute();
  return Map.groupBy(rows, (row) => row.org_id);
}

/** Changes with every change of an administrator to an issuer of the organisation. */
export function issuersState(rows: readonly Pick<TrustedIssuerRow, "id" | "version">[]): string {
  return rows
    .map(({ id, version }) => `${id} ${version}`)
    .sort()
    .join(",");
}

/** `states`: organisation → state. Returns the organisations whose issuers have another one. */
export async function findChangedIssuers(db: IssuerDb, states: Readonly<Record<string, string>>): Promise<string[]> {
  const orgIds = Object.keys(states);
  if (orgIds.length === 0) return [];
  const rows = await db.selectFrom("trusted_issuers").select(["id", "org_id", "version"]).where("org_id", "in", orgIds).execute();
  const current = Map.groupBy(rows, (row) => row.org_id);
  return orgIds.filter((orgId) => issuersState(current.get(orgId) ?? []) !== states[orgId]);
}

/** Stores keys that were fetched, so that a replica that starts while the issuer is unreachable has them. */
export async function storeFetchedKeys(
  db: IssuerDb,
  { id, org_id, version }: Pick<TrustedIssuerRow, "id" | "org_id" | "version">,
  fetched: { readonly jwks: string; readonly at: Date },
): Promise<void> {
  await tenantDatabase(db as Kysely<IssuerTables>, org_id)
    .updateTable("trusted_issuers")
    .set({ jwks: fetched.jwks, keys_fetched_at: fetched.at })
    .where("id", "=", id)
    .where("org_id", "=", org_id)
    .where("version", "=", version)
    .execute();
}
