// Reads one page of an organisation's clusters with their nodes. Invariant: a page has at limit `limit` clusters and `limit` nodes. A cluster
// whose nodes do not fit is cut and continues on the next page. It takes three short queries, whatever the number of nodes.
import { sql, type Kysely, type Selectable } from "kysely";
import type { ClusterNodeTable, ClusterTable, EnrolmentTables } from "./table.ts";

export interface ClusterPage {
  readonly clusters: readonly { readonly row: Selectable<ClusterTable>; readonly nodes: readonly Selectable<ClusterNodeTable>[] }[];
  /** Name and id of the last cluster, and its last returned node, "" if it is complete. Undefined if there is no next page. */
  readonly next: readonly string[] | undefined;
}

export async function readClusterPage(
  db: Kysely<EnrolmentTables>,
  orgId: string,
  cursor: readonly string[] | undefined,
  limit: number,
): Promise<ClusterPage> {
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
  const whole: Selectable<ClusterTable>[] = [];
  let free = limit;
  for (const row of rows.slice(0, limit)) {
    const size = sizes.get(row.id) ?? 0;
    if (size > free) break;
    free -= size;
    whole.push(row);
  }
  const cut = whole.length < Math.min(rows.length, limit) && free > 0 ? rows[whole.length] : undefined;
  const nodes = await findNodes(db, whole, after);
  const clusters = whole.map((row) => ({ row, nodes: nodes.get(row.id) ?? [] }));
  if (cut) clusters.push({ row: cut, nodes: (await findNodes(db, [cut], after, free)).get(cut.id) ?? [] });
  const last = clusters.at(-1);
  if (whole.length === rows.length || !last) return { clusters, next: undefined };
  return { clusters, next: [last.row.name, last.row.id, cut ? (last.nodes.at(-1)?.name ?? "") : ""] };
}

type After = (cluster: { id: string }) => string;

/** Cluster id → how many nodes it has after the cursor. */
async function countNodes(db: Kysely<EnrolmentTables>, clusters: readonly { id: string }[], after: After): Promise<Map<string, number>> {
  if (clusters.length === 0) return new Map();
  const counted = await db
    .selectFrom("cluster_nodes")
    .select((select) => ["cluster_id", select.fn.countAll().as("nodes")])
    .where(belongsTo(clusters, after))
    .groupBy("cluster_id")
    .execute();
  return new Map(counted.map((row) => [row.cluster_id, Number(row.nodes)]));
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
  const rest = others.length === 0 ? sql`false` : sql`cluster_id IN (${sql.join(others.map((cluster) => sql`${cluster.id}`))})`;
  return sql<boolean>`((cluster_id = ${first.id} AND name > ${after(first)}) OR ${rest})`;
}
