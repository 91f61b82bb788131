// Runs ClickHouse's engine inside this process (chDB). Invariant: a connection runs one statement at a time; inserts, tenants' queries and
// pings have their own connections, so that they do not wait for each other; closing waits until the engine has released its folder.
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { availableParallelism, totalmem } from "node:os";
import { join } from "node:path";
import { mkdir, open, rm, unlink, writeFile } from "node:fs/promises";
import { type ClickHouseClient, createClient } from "@clickhouse/client";
import { makeFolder } from "../../../common/files.ts";
import { StartError } from "../../errors.ts";
import { untilAborted } from "./cancel.ts";
import { type Engine, type Insert, maxEnding } from "./engine.ts";
import { coalescePieces } from "../pieces.ts";
import { columnNames, nativeBlock } from "./native-block.ts";
import { Sql, sql } from "./sql.ts";
import { insertSettings, killStatement, QUERY_SETTINGS, readSettings } from "./statement-settings.ts";

/** libuv's default; a larger UV_THREADPOOL_SIZE raises it. */
const DEFAULT_THREADS = 4;

/**
 * The number of concurrent inserts and tenants' queries. Each occupies a thread of libuv's pool, which pings, file operations, name
 * resolution and password hashing need, too.
 */
function connectionsFor(threads: number): { inserts: number; reads: number } {
  const inserts = threads >= 8 ? 2 : 1;
  return { inserts, reads: Math.min(4, Math.max(1, threads - inserts - 2)) };
}

type ClientConnection = NonNullable<NonNullable<Parameters<typeof createClient>[0]>["connection"]>;

/** Threads of a read that runs alone; further cores remain free for ingest and the other engines. */
const MAX_THREADS_ALONE = 4;

/** A single read may use all of a small machine. Several reads leave half of the cores to ingest and the other engines. */
function readThreads(running: number): number {
  const cores = availableParallelism();
  const half = Math.max(1, Math.floor(cores / 2));
  return running > 1 ? half : Math.max(half, Math.min(cores, MAX_THREADS_ALONE));
}

/**
 * How long jemalloc, the engine's allocator, keeps freed memory. Its default is 5 s, but it checks the time only when it is used: under a
 * thousand small requests per second it kept about 100 MB that merges had freed. A value that the operator sets takes precedence.
 */
const ALLOCATOR = "dirty_decay_ms:200,muzzy_decay_ms:0";

/**
 * The codec of columns with CODEC(Default): LZ4 for parts below 32 MiB, ZSTD above. A row is merged at least twice before it is in a part
 * that large, and ZSTD adds 0.8 µs of CPU per row to a merge. It can only be set in a file.
 */
const CONFIG = `<clickhouse><compression><case>
<min_part_size>33554432</min_part_size><min_part_size_ratio>0</min_part_size_ratio><method>zstd</method><level>1</level>
</case></compression></clickhouse>
`;

/** Loaded here and not at the top, because a backend with an external engine also runs without chDB, as in the lean image. */
function installedEngine() {
  const require = createRequire(import.meta.url);
  // oxlint-disable-next-line node/no-process-env -- the library reads it when it is loaded; there is no other way to set it
  process.env["JE_MALLOC_CONF"] ??= ALLOCATOR;
  return orNotInstalled(() => {
    const { createChdbConnection } = require("chdb/connection") as typeof import("chdb/connection");
    const { drainPending, Session } = require("chdb") as typeof import("chdb");
    return { createChdbConnection, drainPending, Session };
  });
}

/** Checks that the engine is installed, without loading it. Throws a StartError that describes what to set. */
export function requireEmbedded(): void {
  const require = createRequire(import.meta.url);
  orNotInstalled(() => require.resolve("chdb/connection"));
}

function orNotInstalled<T>(work: () => T): T {
  try {
    return work();
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "MODULE_NOT_FOUND") throw cause;
    const what = "the embedded ClickHouse (chDB) is not installed here";
    throw new StartError(`${what}: set CLICKHOUSE_URL, or use the image with embedded engines`, { cause });
  }
}

/** Opens the engine under `dataDir`, which no other process may use (operations/backup/lock.ts). `threads`: the size of libuv's pool. */
export async function openEmbedded(dataDir: string, threads = DEFAULT_THREADS, limitBytes = memoryLimitBytes()): Promise<Engine> {
  // The folder's name is on disk before anything is acknowledged from a journal in it.
  makeFolder(dataDir, 0o700);
  // Files of a killed process were never acknowledged.
  const folder = join(dataDir, "inserts");
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { mode: 0o700 });
  const config = join(folder, "config.xml");
  await writeFile(config, CONFIG, { mode: 0o600 });
  const { createChdbConnection, drainPending, Session } = installedEngine();
  // The first connection to a folder starts the engine, so it passes the arguments; the client's connections cannot pass any.
  const session = new Session(dataDir, { connectionArgs: [`--config-file=${config}`, ...cacheArguments(limitBytes)] });
  // chDB's declarations are CommonJS and the client's are not: the interface is the same, but the compiler distinguishes them.
  const openClient = (): ClickHouseClient => createClient({ connection: createChdbConnection({ path: dataDir }) as ClientConnection });
  const connections = connectionsFor(threads);
  const inserts = new Pool(Array.from({ length: connections.inserts }, openClient));
  const reads = new Pool(Array.from({ length: connections.reads + maxEnding(connections.reads) }, openClient));
  // For pings and cancellations, which take a few milliseconds each.
  const control = new Pool([openClient()]);
  return {
    reads: connections.reads,
    shardCount: 1,
    query: (statement) =>
      inserts.run(async (client) => (await client.query({ query: statement + QUERY_SETTINGS, format: "JSONEachRow" })).json()),
    read: (statement, limits, signal) =>
      reads.run((client) => {
        const comment = randomUUID();
        const kill = () => control.run(async (killer) => void (await killer.command({ query: killStatement(comment) })));
        const settings = readSettings(comment, { ...limits, threads: readThreads(reads.running) });
        return untilAborted(signal, () => readRows(client, statement + settings), kill);
      }),
    ping: () => control.run(async (client) => void (await client.command({ query: "SELECT 1" }))),
    command: (statement) => inserts.run(async (client) => void (await client.command({ query: statement }))),
    insert: (insert) => inserts.run((client) => insertRows(client, folder, insert)),
    async [Symbol.asyncDispose]() {
      await Promise.all([inserts.close(), reads.close()]);
      // Last, because running statements may have to be cancelled.
      await control.close();
      session.close();
      await drainPending();
    },
  };
}

