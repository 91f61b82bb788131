// Limits the users, keys, install tokens and read tokens of an organisation, which also limits the size of their lists. Invariant: concurrent
// inserts cannot exceed the limit.
import type { Transaction } from "kysely";
import { ApiError } from "../../errors.ts";
import type { AccountTables } from "../../auth/sessions/table.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";
import { MAX_ROWS_PER_ORG } from "../limits.ts";

/** A counting statement; PostgreSQL returns counts as text. */
export interface CountQuery {
  executeTakeFirst(): Promise<{ readonly count: number | string | bigint } | undefined>;
}

/** Locks the organisation until the transaction ends. Throws `limit_reached` if the limit is reached. */
export async function requireCapacity<T>(trx: Transaction<T>, orgId: string, rows: string, countQuery: CountQuery): Promise<void> {
  const accounts = tenantDatabase(trx as unknown as Transaction<AccountTables>, orgId);
  await accounts.selectFrom("orgs").select("id").where("id", "=", orgId).forNoKeyUpdate().execute();
  const counted = await countQuery.executeTakeFirst();
  if (Number(counted?.count ?? 0) >= MAX_ROWS_PER_ORG)
    throw new ApiError("limit_reached", `your organisation already has ${MAX_ROWS_PER_ORG} ${rows}, which is the limit: remove some first`);
}
