// `npm run bench -- questions [--records 2000000] [--rounds 7] [--shape short|json|stack|cardinality] [--out FILE]`: what people ask of logs,
// over HTTP, of the whole backend with embedded engines and of VictoriaLogs (built from its Go module at the first run): the same records of
// one hour in both, the same questions in turns, medians and their ratio. CPU of loading is until the process is quiet; bytes are those of
// the merged records. The backend parses OTLP/JSON and checks signatures, VictoriaLogs reads flat lines of JSON, so CPU compares roughly.
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { openClickHouse } from "../../backend/engines/clickhouse/client.ts";
import { sql } from "../../backend/engines/clickhouse/sql.ts";
import { createLog } from "../../backend/operations/log.ts";
import { adminPassword, backendPlace, login, makeTenant, startBackend } from "../fixtures/backend-process.ts";
import { markdown, residentMb, shown, summary } from "../fixtures/measure.ts";
import { INGEST_PATHS } from "../fixtures/otlp-load.ts";
import { ROOT, signedPost, temporaryFolder } from "../fixtures/processes.ts";
import { turn } from "./peers/turns.ts";
import { questions } from "./questions/asked.ts";
import { type Batch, batch, type Shape, SHAPES } from "./questions/records.ts";
import { startVictoriaLogs } from "./questions/victoria-logs.ts";

const { values } = parseArgs({
  options: {
    records: { type: "string", default: "2000000" },
    rounds: { type: "string", default: "7" },
    shape: { type: "string", default: "short" },
    out: { type: "string" },
  },
});
const [records, rounds, shape] = [Number(values.records), Number(values.rounds), values.shape as Shape];
if (!SHAPES.includes(shape)) throw new Error(`--shape takes one of ${SHAPES.join(", ")}`);
const BATCH_RECORDS = 1000;
const SENDERS = 4;
const HOUR_MS = 3_600_000;
const endMs = Math.floor(Date.now() / 60_000) * 60_000;
const range = { startMs: endMs - HOUR_MS, endMs };
const stepNs = BigInt(Math.floor((HOUR_MS * 1e6) / records));
const timeOf = (n: number): bigint => BigInt(range.startMs) * 1_000_000n + BigInt(n) * stepNs;

const loadBefore = loadavg()[0]?.toFixed(1);
using folder = temporaryFolder();
const place = await backendPlace(folder.path, { UV_THREADPOOL_SIZE: "16" });
await using stack = new AsyncDisposableStack();
const backend = stack.use(await startBackend(place));
const tenant = await makeTenant(place.apiUrl, await login(place.apiUrl, "admin@localhost", adminPassword(place)), "bench");
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
  insert: (made: Batch) => peer.insert(made.lines),
};
const rows: Record<string, Record<string, string>> = {};

async function insert({ otlp }: Batch): Promise<void> {
  const answer = await signedPost(place.apiUrl, INGEST_PATHS.logs, tenant.apiKey, otlp, { "content-type": "application/json" });
  if (answer.status !== 204) throw new Error(`ingest: ${answer.status} ${answer.text}`);
}

const sides = [ours, theirs] as const;
const costs: number[][] = [];
for (const side of sides) {
  const { wholeCpuUs } = await turn({ name: side.name, pid: side.pid, run: async () => await load(side.insert) }, 0);
  costs.push([wholeCpuUs, residentMb(side.pid)]);
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
      await insertBatch(batch(shape, numbers, timeOf, Math.floor(records / 2)));
    }
  };
  await Promise.all(Array.from({ length: SENDERS }, sender));
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
const took = new Map(asked.map(({ name }) => [name, { ours: [] as number[], peer: [] as number[] }]));
for (let round = -1; round < rounds; round += 1) {
  for (const question of asked) {
    const own = async () => await askedMs(`${place.apiUrl}${question.ours}`, { authorization: `Bearer ${tenant.token}` });
    const other = async () => await askedMs(`${peer.url}${question.peer}`, {});
    const [first, second] = round % 2 === 0 ? [await own(), await other()] : [await other(), await own()];
    // The first round opens files and fills caches.
    if (round === -1) continue;
    took.get(question.name)?.ours.push(round % 2 === 0 ? first : second);
    took.get(question.name)?.peer.push(round % 2 === 0 ? second : first);
  }
}
for (const [name, { ours: own, peer: other }] of took) {
  const ratio = summary(own).median / summary(other).median;
  rows[name] = { product: `${shown(own, 1)} ms`, VictoriaLogs: `${shown(other, 1)} ms`, ratio: ratio.toFixed(2) };
}
await backend.end();
const stored = await storedBytes();
costs[0]?.push(stored.bytes / records);
costs[1]?.push((await peer.bytes()) / records);
for (const [index, name] of ["CPU a record, µs", "memory after loading, MB", "bytes on the disk a record, merged"].entries()) {
  const [own = 0, other = 0] = costs.map((cost) => cost[index]);
  rows[name] = { product: own.toFixed(1), VictoriaLogs: other.toFixed(1), ratio: (own / other).toFixed(2) };
}
if (stored.rows !== records || (await peer.count()) !== records) {
  console.error(`stored are ${stored.rows} and ${await peer.count()} of ${records} records`);
  process.exitCode = 1;
}

/** Of the rows alone, once the backend has ended. */
async function storedBytes(): Promise<{ rows: number; bytes: number }> {
  await using clickhouse = await openClickHouse({ dataDir: join(place.dataDir, "clickhouse"), log: createLog("silent") });
  await clickhouse.command(sql`OPTIMIZE TABLE logs FINAL`);
  const [found] = await clickhouse.query<{ rows: string; bytes: string }>(
    sql`SELECT sum(rows) AS rows, sum(bytes_on_disk) AS bytes FROM system.parts WHERE active AND table = 'logs'`,
  );
  return { rows: Number(found?.rows), bytes: Number(found?.bytes) };
}

const commit = execFileSync("git", ["-C", ROOT, "rev-parse", "--short", "HEAD"], { encoding: "utf8" }).trim();
const head = `${commit}, ${records} ${shape} records, ${rounds} rounds; load of the machine ${loadBefore} before, ${loadavg()[0]?.toFixed(1)} after`;
const text = [head, "", markdown(rows)].join("\n");
console.log(text);
if (values.out !== undefined) writeFileSync(values.out, `${text}\n`);
console.log(JSON.stringify({ bench: "questions", commit, options: values, rows }));
