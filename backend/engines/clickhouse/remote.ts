// Runs statements on a ClickHouse server, or on a cluster of several shards, over HTTP. Invariants: an insert that failed half-way is
// reported as failed and never retried here, because only the caller knows whether the same rows may be sent again. Inserts, tenants'
// queries and pings have their own connections, so that they do not wait for each other.
import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { type ClickHouseClient, createClient } from "@clickhouse/client";
import { untilAborted } from "./cancel.ts";
import { type Engine, maxEnding, type ReadLimits } from "./engine.ts";
import { coalescePieces } from "../pieces.ts";
import { columnNames, nativeBlock } from "./native-block.ts";
import { distributedDatabase, withGlobalSubqueries } from "./clickhouse-shards.ts";
import { DDL_SETTINGS, insertSettings, killStatement, QUERY_SETTINGS, quorumSettings, readSettings } from "./statement-settings.ts";

const REQUEST_TIMEOUT_MS = 60_000;
const CONTROL_CONNECTIONS = 4;
/** For this time after a server failed to respond, the other servers get its queries. */
const AVOID_MS = 5000;

export interface RemoteOptions {
  /** One per shard, in an order that never changes; each may contain user, password and database. */
  readonly urls: readonly string[];
  readonly cluster?: string | undefined;
  /** Replicas that must have an insert before it is acknowledged: a number, or `auto` for the majority. */
  readonly insertQuorum?: string;
  /** Connections to each shard. */
  readonly insertConnections?: number;
  readonly querySlots?: number;
}

interface ShardClients {
  readonly inserts: ClickHouseClient;
  readonly control: ClickHouseClient;
  /** This client and the next one read all shards, through the database of distributed tables. */
  readonly reads: ClickHouseClient;
  readonly queries: ClickHouseClient;
}

interface ShardServer {
  readonly clients: ShardClients;
  avoidedUntilMs: number;
}

export function databaseOf(url: string): string {
  return decodeURIComponent(new URL(url).pathname.slice(1)) || "default";
}

export function openRemote({ urls, cluster, insertQuorum = "auto", insertConnections = 16, querySlots = 8 }: RemoteOptions): Engine {
  const [firstUrl = ""] = urls;
  const shardDatabase = urls.length > 1 ? databaseOf(firstUrl) : undefined;
  const shards = urls.map((url): ShardServer => {
    const allShards = new URL(url);
    if (shardDatabase !== undefined) allShards.pathname = `/${distributedDatabase(shardDatabase)}`;
    const clients = {
      inserts: connect(url, insertConnections),
      control: connect(url, CONTROL_CONNECTIONS),
      reads: connect(allShards.href, querySlots + maxEnding(querySlots)),
      queries: connect(allShards.href, CONTROL_CONNECTIONS),
    };
    return { clients, avoidedUntilMs: 0 };
  });
  const nextServer = roundRobin(shards);
  const clientsOf = (shard = 0): ShardClients => (shards[shard] as ShardServer).clients;
  return {
    reads: querySlots,
    shardCount: shards.length,
    async query(statement, shard) {
      const client = shard === undefined && shards.length > 1 ? nextServer().clients.queries : clientsOf(shard).inserts;
      return (await client.query({ query: statement + QUERY_SETTINGS, format: "JSONEachRow" })).json();
    },
    read(statement, limits, signal) {
      const comment = randomUUID();
      const disconnect = new AbortController();
      const server = nextServer();
      const { reads, control } = server.clients;
      const kill = async (): Promise<void> => {
        // Not ON CLUSTER: each would be a task of Keeper, and clients may abandon many queries per second.
        await control.command({ query: killStatement(comment) }).catch(() => undefined);
        // Behind a load balancer, the kill may have reached another server; the one that runs the query notices the closed connection.
        disconnect.abort();
      };
      const text =
        (shardDatabase === undefined ? statement : withGlobalSubqueries(statement)) + readSettings(comment, { ...limits, shardDatabase });
      const read = () =>
        readRows(reads, text, limits, disconnect.signal).catch((error: unknown) => {
          if (!signal.aborted && !isEngineError(error)) server.avoidedUntilMs = performance.now() + AVOID_MS;
          throw error;
        });
      return untilAborted(signal, read, kill);
    },
    ping: async () => void (await Promise.all(shards.map(({ clients }) => clients.control.command({ query: "SELECT 1" })))),
    async command(statement, shard) {
      await clientsOf(shard).inserts.command({ query: statement, clickhouse_settings: cluster === undefined ? {} : DDL_SETTINGS });
    },
    async insert(insert) {
      const { pieces } = await nativeBlock(insert.columns, insert.rows);
      const { stream } = await clientsOf(insert.shard).inserts.exec({
        query: `INSERT INTO ${insert.table} (${columnNames(insert.columns)}) FORMAT Native`,
        values: Readable.from(coalescePieces(pieces), { objectMode: false }),
        clickhouse_settings: { ...insertSettings(insert), ...(cluster !== undefined && quorumSettings(insertQuorum)) },
      });
      // The response to an INSERT is empty; reading it to the end frees the socket.
      for await (const _chunk of stream);
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(shards.flatMap(({ clients }) => Object.values(clients) as ClickHouseClient[]).map((client) => client.close()));
    },
  };
}

/** The codes of ClickHouse's errors are numbers; those of connection failures, such as ECONNRESET, are not. */
function isEngineError(error: unknown): boolean {
  return /^\d+$/.test(String((error as { code?: unknown }).code));
}

/** The servers alternate in merging the results of the shards. */
function roundRobin(servers: readonly ShardServer[]): () => ShardServer {
  let calls = 0;
  return () => {
    calls += 1;
    const order = servers.map((_, at) => servers[(calls + at) % servers.length] as ShardServer);
    return order.find(({ avoidedUntilMs }) => avoidedUntilMs <= performance.now()) ?? (order[0] as ShardServer);
  };
}

function connect(url: string, connections: number): ClickHouseClient {
  return createClient({
    url,
    request_timeout: REQUEST_TIMEOUT_MS,
    max_open_connections: connections,
    compression: { request: false, response: false },
    // Errors are thrown, and logged once by the caller.
    log: { level: 127 },
  });
}

async function readRows(client: ClickHouseClient, query: string, { maxSeconds }: ReadLimits, disconnect: AbortSignal): Promise<Buffer> {
  // The server checks its time limit only between blocks.
  const timeout = AbortSignal.timeout((maxSeconds + 5) * 1000);
  const { stream } = await client.exec({
    query,
    abort_signal: AbortSignal.any([disconnect, timeout]),
    clickhouse_settings: {
      // Makes the server report an error half-way as a status, not as a line among the rows.
      wait_end_of_query: 1,
      // Only a read-only query ends when its client disconnects. 2 still allows it to have settings.
      readonly: "2",
      cancel_http_readonly_queries_on_client_close: 1,
    },
  });
  return buffer(stream);
}
