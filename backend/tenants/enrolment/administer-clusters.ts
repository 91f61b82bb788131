// Administration of clusters: list with nodes and online state, remove. Invariants: removing a cluster revokes its keys immediately. A page
// of the list has at most `limit` clusters and `limit` nodes; a cluster whose nodes do not fit continues on the next page. A page takes
// three short queries, whatever the number of nodes.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { callerOf } from "../../http/request-identity.ts";
import { listResponse, objectSchema, OPTIONAL_TIME_SCHEMA, optionalSchema, UUID_SCHEMA } from "../../http/schemas.ts";
import { addHandlers, endpoint } from "../../http/route.ts";
import { CLUSTER_CONFIG_SCHEMA } from "./cluster-config.ts";
import { COLLECTOR_SCHEMA, isOnline } from "./heartbeats.ts";
import { CURSOR_QUERY, type CursorQuery, linkNext, PAGE_ROWS, readCursor } from "../../http/list-page.ts";
import { registerRemoval } from "./administer-removal.ts";
import { currentKeyTimes } from "./key-holder.ts";
import type { EnrolmentDeps } from "./enrolment-tables.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";
import { type Kysely, type Selectable, sql } from "kysely";
import type { ClusterNodeTable, ClusterTable, EnrolmentTables } from "./enrolment-tables.ts";

const text = { type: ["string", "null"] } as const;
const ROUTES = {
  list: {
    ...endpoint("GET", "/api/clusters", "viewer", "enrolment"),
    summary: "Clusters of your organisation, by name, with their nodes, by name",
    description: "Pages have 500 nodes; the Link header points to the next page, which continues a cluster that was cut.",
    query: CURSOR_QUERY,
    response: listResponse({
      cluster_id: UUID_SCHEMA,
      name: { type: "string" },
      online: { type: "boolean" },
      last_heartbeat: OPTIONAL_TIME_SCHEMA,
      key_created_at: OPTIONAL_TIME_SCHEMA,
      config: optionalSchema({
        version: { type: "string" },
        percent: { type: "integer" },
        stopped: { ...text, description: "why its rollout was stopped; all nodes then use the previous configuration" },
        config: CLUSTER_CONFIG_SCHEMA,
      }),
      nodes: {
        type: "array",
        items: objectSchema({
          name: { type: "string" },
          online: { type: "boolean" },
          agent_version: text,
          last_heartbeat: OPTIONAL_TIME_SCHEMA,
          collector: COLLECTOR_SCHEMA,
          config: { type: "object", properties: { in_force: text, error: text } },
        }),
      },
    }),
  },
};

export function registerClusterAdministration(app: FastifyInstance, deps: EnrolmentDeps): void {
  const { db, guards, now, pageRows = PAGE_ROWS } = deps;
  addHandlers(app, guards, ROUTES, {
    list: async (request: FastifyRequest<CursorQuery>, reply: FastifyReply) => {
      const { orgId } = callerOf(request);
      const tenantDb = tenantDatabase(db, orgId);
      const { clusters, next } = await readClusterPage(tenantDb, orgId, readCursor(request, 3), pageRows);
      if (next) linkNext(request, reply, next);
      const ids = clusters.map(({ row }) => row.id);
      const keyTimes = await currentKeyTimes(tenantDb, orgId, "cluster", ids);
      return clusters.map(({ row, nodes }) => ({
        cluster_id: row.id,
        name: row.name,
        online: isOnline(row.last_heartbeat, row.heartbeat_interval_s, now()),
        last_heartbeat: row.last_heartbeat?.toISOString() ?? null,
        key_created_at: keyTimes.get(row.id)?.toISOString() ?? null,
        config: { version: String(row.config_version), percent: row.config_percent, stopped: row.config_stopped, config: row.config },
        nodes: nodes.map(({ name, agent_version, last_heartbeat, collector, config_in_force, config_error }) => ({
          name,
          online: isOnline(last_heartbeat, row.heartbeat_interval_s, now()),
          agent_version,
          last_heartbeat: last_heartbeat.toISOString(),
          collector,
          config: { in_force: config_in_force, error: config_error },
        })),
      }));
    },
  });

  registerRemoval(app, deps, { path: "/api/clusters/:id", kind: "cluster", idField: "cluster_id" });
}

