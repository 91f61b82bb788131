// Schedules backups (BACKUP_EVERY) and removes old ones: all backups of an installation are in one folder and named by their time; the
// running backend starts its own backup command when the newest backup is old enough. Invariants: an old backup is removed only after a
// newer one is complete; it is renamed before it is deleted, so a half-deleted backup never looks complete; only folders with such a name
// are counted or removed. The scheduled command is a separate process, so that copying does not use this one's memory and threads; one runs
// at a time; it ends with the backend; a failure is logged and retried.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { Loop } from "../../../common/loop.ts";
import { Outage } from "../../../common/outage.ts";
import type { Log } from "../../log.ts";
import { existsSync, readdirSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { folderSynced } from "../../../common/files.ts";
import { MANIFEST } from "./manifest.ts";

const run = promisify(execFile);
const FIRST_BACKOFF_MS = 60_000;
const REMIND_MS = 6 * 60 * 60_000;

export interface BackupSchedule {
  readonly folder: string;
  readonly everyMs: number;
  readonly keep: number;
}

/** `command`: program and first arguments of the backup command, e.g. node and main.ts. It inherits this process's environment. */
export function scheduleBackups(
  { folder, everyMs, keep }: BackupSchedule,
  { command, log, now = Date.now }: { command: readonly [string, ...string[]]; log: Log; now?: () => number },
): AsyncDisposable {
  const outage = new Outage({
    began: (err) => log.error({ event: "backup.failed", err, folder }, "backup failed; retrying"),
    reminded: (err, facts) => log.error({ event: "backup.still_failing", err, folder, ...facts }, "backup still fails; retrying"),
    ended: ({ failures, seconds }) => log.info({ event: "backup.recovered", failures, seconds, folder }, "recovered: backup completed"),
    remindEveryMs: REMIND_MS,
  });
  const [program, ...args] = command;
  return new Loop({
    async step(signal) {
      const ageMs = now() - (newestBackupMs(folder) ?? -Infinity);
      // Ignores a backup with a time in the future, which a wrong clock has named.
      if (ageMs >= 0 && ageMs < everyMs) return everyMs - ageMs;
      const { stderr } = await run(program, [...args, "backup", "--into", folder, "--keep", String(keep)], { signal });
      log.info({ event: "backup.completed", folder, output: stderr.trim().split("\n") }, "backup completed");
      outage.recovered();
      return everyMs;
    },
    failed: (error) => outage.failed(new Error(describeFailure(error), { cause: error })),
    backoffMs: [FIRST_BACKOFF_MS, Math.max(FIRST_BACKOFF_MS, Math.min(everyMs, REMIND_MS))],
  });
}

/** The last line of the command's output is the reason. */
function describeFailure(error: unknown): string {
  const { stderr = "", message } = error as Error & { stderr?: string };
  return stderr.trim().split("\n").at(-1) || message;
}

const NAME = /^atherops-(\d{4}-\d{2}-\d{2})T(\d{2})(\d{2})(\d{2})Z$/;
const PARTIAL = /^\.atherops-\d{4}-\d{2}-\d{2}T\d{6}Z\.(?:partial|removed)$/;

/** `atherops-2026-11-22T071500Z`. */
export function backupName(now: Date): string {
  return `atherops-${now.toISOString().replace(/\.\d+/, "").replaceAll(":", "")}`;
}

/** Names of the complete backups, oldest first; empty if the folder cannot be read. */
export function listBackups(into: string): string[] {
  return listNames(into)
    .filter((name) => NAME.test(name) && existsSync(join(into, name, MANIFEST)))
    .sort();
}

function listNames(into: string): string[] {
  try {
    return readdirSync(into);
  } catch {
    // The next backup into this folder fails with the reason.
    return [];
  }
}

/** When the newest backup began, in Unix milliseconds; undefined if there is none. */
export function newestBackupMs(into: string): number | undefined {
  const [, day, hours, minutes, seconds] = NAME.exec(listBackups(into).at(-1) ?? "") ?? [];
  return day === undefined ? undefined : Date.parse(`${day}T${hours}:${minutes}:${seconds}Z`);
}

/**
 * Keeps the backup `createdName`, even if a wrong clock has named it, and the newest `keep - 1` others. Returns the names of removed
 * backups.
 */
export async function prune(into: string, keep: number, createdName: string): Promise<string[]> {
  const others = listBackups(into).filter((name) => name !== createdName);
  const removed = others.slice(0, Math.max(0, others.length - (keep - 1)));
  for (const name of removed) {
    const renamed = join(into, `.${name}.removed`);
    await rename(join(into, name), renamed);
    await folderSynced(into);
    await rm(renamed, { recursive: true, force: true });
  }
  return removed;
}

/** Removes the partial backups of killed commands. Call only while no other backup of this installation runs. */
export async function removePartialBackups(into: string): Promise<void> {
  const names = listNames(into).filter((name) => PARTIAL.test(name));
  for (const name of names) await rm(join(into, name), { recursive: true, force: true });
}
