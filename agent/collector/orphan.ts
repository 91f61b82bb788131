// The collector of an agent that was killed: it holds the queue's files and the OTLP ports, so it must be gone before the next one
// starts. Invariant: no process is ended but one with the noted id, the noted start time and our configuration in its command line.
// Linux only (/proc), as both agents are. Called by supervisor.ts.
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../log.ts";

interface Note {
  readonly pid: number;
  readonly startTicks: string;
  readonly agentPid: number;
  readonly agentStartTicks: string;
}

/** Another living agent has this state directory. */
export class StateInUseError extends Error {
  override readonly name = "StateInUseError";
}

export function noteChild(noteFile: string, pid: number): void {
  const startTicks = startTicksOf(pid);
  if (startTicks === undefined) return;
  const note: Note = { pid, startTicks, agentPid: process.pid, agentStartTicks: startTicksOf(process.pid) ?? "" };
  writeFileSync(noteFile, JSON.stringify(note), { mode: 0o600 });
}

export function forgetChild(noteFile: string): void {
  rmSync(noteFile, { force: true });
}

/** Ends the noted process, if it is still ours. Throws StateInUseError when its agent still lives. */
export async function endOrphan(noteFile: string, configFile: string, graceMs: number, log: Log): Promise<void> {
  const note = readNote(noteFile);
  if (!note) return;
  if (note.agentPid !== process.pid && startTicksOf(note.agentPid) === note.agentStartTicks) {
    throw new StateInUseError(`another agent (pid ${note.agentPid}) uses this STATE_DIR: stop it, or give this one its own`);
  }
  const isOurs = (): boolean => startTicksOf(note.pid) === note.startTicks && commandLine(note.pid).includes(configFile);
  if (isOurs()) {
    log.warn({ pid: note.pid }, "ending the collector of an agent that was killed");
    process.kill(note.pid, "SIGTERM");
    const killAt = Date.now() + graceMs;
    while (isOurs()) {
      if (Date.now() > killAt) process.kill(note.pid, "SIGKILL");
      await sleep(50);
    }
  }
  forgetChild(noteFile);
}

function readNote(noteFile: string): Note | undefined {
  try {
    return JSON.parse(readFileSync(noteFile, "utf8")) as Note;
  } catch {
    return undefined;
  }
}

/** Field 22 of /proc/<pid>/stat: with the id it names a process for ever. Undefined when there is none, or it is a zombie. */
function startTicksOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" ? undefined : fields[19];
  } catch {
    return undefined;
  }
}

function commandLine(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
  } catch {
    return [];
  }
}
