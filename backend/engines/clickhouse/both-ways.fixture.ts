// Opens the engine in both ways, embedded and over its HTTP interface, for tests that compare the two. Both see the same tables, because
// chDB binds one folder per process: the embedded client and the HTTP server share it.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { type ClickHouse, openClickHouse } from "./clickhouse-client.ts";
import { startHttpFront } from "./http-front.fixture.ts";

export interface BothWays extends AsyncDisposable {
  /** A test that closes it assigns a new one. */
  embedded: ClickHouse;
  readonly http: ClickHouse;
}

/** In an empty folder, which is removed afterwards. Only the embedded engine uses `threads` and `stopping`. */
export async function openBothWays(
  options: { threads?: number; stopping?: AbortSignal; insertIntervalMs?: number } = {},
): Promise<BothWays> {
  const log = pino({ level: "silent" });
  const dataDir = await mkdtemp(join(tmpdir(), "atherops-clickhouse-"));
  const front = await startHttpFront(dataDir);
  const both: BothWays = {
    embedded: await openClickHouse({ dataDir, log, ...options }),
    http: await openClickHouse({ url: front.url, dataDir, log, insertIntervalMs: options.insertIntervalMs ?? 0 }),
    async [Symbol.asyncDispose]() {
      await both.http[Symbol.asyncDispose]();
      await both.embedded[Symbol.asyncDispose]();
      await front[Symbol.asyncDispose]();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
  return both;
}
