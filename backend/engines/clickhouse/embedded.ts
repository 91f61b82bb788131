// ClickHouse's engine inside this process (chDB). Invariant: statements never wait for each other longer than the pool is busy (one
// connection runs one statement at a time), and closing waits until the engine has let go of its folder. Opened by client.ts.
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { join } from "node:path";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { type ClickHouseClient, createClient } from "@clickhouse/client";
import type { Engine, Insert } from "./client.ts";
import { columnNames, nativeBlock, nativeStructure } from "./native-block.ts";
import { Sql, sql } from "./sql.ts";
import { insertSettings, QUERY_SETTINGS } from "./statement-settings.ts";

/** Statements that run at once; each takes a thread of libuv's pool, so UV_THREADPOOL_SIZE must be well above. */
const CONNECTIONS = 6;

type ClientConnection = NonNullable<NonNullable<Parameters<typeof createClient>[0]>["connection"]>;

/** Opens the engine under `dataDir`, which no other process may use (data-dir-lock.ts). */
export async function openEmbedded(dataDir: string): Promise<Engine> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  // What a killed process left behind was never acknowledged.
  const inserts = join(dataDir, "inserts");
  await rm(inserts, { recursive: true, force: true });
  await mkdir(inserts, { mode: 0o700 });
  // Required here, not imported above: a backend with an external engine runs without chDB being installed.
  const require = createRequire(import.meta.url);
  const { createChdbConnection } = require("chdb/connection") as typeof import("chdb/connection");
  const { drainPending } = require("chdb") as typeof import("chdb");
  const lanes = Array.from({ length: CONNECTIONS }, () => {
    const connection = createChdbConnection({ path: dataDir });
    // chDB's declarations are CommonJS, the client's are not: the same interface, told apart by the compiler.
    const client = createClient({ connection: connection as unknown as ClientConnection });
    return { client };
  });
  const pool = new Pool(lanes);
  return {
    query: (statement) =>
      pool.run(async ({ client }) => (await client.query({ query: statement + QUERY_SETTINGS, format: "JSONEachRow" })).json()),
    command: (statement) => pool.run(async ({ client }) => void (await client.command({ query: statement }))),
    insert: (insert) => pool.run(({ client }) => insertRows(client, inserts, insert)),
    async [Symbol.asyncDispose]() {
      await pool.close();
      for (const { client } of lanes) await client.close();
      await drainPending();
    },
  };
}

/**
 * chDB takes text alone within a statement, so the block goes through a file, which is unlinked before it would ever be written to disk.
 */
async function insertRows(client: ClickHouseClient, folder: string, insert: Insert): Promise<void> {
  const file = join(folder, randomUUID());
  try {
    await writeFile(file, Buffer.concat(nativeBlock(insert.columns, insert.rows)), { mode: 0o600 });
    const names = columnNames(insert.columns);
    const source = sql`file(${file}, 'Native', ${nativeStructure(insert.columns)})`;
    const settings = Object.entries(insertSettings(insert)).map(([name, value]) => sql`${new Sql(name)} = ${value}`.text);
    await client.command({
      query: `INSERT INTO ${insert.table} (${names}) SETTINGS ${settings.join(", ")} SELECT ${names} FROM ${source.text}`,
    });
  } finally {
    await rm(file, { force: true });
  }
}

/** Hands each piece of work a free lane; the rest waits in order. */
class Pool<Lane> {
  readonly #free: Lane[];
  readonly #waiting: ((lane: Lane) => void)[] = [];
  readonly #running = new Set<Promise<unknown>>();
  #closed = false;

  constructor(lanes: readonly Lane[]) {
    this.#free = [...lanes];
  }

  async run<T>(work: (lane: Lane) => Promise<T>): Promise<T> {
    if (this.#closed) throw new Error("the embedded engine is closed");
    const running = this.#onLane(work);
    this.#running.add(running);
    try {
      return await running;
    } finally {
      this.#running.delete(running);
    }
  }

  /** Takes no more work and resolves when what was taken is done. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.allSettled(this.#running);
  }

  async #onLane<T>(work: (lane: Lane) => Promise<T>): Promise<T> {
    const lane = this.#free.pop() ?? (await new Promise<Lane>((resolve) => this.#waiting.push(resolve)));
    try {
      return await work(lane);
    } finally {
      const next = this.#waiting.shift();
      if (next) next(lane);
      else this.#free.push(lane);
    }
  }
}
