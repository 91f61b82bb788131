// `npm run bench -- agent [--rounds 3] [--seconds 12] [--kb-per-second 1000] [--compression gzip]`: compares the whole host agent under
// mixed telemetry (lines of a log file, OTLP spans and metrics) with the collector alone, which has the same configuration and exports
// directly to the same sink, in turns within one run. Target: Node process ≤ 130 MB resident (stretch 100) and ≤ 0.5 of the lone
// collector's CPU. The agent is bundled as in the image, with the flags and variables of Dockerfile.agent. This process is load and sink.
import { appendFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { cpuMs, report, residentMb, shown } from "../fixtures/measure.ts";
import { LoadBody, metricsBody } from "../fixtures/otlp-load.ts";
import { type AgentPlace, collectorPid, hostAgentPlace, startBundledAgent } from "../fixtures/host-agent-process.ts";
import { temporaryFolder } from "../fixtures/processes.ts";
import { loadLines } from "./node-cost/lines.ts";
import { startLoneCollector } from "./node-cost/node-senders.ts";
import { Sink } from "./node-cost/sink.ts";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "3" },
    seconds: { type: "string", default: "12" },
    "kb-per-second": { type: "string", default: "1000" },
    compression: { type: "string", default: "gzip" },
  },
});
const seconds = Number(values.seconds);
const bytesPerSecond = Number(values["kb-per-second"]) * 1000;
/** Shares of the bytes: lines of files, spans, metrics. */
const SHARES = { logs: 0.4, spans: 0.3, metrics: 0.3 };
const TICK_MS = 100;
const POST_EVERY_TICKS = 5;
/** For this time, V8 still compiles at 25 requests per second; a daemon runs for weeks. */
const WARM_UP_S = 45;
/** Until what was sent has left the collector. */
const DRAIN_MS = 2500;

interface Usage {
  readonly cpuMs: number;
  readonly mb: number;
}
type Processes = Record<string, number>;

const spans = new LoadBody("spans", 500);
const BYTES_PER_SPAN = spans.next().length / 500;
const BYTES_PER_POINT = metricsBody(1000).length / 1000;
const LINES = loadLines();
const BYTES_PER_LINE = LINES.join("").length / LINES.length;
const linesPerTick = Math.round((bytesPerSecond * SHARES.logs * TICK_MS) / 1000 / BYTES_PER_LINE);
const perPost = (share: number, size: number): number => Math.round((bytesPerSecond * share * TICK_MS * POST_EVERY_TICKS) / 1000 / size);
const spanBody = new LoadBody("spans", perPost(SHARES.spans, BYTES_PER_SPAN));
const points = perPost(SHARES.metrics, BYTES_PER_POINT);

/** Telemetry at a steady rate. */
async function feed(place: AgentPlace, forSeconds: number): Promise<void> {
  const startedAt = performance.now();
  const post = async (path: string, body: Buffer): Promise<void> => {
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`${place.otlpHttp}${path}`, { method: "POST", headers, body: new Uint8Array(body) });
    await answer.arrayBuffer();
    if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  };
  for (let tick = 0; tick < (forSeconds * 1000) / TICK_MS; tick += 1) {
    const lines = Array.from({ length: linesPerTick }, (_, index) => LINES[(tick * linesPerTick + index) % LINES.length]);
    appendFileSync(join(place.logFolder, "app.log"), lines.join(""));
    if (tick % POST_EVERY_TICKS === 0) await Promise.all([post("/v1/traces", spanBody.next()), post("/v1/metrics", metricsBody(points))]);
    await sleep(Math.max(0, startedAt + (tick + 1) * TICK_MS - performance.now()));
  }
}

async function loaded(place: AgentPlace, processes: Processes): Promise<Record<string, Usage>> {
  const before = Object.fromEntries(Object.entries(processes).map(([name, pid]) => [name, cpuMs(pid)]));
  const most: Record<string, number> = {};
  const watch = setInterval(() => {
    for (const [name, pid] of Object.entries(processes)) most[name] = Math.max(most[name] ?? 0, residentMb(pid));
  }, 250);
  await feed(place, seconds);
  await sleep(DRAIN_MS);
  clearInterval(watch);
  return Object.fromEntries(
    Object.entries(processes).map(([name, pid]) => [name, { cpuMs: cpuMs(pid) - (before[name] ?? 0), mb: most[name] ?? Number.NaN }]),
  );
}

using folder = temporaryFolder();
await using sink = await Sink.start();
mkdirSync(join(folder.path, "lone"));
const quiet = { COMPRESSION: values.compression, REMOTE_CONFIG_INTERVAL: "0s" };
const place = await hostAgentPlace(folder.path, sink.url, { ...quiet, INSTALL_TOKEN: "it_of_the_bench" });
const lonePlace = await hostAgentPlace(join(folder.path, "lone"), sink.url, quiet);
const rounds: Record<string, Usage>[] = [];
const megabytes: { agent: number[]; lone: number[] } = { agent: [], lone: [] };
await measure();
print();

async function measure(): Promise<void> {
  await using agent = await startBundledAgent(place, folder.path);
  await using lone = await startLoneCollector(lonePlace, sink.listen);
  const whole = { "agent: Node": agent.child.pid ?? 0, "agent: its collector": collectorPid(place) ?? 0 };
  const ways = {
    agent: () => loaded(place, whole),
    lone: () => loaded(lonePlace, { "collector alone": lone.child.pid ?? 0 }),
  };
  await Promise.all([feed(place, WARM_UP_S), feed(lonePlace, WARM_UP_S)]);
  await sleep(DRAIN_MS);
  for (let round = 0; round < Number(values.rounds); round += 1) {
    const usage: Record<string, Usage> = {};
    for (const name of round % 2 === 0 ? (["agent", "lone"] as const) : (["lone", "agent"] as const)) {
      const before = sink.bodyBytes;
      Object.assign(usage, await ways[name]());
      megabytes[name].push((sink.bodyBytes - before) / 1e6);
    }
    rounds.push(usage);
  }
}

function print(): void {
  const table: Record<string, Record<string, string>> = {};
  const names = ["agent: Node", "agent: its collector", "collector alone"];
  for (const name of names) {
    const all = rounds.map((round) => round[name] ?? { cpuMs: Number.NaN, mb: Number.NaN });
    table[name] = {
      "resident MB, most": shown(all.map(({ mb }) => mb)),
      "CPU ms per second of load": shown(all.map((one) => one.cpuMs / seconds)),
      "CPU ÷ lone collector's": shown(
        all.map((one, index) => one.cpuMs / (rounds[index]?.["collector alone"]?.cpuMs ?? Number.NaN)),
        2,
      ),
      "MB at the sink a round": shown(name === "collector alone" ? megabytes.lone : megabytes.agent, 2),
    };
  }
  report("agent", values, table);
}
