// What an identity provider's word opens: groups become an organisation and a role. Invariant: whatever a claim holds, it is read within
// bounds and never throws; a user without a group that is named in the settings gets nothing.
import { RANK } from "../auth/request-identity.ts";
import type { GroupGrant } from "../settings.ts";

/** As many groups are looked at; providers name the rest elsewhere anyway. */
const MOST_GROUPS = 10_000;

/** Of those that match, the one with the highest role; of equal ones the first of the settings. A single group may come as text. */
export function grantOf(claim: unknown, grants: readonly GroupGrant[]): GroupGrant | undefined {
  const groups = typeof claim === "string" ? [claim] : Array.isArray(claim) ? claim.slice(0, MOST_GROUPS) : [];
  const named = new Set<unknown>(groups);
  const matching = grants.filter(({ group }) => named.has(group));
  return matching.reduce<GroupGrant | undefined>((best, one) => (best && RANK[best.role] >= RANK[one.role] ? best : one), undefined);
}
