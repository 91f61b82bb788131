// What a running backend and the backup command agree on: the socket, the question, the answer, and the folders that hold one moment of
// the embedded engines. Invariants: the answer has names, never paths; whatever is left of a moment that nobody holds is removed by file
// names alone, before an engine opens.
import { existsSync } from "node:fs";
import { type FileHandle, open, readdir, rm } from "node:fs/promises";
import type { Socket } from "node:net";
import { join } from "node:path";
import { removeFrozen } from "../../engines/clickhouse/freeze.ts";
import { removeSnapshots } from "../../engines/victoria-metrics/snapshot.ts";
import { MAX_LINE_BYTES } from "../limits.ts";

/** In DATA_DIR; made before the first engine is asked, removed when nothing is left of the moment. */
export const HOLD_FOLDER = "backup-hold";
/** In HOLD_FOLDER: second names of the metrics engine's journal. */
export const HELD_JOURNAL = "journal";
const MARK = /^held_/;
const SOCKET = "backup.sock";
export const QUESTION = "hold\n";

/** What is held for as long as the connection is open. */
export interface Held {
  /** Of the file in HOLD_FOLDER that goes before anything else does: while it is there, nothing is missing. */
  readonly mark: string;
  /** Name of the tables' frozen moment; absent: the engine is outside. */
  readonly frozen?: string;
  /** Name of the metrics engine's snapshot, beside which is the journal; absent: the engine is outside. */
  readonly snapshot?: string;
  readonly series?: number;
  /** Whether accounts.sqlite is the backend's. */
  readonly hasAccounts: boolean;
  /** Store → RFC 3339: what was answered before is in it. */
  readonly moments: Readonly<Record<string, string>>;
  readonly outside: Outside;
}

/** What an installation has that no backup of DATA_DIR holds. */
export interface Outside {
  /** Names of engines, for people. */
  readonly engines: readonly string[];
  /** Variables whose values come from the environment. */
  readonly secrets: readonly string[];
}

/** `refused`: why, for people. */
export type Answer = { readonly held: Held } | { readonly refused: string };

/** Where the socket is, as a path that is short enough for one however long DATA_DIR is. Valid until disposed. */
export async function socketIn(dataDir: string): Promise<{ readonly path: string } & AsyncDisposable> {
  const handle: FileHandle = await open(dataDir, "r");
  return { path: `/proc/self/fd/${handle.fd}/${SOCKET}`, [Symbol.asyncDispose]: () => handle.close() };
}

/** Removes what a process that was killed has left of a moment. Not to be called while one is held. */
export async function removeLeftovers(dataDir: string): Promise<void> {
  const folder = join(dataDir, HOLD_FOLDER);
  if (!existsSync(folder)) return;
  for (const name of await readdir(folder)) if (MARK.test(name)) await rm(join(folder, name), { force: true });
  await removeFrozen(join(dataDir, "clickhouse"));
  await removeSnapshots(join(dataDir, "metrics"));
  await rm(folder, { recursive: true, force: true });
}

/** The first line with its end; empty where the connection ends before, the line is too long, or takes too long. What follows is dropped. */
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
  // Its end is told only to those that read.
  socket.resume();
  return line;
}
