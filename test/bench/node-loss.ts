// `npm run bench -- node-loss [--rates 5000,10000,20000,40000,80000] [--seconds 15] [--rotation rename|copytruncate] [--full-disk]
// [--promtail PROGRAM] [--alloy PROGRAM] [--fluent-bit PROGRAM]`: how many lines per second of one file a node's program delivers, on one CPU
// and in 1 GiB. The rate is raised until a line is lost, the program falls behind, or its memory exceeds 1 GiB. The file is rotated at 10 MiB,
// and four earlier files are kept, as by the kubelet. With `--full-disk`, the disk of the agent's state is full during the second third of
// each load, which needs root. Each line has a number, so lost and doubled ones are counted exactly; this process, which writes lines and
// receives them, runs on the other CPU. The programs are those of `node-cost`.
import { execFileSync } from "node:child_process";
import { appendFileSync, copyFileSync, existsSync, renameSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { gunzipSync, zstdDecompressSync } from "node:zlib";
import { SmallDisk } from "../../agent/collector/supervision/small-disk.fixture.ts";
import { decompressSnappy } from "../../backend/ingest/snappy.ts";
import { cpuMs, peakResidentMb, report } from "../fixtures/measure.ts";
import { temporaryFolder } from "../fixtures/processes.ts";
import { loadLines } from "./node-cost/lines.ts";
import { type LokiClient, type Sender, startAgent, startCollector, startLokiClient } from "./node-cost/node-senders.ts";

const { values } = parseArgs({
  options: {
    rates: { type: "string", default: "5000,10000,20000,40000,80000" },
    seconds: { type: "string", default: "15" },
    rotation: { type: "string", default: "rename" },
    "full-disk": { type: "boolean", default: false },
    promtail: { type: "string" },
    alloy: { type: "string" },
    "fluent-bit": { type: "string" },
  },
});
const TICK_MS = 100;
/** V8 compiles, and connections are made. */
const WARM_UP_RATE = 2000;
const MAX_FILE_BYTES = 10 * 1024 * 1024;
const KEPT_FILES = 4;
const MAX_RESIDENT_MB = (1024 * 1024 * 1024) / 1e6;
/** A program that is this far behind when the load ends falls behind further and further. */
const BEHIND_S = 3;
/** If no line arrives for so long, the rest is lost. */
const QUIET_MS = 15_000;
const LINES = loadLines().map((line) => line.trimEnd());
const MARK = Buffer.from(" number=");
const DIGITS = 9;

/** The numbered lines that one program delivers. */
class Arrivals {
  readonly #seen = new Map<number, number>();
  doubled = 0;
  lastAtMs = performance.now();

  constructor({ sink }: Sender) {
    sink.onBody = (body, encoding) => this.#add(decode(body, encoding));
  }

  get count(): number {
    return this.#seen.size;
  }

  #add(body: Buffer): void {
    for (let at = body.indexOf(MARK); at >= 0; at = body.indexOf(MARK, at + MARK.length)) {
      const number = Number(body.toString("latin1", at + MARK.length, at + MARK.length + DIGITS));
      const times = (this.#seen.get(number) ?? 0) + 1;
      this.#seen.set(number, times);
      if (times > 1) this.doubled += 1;
      else this.lastAtMs = performance.now();
    }
  }
}

function decode(body: Buffer, encoding: string): Buffer {
  if (encoding === "zstd") return zstdDecompressSync(body);
  if (encoding === "gzip") return gunzipSync(body);
  // The body of a push of Loki's protocol is always compressed; an OTLP body begins with a field of resources.
  return encoding === "snappy" || (body.length > 0 && body[0] !== 0x0a && body[0] !== 0x7b) ? decompressSnappy(body) : body;
}

/** The file of a program, rotated. */
class RotatedFile {
  readonly #path: string;
  #bytes = 0;
  written = 0;

  constructor(folder: string) {
    this.#path = join(folder, "app.log");
  }

  write(count: number): void {
    if (this.#bytes >= MAX_FILE_BYTES) this.#rotate();
    const text = Array.from({ length: count }, (_, index) => {
      const number = this.written + index;
      return `${LINES[number % LINES.length]} number=${String(number).padStart(DIGITS, "0")}\n`;
    }).join("");
    appendFileSync(this.#path, text);
    this.#bytes += text.length;
    this.written += count;
  }

  #rotate(): void {
    for (let age = KEPT_FILES; age > 1; age -= 1) {
      const name = `${this.#path}.${age - 1}`;
      if (existsSync(name)) renameSync(name, `${this.#path}.${age}`);
    }
    if (values.rotation === "rename") renameSync(this.#path, `${this.#path}.1`);
    else {
      copyFileSync(this.#path, `${this.#path}.1`);
      truncateSync(this.#path);
    }
    this.#bytes = 0;
  }
}

interface Row {
  readonly lost: number;
  readonly doubled: number;
  readonly behindS: number;
  readonly cpuMsPerS: number;
  readonly peakMb: number;
}

/** A collector whose disk is full may be restarting. */
function sumOver({ processes }: Sender, read: (pid: number) => number): number {
  return Object.values(processes())
    .filter((pid) => pid > 0 && existsSync(`/proc/${pid}`))
    .reduce((sum, pid) => sum + read(pid), 0);
}

async function measure(sender: Sender, file: RotatedFile, arrivals: Arrivals, rate: number, disk: SmallDisk | undefined): Promise<Row> {
  const [startedAt, firstCpu, first, doubledBefore] = [performance.now(), sumOver(sender, cpuMs), file.written, arrivals.doubled];
  const lostBefore = file.written - arrivals.count;
  const ticks = (Number(values.seconds) * 1000) / TICK_MS;
  for (let tick = 1; tick <= ticks; tick += 1) {
    if (tick === Math.round(ticks / 3)) disk?.fill();
    if (tick === Math.round((ticks * 2) / 3)) disk?.free();
    file.write(first + Math.round((rate * tick * TICK_MS) / 1000) - file.written);
    // Paces the load.
    await sleep(Math.max(0, startedAt + tick * TICK_MS - performance.now()));
  }
  const behindS = (file.written - lostBefore - arrivals.count) / rate;
  const cpuMsPerS = ((sumOver(sender, cpuMs) - firstCpu) * 1000) / (performance.now() - startedAt);
  while (arrivals.count < file.written - lostBefore && performance.now() - arrivals.lastAtMs < QUIET_MS) await sleep(TICK_MS);
  const peakMb = sumOver(sender, peakResidentMb);
  return { lost: file.written - arrivals.count - lostBefore, doubled: arrivals.doubled - doubledBefore, behindS, cpuMsPerS, peakMb };
}

using folder = temporaryFolder();
const env = { SIGNALS: "logs" };
const starts: Record<string, (place: string) => Promise<Sender>> = {
  agent: (place) => startAgent(place, env),
  "collector alone": (place) => startCollector(place, env),
};
for (const name of ["promtail", "alloy", "fluent-bit"] satisfies LokiClient[]) {
  const program = values[name];
  if (program !== undefined) starts[name] = (place) => startLokiClient(name, program, place);
}
const table: Record<string, Record<string, string>> = {};
execFileSync("taskset", ["-a", "-p", "-c", "0", String(process.pid)]);
for (const [name, start] of Object.entries(starts)) {
  const place = join(folder.path, name);
  using disk = values["full-disk"] && name === "agent" ? new SmallDisk(join(place, "agent"), "128m") : undefined;
  await using sender = await start(place);
  for (const pid of Object.values(sender.processes())) execFileSync("taskset", ["-a", "-p", "-c", "1", String(pid)]);
  const arrivals = new Arrivals(sender);
  const file = new RotatedFile(sender.logFolder);
  await measure(sender, file, arrivals, WARM_UP_RATE, undefined);
  for (const rate of values.rates.split(",").map(Number)) {
    const { lost, doubled, behindS, cpuMsPerS, peakMb } = await measure(sender, file, arrivals, rate, disk);
    const row = { lost, doubled, "behind at the end, s": behindS, "CPU ms/s": cpuMsPerS, "peak resident MB": peakMb };
    table[`${name}, ${rate} lines/s`] = Object.fromEntries(
      Object.entries(row).map(([key, value]) => [key, value.toFixed(key[0] === "b" ? 1 : 0)]),
    );
    if (lost > 0 || behindS > BEHIND_S || peakMb > MAX_RESIDENT_MB) break;
  }
}
report("node-loss", values, table);
