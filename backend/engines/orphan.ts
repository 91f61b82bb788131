// Finds and ends the engine child that a killed backend left behind. Invariant: a process is ended only if its start time and command
// line are the recorded ones, so that a reused process id never hits a stranger. Used by child.ts.
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

interface Recorded {
  readonly pid: number;
  readonly startTime: string;
  readonly commandLine: string;
}

const POLL_MS = 20;

/** Writes down who the child is. Without /proc (not Linux) nothing is written, and orphans are not looked for. */
export function recordChild(pidFile: string, pid: number, program: string, args: readonly string[]): void {
  const identity = identify(pid);
  if (!identity) return;
  // Not the command line that /proc shows at this moment: right after the start it is still empty.
  const commandLine = Buffer.from([program, ...args].map((part) => `${part}\0`).join("")).toString("latin1");
  writeFileSync(pidFile, JSON.stringify({ ...identity, commandLine }), { mode: 0o600 });
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

async function gone(recorded: Recorded, withinMs: number): Promise<boolean> {
  const deadline = Date.now() + withinMs;
  while (isAlive(recorded)) {
    if (Date.now() >= deadline) return false;
    await sleep(POLL_MS);
  }
  return true;
}

function isAlive(recorded: Recorded): boolean {
  const now = identify(recorded.pid);
  return now !== undefined && now.startTime === recorded.startTime && now.commandLine === recorded.commandLine;
}

function identify(pid: number): Recorded | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    // Fields after the program's name, which is in parentheses and may hold anything; see proc(5): state is 3, starttime 22.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    if (fields[0] === "Z") return undefined;
    return { pid, startTime: fields[19] ?? "", commandLine: readFileSync(`/proc/${pid}/cmdline`, "latin1") };
  } catch {
    return undefined;
  }
}

function readRecorded(pidFile: string): Recorded | undefined {
  try {
    const recorded = JSON.parse(readFileSync(pidFile, "utf8")) as Recorded;
    return Number.isSafeInteger(recorded.pid) && recorded.pid > 1 ? recorded : undefined;
  } catch {
    return undefined; // No file, or one cut short by a crash: nothing that could be proven to be ours.
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
