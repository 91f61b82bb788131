// Finds changes of configuration, rules and routing in the audit log. Invariant: only administrators may read the audit log, so everybody
// else gets no entry of it.
import type { Kysely } from "kysely";
import type { AuditTables } from "../../auth/audit/trail.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";
import { type Change, type Comparison, linkTo } from "./change.ts";

/** Actions that change what is collected, stored, evaluated or delivered, and their score. */
const ACTIONS: Readonly<Record<string, number>> = {
  "cluster.config": 50,
  "cluster.config_stopped": 52,
  "host.config": 50,
  "org.limits": 44,
  "org.retention": 40,
  "ingest_token.delete": 44,
  "ingest_token.rotate": 40,
  "key.revoke": 44,
  "rule.create": 34,
  "rule.update": 36,
  "rule.delete": 36,
  "route.create": 34,
  "route.update": 36,
  "route.delete": 36,
  "slo.create": 34,
  "slo.update": 36,
  "slo.delete": 36,
  "channel.update": 34,
  "channel.delete": 36,
  "silence.create": 34,
  "silence.update": 34,
};
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
    .where("action", "in", Object.keys(ACTIONS))
    .where("at", ">=", new Date(startMs))
    .where("at", "<=", new Date(endMs))
    .orderBy("at", "desc")
    .limit(MAX_ENTRIES)
    .execute();
  return rows.map(({ at, action, actor, subject }) => {
    const ruleId = subject["rule_id"];
    return {
      kind: "audit",
      severity: "notice",
      score: ACTIONS[action] ?? 30,
      subject: action,
      title: auditTitle(action, actor, subject),
      since_ms: at.getTime(),
      evidence: `/api/audit?action=${action}`,
      link:
        typeof ruleId === "string"
          ? linkTo("alerts", { rule: ruleId }, comparison.now)
          : linkTo("settings", { part: "audit" }, comparison.now),
    };
  });
}
