// Bounds how many users, keys, install tokens and read tokens an organisation has, so that their lists are bounded too. Invariant: of two that are
// made at once for the last place, one is refused.
import type { Transaction } from "kysely";
import { ApiError } from "../errors.ts";
import type { AccountTables } from "./table.ts";
import { tenantDatabase } from "../engines/relational/tenant-database.ts";

/** Of each kind. A list of as many is some megabytes at most. */
export const MOST_OF_A_KIND = 5000;

/** A statement that counts; PostgreSQL gives a count as text. */
export interface Counting {
  executeTakeFirst(): Promise<{ readonly count: number | string | bigint } | undefined>;
}

/** Holds the organisation until the transaction ends. Throws `limit_reached`. */
export async function requireRoom<T>(trx: Transaction<T>, orgId: string, what: string, counting: Counting): Promise<void> {
  const accounts = tenantDatabase(trx as unknown as Transaction<AccountTables>, orgId);
  await accounts.selectFrom("orgs").select("id").where("id", "=", orgId).forNoKeyUpdate().execute();
  const counted = await counting.executeTakeFirst();
  if (Number(counted?.count ?? 0) >= MOST_OF_A_KIND)
    throw new ApiError("limit_reached", `your organisation has ${MOST_OF_A_KIND} ${what} already: remove some first`);
}
