// Ends the collector of a killed agent (an orphan). It holds the queue files and the OTLP ports, so it must end before the next collector
// starts, even if the agent was killed before it recorded the collector's process id. Invariant: a process is killed only if its command line
// names our configuration file, and if it has the recorded id and start time, or sees the same state folder. Linux only (/proc).
import { readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { pause } from "../../../common/loop.ts";
import { commandLineOf, environmentOf, processIds, startTimeOf } from "../../../common/process-table.ts";
import type { Log } from "../../log.ts";
import { METRICS_PORT_VARIABLE } from "../config/collector-config.ts";
import { isFileQueueFull } from "./queue-state.ts";

interface ProcessRecord {
  readonly pid: number;
  readonly startTicks: string;
  readonly agentPid: number;
  readonly agentStartTicks: string;
}

/** Another running agent uses this state directory. */
export class StateInUseError extends Error {
  override readonly name = "StateInUseError";
}

export function recordChild(recordFile: string, pid: number): void {
  const startTicks = startTimeOf(pid);
  if (startTicks === undefined) return;
  const record: ProcessRecord = { pid, startTicks, agentPid: process.pid, agentStartTicks: startTimeOf(process.pid) ?? "" };
  writeFileSync(recordFile, JSON.stringify(record), { mode: 0o600 });
}

export function forgetChild(recordFile: string): void {
  rmSync(recordFile, { force: true });
}

/** Ends all collectors that run with this configuration. Throws StateInUseError if the agent that recorded one is still running. */
export async function endOrphans(recordFile: string, configFile: string, graceMs: number, log: Log): Promise<void> {
  const record = readRecord(recordFile);
  if (record && record.agentPid !== process.pid && startTimeOf(record.agentPid) === record.agentStartTicks) {
    throw new StateInUseError(`another agent (pid ${record.agentPid}) uses this STATE_DIR: stop it, or set another STATE_DIR`);
  }
  if (record && argumentsOf(record.pid).includes(configFile)) await end(record, graceMs, log);
  await Promise.all(findCollectors(configFile).map((process) => end(process, graceMs, log)));
  forgetChild(recordFile);
}

type ProcessId = Pick<ProcessRecord, "pid" | "startTicks">;

async function end({ pid, startTicks }: ProcessId, graceMs: number, log: Log): Promise<void> {
  const isRunning = (): boolean => startTimeOf(pid) === startTicks;
  if (!isRunning()) return;
  log.warn({ event: "collector.orphan_ended", collector_pid: pid }, "stopping the collector of a killed agent");
  process.kill(pid, (await hasFullQueue(pid)) ? "SIGKILL" : "SIGTERM");
  const killAt = performance.now() + graceMs;
  while (isRunning()) {
    if (performance.now() > killAt) process.kill(pid, "SIGKILL");
    await pause(50);
  }
}

/** The port of the collector's metrics is in its environment. */
async function hasFullQueue(pid: number): Promise<boolean> {
  const port = new RegExp(`\\0${METRICS_PORT_VARIABLE}=(\\d+)\\0`).exec(`\0${environmentOf(pid).toString("latin1")}`)?.[1];
  return port !== undefined && (await isFileQueueFull(`http://127.0.0.1:${port}/metrics`));
}

/** This agent holds the lock of the state folder, so any other collector that runs with this configuration is an orphan. */
function findCollectors(configFile: string): ProcessId[] {
  return processIds().flatMap((pid) => {
    const args = argumentsOf(pid);
    const config = args.indexOf(configFile);
    const startTicks = startTimeOf(pid);
    const isCollector = args[config - 1] === "--config" && !args.includes("validate") && pid !== process.pid;
    return isCollector && startTicks !== undefined && isSameFolder(pid, dirname(configFile)) ? [{ pid, startTicks }] : [];
  });
}

/** On a host, processes of containers are visible, in which the same path may be a different folder. */
function isSameFolder(pid: number, folder: string): boolean {
  try {
    const [ours, itsOwn] = [statSync(folder), statSync(`/proc/${pid}/root${folder}`)];
    return ours.dev === itsOwn.dev && ours.ino === itsOwn.ino;
  } catch {
    return false;
  }
}

function readRecord(recordFile: string): ProcessRecord | undefined {
  try {
    return JSON.parse(readFileSync(recordFile, "utf8")) as ProcessRecord;
  } catch {
    return undefined;
  }
}

function argumentsOf(pid: number): string[] {
  return commandLineOf(pid).toString("utf8").split("\0");
}
