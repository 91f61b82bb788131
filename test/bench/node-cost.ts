// `npm run bench -- node-cost [--loads 0,100,5000] [--seconds 15] [--rounds 3] [--signals metrics,logs,traces] [--promtail PROGRAM]
// [--alloy PROGRAM] [--fluent-bit PROGRAM] [--gogc 50]`: the cost of the host agent with its collector for a node, compared with the
// collector alone with the same configuration, and with other programs that read files. Each load is lines per second of one file, fed to
// one program at a time, in turns. CPU is user and system time of all threads, memory the highest resident size, network all bytes at the
// program's own sink. With `--signals logs`, no program reads metrics; `--gogc` adds the collector alone with this value of GOGC. Ratios of
// CPU are calculated within a round.
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { cpuMs, proportionalMb, report, residentMb, shown } from "../fixtures/measure.ts";
import { temporaryFolder } from "../fixtures/processes.ts";
import { loadLines } from "./node-cost/lines.ts";
import { LONE_COLLECTOR, type LokiClient, type Sender, startAgent, startCollector, startLokiClient } from "./node-cost/node-senders.ts";

const { values } = parseArgs({
  options: {
    loads: { type: "string", default: "0,100,5000" },
    seconds: { type: "string", default: "15" },
    rounds: { type: "string", default: "3" },
    signals: { type: "string", default: "metrics,logs,traces" },
    promtail: { type: "string" },
    alloy: { type: "string" },
    "fluent-bit": { type: "string" },
    gogc: { type: "string" },
  },
});
const seconds = Number(values.seconds);
const TICK_MS = 100;
/** V8 compiles, and connections are made. */
const WARM_UP = { linesPerS: 5000, seconds: 20 };
const DRAIN_MS = 2500;
const LINES = loadLines();

interface Measured {
  readonly cpuMsPerS: number;
  readonly residentMb: number;
  readonly proportionalMb: number;
}

async function feed({ logFolder }: Sender, linesPerS: number, forSeconds: number): Promise<void> {
  const startedAt = performance.now();
  let written = 0;
  for (let tick = 1; tick <= (forSeconds * 1000) / TICK_MS; tick += 1) {
    const due = Math.round((linesPerS * tick * TICK_MS) / 1000);
    const lines = Array.from({ length: due - written }, (_, index) => LINES[(written + index) % LINES.length]);
    if (lines.length > 0) appendFileSync(join(logFolder, "app.log"), lines.join(""));
    written = due;
    // Paces the load.
    await sleep(Math.max(0, startedAt + tick * TICK_MS - performance.now()));
  }
  await sleep(DRAIN_MS);
}

/** Rows of the table by name, and the bytes on the network per second. */
async function measure(sender: Sender, linesPerS: number): Promise<{ rows: Record<string, Measured>; networkBytesPerS: number }> {
  const processes = sender.processes();
  const before = Object.fromEntries(Object.entries(processes).map(([name, pid]) => [name, cpuMs(pid)]));
  const networkBefore = sender.sink.networkBytes;
  const startedAt = performance.now();
  const peak: Record<string, { residentMb: number; proportionalMb: number }> = {};
  const watch = setInterval(() => {
    for (const [name, pid] of Object.entries(processes)) {
      const [resident, proportional] = [residentMb(pid), proportionalMb(pid)];
      if (resident > (peak[name]?.residentMb ?? 0)) peak[name] = { residentMb: resident, proportionalMb: proportional };
    }
  }, 1000);
  await feed(sender, linesPerS, seconds);
  clearInterval(watch);
  const elapsedS = (performance.now() - startedAt) / 1000;
  const rows = Object.entries(processes).map(([name, pid]): [string, Measured] => [
    name,
    { cpuMsPerS: (cpuMs(pid) - (before[name] ?? 0)) / elapsedS, ...(peak[name] ?? { residentMb: Number.NaN, proportionalMb: Number.NaN }) },
  ]);
  return { rows: Object.fromEntries(rows), networkBytesPerS: (sender.sink.networkBytes - networkBefore) / elapsedS };
}

using folder = temporaryFolder();
await using stack = new AsyncDisposableStack();
const env = { SIGNALS: values.signals };
const senders: Sender[] = [
  stack.use(await startAgent(join(folder.path, "agent"), env)),
  stack.use(await startCollector(join(folder.path, "lone"), env)),
];
if (values.gogc !== undefined) senders.push(stack.use(await startCollector(join(folder.path, "gogc"), env, values.gogc)));
for (const name of ["promtail", "alloy", "fluent-bit"] satisfies LokiClient[]) {
  const program = values[name];
  if (program !== undefined) senders.push(stack.use(await startLokiClient(name, program, join(folder.path, name))));
}
await Promise.all(senders.map((sender) => feed(sender, WARM_UP.linesPerS, WARM_UP.seconds)));

const table: Record<string, Record<string, string>> = {};
for (const load of values.loads.split(",").map(Number)) {
  const measured = new Map<string, Measured[]>();
  const network = new Map<Sender, number[]>(senders.map((sender) => [sender, []]));
  for (let round = 0; round < Number(values.rounds); round += 1) {
    for (const sender of round % 2 === 0 ? senders : senders.toReversed()) {
      const { rows, networkBytesPerS } = await measure(sender, load);
      network.get(sender)?.push(networkBytesPerS);
      for (const [name, row] of Object.entries(rows)) measured.set(name, [...(measured.get(name) ?? []), row]);
    }
  }
  for (const sender of senders) {
    const names = Object.keys(sender.processes());
    for (const name of names) {
      const rows = measured.get(name) ?? [];
      table[`${load} lines/s, ${name}`] = {
        "CPU ms/s": shown(
          rows.map((row) => row.cpuMsPerS),
          1,
        ),
        "CPU, collector alone = 1": shown(
          rows.map((row, round) => row.cpuMsPerS / (measured.get(LONE_COLLECTOR)?.[round]?.cpuMsPerS ?? Number.NaN)),
          2,
        ),
        "resident MB": shown(rows.map((row) => row.residentMb)),
        "proportional MB": shown(rows.map((row) => row.proportionalMb)),
        "network kB/s":
          name === names[0]
            ? shown(
                (network.get(sender) ?? []).map((bytes) => bytes / 1000),
                2,
              )
            : "",
      };
    }
  }
}
report("node-cost", values, table);
