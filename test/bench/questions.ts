// `npm run bench -- questions [--records 4000000] [--rounds 5] [--senders 8] [--shape short|json|stack|cardinality] [--encoding
// json|protobuf|lines] [--out FILE]`: compares operators' log queries over HTTP in the whole backend, bundled and started as in its image
// with embedded engines, and in VictoriaLogs (built from its Go module at the first run): the same records of one hour in both, the same
// queries in turns, medians and ratios of time and CPU, with the target ratios. CPU of loading is counted until the process is idle, memory
// at rest is that of processes without requests, and bytes are those of merged records. The backend gets signed OTLP/JSON, OTLP/protobuf with
// an ingest token, or signed lines of files whose levels it parses (`lines`), and answers after an fsync; VictoriaLogs gets OTLP/protobuf,
// and answers before its data is on disk.
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { openClickHouse } from "../../backend/engines/clickhouse/clickhouse-client.ts";
import { sql } from "../../backend/engines/clickhouse/sql.ts";
import { createLog } from "../../backend/log.ts";
import { adminPassword, backendPlace, bundledBackend, login, makeTenant, startBackend } from "../fixtures/backend-process.ts";
import { imageStart } from "../fixtures/image-start.ts";
import { treeOf } from "../attacks/memory-limit.ts";
import { anonymousMb, cpuMs, markdown, peakResidentMb, proportionalMb, residentMb, shown, summary } from "../fixtures/measure.ts";
import { INGEST_PATHS } from "../fixtures/otlp-load.ts";
import { call, ROOT, signedPost, temporaryFolder } from "../fixtures/processes.ts";
import { turn } from "./peers/turns.ts";
import { questions } from "./questions/asked.ts";
import { type Batch, batch, type Shape, SHAPES } from "./questions/records.ts";
import { startVictoriaLogs } from "./questions/victoria-logs.ts";

const { values } = parseArgs({
  options: {
    records: { type: "string", default: "4000000" },
    rounds: { type: "string", default: "5" },
    senders: { type: "string", default: "8" },
    shape: { type: "string", default: "short" },
    encoding: { type: "string", default: "json" },
    out: { type: "string" },
  },
});
const [records, rounds, shape] = [Number(values.records), Number(values.rounds), values.shape as Shape];
if (!SHAPES.includes(shape)) throw new Error(`--shape takes one of ${SHAPES.join(", ")}`);
const BATCH_RECORDS = 1000;
const senders = Number(values.senders);
const SAMPLE_MS = 500;
const HOUR_MS = 3_600_000;
/** The backend frees its heap when it has been idle for up to two and a half minutes. */
const REST_MS = 150_000;
const endMs = Math.floor(Date.now() / 60_000) * 60_000;
const range = { startMs: endMs - HOUR_MS, endMs };
const stepNs = BigInt(Math.floor((HOUR_MS * 1e6) / records));
const timeOf = (n: number): bigint => BigInt(range.startMs) * 1_000_000n + BigInt(n) * stepNs;

const loadBefore = loadavg()[0]?.toFixed(1);
using folder = temporaryFolder();
const [isProtobuf, isLines] = [values.encoding === "protobuf", values.encoding === "lines"];
const { flags, libraries } = imageStart("Dockerfile.backend");
const place = await backendPlace(folder.path, { ...libraries, ...(isProtobuf && { INGEST_TOKENS: "true" }) });
await using stack = new AsyncDisposableStack();
const backend = stack.use(await startBackend(place, [], await bundledBackend(folder.path), flags));
const tenant = await makeTenant(place.apiUrl, await login(place.apiUrl, "admin@localhost", adminPassword(place)), "bench");
const created = isProtobuf
  ? await call("POST", `${place.apiUrl}/api/ingest-tokens`, { bearer: tenant.token, body: { name: "bench" } })
  : undefined;
