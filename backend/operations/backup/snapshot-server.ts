// The running backend's side of the snapshot protocol: keeps a snapshot of its embedded engines, made of hard links, while the backup
// command is connected; it copies nothing. Invariants: only this user can reach the socket (0600, in DATA_DIR); there is one snapshot at a
// time; it is released when its connection ends, and after MAX_SNAPSHOT_MS. For the order, see docs/backup.md, "While the backend runs".
import { randomBytes } from "node:crypto";
import { chmodSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { folderSynced } from "../../../common/files.ts";
import { MAX_BACKUP_CONNECTIONS, MAX_SNAPSHOT_MS } from "../operations-limits.ts";
import type { Log } from "../../log.ts";
import {
  type SnapshotResponse,
  firstLine,
  type BackupSnapshot,
  SNAPSHOT_JOURNAL,
  SNAPSHOT_FOLDER,
  type External,
  REQUEST,
  removeSnapshotRemains,
  socketIn,
} from "./snapshot-protocol.ts";

const REQUEST_TIMEOUT_MS = 10_000;

/** Functions that create each engine's part of a snapshot; absent if the engine is external. */
export interface SnapshotSources {
  /** Freezes the tables under a name. Returns table → time; empty if nothing was ever stored. */
  readonly freezeTables?: (name: string) => Promise<Readonly<Record<string, string>>>;
  readonly snapshotMetrics?: (journalFolder: string) => Promise<{ readonly snapshot: string; readonly series: number | undefined }>;
  readonly hasAccounts: boolean;
  readonly external: External;
}

export interface SnapshotServerOptions {
  readonly dataDir: string;
  readonly engines: SnapshotSources;
  readonly log: Log;
  readonly maxSnapshotMs?: number;
}

/**
 * Listens. If the file system does not support sockets, that is logged and the backend continues: a backup is then possible only while it
 * is stopped.
 */
export async function serveSnapshots(options: SnapshotServerOptions): Promise<AsyncDisposable> {
  const connections = new SnapshotConnections(options);
  // Half-open: this side closes only after the snapshot is removed, and the command waits for that.
  const server = createServer({ allowHalfOpen: true }, (socket) => void connections.serve(socket));
  server.maxConnections = MAX_BACKUP_CONNECTIONS;
  // Disposed after the server: closing it removes the socket through the same path.
  const socket = await socketIn(options.dataDir);
  try {
    await listen(server, socket.path);
  } catch (error) {
    options.log.warn({ event: "backup.no_socket", err: error }, "cannot create a socket in DATA_DIR: backups need a stopped backend");
  }
  return {
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => server.close(resolve));
      await connections[Symbol.asyncDispose]();
      await closed;
      await socket[Symbol.asyncDispose]();
    },
  };
}

async function listen(server: Server, path: string): Promise<void> {
  // A killed backend may have left a socket. DATA_DIR is locked, so no process listens on it.
  await rm(path, { force: true });
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen({ path, backlog: MAX_BACKUP_CONNECTIONS }, resolve));
  chmodSync(path, 0o600);
}

class SnapshotConnections implements AsyncDisposable {
  readonly #options: SnapshotServerOptions;
  readonly #sockets = new Set<Socket>();
  readonly #running = new Set<Promise<void>>();
  #since: string | undefined;

  constructor(options: SnapshotServerOptions) {
    this.#options = options;
  }

  async serve(socket: Socket): Promise<void> {
    this.#sockets.add(socket);
    const ended = new Promise<void>((resolve) => ["end", "close"].forEach((event) => socket.once(event, () => resolve())));
    // The event `close` follows.
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
    if ((await firstLine(socket, REQUEST_TIMEOUT_MS)) !== REQUEST) return;
    if (this.#since !== undefined) return await respond(socket, { refused: `another backup has been running since ${this.#since}` });
    this.#since = new Date().toISOString();
    try {
      await this.#keepSnapshot(socket, ended);
    } finally {
      this.#since = undefined;
    }
  }

  async #keepSnapshot(socket: Socket, ended: Promise<void>): Promise<void> {
    const { dataDir, log, maxSnapshotMs = MAX_SNAPSHOT_MS } = this.#options;
    // A backup command that was killed earlier may have left a part of a snapshot.
    await removeSnapshotRemains(dataDir);
    try {
      const snapshot = await this.#create();
      log.info({ event: "backup.snapshot_created", snapshotTimes: snapshot.snapshotTimes }, "backup snapshot created");
      await respond(socket, { snapshot });
      const timer = setTimeout(() => socket.destroy(), maxSnapshotMs);
      await ended;
      clearTimeout(timer);
      log.info({ event: "backup.snapshot_released" }, "backup snapshot released");
    } catch (error) {
      log.error({ event: "backup.snapshot_failed", err: error }, "backup snapshot failed");
      await respond(socket, { refused: `the backend could not create a snapshot of its engines: ${(error as Error).message}` });
    } finally {
      await removeSnapshotRemains(dataDir);
    }
  }

  async #create(): Promise<BackupSnapshot> {
    const { dataDir, engines } = this.#options;
    const { freezeTables, snapshotMetrics, hasAccounts, external } = engines;
    const folder = join(dataDir, SNAPSHOT_FOLDER);
    await mkdir(join(folder, SNAPSHOT_JOURNAL), { recursive: true, mode: 0o700 });
    // The next start finds leftovers by this folder, so it must be on the disk first.
    await folderSynced(dataDir);
    const [frozen, mark] = ["backup", "complete"].map((prefix) => `${prefix}_${randomBytes(8).toString("hex")}`) as [string, string];
    const metricsAt = new Date().toISOString();
    const snapshots = [freezeTables?.(frozen), snapshotMetrics?.(join(folder, SNAPSHOT_JOURNAL))] as const;
    // If one engine fails, wait for the other, too, because its part is removed afterwards.
    await Promise.allSettled(snapshots.filter((snapshot) => snapshot !== undefined));
    const [tables, metrics] = [await snapshots[0], await snapshots[1]];
    await writeFile(join(folder, mark), "");
    return {
      mark,
      ...(tables && { frozen }),
      ...(metrics && { snapshot: metrics.snapshot }),
      ...(metrics?.series !== undefined && { series: metrics.series }),
      hasAccounts,
      snapshotTimes: { ...tables, ...(metrics && { metrics: metricsAt }) },
      external,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await Promise.allSettled(this.#running);
  }
}

/** Resolves when the kernel has accepted the bytes, or the connection is closed. */
async function respond(socket: Socket, response: SnapshotResponse): Promise<void> {
  await new Promise<void>((resolve) => socket.write(`${JSON.stringify(response)}\n`, () => resolve()));
}
