// Bounds how many users, keys, install tokens and read tokens an organisation has, so that their lists are bounded too. Invariant: of two that are
// made at once for the last place, one is refused.
import type { RawBuilder, Transaction } from "kysely";
import { ApiError } from "../errors.ts";
import type { AccountTables } from "./table.ts";

/** Of each kind. A list of as many is some megabytes at most. */
export const MOST_OF_A_KIND = 5000;

/** PostgreSQL gives a count as text. */
export interface Counted {
  count: number | string;
}

/** `counted` answers one row with `count`. Holds the organisation until the transaction ends. Throws `limit_reached`. */
export async function requireRoom<T>(trx: Transaction<T>, orgId: string, what: string, counted: RawBuilder<Counted>): Promise<void> {
  const accounts = trx as unknown as Transaction<AccountTables>;
  await accounts.selectFrom("orgs").select("id").where("id", "=", orgId).forNoKeyUpdate().execute();
  const { rows } = await counted.execute(trx);
  if (Number(rows[0]?.count ?? 0) >= MOST_OF_A_KIND)
    throw new ApiError("limit_reached", `your organisation has ${MOST_OF_A_KIND} ${what} already: remove some first`);
}
