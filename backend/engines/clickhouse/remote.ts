// A ClickHouse server or cluster over HTTP. Invariant: an insert that failed half-way is reported as failed, never retried here: only the
// caller knows whether the same rows may be sent again. Opened by client.ts.
import { Readable } from "node:stream";
import { createClient } from "@clickhouse/client";
import type { Engine } from "./client.ts";
import { columnNames, nativeBlock } from "./native-block.ts";
import { insertSettings, QUERY_SETTINGS } from "./statement-settings.ts";

const REQUEST_TIMEOUT_MS = 60_000;
const MAX_CONNECTIONS = 16;

/** `url` may carry user, password and database. */
export function openRemote(url: string): Engine {
  const client = createClient({
    url,
    request_timeout: REQUEST_TIMEOUT_MS,
    max_open_connections: MAX_CONNECTIONS,
    compression: { request: false, response: false },
    // Failures are thrown, and logged once at the edge.
    log: { level: 127 },
  });
  return {
    query: async (statement) => (await client.query({ query: statement + QUERY_SETTINGS, format: "JSONEachRow" })).json(),
    command: async (statement) => void (await client.command({ query: statement })),
    async insert(insert) {
      const { stream } = await client.exec({
        query: `INSERT INTO ${insert.table} (${columnNames(insert.columns)}) FORMAT Native`,
        values: Readable.from(nativeBlock(insert.columns, insert.rows), { objectMode: false }),
        clickhouse_settings: insertSettings(insert),
      });
      // The answer of an INSERT is empty; reading it to the end frees the socket.
      for await (const _chunk of stream);
    },
    [Symbol.asyncDispose]: () => client.close(),
  };
}
