// One page of an organisation's clusters with their nodes. Invariant: at most so many clusters, and so many nodes in all; a cluster
// whose nodes do not fit any more is cut and goes on in the next page. Three short queries, whatever the number of nodes.
import { sql, type Kysely, type Selectable } from "kysely";
import type { ClusterNodeTable, ClusterTable, EnrolmentTables } from "./table.ts";

export interface ClusterPage {
  readonly clusters: readonly { readonly row: Selectable<ClusterTable>; readonly nodes: readonly Selectable<ClusterNodeTable>[] }[];
  /** Cluster's name and id, and the name of its last node that was given; "" for all of them. Undefined: there is no next page. */
  readonly next: readonly string[] | undefined;
}

export async function clusterPage(
  db: Kysely<EnrolmentTables>,
  orgId: string,
  cursor: readonly string[] | undefined,
  most: number,
): Promise<ClusterPage> {
  const [name, id, afterNode = ""] = cursor ?? [];
  let query = db.selectFrom("clusters").selectAll().where("org_id", "=", orgId);
  if (name !== undefined && id !== undefined)
    query = query.where(afterNode === "" ? sql<boolean>`(name, id) > (${name}, ${id})` : sql<boolean>`(name, id) >= (${name}, ${id})`);
  const rows = await query
    .orderBy("name")
    .orderBy("id")
    .limit(most + 1)
    .execute();
  const after = (row: { id: string }): string => (row.id === id ? afterNode : "");
  const sizes = await sizesOf(db, rows.slice(0, most), after);
  const whole: Selectable<ClusterTable>[] = [];
  let room = most;
  for (const row of rows.slice(0, most)) {
    const size = sizes.get(row.id) ?? 0;
    if (size > room) break;
    room -= size;
    whole.push(row);
  }
  const cut = whole.length < Math.min(rows.length, most) && room > 0 ? rows[whole.length] : undefined;
  const nodes = await nodesOf(db, whole, after);
  const clusters = whole.map((row) => ({ row, nodes: nodes.get(row.id) ?? [] }));
  if (cut) clusters.push({ row: cut, nodes: (await nodesOf(db, [cut], after, room)).get(cut.id) ?? [] });
  const last = clusters.at(-1);
  if (whole.length === rows.length || !last) return { clusters, next: undefined };
  return { clusters, next: [last.row.name, last.row.id, cut ? (last.nodes.at(-1)?.name ?? "") : ""] };
}

type After = (cluster: { id: string }) => string;

/** Cluster id → how many nodes it has after the cursor. */
async function sizesOf(db: Kysely<EnrolmentTables>, clusters: readonly { id: string }[], after: After): Promise<Map<string, number>> {
  if (clusters.length === 0) return new Map();
  const counted = await db
    .selectFrom("cluster_nodes")
    .select((select) => ["cluster_id", select.fn.countAll().as("nodes")])
    .where(isOf(clusters, after))
    .groupBy("cluster_id")
    .execute();
  return new Map(counted.map((row) => [row.cluster_id, Number(row.nodes)]));
}

async function nodesOf(db: Kysely<EnrolmentTables>, clusters: readonly { id: string }[], after: After, limit?: number) {
  if (clusters.length === 0) return new Map<string, Selectable<ClusterNodeTable>[]>();
  const query = db.selectFrom("cluster_nodes").selectAll().where(isOf(clusters, after)).orderBy("name");
  const rows = await (limit === undefined ? query : query.limit(limit)).execute();
  return Map.groupBy(rows, (row) => row.cluster_id);
}

/** Nodes of these clusters; only the first can be one that the page before has cut. */
function isOf(clusters: readonly { id: string }[], after: After) {
  const [first, ...others] = clusters as [{ id: string }, ...{ id: string }[]];
  const rest = others.length === 0 ? sql`false` : sql`cluster_id IN (${sql.join(others.map((one) => sql`${one.id}`))})`;
  return sql<boolean>`((cluster_id = ${first.id} AND name > ${after(first)}) OR ${rest})`;
}
