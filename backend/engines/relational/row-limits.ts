// Limits of the rows of an organisation: their number, which also limits the size of lists, and the uniqueness of names.
import { type SelectQueryBuilder, sql } from "kysely";
import { lockOrg, type OrgLocker } from "./tenant-database.ts";
import { ApiError } from "../../errors.ts";
import { MAX_ROWS_PER_ORG } from "../engine-limits.ts";

const UNIQUE_VIOLATION = "23505";

/**
 * Throws `limit_reached` if `query` selects `maxRows` or more. Locks the organisation until the transaction ends, so that concurrent inserts
 * cannot exceed the limit. `rows`: the plural noun for the message.
 */
export async function requireCapacity<Tables, Table extends keyof Tables>(
  trx: OrgLocker,
  orgId: string,
  rows: string,
  query: SelectQueryBuilder<Tables, Table, object>,
  maxRows = MAX_ROWS_PER_ORG,
): Promise<void> {
  await lockOrg(trx, orgId);
  const counted = (await query.select(sql<string>`count(*)`.as("count")).executeTakeFirstOrThrow()) as { readonly count: string };
  if (Number(counted.count) >= maxRows)
    throw new ApiError("limit_reached", `your organisation already has ${maxRows} ${rows}, which is the limit: remove some first`);
}

/** Runs `write`; throws `conflict` if another row has the same name. `resource`: the noun for the message. */
export async function requireUniqueName<T>(resource: string, name: string, write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    if ((error as { code?: string }).code !== UNIQUE_VIOLATION) throw error;
    throw new ApiError("conflict", `name: your organisation already has a ${resource} ${JSON.stringify(name)}`, { cause: error });
  }
}
