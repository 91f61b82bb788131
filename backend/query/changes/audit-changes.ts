// Finds changes of configuration, rules and routing in the audit log. Invariant: only administrators get entries of it.
import type { Kysely } from "kysely";
import type { AuditTables } from "../../auth/audit/trail.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";
import { type Change, type Comparison, linkTo } from "./change.ts";

/** Actions that change what is collected, stored, evaluated or delivered, by their score. */
const ACTIONS = new Map(
  Object.entries({
    52: "cluster.config_stopped",
    50: "cluster.config host.config",
    44: "org.limits ingest_token.delete key.revoke",
    40: "org.retention ingest_token.rotate",
    36: "rule.update rule.delete route.update route.delete slo.update slo.delete channel.delete",
    34: "rule.create route.create slo.create channel.update silence.create silence.update",
  }).flatMap(([score, actions]) => actions.split(" ").map((action) => [action, Number(score)] as const)),
);
const MAX_ENTRIES = 50;

/** Such as `rule.update by ana@shop.example: Container restarts, severity=critical`. Ids of resources say nothing to a reader. */
export function auditTitle(action: string, actor: string | null, subject: Readonly<Record<string, unknown>>): string {
  const facts = Object.entries(subject)
    .filter(([key]) => !key.endsWith("_id"))
    .map(([key, value]) => {
      const text = typeof value === "string" ? value : JSON.stringify(value);
      return key === "name" ? text : `${key}=${text}`;
    });
  return `${action} by ${actor ?? "a key"}${facts.length > 0 ? `: ${facts.join(", ")}` : ""}`.slice(0, 300);
}

export async function findAuditChanges(db: Kysely<AuditTables>, orgId: string, comparison: Comparison): Promise<Change[]> {
  const { startMs, endMs } = comparison.now;
  const rows = await tenantDatabase(db, orgId)
    .selectFrom("audit_log")
    .select(["at", "action", "actor", "subject"])
    .where("org_id", "=", orgId)
    .where("action", "in", [...ACTIONS.keys()])
    .where("at", ">=", new Date(startMs))
    .where("at", "<=", new Date(endMs))
    .orderBy("at", "desc")
    .limit(MAX_ENTRIES)
    .execute();
  return rows.map(({ at, action, actor, subject }) => {
    const ruleId = subject["rule_id"];
    const [screen, shown] = typeof ruleId === "string" ? ["alerts", { rule: ruleId }] : ["settings", { part: "audit" }];
    return {
      kind: "audit",
      severity: "notice",
      score: ACTIONS.get(action) ?? 0,
      subject: action,
      title: auditTitle(action, actor, subject),
      since_ms: at.getTime(),
      evidence: `/api/audit?action=${action}`,
      link: linkTo(screen, shown, comparison.now),
    };
  });
}
