// Computes service edges (which service calls which) for each minute from the parents and links of spans, and stores them in
// `service_edges`. Invariant: a minute is always computed as a whole and stored with a new version, so computing it again, after a crash or
// on another replica, counts nothing twice. The queries run in the organisation's own slots and read only its rows.
import type { Ask, ClickHouse, Shard } from "../../engines/clickhouse/clickhouse-client.ts";
import { and, commaList, Sql, sql } from "../../engines/clickhouse/sql.ts";
import { MINUTE_OF_ROW } from "../changed-minutes.ts";
import { parseLines } from "../found-page.ts";
import { DURATION_BUCKETS, DURATION_SUM } from "./span-histogram.ts";
import { MINUTE_S, type MinuteRange, timeOf } from "./red.ts";

/** A caller is found if its span began at most this long before the span that it called. */
const CALLER_BEFORE_S = 600;
/** A client span has no callee if none began until this long after its minute. */
const CALLEE_AFTER_S = 60;
/** Maximum number of edges per minute; those with the most calls are stored. */
const MAX_EDGES = 2000;
const MAX_NAME_CHARACTERS = 256;
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;
/** Links of a span are read up to this size. */
const MAX_LINKS_BYTES = 64 * 1024;
/** Below the engine's limit for a statement. */
const MAX_STATEMENT_CHARACTERS = 200_000;

interface Edge {
  readonly minute_s: number;
  readonly client: string;
  readonly server: string;
  readonly connection: string;
  readonly calls: number;
  readonly failed: number;
  readonly total_ns: number;
  readonly histogram: Readonly<Record<string, string>>;
}

/** Computes and stores all minutes of a range. Throws as Ask does. */
export async function storeEdges(ask: Ask, clickhouse: ClickHouse, orgId: string, range: MinuteRange, version: number): Promise<void> {
  const edges = parseLines<Edge>(await ask(edgesOf(orgId, range), MAX_ANSWER_BYTES));
  const rowOf = ({ minute_s, client, server, connection, calls, failed, total_ns, histogram }: Edge): string => {
    const buckets = Object.entries(histogram).flatMap(([bucket, count]) => [BigInt(bucket), BigInt(count)]);
    return sql`(${orgId}, ${minute_s}, ${client}, ${server}, ${connection}, ${calls}, ${failed}, ${new Sql(String(total_ns))},
      map(${commaList(buckets)}), ${version})`.text;
  };
  // All edges of an organisation are on one shard, so that versions of a minute replace each other.
  const shard = clickhouse.shards[clickhouse.shardOf({ orgId })] ?? clickhouse;
  await insert(shard, edges.map(rowOf));
  const minutes = Array.from({ length: (range.endS - range.startS) / MINUTE_S }, (_, index) => range.startS + index * MINUTE_S);
  const computedMark = { client: "", server: "", connection: "", calls: 0, failed: 0, total_ns: 0, histogram: {} };
  await insert(
    shard,
    minutes.map((minute_s) => rowOf({ ...computedMark, minute_s })),
  );
}

async function insert(shard: Shard, rows: readonly string[]): Promise<void> {
  for (let from = 0; from < rows.length;) {
    let to = from;
    for (let size = 0; to < rows.length && (to === from || size + (rows[to]?.length ?? 0) < MAX_STATEMENT_CHARACTERS); to += 1)
      size += rows[to]?.length ?? 0;
    await shard.command(
      sql`INSERT INTO service_edges (org_id, time, client, server, connection, calls, failed, duration_ns, buckets, version)
        SETTINGS async_insert = 0 VALUES ${new Sql(rows.slice(from, to).join(", "))}`,
    );
    from = to;
  }
}

const FAILED = sql`status_code = 'ERROR'`;
const attribute = (key: string): Sql => sql`attributes[${key}]`;
/** Whether the caller's span is the call itself. The span of a server that calls others may fail for other reasons than this call. */
const IS_CALL = sql`caller_kind IN ('CLIENT', 'PRODUCER')`;
/** The first text that is not empty, or "". */
const firstOf = (...texts: readonly Sql[]): Sql => sql`arrayFirst(text -> text != '', [${commaList(texts)}])`;

