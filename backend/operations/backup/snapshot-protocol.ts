// The protocol between a running backend and the backup command, which connects to a socket in DATA_DIR and gets a snapshot of the embedded
// engines. Invariants: the response contains names, never paths; the remains of a snapshot are recognised by their file names and removed
// before an engine opens.
import { existsSync } from "node:fs";
import { type FileHandle, open, readdir, rm } from "node:fs/promises";
import type { Socket } from "node:net";
import { join } from "node:path";
import { removeFrozen } from "../../engines/clickhouse/freeze.ts";
import { removeSnapshots } from "../../engines/victoria-metrics/snapshot.ts";
import type { Secrets, Settings } from "../../settings.ts";
import { MAX_LINE_BYTES } from "../operations-limits.ts";

/**
 * A folder in DATA_DIR. Created before the first engine is asked for its part, removed after the rest of the snapshot. The name must not
 * change, so that the remains of a process of an earlier version are found.
 */
export const SNAPSHOT_FOLDER = "backup-hold";
/** A folder in SNAPSHOT_FOLDER with hard links to the journal of the metrics engine. */
export const SNAPSHOT_JOURNAL = "journal";
const MARK = /^complete_/;
const SOCKET = "backup.sock";
export const REQUEST = "snapshot\n";

/** The parts of a snapshot. They exist while the connection is open. */
export interface BackupSnapshot {
  /** The name of a file in SNAPSHOT_FOLDER that is removed before the rest of the snapshot: while it exists, the snapshot is complete. */
  readonly mark: string;
  /** The name under which the tables were frozen; absent if the engine is external. */
  readonly frozen?: string;
  /** The name of the metrics engine's snapshot; absent if the engine is external. */
  readonly snapshot?: string;
  readonly series?: number;
  /** Whether the backend uses accounts.sqlite. */
  readonly hasAccounts: boolean;
  /** Store → RFC 3339 time: everything that was acknowledged before that time is in the snapshot. */
  readonly snapshotTimes: Readonly<Record<string, string>>;
  readonly external: External;
}

/** What an installation stores outside of DATA_DIR, so a backup does not contain it. */
export interface External {
  /** Names of engines as operators know them. */
  readonly engines: readonly string[];
  /** Variables whose values come from the environment. */
  readonly secrets: readonly string[];
}

export function externalOf(settings: Settings, secrets: Secrets): External {
  return {
    engines: namesOfSet({ PostgreSQL: secrets.databaseUrl, ClickHouse: secrets.clickhouseUrl, VictoriaMetrics: settings.metricsWriteUrl }),
    secrets: namesOfSet({ MASTER_KEY: secrets.masterKey, JWT_SECRET: secrets.jwtSecret }),
  };
}

function namesOfSet(values: Readonly<Record<string, unknown>>): string[] {
  return Object.keys(values).filter((name) => values[name]);
}

/** One line per engine and per secret. */
export function externalLines({ engines, secrets }: External): string[] {
  return [
    ...engines.map((name) => `${name} is an external engine and not part of this backup: see docs/backup.md`),
    ...secrets.map((name) => `${name} comes from the environment and is not part of this backup: keep it too`),
  ];
}

/** `refused`: the reason, for the operator. */
export type SnapshotResponse = { readonly snapshot: BackupSnapshot } | { readonly refused: string };

/** The path of the socket. It goes through /proc, because the path of a socket is limited to 107 bytes. Valid until disposed. */
export async function socketIn(dataDir: string): Promise<{ readonly path: string } & AsyncDisposable> {
  const handle: FileHandle = await open(dataDir, "r");
  return { path: `/proc/self/fd/${handle.fd}/${SOCKET}`, [Symbol.asyncDispose]: () => handle.close() };
}

/** Removes the snapshot that a killed process left behind. Do not call it while a snapshot is in use. */
export async function removeSnapshotRemains(dataDir: string): Promise<void> {
  const folder = join(dataDir, SNAPSHOT_FOLDER);
  if (!existsSync(folder)) return;
  for (const name of await readdir(folder)) if (MARK.test(name)) await rm(join(folder, name), { force: true });
  await removeFrozen(join(dataDir, "clickhouse"));
  await removeSnapshots(join(dataDir, "metrics"));
  await rm(folder, { recursive: true, force: true });
}

/**
 * The first line with its line feed; empty if the connection ends before it, or if the line is too long or too late. Further data are
 * discarded.
 */
export async function firstLine(socket: Socket, timeoutMs: number): Promise<string> {
  let text = "";
  const timer = setTimeout(() => socket.destroy(), timeoutMs);
  const line = await new Promise<string>((resolve) => {
    socket.once("close", () => resolve(""));
    socket.on("data", (piece) => {
      text += piece.toString("utf8");
      if (text.includes("\n")) resolve(text.slice(0, text.indexOf("\n") + 1));
      else if (text.length > MAX_LINE_BYTES) socket.destroy();
    });
  });
  clearTimeout(timer);
  socket.removeAllListeners("data");
  // A socket reports the end of the connection only while it is read.
  socket.resume();
  return line;
}
