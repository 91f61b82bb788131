// `npm run bench -- peers [--rounds 5] [--seconds 5] [--senders 8,64] [--only loki,bulk,metrics,write] [--streams each|one] [--records
// 1000] [--lines 10000] [--out FILE]`: compares the whole backend with embedded engines with alternatives, in turns within one run, with
// the same bodies from the same senders. Logs: Loki (built from its Go module at the first run) and the engine's own bulk insert of 10,000
// rows; spans: the bulk insert; metrics, as text and by remote write: the same VictoriaMetrics without the backend. CPU of each program
// with its children, while requests are sent and until it is idle again, compared with JSON.parse of the same records. `--streams one`: all
// senders are one pod, which is one stream of Loki. `--out`: the lines and the table also to FILE, everything to FILE.json. At the end, the
// records that the backend acknowledged are counted.
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { openClickHouse } from "../../backend/engines/clickhouse/clickhouse-client.ts";
import { Sql, sql } from "../../backend/engines/clickhouse/sql.ts";
import { createLog } from "../../backend/log.ts";
import { backendPlace } from "../fixtures/backend-process.ts";
import { markdown } from "../fixtures/measure.ts";
import { LOAD_SIGNALS, type LoadSignal } from "../fixtures/otlp-load.ts";
import { ROOT, temporaryFolder } from "../fixtures/processes.ts";
import { expositionBody, otlpBody, writeLoadBody } from "./peers/bodies.ts";
import { type Block, lines, rowsOf } from "./peers/lines.ts";
import type { Body } from "./peers/load.ts";
import { PEERS, type Peer, Programs } from "./peers/programs.ts";
import { inTurns, turn, type Way } from "./peers/turns.ts";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "5" },
    seconds: { type: "string", default: "5" },
    senders: { type: "string", default: "8,64" },
    only: { type: "string", default: PEERS.join(",") },
    streams: { type: "string", default: "each" },
    records: { type: "string", default: "1000" },
    lines: { type: "string", default: "10000" },
    out: { type: "string" },
  },
});
const peers = values.only.split(",") as Peer[];
if (!peers.every((one) => PEERS.includes(one)) || !["each", "one"].includes(values.streams)) {
  console.error(`--only takes some of ${PEERS.join(", ")}; --streams each or one`);
  process.exit(1);
}
const [rounds, seconds, records] = [values.rounds, values.seconds, values.records].map(Number) as [number, number, number];
const sendersOf = values.senders.split(",").map(Number);
/** Connections, series and compiled code are there, of each way. */
const WARM_UP_MS = Math.min(3000, seconds * 1000);
const PARSED_RECORDS = 50_000;

const load = (): string => loadavg()[0]?.toFixed(1) ?? "?";
const loadBefore = load();
using folder = temporaryFolder();
const place = await backendPlace(folder.path, { INGEST_TOKENS: "true" });
const { blocks, acknowledged } = await measure();
const stored = await storedRows();
print();

async function measure() {
  await using programs = await Programs.start(place, folder.path, peers);
  const measured: Block[] = [];
  const signals: LoadSignal[] = LOAD_SIGNALS.filter((signal) => peers.includes("bulk") || (signal === "logs" && peers.includes("loki")));
  for (const senders of sendersOf) {
    for (const signal of signals) {
      const bodies = Array.from({ length: senders }, (_, index) => otlpBody(signal, records, podOf(index)));
      const ways = programs.otlp(signal, bodies);
      await warmUp(ways);
      if (signal === "logs") await programs.checkLoki();
      const parseCpuUs: number[] = [];
      const found = await inTurns(ways, { rounds, ms: seconds * 1000 }, () => void parseCpuUs.push(parseCost(bodies[0] as Body)));
      measured.push({ signal, senders, rounds: found, parseCpuUs });
    }
    if (peers.includes("metrics")) {
      const ways = programs.metrics(Array.from({ length: senders }, (_, index) => expositionBody(Number(values.lines), index)));
      await warmUp(ways);
      const found = await inTurns(ways, { rounds, ms: seconds * 1000 }, () => undefined);
      measured.push({ signal: "metrics", senders, rounds: found, parseCpuUs: [] });
    }
    if (peers.includes("write")) {
      const ways = await programs.writes(() => Array.from({ length: senders }, (_, index) => writeLoadBody(Number(values.lines), index)));
      await warmUp(ways);
      const found = await inTurns(ways, { rounds, ms: seconds * 1000 }, () => undefined);
      measured.push({ signal: "remote write", senders, rounds: found, parseCpuUs: [] });
    }
  }
  return { blocks: measured, acknowledged: programs.acknowledged };
}

function podOf(sender: number): string {
  return `checkout-7d9c5b6f4d-${values.streams === "each" ? String(sender).padStart(5, "0") : "abcde"}`;
}

async function warmUp(ways: readonly Way[]): Promise<void> {
  for (const way of ways) await turn(way, WARM_UP_MS);
}

/** µs a record. */
function parseCost(body: Body): number {
  const bytes = body.next();
  const times = Math.ceil(PARSED_RECORDS / body.records);
  const before = process.cpuUsage();
  for (let time = 0; time < times; time += 1) JSON.parse(bytes.toString());
  const { user, system } = process.cpuUsage(before);
  return (user + system) / (times * body.records);
}

async function storedRows(): Promise<Record<LoadSignal, number>> {
  if (acknowledged.logs + acknowledged.spans === 0) return { logs: 0, spans: 0 };
  await using clickhouse = await openClickHouse({ dataDir: join(place.dataDir, "clickhouse"), log: createLog("silent") });
  const count = async (signal: LoadSignal): Promise<number> => {
    const [found] = await clickhouse.query<{ rows: string }>(sql`SELECT count() AS rows FROM ${new Sql(signal)}`);
    return Number(found?.rows);
  };
  return { logs: await count("logs"), spans: await count("spans") };
}

function print(): void {
  const commit = execFileSync("git", ["-C", ROOT, "rev-parse", "--short", "HEAD"], { encoding: "utf8" }).trim();
  const readBack = LOAD_SIGNALS.map((signal) => `${signal} ${stored[signal]} of ${acknowledged[signal]}`).join(", ");
  const shown = [
    `${commit}, ${rounds} rounds of ${seconds} s; load of the machine ${loadBefore} before, ${load()} after`,
    ...lines(blocks),
    `read back: ${readBack}`,
    "",
    markdown(rowsOf(blocks)),
  ].join("\n");
  console.log(shown);
  if (values.out !== undefined) {
    writeFileSync(values.out, `${shown}\n`);
    const all = blocks.map((block) => ({ ...block, rounds: Object.fromEntries(block.rounds) }));
    writeFileSync(
      `${values.out}.json`,
      `${JSON.stringify({ bench: "peers", commit, node: process.version, options: values, blocks: all })}\n`,
    );
  }
  if (LOAD_SIGNALS.some((signal) => stored[signal] !== acknowledged[signal])) process.exitCode = 1;
}