const peer = stack.use(await startVictoriaLogs(folder.path));
const ours = {
  name: "product",
  pid: backend.child.pid ?? 0,
  insert: (made: Batch) => insert(made),
  folder: join(place.dataDir, "clickhouse"),
};
const theirs = {
  name: "VictoriaLogs",
  pid: peer.pid,
  insert: (made: Batch) => peer.insert(made.protobuf()),
};
const rows: Record<string, Record<string, string>> = {};

async function insert({ json, protobuf, lines }: Batch): Promise<void> {
  if (created) {
    const headers = { "x-api-key": String(created.json.token), "content-type": "application/x-protobuf" };
    const post = async () => await call("POST", `${place.apiUrl}/v1/logs`, { body: protobuf(), headers });
    // An idle connection may end as it is used. The same body is stored once.
    const answer = await post().catch(post);
    if (answer.status !== 200) throw new Error(`ingest: ${answer.status} ${answer.text}`);
    return;
  }
  const [body, type] = isLines ? [lines(), "application/x-protobuf"] : [json(), "application/json"];
  const answer = await signedPost(place.apiUrl, INGEST_PATHS.logs, tenant.apiKey, body, { "content-type": type });
  if (answer.status !== 204) throw new Error(`ingest: ${answer.status} ${answer.text}`);
}

const sides = [ours, theirs] as const;
const costs: number[][] = [];
for (const side of sides) {
  const peak = { anonymous: 0, proportional: 0 };
  const watch = setInterval(() => {
    peak.anonymous = Math.max(peak.anonymous, anonymousMb(side.pid));
    peak.proportional = Math.max(peak.proportional, proportionalMb(side.pid));
  }, SAMPLE_MS);
  const { wholeCpuUs } = await turn({ name: side.name, pid: side.pid, run: async () => await load(side.insert) }, 0);
  clearInterval(watch);
  costs.push([wholeCpuUs, peakResidentMb(side.pid), peak.proportional, peak.anonymous]);
}
await peer.flush();

/** Each record once, in the order of time, from several senders. */
async function load(insertBatch: (made: Batch) => Promise<void>) {
  const startedAt = performance.now();
  let next = 0;
  const sender = async (): Promise<void> => {
    for (let first = next; first < records; first = next) {
      next += BATCH_RECORDS;
      const numbers = Array.from({ length: Math.min(BATCH_RECORDS, records - first) }, (_, index) => first + index);
      await insertBatch(batch(shape, numbers, timeOf, Math.floor(records / 2), isLines));
    }
  };
  await Promise.all(Array.from({ length: senders }, sender));
  return { records, ms: performance.now() - startedAt, answeredMs: [] };
}

