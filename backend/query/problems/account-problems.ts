// Problems that the accounts database shows: silent agents, keys that were not renewed, tokens that expire soon. Each list is limited.
import { consoleAddress } from "../../client/console-address.ts";
import type { Kysely } from "kysely";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";
import type { AccountTables } from "../../auth/sessions/account-tables.ts";
import type { EnrolmentTables } from "../../tenants/enrolment/enrolment-tables.ts";
import { isOnline } from "../../tenants/enrolment/heartbeats.ts";
import type { Problem, Problems } from "./problem.ts";

export type ProblemTables = Pick<EnrolmentTables, "hosts" | "clusters" | "cluster_nodes" | "api_keys" | "ingest_tokens"> &
  Pick<AccountTables, "read_tokens">;

const MAX_ROWS = 500;
const MAX_LISTED = 20;
const DAY_MS = 86_400_000;
/** The agents of a cluster renew its key after 30 days by default: twice that age means that they did not. Hosts keep their keys. */
const OLD_KEY_MS = 60 * DAY_MS;
const EXPIRES_WITHIN_MS = 7 * DAY_MS;
/** The shortest interval of heartbeats is longer than a third of this, so a younger heartbeat needs no look. */
const SURELY_ONLINE_MS = 10_000;

interface Agent {
  readonly name: string;
  /** Undefined for a host. */
  readonly cluster: string | undefined;
  readonly hostId: string | undefined;
  readonly lastHeartbeat: Date | null;
  readonly isSilent: boolean;
}

export async function findAccountProblems(db: Kysely<ProblemTables>, orgId: string, nowMs: number): Promise<Problems> {
  const tenantDb = tenantDatabase(db, orgId);
  const [{ agents, total }, keys, tokens] = [
    await readAgents(tenantDb, orgId, nowMs),
    await findOldKeys(tenantDb, orgId, nowMs),
    await findExpiring(tenantDb, orgId, nowMs),
  ];
  const silent = agents.filter(({ isSilent }) => isSilent);
  const byCluster = Map.groupBy(silent, ({ cluster, name }) => cluster ?? `host ${name}`);
  const problems = [...byCluster.values()].slice(0, MAX_LISTED).map((members) => describeSilent(members));
  return { problems: [...problems, ...keys, ...tokens], totals: { agents: [total, silent.length] } };
}

async function readAgents(db: Kysely<ProblemTables>, orgId: string, nowMs: number): Promise<{ agents: Agent[]; total: number }> {
  const before = new Date(nowMs - SURELY_ONLINE_MS);
  const hosts = db.selectFrom("hosts").where("org_id", "=", orgId);
  const nodes = db
    .selectFrom("cluster_nodes")
    .innerJoin("clusters", "clusters.id", "cluster_nodes.cluster_id")
    .where("clusters.org_id", "=", orgId);
  const { count: hostCount } = await hosts.select((select) => select.fn.countAll().as("count")).executeTakeFirstOrThrow();
  const { count: nodeCount } = await nodes.select((select) => select.fn.countAll().as("count")).executeTakeFirstOrThrow();
  const oldHosts = await hosts
    .where("last_heartbeat", "<", before)
    .select(["id", "hostname", "last_heartbeat", "heartbeat_interval_s"])
    .orderBy("last_heartbeat", "desc")
    .limit(MAX_ROWS)
    .execute();
  const oldNodes = await nodes
    .where("cluster_nodes.last_heartbeat", "<", before)
    .select(["cluster_nodes.name", "clusters.name as cluster", "cluster_nodes.last_heartbeat", "heartbeat_interval_s"])
    .orderBy("cluster_nodes.last_heartbeat", "desc")
    .limit(MAX_ROWS)
    .execute();
  const agents = [
    ...oldHosts.map((row): Agent => ({ ...agentOf(row, nowMs), name: row.hostname, cluster: undefined, hostId: row.id })),
    ...oldNodes.map((row): Agent => ({ ...agentOf(row, nowMs), name: row.name, cluster: row.cluster, hostId: undefined })),
  ];
  return { agents, total: Number(hostCount) + Number(nodeCount) };
}

