// `npm run bench -- judging [--rounds 21] [--lines 10000]`: the judgement of exposition text, with the kernel and without, against copying
// the same text and seeing that it is UTF-8. Reach: the kernel ≤ 4 of it. CPU time, interleaved in one process.
import { isUtf8 } from "node:buffer";
import { parseArgs } from "node:util";
import { checkExposition } from "../../backend/ingest/exposition/exposition.ts";
import { plainLines } from "../../backend/ingest/exposition/plain-lines.ts";
import { report, shown } from "../fixtures/measure.ts";

const { values } = parseArgs({ options: { rounds: { type: "string", default: "21" }, lines: { type: "string", default: "10000" } } });
const [rounds, lines] = [Number(values.rounds), Number(values.lines)];
const TIMES = 10;
const now = Date.now();
const LIMITS = { maxLabels: 37, maxNameBytes: 256, maxValueBytes: 4096, oldestMs: now - 86_400_000, newestMs: now + 86_400_000 };

/** As an agent sends them, and as a program offers them to be scraped. */
const BODIES = {
  agent: (line: number) =>
    `http_request_duration_seconds_bucket{method="GET",handler="/api/v1/things/${line % 97}",instance="10.0.0.${line % 50}:8080",namespace="prod",pod="thing-${line % 200}-abcde",le="${line % 12}"} ${line * 3}.5 ${now}\n`,
  scrape: (line: number) =>
    line % 5 === 0
      ? `# HELP node_cpu_seconds_total Seconds the CPUs spent in each mode.\n# TYPE node_cpu_seconds_total counter\n`
      : `node_cpu_seconds_total{cpu="${line % 64}",mode="idle"} ${line}.25\n`,
};

if (!plainLines()) throw new Error("there is no kernel: node hack/kernel.mjs");
const table: Record<string, Record<string, string>> = {};
for (const [name, make] of Object.entries(BODIES))
  await measure(name, Buffer.from(Array.from({ length: lines }, (_, at) => make(at)).join("")));
report("judging", values, table);

async function measure(name: string, body: Buffer): Promise<void> {
  const ways: Record<string, () => unknown> = {
    kernel: () => checkExposition(body, LIMITS),
    TypeScript: () => checkExposition(body, LIMITS, "none"),
    "copy and UTF-8": () => isUtf8(Buffer.from(body)),
  };
  const turns = Object.entries(ways);
  const costs = new Map<string, number[]>(turns.map(([way]) => [way, []]));
  for (let round = -2; round < rounds; round += 1) {
    for (const [way, run] of round % 2 === 0 ? turns : turns.toReversed()) {
      const cost = await cpuMs(run);
      // What was not compiled yet.
      if (round >= 0) costs.get(way)?.push(cost);
    }
  }
  const least = costs.get("copy and UTF-8") ?? [];
  for (const [way, own] of costs) {
    const ratios = own.map((cost, round) => cost / (least[round] ?? Number.NaN));
    table[`${name}, ${way}`] = { "CPU ms/body": shown(own, 2), "÷ copy": shown(ratios, 1), kB: String(Math.round(body.length / 1000)) };
  }
}

/** A body, of this process and all its threads. */
async function cpuMs(run: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  for (let time = 0; time < TIMES; time += 1) await run();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / TIMES / 1000;
}