async function askedMs(url: string, headers: Record<string, string>): Promise<number> {
  const startedAt = performance.now();
  const answer = await fetch(url, { headers });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${text.slice(0, 500)}`);
  return performance.now() - startedAt;
}

const asked = questions(range);
const took = new Map(asked.map(({ name, reach }) => [name, { reach, ours: [] as number[], peer: [] as number[], cpuMs: [0, 0] }]));
for (let round = -1; round < rounds; round += 1) {
  for (const question of asked) {
    const results = took.get(question.name);
    const own = async () => {
      const [ms, cpu] = await withCpu(ours.pid, () =>
        askedMs(`${place.apiUrl}${question.ours}`, { authorization: `Bearer ${tenant.token}` }),
      );
      // The first round opens files and fills caches.
      if (round >= 0) addResult(results, "ours", ms, cpu);
    };
    const other = async () => {
      const [ms, cpu] = await withCpu(theirs.pid, () => askedMs(`${peer.url}${question.peer}`, {}));
      if (round >= 0) addResult(results, "peer", ms, cpu);
    };
    for (const ask of round % 2 === 0 ? [own, other] : [other, own]) await ask();
  }
}
for (const [name, { ours: own, peer: other, cpuMs, reach }] of took) {
  const ratio = summary(own).median / summary(other).median;
  const [cpu = 0, peerCpu = 0] = cpuMs;
  const reached = reach === undefined ? "" : `${reach} ${ratio <= reach ? "yes" : "no"}`;
  rows[name] = {
    product: `${shown(own, 1)} ms`,
    VictoriaLogs: `${shown(other, 1)} ms`,
    ratio: ratio.toFixed(2),
    "ratio of CPU": (cpu / peerCpu).toFixed(2),
    "to reach": reached,
  };
}
await sleep(REST_MS);
for (const [index, { pid }] of sides.entries()) costs[index]?.push(residentMb(pid), proportionalMb(pid), anonymousMb(pid));

/** CPU of the process and its children meanwhile, in milliseconds; the kernel counts in steps of 10. */
async function withCpu<T>(pid: number, work: () => Promise<T>): Promise<[result: T, cpuMs: number]> {
  const before = cpuOfTree(pid);
  const result = await work();
  return [result, cpuOfTree(pid) - before];
}

function cpuOfTree(pid: number): number {
  return treeOf(pid).reduce((sum, process) => sum + cpuMs(process), 0);
}

type Results = NonNullable<ReturnType<(typeof took)["get"]>>;

function addResult(results: Results | undefined, side: "ours" | "peer", ms: number, cpu: number): void {
  if (!results) return;
  results[side].push(ms);
  const index = side === "ours" ? 0 : 1;
  results.cpuMs[index] = (results.cpuMs[index] ?? 0) + cpu;
}
await backend.end();
const stored = await storedBytes();
costs[0]?.push(stored.bytes / records);
costs[1]?.push((await peer.bytes()) / records);
const COSTS: readonly (readonly [name: string, toReach: string])[] = [
  ["CPU per record stored, µs", "ratio 1.1"],
  ["peak memory while loading, resident, MB", "450 MB with 8 senders, 500 MB with 64"],
  ["the same, proportional, largest sample, MB", ""],
  ["the same, anonymous, largest sample, MB", ""],
  ["memory at rest after the questions, resident, MB", "380 MB"],
  ["the same, proportional, MB", ""],
  ["the same, anonymous, MB", ""],
  ["bytes on disk per record, merged", "ratio 1.1"],
];
for (const [index, [name, toReach]] of COSTS.entries()) {
  const [own = 0, other = 0] = costs.map((cost) => cost[index]);
  rows[name] = { product: own.toFixed(1), VictoriaLogs: other.toFixed(1), ratio: (own / other).toFixed(2), "to reach": toReach };
}
if (stored.rows !== records || (await peer.count()) !== records) {
  console.error(`stored are ${stored.rows} and ${await peer.count()} of ${records} records`);
  process.exitCode = 1;
}

/** Counts only the rows, after the backend has ended. */
async function storedBytes(): Promise<{ rows: number; bytes: number }> {
  await using clickhouse = await openClickHouse({ dataDir: join(place.dataDir, "clickhouse"), log: createLog("silent") });
  await clickhouse.command(sql`OPTIMIZE TABLE logs FINAL`);
  const [found] = await clickhouse.query<{ rows: string; bytes: string }>(
    sql`SELECT sum(rows) AS rows, sum(bytes_on_disk) AS bytes FROM system.parts WHERE active AND table = 'logs'`,
  );
  return { rows: Number(found?.rows), bytes: Number(found?.bytes) };
}

const commit = execFileSync("git", ["-C", ROOT, "rev-parse", "--short", "HEAD"], { encoding: "utf8" }).trim();
const head = `${commit}, ${records} ${shape} records as ${values.encoding}, ${senders} senders, ${rounds} rounds; load of the machine ${loadBefore} before, ${loadavg()[0]?.toFixed(1)} after`;
const text = [head, "", markdown(rows)].join("\n");
console.log(text);
if (values.out !== undefined) writeFileSync(values.out, `${text}\n`);
console.log(JSON.stringify({ bench: "questions", commit, options: values, rows }));