/** `next`: name and id of the last cluster, and its last returned node, "" if it is complete; undefined if there is no next page. */
async function readClusterPage(db: Kysely<EnrolmentTables>, orgId: string, cursor: readonly string[] | undefined, limit: number) {
  const [name, id, afterNode = ""] = cursor ?? [];
  let query = db.selectFrom("clusters").selectAll().where("org_id", "=", orgId);
  if (name !== undefined && id !== undefined)
    query = query.where(afterNode === "" ? sql<boolean>`(name, id) > (${name}, ${id})` : sql<boolean>`(name, id) >= (${name}, ${id})`);
  const rows = await query
    .orderBy("name")
    .orderBy("id")
    .limit(limit + 1)
    .execute();
  const after = (row: { id: string }): string => (row.id === id ? afterNode : "");
  const sizes = await countNodes(db, rows.slice(0, limit), after);
  const complete: Selectable<ClusterTable>[] = [];
  let freeNodes = limit;
  for (const row of rows.slice(0, limit)) {
    const size = sizes.get(row.id) ?? 0;
    if (size > freeNodes) break;
    freeNodes -= size;
    complete.push(row);
  }
  const partial = complete.length < Math.min(rows.length, limit) && freeNodes > 0 ? rows[complete.length] : undefined;
  const nodes = await findNodes(db, complete, after);
  const clusters = complete.map((row) => ({ row, nodes: nodes.get(row.id) ?? [] }));
  if (partial) clusters.push({ row: partial, nodes: (await findNodes(db, [partial], after, freeNodes)).get(partial.id) ?? [] });
  const last = clusters.at(-1);
  if (complete.length === rows.length || !last) return { clusters, next: undefined };
  return { clusters, next: [last.row.name, last.row.id, partial ? (last.nodes.at(-1)?.name ?? "") : ""] };
}

type After = (cluster: { id: string }) => string;

/** Cluster id → how many nodes it has after the cursor. */
async function countNodes(db: Kysely<EnrolmentTables>, clusters: readonly { id: string }[], after: After): Promise<Map<string, number>> {
  if (clusters.length === 0) return new Map();
  const counts = await db
    .selectFrom("cluster_nodes")
    .select((select) => ["cluster_id", select.fn.countAll().as("nodes")])
    .where(belongsTo(clusters, after))
    .groupBy("cluster_id")
    .execute();
  return new Map(counts.map((row) => [row.cluster_id, Number(row.nodes)]));
}

async function findNodes(db: Kysely<EnrolmentTables>, clusters: readonly { id: string }[], after: After, limit?: number) {
  if (clusters.length === 0) return new Map<string, Selectable<ClusterNodeTable>[]>();
  const query = db.selectFrom("cluster_nodes").selectAll().where(belongsTo(clusters, after)).orderBy("name");
  const rows = await (limit === undefined ? query : query.limit(limit)).execute();
  return Map.groupBy(rows, (row) => row.cluster_id);
}

/** Condition for nodes of these clusters; only the first can be a cluster that the previous page cut. */
function belongsTo(clusters: readonly { id: string }[], after: After) {
  const [first, ...others] = clusters as [{ id: string }, ...{ id: string }[]];
  const otherNodes = others.length === 0 ? sql`false` : sql`cluster_id IN (${sql.join(others.map((cluster) => sql`${cluster.id}`))})`;
  return sql<boolean>`((cluster_id = ${first.id} AND name > ${after(first)}) OR ${otherNodes})`;
}