async function readRows(client: ClickHouseClient, query: string): Promise<Buffer> {
  try {
    const { stream } = await client.exec({ query });
    const chunks: Buffer[] = await stream.toArray();
    // Usually the result is a single chunk, which need not be copied.
    return chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks);
  } catch (error) {
    // A connection keeps a failed statement and its memory until the next one.
    await client.command({ query: "SELECT 1" }).catch(() => undefined);
    throw error;
  }
}

/** chDB accepts only text in a statement, so the block is in a file, which is usually unlinked before the kernel writes it to disk. */
async function insertRows(client: ClickHouseClient, folder: string, insert: Insert): Promise<void> {
  const file = join(folder, randomUUID());
  try {
    const { structure, pieces } = await nativeBlock(insert.columns, insert.rows);
    await writePieces(file, [...coalescePieces(pieces)]);
    const names = columnNames(insert.columns);
    const source = sql`file(${file}, 'Native', ${structure})`;
    const settings = Object.entries(insertSettings(insert)).map(([name, value]) => sql`${new Sql(name)} = ${value}`.text);
    await client.command({
      query: `INSERT INTO ${insert.table} (${names}) SETTINGS ${settings.join(", ")} SELECT ${names} FROM ${source.text}`,
    });
  } finally {
    // The insert does not wait for it. If the file could not be written, it does not exist.
    void unlink(file).catch(() => undefined);
  }
}

/** Writes the pieces unchanged: copying the rows of a batch would block the event loop for many milliseconds. */
async function writePieces(file: string, pieces: readonly Uint8Array[]): Promise<void> {
  const handle = await open(file, "wx", 0o600);
  try {
    for (let remaining = pieces; remaining.length > 0;) remaining = dropBytes(remaining, (await handle.writev(remaining)).bytesWritten);
  } finally {
    void handle.close().catch(() => undefined);
  }
}

/** The pieces without their first `bytes`. */
function dropBytes(pieces: readonly Uint8Array[], bytes: number): readonly Uint8Array[] {
  let skipped = 0;
  for (const [index, piece] of pieces.entries()) {
    if (skipped + piece.length > bytes) return [piece.subarray(bytes - skipped), ...pieces.slice(index + 1)];
    skipped += piece.length;
  }
  return [];
}

/** Assigns each task a free connection, which runs one statement at a time; further tasks wait in order. */
class Pool {
  readonly #all: readonly ClickHouseClient[];
  readonly #free: ClickHouseClient[];
  readonly #waiting: ((client: ClickHouseClient) => void)[] = [];
  readonly #running = new Set<Promise<unknown>>();
  #closed = false;

  constructor(clients: readonly ClickHouseClient[]) {
    this.#all = clients;
    this.#free = [...clients];
  }

  /** The number of tasks that have a connection. */
  get running(): number {
    return this.#all.length - this.#free.length;
  }

  async run<T>(work: (client: ClickHouseClient) => Promise<T>): Promise<T> {
    if (this.#closed) throw new Error("the embedded engine is closed");
    const running = this.#runWhenFree(work);
    this.#running.add(running);
    try {
      return await running;
    } finally {
      this.#running.delete(running);
    }
  }

  /** Accepts no more tasks, and closes when all accepted ones are done. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.allSettled(this.#running);
    for (const client of this.#all) await client.close();
  }

  async #runWhenFree<T>(work: (client: ClickHouseClient) => Promise<T>): Promise<T> {
    const client = this.#free.pop() ?? (await new Promise<ClickHouseClient>((resolve) => this.#waiting.push(resolve)));
    try {
      return await work(client);
    } finally {
      const next = this.#waiting.shift();
      if (next) next(client);
      else this.#free.push(client);
    }
  }
}

const MIB = 1024 * 1024;
const MIN_CACHE_BYTES = 8 * MIB;
/**
 * The engine's caches as parts of the memory limit, together 4.3 %; the default is 5 GiB for marks alone. Each is large
 * enough that a query does not read its marks twice. Primary keys are in memory with their parts, and columns are not cached.
 */
const CACHE_PARTS = {
  // Marks take 24 bytes per column and 2,048 rows, uncompressed.
  mark_cache_size: 1 / 64,
  index_mark_cache_size: 1 / 128,
  // The filters of words take 3 bytes per row; a search for a rare word reads all filters of its range.
  index_uncompressed_cache_size: 1 / 256,
  query_condition_cache_size: 1 / 128,
  compiled_expression_cache_size: 1 / 128,
};

/** The memory that this process may use: the limit of its container (cgroup v1 or v2), else the memory of the machine. */
export function memoryLimitBytes(): number {
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem();
}

/** The sizes of the caches as arguments of the engine. */
export function cacheArguments(limitBytes: number): string[] {
  return Object.entries(CACHE_PARTS).map(([name, part]) => `--${name}=${Math.max(MIN_CACHE_BYTES, Math.floor(limitBytes * part))}`);
}
