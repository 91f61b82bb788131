// Reads the service map from the stored edges: for the native API, for Jaeger's dependencies and for the series of Grafana's service graph.
// Invariant: only the newest complete version of each minute counts.
import type { LabelLimits } from "../../admission/limited-labels.ts";
import type { Ask } from "../../engines/clickhouse/clickhouse-client.ts";
import { and, type Sql, sql } from "../../engines/clickhouse/sql.ts";
import { arrayOfLines } from "../found-page.ts";
import { edgesOf } from "./edges.ts";
import { histogramColumns, quantileMs } from "./span-histogram.ts";
import type { MinuteRange } from "./red.ts";

/** For "" and messaging, both services send spans. For the others, the server is known only from its clients' spans. */
export const CONNECTIONS = ["", "messaging", "database", "queue", "external"] as const;
export type Connection = (typeof CONNECTIONS)[number];

/** An element of `edges` in GET /query/services/graph. */
export interface EdgeRow {
  readonly client: string;
  readonly server: string;
  readonly connection: Connection;
  readonly calls: number;
  readonly failed: number;
  readonly rate: number;
  readonly error_ratio: number;
  readonly p50_ms: number | null;
  readonly p95_ms: number | null;
  readonly p99_ms: number | null;
}

/** Maximum number of edges in one response; those with the most calls are returned. */
export const MAX_EDGES = 2000;
const MAX_ANSWER_BYTES = 8 * 1024 * 1024;

/** A SELECT of client, server, connection, calls, failed, total_ns and histogram, summed over a range. */
export function summedEdges(orgId: string, { startS, endS }: MinuteRange): Sql {
  const inRange = and([sql`org_id = ${orgId}`, sql`time >= toDateTime(${startS})`, sql`time < toDateTime(${endS})`]);
  const complete = sql`SELECT time, max(version) FROM service_edges WHERE ${inRange} AND client = '' AND server = '' GROUP BY time`;
  return sql`SELECT client, server, connection, sum(service_edges.calls) AS calls, sum(service_edges.failed) AS failed,
      sum(duration_ns) AS total_ns, sumMap(service_edges.buckets) AS histogram
    FROM service_edges FINAL WHERE ${inRange} AND client != '' AND (time, version) IN (${complete}) GROUP BY client, server, connection`;
}

/** The same for a reader with limits: from the spans that it may see, because stored edges have no labels. */
export function edgesIn(orgId: string, range: MinuteRange, limits: LabelLimits | undefined): Sql {
  if (!limits) return summedEdges(orgId, range);
  return sql`SELECT client, server, connection, sum(edges.calls) AS calls, sum(edges.failed) AS failed, sum(edges.total_ns) AS total_ns,
      sumMap(edges.histogram) AS histogram
    FROM (${edgesOf(orgId, range)}) AS edges GROUP BY client, server, connection`;
}

/** EdgeRows as JSON, most calls first. `edges`: of edgesIn. */
export async function listEdges(ask: Ask, edges: Sql, range: MinuteRange): Promise<Buffer> {
  const seconds = sql`${range.endS - range.startS}`;
  return arrayOfLines(
    await ask(
      sql`SELECT client, server, connection, calls, failed, rate, error_ratio, p50_ms, p95_ms, p99_ms FROM
        (SELECT client, server, connection, toFloat64(calls) AS calls, toFloat64(failed) AS failed, calls / ${seconds} AS rate,
          failed / calls AS error_ratio, ${histogramColumns(sql`histogram`)},
          ${quantileMs(0.5)} AS p50_ms, ${quantileMs(0.95)} AS p95_ms, ${quantileMs(0.99)} AS p99_ms
        FROM (${edges})) ORDER BY calls DESC, client, server, connection LIMIT ${MAX_EDGES}`,
      MAX_ANSWER_BYTES,
    ),
  );
}

/** Jaeger's `[{parent, child, callCount}]` as JSON. */
export async function jaegerDependencies(ask: Ask, edges: Sql): Promise<Buffer> {
  return arrayOfLines(
    await ask(
      sql`SELECT client AS parent, server AS child, toFloat64(sum(calls)) AS callCount FROM (${edges})
        GROUP BY parent, child ORDER BY callCount DESC, parent, child LIMIT ${MAX_EDGES}`,
      MAX_ANSWER_BYTES,
    ),
  );
}
