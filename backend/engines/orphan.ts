// Finds and ends the engine process that a killed backend left behind. Invariants: an engine is started only after its command line has
// been written to the pid file; a process is ended only if its start time and command line are the recorded ones, so that a reused process
// id never hits another program. If the backend was killed or the disk was full before the process id was recorded, the orphan is the
// process with exactly that command line in the same working directory.
import { readFileSync, readlinkSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { pollUntil } from "../../common/loop.ts";
import { commandLineOf, processIds, startTimeOf } from "../../common/process-table.ts";

interface Recorded {
  readonly pid: number;
  readonly startTime: string;
  readonly commandLine: string;
}

const POLL_MS = 20;

/** Records the command line before the child is started. Throws if that cannot be written; then the child must not be started. */
export function announceChild(pidFile: string, program: string, args: readonly string[]): void {
  note(pidFile, { commandLine: joined(program, args) });
}

/**
 * Records the id and start time of the child. Without /proc (not Linux) nothing is recorded, and no orphan is ended. If it cannot be
 * written, the record of `announceChild` remains.
 */
export function recordChild(pidFile: string, pid: number, program: string, args: readonly string[]): void {
  const identity = identify(pid);
  if (!identity) return;
  try {
    // Not the command line in /proc, which is still empty right after the start.
    note(pidFile, { ...identity, commandLine: joined(program, args) });
  } catch {
    rmSync(`${pidFile}.new`, { force: true });
  }
}

/** Replaces the file atomically, so that a full disk leaves the previous record. Not synced: no process survives a power failure. */
function note(pidFile: string, recorded: Partial<Recorded>): void {
  writeFileSync(`${pidFile}.new`, JSON.stringify(recorded), { mode: 0o600 });
  renameSync(`${pidFile}.new`, pidFile);
}

/** The command line in the format of /proc. */
function joined(program: string, args: readonly string[]): string {
  return Buffer.from([program, ...args].map((part) => `${part}\0`).join("")).toString("latin1");
}

export function forgetChild(pidFile: string): void {
  rmSync(pidFile, { force: true });
}

/** Ends the recorded process, TERM first, KILL after `graceMs`. Returns its pid if there was one. */
export async function endOrphan(pidFile: string, graceMs: number): Promise<number | undefined> {
  const recorded = readRecorded(pidFile);
  if (!recorded || !isAlive(recorded)) return undefined;
  signal(recorded.pid, "SIGTERM");
  if (!(await gone(recorded, graceMs))) {
    signal(recorded.pid, "SIGKILL");
    if (!(await gone(recorded, graceMs))) throw new Error(`process ${recorded.pid} (${pidFile}) does not end even after SIGKILL`);
  }
  forgetChild(pidFile);
  return recorded.pid;
}

function gone(recorded: Recorded, withinMs: number): Promise<boolean> {
  return pollUntil(() => !isAlive(recorded), POLL_MS, AbortSignal.timeout(withinMs));
}

function isAlive(recorded: Recorded): boolean {
  const now = identify(recorded.pid);
  return now !== undefined && now.startTime === recorded.startTime && now.commandLine === recorded.commandLine;
}

function identify(pid: number): Recorded | undefined {
  const startTime = startTimeOf(pid);
  return startTime === undefined ? undefined : { pid, startTime, commandLine: commandLineOf(pid).toString("latin1") };
}

function readRecorded(pidFile: string): Recorded | undefined {
  try {
    const { pid, commandLine, startTime } = JSON.parse(readFileSync(pidFile, "utf8")) as Partial<Recorded>;
    if (typeof commandLine !== "string" || commandLine === "") return undefined;
    if (pid === undefined) return findByCommandLine(commandLine);
    return startTime !== undefined && Number.isSafeInteger(pid) && pid > 1 ? { pid, commandLine, startTime } : undefined;
  } catch {
    return undefined; // No file, or one cut short by a crash: no process can be proven to be ours.
  }
}

function findByCommandLine(commandLine: string): Recorded | undefined {
  for (const pid of processIds()) {
    const found = pid === process.pid ? undefined : identify(pid);
    if (found?.commandLine === commandLine && worksHere(found.pid)) return found;
  }
  return undefined;
}

function worksHere(pid: number): boolean {
  try {
    return readlinkSync(`/proc/${pid}/cwd`) === process.cwd();
  } catch {
    return false; // The process belongs to another user, or has ended.
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
