// Ends the collector of an agent that was killed: it holds the queue's files and the OTLP ports, so it must end before the next one
// starts, even if the agent was killed before it could note its id. Invariant: a process is killed only if its command line names
// our configuration file. One whose id was noted must also have the noted start time; any other must see the same folder of state.
// Linux only (/proc), as both agents are.
import { readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { pause } from "../../../common/loop.ts";
import { commandLineOf, environmentOf, processIds, startTimeOf } from "../../../common/process-table.ts";
import type { Log } from "../../log.ts";
import { METRICS_PORT_VARIABLE } from "../config/collector-config.ts";
import { filesWait } from "./queue-state.ts";

interface Note {
  readonly pid: number;
  readonly startTicks: string;
  readonly agentPid: number;
  readonly agentStartTicks: string;
}

/** Another running agent uses this state directory. */
export class StateInUseError extends Error {
  override readonly name = "StateInUseError";
}

export function noteChild(noteFile: string, pid: number): void {
  const startTicks = startTimeOf(pid);
  if (startTicks === undefined) return;
  const note: Note = { pid, startTicks, agentPid: process.pid, agentStartTicks: startTimeOf(process.pid) ?? "" };
  writeFileSync(noteFile, JSON.stringify(note), { mode: 0o600 });
}

export function forgetChild(noteFile: string): void {
  rmSync(noteFile, { force: true });
}

/**
 * Ends the collectors that run with this configuration, noted or not. Throws StateInUseError if the agent that noted one is still running.
 */
export async function endOrphan(noteFile: string, configFile: string, graceMs: number, log: Log): Promise<void> {
  const note = readNote(noteFile);
  if (note && note.agentPid !== process.pid && startTimeOf(note.agentPid) === note.agentStartTicks) {
    throw new StateInUseError(`another agent (pid ${note.agentPid}) uses this STATE_DIR: stop it, or give this one its own`);
  }
  if (note && argumentsOf(note.pid).includes(configFile)) await end(note, graceMs, log);
  await Promise.all(runningWith(configFile).map((process) => end(process, graceMs, log)));
  forgetChild(noteFile);
}

type Identified = Pick<Note, "pid" | "startTicks">;

async function end({ pid, startTicks }: Identified, graceMs: number, log: Log): Promise<void> {
  const isRunning = (): boolean => startTimeOf(pid) === startTicks;
  if (!isRunning()) return;
  log.warn({ event: "collector.orphan_ended", collector_pid: pid }, "stopping the collector of a killed agent");
  process.kill(pid, (await waitsForRoom(pid)) ? "SIGKILL" : "SIGTERM");
  const killAt = Date.now() + graceMs;
  while (isRunning()) {
    if (Date.now() > killAt) process.kill(pid, "SIGKILL");
    await pause(50);
  }
}

/** The port of its metrics is in the environment that its agent set. */
async function waitsForRoom(pid: number): Promise<boolean> {
  const port = new RegExp(`\\0${METRICS_PORT_VARIABLE}=(\\d+)\\0`).exec(`\0${environmentOf(pid).toString("latin1")}`)?.[1];
  return port !== undefined && (await filesWait(`http://127.0.0.1:${port}/metrics`));
}

/** This agent holds the lock of the state folder, so any other collector that runs with this configuration is an orphan. */
function runningWith(configFile: string): Identified[] {
  return processIds().flatMap((pid) => {
    const args = argumentsOf(pid);
    const config = args.indexOf(configFile);
    const startTicks = startTimeOf(pid);
    const isCollector = args[config - 1] === "--config" && !args.includes("validate") && pid !== process.pid;
    return isCollector && startTicks !== undefined && isSameFolder(pid, dirname(configFile)) ? [{ pid, startTicks }] : [];
  });
}

/** A host sees processes of containers, where the same path may be a different folder. */
function isSameFolder(pid: number, folder: string): boolean {
  try {
    const [ours, theirs] = [statSync(folder), statSync(`/proc/${pid}/root${folder}`)];
    return ours.dev === theirs.dev && ours.ino === theirs.ino;
  } catch {
    return false;
  }
}

function readNote(noteFile: string): Note | undefined {
  try {
    return JSON.parse(readFileSync(noteFile, "utf8")) as Note;
  } catch {
    return undefined;
  }
}

function argumentsOf(pid: number): string[] {
  return commandLineOf(pid).toString("utf8").split("\0");
}
