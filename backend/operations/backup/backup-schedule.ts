// BACKUP_EVERY: the running backend starts its own backup command whenever the newest backup is old enough. Invariants: it is a process of
// its own, so that copying takes neither this one's memory nor its threads; one at a time; it ends with the backend; a failure is said,
// counted by the age of the newest backup, and tried again.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { Loop } from "../../../common/loop.ts";
import { Outage } from "../../../common/outage.ts";
import type { Log } from "../log.ts";
import { newestMs } from "./backup-series.ts";

const run = promisify(execFile);
const FIRST_BACKOFF_MS = 60_000;
const REMIND_MS = 6 * 60 * 60_000;

export interface BackupSchedule {
  readonly folder: string;
  readonly everyMs: number;
  readonly keep: number;
}

/** `command`: program and first arguments of the backup command, e.g. node and main.ts. It has this process' environment. */
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
      const ageMs = now() - (newestMs(folder) ?? -Infinity);
      // One of the future was named by a wrong clock.
      if (ageMs >= 0 && ageMs < everyMs) return everyMs - ageMs;
      const { stderr } = await run(program, [...args, "backup", "--into", folder, "--keep", String(keep)], { signal });
      log.info({ event: "backup.completed", folder, output: stderr.trim().split("\n") }, "backup completed");
      outage.recovered();
      return everyMs;
    },
    failed: (error) => outage.failed(new Error(wordsOf(error), { cause: error })),
    backoffMs: [FIRST_BACKOFF_MS, Math.max(FIRST_BACKOFF_MS, Math.min(everyMs, REMIND_MS))],
  });
}

/** The last line of the command is the reason. */
function wordsOf(error: unknown): string {
  const { stderr = "", message } = error as Error & { stderr?: string };
  return stderr.trim().split("\n").at(-1) || message;
}
