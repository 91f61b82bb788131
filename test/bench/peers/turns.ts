// Runs the compared programs in turns, in a changing order, one at a time. Invariant: a turn ends only when its processes are idle again,
// so that deferred work (merges, flushes) is counted in its own turn and does not disturb the next one.
import { setTimeout as sleep } from "node:timers/promises";
import { cpuMs, quantile, residentMb } from "../../fixtures/measure.ts";
import { treeOf } from "../../attacks/memory-limit.ts";
import type { Sent } from "./load.ts";

export interface Way {
  readonly name: string;
  /** The program's process; its descendants are counted with it. */
  readonly pid: number;
  run(ms: number): Promise<Sent>;
}

export interface Round {
  readonly recordsPerSecond: number;
  /** CPU time of its processes while requests are sent. */
  readonly cpuUs: number;
  /** CPU time until they are idle again. */
  readonly wholeCpuUs: number;
  readonly sendersCpuUs: number;
  /** In the end, each process of it. */
  readonly residentMb: number;
  /** NaN where no client waits for answers. */
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export interface Turns {
  readonly rounds: number;
  readonly ms: number;
}

/** Quiet: less than a tenth of a core, twice in a row; bounded. */
const QUIET = { share: 0.1, windowMs: 500, windows: 2, withinMs: 20_000 };

/** Results by the name of the program; `before` runs before each round. */
export async function inTurns(ways: readonly Way[], { rounds, ms }: Turns, before: () => void): Promise<Map<string, Round[]>> {
  const results = new Map<string, Round[]>(ways.map(({ name }) => [name, []]));
  for (let round = 0; round < rounds; round += 1) {
    before();
    for (const way of round % 2 === 0 ? ways : ways.toReversed()) results.get(way.name)?.push(await turn(way, ms));
  }
  return results;
}

export async function turn(way: Way, ms: number): Promise<Round> {
  const pids = treeOf(way.pid);
  const before = { way: cpuOf(pids), own: process.cpuUsage() };
  const sent = await way.run(ms);
  const own = process.cpuUsage(before.own);
  const cpu = cpuOf(pids) - before.way;
  await quiet(pids);
  return {
    recordsPerSecond: (sent.records * 1000) / sent.ms,
    cpuUs: (cpu * 1000) / sent.records,
    wholeCpuUs: ((cpuOf(pids) - before.way) * 1000) / sent.records,
    sendersCpuUs: (own.user + own.system) / sent.records,
    residentMb: pids.reduce((sum, pid) => sum + residentMb(pid), 0),
    p50Ms: quantile(sent.answeredMs, 0.5),
    p99Ms: quantile(sent.answeredMs, 0.99),
  };
}

function cpuOf(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + cpuMs(pid), 0);
}

async function quiet(pids: readonly number[]): Promise<void> {
  const until = performance.now() + QUIET.withinMs;
  for (let windows = 0; windows < QUIET.windows && performance.now() < until;) {
    const before = cpuOf(pids);
    await sleep(QUIET.windowMs);
    windows = cpuOf(pids) - before < QUIET.share * QUIET.windowMs ? windows + 1 : 0;
  }
}
