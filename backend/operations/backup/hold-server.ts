// The backend's side of a backup while it runs: holds one moment of its embedded engines by hard links, for as long as the backup command
// stays connected. Nothing is copied here. Invariants: only this user reaches the socket (0600, in DATA_DIR); one moment is held at a
// time; it is let go whenever its connection ends, and after MAX_SNAPSHOT_MS. Order: see docs/backup.md, "While it runs".
import { randomBytes } from "node:crypto";
import { chmodSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { folderSynced } from "../../../common/files.ts";
import { MAX_BACKUP_CONNECTIONS, MAX_SNAPSHOT_MS } from "../limits.ts";
import type { Log } from "../log.ts";
import { type Answer, firstLine, type Held, HELD_JOURNAL, HOLD_FOLDER, type Outside, QUESTION, removeLeftovers, socketIn } from "./held.ts";

const QUESTION_TIMEOUT_MS = 10_000;

/** Each is absent where the engine is outside. */
export interface Holdable {
  /** Freezes the tables under a name. Answers table → when; of none, where nothing was ever stored. */
  readonly freezeTables?: (name: string) => Promise<Readonly<Record<string, string>>>;
  readonly holdMetrics?: (journalFolder: string) => Promise<{ readonly snapshot: string; readonly series: number | undefined }>;
  readonly hasAccounts: boolean;
  readonly outside: Outside;
}

export interface HoldServerOptions {
  readonly dataDir: string;
  readonly engines: Holdable;
  readonly log: Log;
  readonly mostHoldMs?: number;
}

/** Listens. Where the file system takes no socket it says so and goes on: a backup then needs the backend stopped. */
export async function serveHolds(options: HoldServerOptions): Promise<AsyncDisposable> {
  const holds = new Holds(options);
  // Half-open: the command learns by the end of the connection that nothing is left of the moment.
  const server = createServer({ allowHalfOpen: true }, (socket) => void holds.serve(socket));
  server.maxConnections = MAX_BACKUP_CONNECTIONS;
  // Open for as long as the server is: closing removes the socket by the same path.
  const place = await socketIn(options.dataDir);
  try {
    await listen(server, place.path);
  } catch (error) {
    options.log.warn({ event: "backup.no_socket", err: error }, "cannot create a socket in DATA_DIR; backups need this backend stopped");
  }
  return {
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => server.close(resolve));
      await holds[Symbol.asyncDispose]();
      await closed;
      await place[Symbol.asyncDispose]();
    },
  };
}

async function listen(server: Server, path: string): Promise<void> {
  // One that a killed backend left: DATA_DIR is locked, so nobody listens there.
  await rm(path, { force: true });
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen({ path, backlog: MAX_BACKUP_CONNECTIONS }, resolve));
  chmodSync(path, 0o600);
}

class Holds implements AsyncDisposable {
  readonly #options: HoldServerOptions;
  readonly #sockets = new Set<Socket>();
  readonly #running = new Set<Promise<void>>();
  #since: string | undefined;

  constructor(options: HoldServerOptions) {
    this.#options = options;
  }

  async serve(socket: Socket): Promise<void> {
    this.#sockets.add(socket);
    const ended = new Promise<void>((resolve) => ["end", "close"].forEach((event) => socket.once(event, () => resolve())));
    // What a connection dies of is told by its end.
    socket.on("error", () => undefined);
    const running = this.#serve(socket, ended).catch((error: unknown) =>
      this.#options.log.error({ event: "backup.snapshot_failed", err: error }, "backup snapshot failed"),
    );
    this.#running.add(running);
    await running;
    socket.destroy();
    this.#sockets.delete(socket);
    this.#running.delete(running);
  }

  async #serve(socket: Socket, ended: Promise<void>): Promise<void> {
    if ((await firstLine(socket, QUESTION_TIMEOUT_MS)) !== QUESTION) return;
    if (this.#since !== undefined) return await tell(socket, { refused: `a backup is under way since ${this.#since}` });
    this.#since = new Date().toISOString();
    try {
      await this.#hold(socket, ended);
    } finally {
      this.#since = undefined;
    }
  }

  async #hold(socket: Socket, ended: Promise<void>): Promise<void> {
    const { dataDir, log, mostHoldMs = MAX_SNAPSHOT_MS } = this.#options;
    // Also of one that was killed while the engines were asked.
    await removeLeftovers(dataDir);
    try {
      const held = await this.#take();
      log.info({ event: "backup.snapshot_created", moments: held.moments }, "backup snapshot created; engines keep running");
      await tell(socket, { held });
      const timer = setTimeout(() => socket.destroy(), mostHoldMs);
      await ended;
      clearTimeout(timer);
      log.info({ event: "backup.snapshot_released" }, "backup snapshot released");
    } catch (error) {
      log.error({ event: "backup.snapshot_failed", err: error }, "backup snapshot failed");
      await tell(socket, { refused: `the backend could not hold its engines for a moment: ${(error as Error).message}` });
    } finally {
      await removeLeftovers(dataDir);
    }
  }

  async #take(): Promise<Held> {
    const { dataDir, engines } = this.#options;
    const { freezeTables, holdMetrics, hasAccounts, outside } = engines;
    const folder = join(dataDir, HOLD_FOLDER);
    await mkdir(join(folder, HELD_JOURNAL), { recursive: true, mode: 0o700 });
    // By this folder a start knows that something may have been left.
    await folderSynced(dataDir);
    const [frozen, mark] = ["backup", "held"].map((what) => `${what}_${randomBytes(8).toString("hex")}`) as [string, string];
    const metricsAt = new Date().toISOString();
    const works = [freezeTables?.(frozen), holdMetrics?.(join(folder, HELD_JOURNAL))] as const;
    // Of two that begin at once and one that fails, the other is not left running when what it makes is removed.
    await Promise.allSettled(works.filter((work) => work !== undefined));
    const [tables, metrics] = [await works[0], await works[1]];
    await writeFile(join(folder, mark), "");
    return {
      mark,
      ...(tables && { frozen }),
      ...(metrics && { snapshot: metrics.snapshot }),
      ...(metrics?.series !== undefined && { series: metrics.series }),
      hasAccounts,
      moments: { ...tables, ...(metrics && { metrics: metricsAt }) },
      outside,
    };
  }

  /** Lets go of everything. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await Promise.allSettled(this.#running);
  }
}

/** Resolves when the kernel has it, or the connection is gone. */
async function tell(socket: Socket, answer: Answer): Promise<void> {
  await new Promise<void>((resolve) => socket.write(`${JSON.stringify(answer)}\n`, () => resolve()));
}