function agentOf(
  { last_heartbeat: at, heartbeat_interval_s: intervalS }: { last_heartbeat: Date | null; heartbeat_interval_s: number },
  nowMs: number,
): Pick<Agent, "lastHeartbeat" | "isSilent"> {
  return { lastHeartbeat: at, isSilent: !isOnline(at, intervalS, nowMs) };
}

/** `members`: a host, or silent nodes of one cluster, the one that was silent last first. */
function describeSilent(members: readonly Agent[]): Problem {
  const [last] = members;
  if (!last) throw new Error("no agent");
  const { name, cluster, hostId, lastHeartbeat } = last;
  const isOne = members.length === 1;
  const entity = cluster === undefined ? { kind: "host", host: hostId } : { kind: "node", cluster };
  return {
    kind: "agent",
    severity: "warning",
    score: 89,
    title: isOne ? `the agent of ${name} is silent` : `${members.length} agents of cluster ${cluster ?? ""} are silent`,
    detail: isOne
      ? cluster && `node of cluster ${cluster}`
      : members
          .slice(0, 5)
          .map((member) => member.name)
          .join(", "),
    sinceMs: lastHeartbeat?.getTime(),
    action: isOne ? (cluster === undefined ? "Host" : "Node") : "Cluster",
    link: isOne ? consoleAddress("entity", entity, name) : consoleAddress("entity", { kind: "cluster" }, cluster),
  };
}

/** Current keys of clusters. */
async function findOldKeys(db: Kysely<ProblemTables>, orgId: string, nowMs: number): Promise<Problem[]> {
  const rows = await db
    .selectFrom("api_keys")
    .select(["node", "created_at"])
    .where("org_id", "=", orgId)
    .where("kind", "=", "cluster")
    .where("revoked_at", "is", null)
    .where("expires_at", "is", null)
    .where("created_at", "<", new Date(nowMs - OLD_KEY_MS))
    .orderBy("created_at")
    .limit(MAX_LISTED)
    .execute();
  return rows.map(({ node, created_at: at }) => ({
    kind: "credential",
    severity: "warning",
    score: 55,
    title: `the key of cluster ${node} was not renewed for ${Math.round((nowMs - at.getTime()) / DAY_MS)} days`,
    detail: "agents renew it after 30 days by default",
    sinceMs: at.getTime() + OLD_KEY_MS / 2,
    action: "Fleet",
    link: consoleAddress("fleet"),
  }));
}

async function findExpiring(db: Kysely<ProblemTables>, orgId: string, nowMs: number): Promise<Problem[]> {
  const [now, soon] = [new Date(nowMs), new Date(nowMs + EXPIRES_WITHIN_MS)];
  const problems: Problem[] = [];
  for (const table of ["ingest_tokens", "read_tokens"] as const) {
    const rows = await db
      .selectFrom(table)
      .select(["name", "expires_at"])
      .where("org_id", "=", orgId)
      // The secret before a rotation has an end, too.
      .$if(table === "ingest_tokens", (query) => query.where("retires_at" as never, "is", null as never))
      .where("expires_at", ">", now)
      .where("expires_at", "<", soon)
      .orderBy("expires_at")
      .limit(MAX_LISTED)
      .execute();
    for (const { name, expires_at: at } of rows) {
      const hours = ((at?.getTime() ?? nowMs) - nowMs) / 3_600_000;
      const left = hours < 48 ? `${Math.max(1, Math.round(hours))} hours` : `${Math.round(hours / 24)} days`;
      const kind = table === "ingest_tokens" ? "ingest token" : "read token";
      problems.push({
        kind: "credential",
        severity: "warning",
        score: hours < 24 ? 74 : 58,
        title: `${kind} ${name} expires in ${left}`,
        action: "Tokens",
        link: consoleAddress("settings", { part: "credentials" }),
      });
    }
  }
  return problems;
}
