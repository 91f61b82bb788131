// Changes an organisation's channels, routes and silences. Invariants: the changes of one organisation are serialised, so that its limits hold;
// after each change, its alerts are evaluated again.
import type { Kysely, Transaction } from "kysely";
import { ApiError } from "../../errors.ts";
import { MAX_EXPRESSIONS_PER_ORG } from "../notification-limits.ts";
import { countExpressions, type Matcher, type RouteMatcher, toMatcher } from "./matchers.ts";
import { markDue, type NotificationTables } from "./notification-tables.ts";
import { lockOrg, type OrgTable, tenantDatabase } from "../../engines/relational/tenant-database.ts";

export async function changeOrganisation<T>(
  db: Kysely<NotificationTables>,
  orgId: string,
  now: Date,
  change: (trx: Transaction<NotificationTables>) => Promise<T>,
): Promise<T> {
  const tenantDb = tenantDatabase(db, orgId);
  return await tenantDb.transaction().execute(async (trx) => {
    await lockOrg(trx.$extendTables<OrgTable>(), orgId);
    const result = await change(trx);
    await markDue(trx, orgId, now);
    return result;
  });
}

/** Call after writing: throws ApiError `limit_reached` if the number of expressions exceeds the limit and has increased. */
export async function checkExpressions(
  trx: Transaction<NotificationTables>,
  orgId: string,
  now: Date,
  written: readonly Matcher[],
): Promise<void> {
  if (countExpressions(written) === 0) return;
  const routes = await trx.selectFrom("routes").select("matchers").where("org_id", "=", orgId).execute();
  const silences = await trx.selectFrom("silences").select("matchers").where("org_id", "=", orgId).where("ends_at", ">", now).execute();
  const settings = await trx.selectFrom("notification_settings").select("body").where("org_id", "=", orgId).execute();
  const ofRules = settings.flatMap(({ body }) => {
    const { source_matchers: source = [], target_matchers: target = [] } = body as Record<string, readonly RouteMatcher[] | undefined>;
    return [...source, ...target].map(toMatcher);
  });
  const ofRoutes = routes.flatMap(({ matchers }) => matchers.map(toMatcher));
  const all = [...ofRoutes, ...ofRules, ...silences.flatMap(({ matchers }) => matchers)];
  if (countExpressions(all) <= MAX_EXPRESSIONS_PER_ORG) return;
  const limit = `${MAX_EXPRESSIONS_PER_ORG} regular expressions, not counting lists of values such as a|b`;
  throw new ApiError(
    "limit_reached",
    `matchers: the routes, silences and inhibition rules of an organisation have at most ${limit}: remove some first`,
  );
}