const DATABASE = firstOf(attribute("db.system.name"), attribute("db.system"));
const QUEUE = attribute("messaging.system");
const HOST = firstOf(
  attribute("server.address"),
  attribute("net.peer.name"),
  attribute("http.host"),
  sql`domain(${attribute("url.full")})`,
  sql`domain(${attribute("http.url")})`,
);
/** `postgresql:orders`; only the system if there is no name. */
const withName = (system: Sql, name: Sql): Sql => sql`if(${name} = '', ${system}, concat(${system}, ':', ${name}))`;
/** The name of what a client span calls if the callee sends no spans itself. */
const PEER = sql`substringUTF8(multiIf(${attribute("peer.service")} != '', ${attribute("peer.service")},
  ${DATABASE} != '', ${withName(DATABASE, firstOf(attribute("db.namespace"), attribute("db.name"), HOST))},
  ${QUEUE} != '', ${withName(QUEUE, firstOf(attribute("messaging.destination.name"), attribute("messaging.destination")))},
  ${HOST}), 1, ${MAX_NAME_CHARACTERS})`;
const PEER_CONNECTION = sql`multiIf(${DATABASE} != '', 'database', ${QUEUE} != '', 'queue', 'external')`;

function within(orgId: string, { startS, endS }: MinuteRange): Sql[] {
  return [sql`org_id = ${orgId}`, sql`time >= ${timeOf(startS)}`, sql`time < ${timeOf(endS)}`];
}

/** Server and consumer spans with the hash of the span that called them; a consumer span counts once for each message that it links to. */
function callees(orgId: string, range: MinuteRange): Sql {
  const inRange = within(orgId, range);
  const columns = sql`${MINUTE_OF_ROW} AS minute_s, service AS server, kind AS callee_kind, ${FAILED} AS callee_failed, duration_ns`;
  const links = sql`JSONExtract(links, 'Array(Tuple(trace_id String, span_id String))')`;
  return sql`SELECT ${columns}, cityHash64(trace_id, parent_span_id) AS caller FROM spans
      WHERE ${and([...inRange, sql`kind IN ('SERVER', 'CONSUMER')`, sql`parent_span_id != ''`])}
    UNION ALL SELECT minute_s, server, callee_kind, callee_failed, duration_ns, cityHash64(link.1, link.2) AS caller FROM
      (SELECT ${columns}, arrayJoin(arrayFilter(link -> link.2 != parent_span_id, ${links})) AS link FROM spans
      WHERE ${and([...inRange, sql`kind = 'CONSUMER'`, sql`length(links) BETWEEN 3 AND ${MAX_LINKS_BYTES}`])})`;
}

/** A SELECT of Edges, from the spans of a range. */
export function edgesOf(orgId: string, range: MinuteRange): Sql {
  const { startS, endS } = range;
  const before = within(orgId, { startS: startS - CALLER_BEFORE_S, endS });
  const hash = sql`cityHash64(trace_id, span_id)`;
  const callers = sql`SELECT ${hash} AS caller, any(service) AS client, any(kind) AS caller_kind, max(${FAILED}) AS caller_failed FROM spans
    WHERE ${and([...before, sql`${hash} IN (SELECT caller FROM (${callees(orgId, range)}))`])} GROUP BY caller`;
  const calls = sql`SELECT minute_s, client, server, if(callee_kind = 'CONSUMER', 'messaging', '') AS connection,
      callee_failed OR (caller_failed AND ${IS_CALL}) AS is_failed, duration_ns
    FROM (${callees(orgId, range)}) AS callees INNER JOIN (${callers}) AS callers USING (caller)
    WHERE client != server OR ${IS_CALL}`;
  const peers = sql`SELECT ${MINUTE_OF_ROW} AS minute_s, service AS client, ${PEER} AS server, ${PEER_CONNECTION} AS connection,
      ${FAILED} AS is_failed, duration_ns
    FROM spans WHERE ${and([
      ...within(orgId, range),
      sql`kind IN ('CLIENT', 'PRODUCER')`,
      sql`${hash} NOT IN (SELECT caller FROM (${callees(orgId, { startS, endS: endS + CALLEE_AFTER_S })}))`,
    ])} AND server != ''`;
  return sql`SELECT minute_s, client, server, connection, toFloat64(count()) AS calls, toFloat64(countIf(is_failed)) AS failed,
      ${DURATION_SUM} AS total_ns, ${DURATION_BUCKETS} AS histogram
    FROM (SELECT minute_s, toString(client) AS client, toString(server) AS server, connection, is_failed, duration_ns FROM (${calls})
      UNION ALL SELECT minute_s, toString(client) AS client, server, connection, is_failed, duration_ns FROM (${peers}))
    GROUP BY minute_s, client, server, connection ORDER BY calls DESC LIMIT ${MAX_EDGES} BY minute_s`;
}
