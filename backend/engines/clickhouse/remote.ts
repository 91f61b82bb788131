// A ClickHouse server or cluster over HTTP. Invariant: an insert that failed half-way is reported as failed, never retried here: only the
// caller knows whether the same rows may be sent again. Inserts, tenants' queries and pings have connections of their own, so that none
// waits for another.
import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { type ClickHouseClient, createClient } from "@clickhouse/client";
import { untilAborted } from "./cancel.ts";
import type { Engine, ReadLimits } from "./engine.ts";
import { coalescePieces } from "../pieces.ts";
import { columnNames, nativeBlock } from "./native-block.ts";
import { insertSettings, killStatement, QUERY_SETTINGS, readSettings } from "./statement-settings.ts";

const REQUEST_TIMEOUT_MS = 60_000;
const INSERT_CONNECTIONS = 16;
/** Concurrent reads of one replica; a server runs 100 queries at once by default. */
const READS = 8;
const CONTROL_CONNECTIONS = 4;

/** `url` may carry user, password and database. */
export function openRemote(url: string): Engine {
  const connect = (connections: number): ClickHouseClient =>
    createClient({
      url,
      request_timeout: REQUEST_TIMEOUT_MS,
      max_open_connections: connections,
      compression: { request: false, response: false },
      // Failures are thrown, and logged once at the edge.
      log: { level: 127 },
    });
  const [inserts, reads, control] = [connect(INSERT_CONNECTIONS), connect(READS), connect(CONTROL_CONNECTIONS)];
  return {
    reads: READS,
    query: async (statement) => (await inserts.query({ query: statement + QUERY_SETTINGS, format: "JSONEachRow" })).json(),
    read(statement, limits, signal) {
      const comment = randomUUID();
      const dropped = new AbortController();
      const kill = async (): Promise<void> => {
        await control.command({ query: killStatement(comment) }).catch(() => undefined);
        // Behind a balancer the kill may have reached another server; the one that runs the query notices that its client has left.
        dropped.abort();
      };
      return untilAborted(signal, () => readRows(reads, statement + readSettings(comment, limits), limits, dropped.signal), kill);
    },
    ping: async () => void (await control.command({ query: "SELECT 1" })),
    command: async (statement) => void (await inserts.command({ query: statement })),
    async insert(insert) {
      const { stream } = await inserts.exec({
        query: `INSERT INTO ${insert.table} (${columnNames(insert.columns)}) FORMAT Native`,
        values: Readable.from(coalescePieces(nativeBlock(insert.columns, insert.rows)), { objectMode: false }),
        clickhouse_settings: insertSettings(insert),
      });
      // The answer of an INSERT is empty; reading it to the end frees the socket.
      for await (const _chunk of stream);
    },
    [Symbol.asyncDispose]: async () => void (await Promise.all([inserts, reads, control].map((client) => client.close()))),
  };
}

async function readRows(client: ClickHouseClient, query: string, { maxSeconds }: ReadLimits, dropped: AbortSignal): Promise<Buffer> {
  // The server looks at its own time limit between blocks only.
  const tooLate = AbortSignal.timeout((maxSeconds + 5) * 1000);
  const { stream } = await client.exec({
    query,
    abort_signal: AbortSignal.any([dropped, tooLate]),
    clickhouse_settings: {
      // A failure half-way is a status, not a line in the rows.
      wait_end_of_query: 1,
      // Only a read-only query ends when its client leaves; 2: its settings may still be its own.
      readonly: "2",
      cancel_http_readonly_queries_on_client_close: 1,
    },
  });
  return buffer(stream);
}
