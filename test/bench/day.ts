// `npm run bench -- day [--rows 100000000] [--signal logs|spans] [--rounds 5]`: measures queries about one day of one organisation with 100
// million log records or spans, over HTTP, of the whole backend with embedded engines: time, and CPU of the backend's processes. The
// backend stores a hundredth of the log records itself; the engine copies them with later times, with all filters and summaries. The engine
// generates spans. 100 million take 8 to 12 minutes on two idle cores and at most 12 GB of disk. Targets: newest 100 in 100 ms, a rare word
// in 1 s, a histogram of a day in 300 ms, services by minute of a day in 200 ms.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { loadavg } from "node:os";
import { parseArgs } from "node:util";
import { type ClickHouse, openClickHouse } from "../../backend/engines/clickhouse/clickhouse-client.ts";
import { type Sql, sql } from "../../backend/engines/clickhouse/sql.ts";
import { createLog } from "../../backend/log.ts";
import { treeOf } from "../attacks/memory-limit.ts";
import { adminPassword, backendPlace, login, makeTenant, startBackend } from "../fixtures/backend-process.ts";
import { cpuMs, markdown, residentMb, shown } from "../fixtures/measure.ts";
import { INGEST_PATHS } from "../fixtures/otlp-load.ts";
import { ROOT, signedPost, temporaryFolder } from "../fixtures/processes.ts";
import { questionsOfDay } from "./day/asked.ts";
import { copyLogs, mergesEnd, spansOfDay } from "./day/day-rows.ts";
import { batch } from "./questions/records.ts";

const { values } = parseArgs({
  options: {
    rows: { type: "string", default: "100000000" },
    signal: { type: "string", default: "logs" },
    rounds: { type: "string", default: "5" },
  },
});
const [total, rounds] = [Number(values.rows), Number(values.rounds)];
const signal = values.signal === "spans" ? "spans" : "logs";
const BATCH_RECORDS = 1000;
const SENDERS = 8;
const DAY_MS = 86_400_000;
const COPIES = 100;
/** All rows are from yesterday, which is one partition. */
const startMs = Math.floor(Date.now() / DAY_MS) * DAY_MS - DAY_MS;
const sampled = Math.floor(total / COPIES);

const loadBefore = loadavg()[0]?.toFixed(1);
using folder = temporaryFolder();
const place = await backendPlace(folder.path);
const startedAt = performance.now();
const tenant = await firstRows();
const stored = await copied();
const loadedS = ((performance.now() - startedAt) / 1000).toFixed(0);

/** Creates a tenant and, for logs, the records of the first hundredth of the day. */
async function firstRows() {
  await using backend = await startBackend(place);
  const made = await makeTenant(place.apiUrl, await login(place.apiUrl, "admin@localhost", adminPassword(place)), "bench");
  const stepNs = BigInt(Math.floor((DAY_MS * 1e6) / total));
  let next = 0;
  const sender = async (): Promise<void> => {
    for (let first = next; first < sampled; first = next) {
      next += BATCH_RECORDS;
      const numbers = Array.from({ length: Math.min(BATCH_RECORDS, sampled - first) }, (_, index) => first + index);
      const { json } = batch("short", numbers, (n) => BigInt(startMs) * 1_000_000n + BigInt(n) * stepNs, Math.floor(sampled / 2));
      const answer = await signedPost(place.apiUrl, INGEST_PATHS.logs, made.apiKey, json(), { "content-type": "application/json" });
      if (answer.status !== 204) throw new Error(`ingest: ${answer.status} ${answer.text}`);
    }
  };
  if (signal === "logs") await Promise.all(Array.from({ length: SENDERS }, sender));
  // Opens the engine, which creates the tables.
  await askedMs("/query/services", made.token);
  await backend.end();
  return made;
}

/** Copies all rows; returns their size when merges have ended. */
async function copied(): Promise<{ rows: number; bytes: number; parts: number; cpuUs: number }> {
  const cpu = process.cpuUsage();
  await using clickhouse = await openClickHouse({ dataDir: join(place.dataDir, "clickhouse"), log: createLog("silent") });
  const statements = signal === "logs" ? copyLogs(COPIES, DAY_MS / COPIES) : spansOfDay(tenant.orgId, startMs, total, COPIES);
  for (const statement of statements) await clickhouse.command(statement);
  await mergesEnd(clickhouse);
  const { user, system } = process.cpuUsage(cpu);
  return { ...(await storedRows(clickhouse)), cpuUs: (user + system) / total };
}

async function storedRows(clickhouse: ClickHouse): Promise<{ rows: number; bytes: number; parts: number }> {
  const statement: Sql = sql`SELECT sum(rows) AS rows, sum(bytes_on_disk) AS bytes, count() AS parts FROM system.parts
    WHERE active AND table = ${signal}`;
  const [found] = await clickhouse.query<Record<"rows" | "bytes" | "parts", string>>(statement);
  return { rows: Number(found?.rows), bytes: Number(found?.bytes), parts: Number(found?.parts) };
}

async function askedMs(path: string, bearer: string): Promise<number> {
  const began = performance.now();
  const answer = await fetch(`${place.apiUrl}${path}`, { headers: { authorization: `Bearer ${bearer}` } });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${text.slice(0, 500)}`);
  return performance.now() - began;
}

await using backend = await startBackend(place);
const pid = backend.child.pid ?? 0;
const treeCpuMs = (): number => treeOf(pid).reduce((sum, process) => sum + cpuMs(process), 0);
const rows: Record<string, Record<string, string>> = {};
for (const { name, path, reachMs } of questionsOfDay(signal, startMs, startMs + DAY_MS)) {
  const [times, cpus, failed]: [number[], number[], string[]] = [[], [], []];
  // The first round opens files and fills caches.
  for (let round = -1; round < rounds; round += 1) {
    const before = treeCpuMs();
    const ms = await askedMs(path, tenant.token).catch((error: unknown) => failed.push(String(error)) && Number.NaN);
    if (round < 0) continue;
    times.push(ms);
    cpus.push(treeCpuMs() - before);
  }
  rows[name] = { time: `${shown(times, 1)} ms`, CPU: `${shown(cpus)} ms`, "to reach": reachMs === undefined ? "" : `${reachMs} ms` };
  if (failed.length > 0) console.error(`${name}: ${failed.length} failed: ${failed[0]}`);
}
const commit = execFileSync("git", ["-C", ROOT, "rev-parse", "--short", "HEAD"], { encoding: "utf8" }).trim();
const load = `load of the machine ${loadBefore} before, ${loadavg()[0]?.toFixed(1)} after`;
console.log(`${commit}, ${stored.rows} ${signal} of a day in ${stored.parts} parts, ${rounds} rounds; loaded in ${loadedS} s; ${load}`);
console.log(
  `${(stored.bytes / stored.rows).toFixed(1)} bytes and ${stored.cpuUs.toFixed(2)} µs of the engine a row; ${residentMb(pid).toFixed(0)} MB afterwards\n`,
);
console.log(markdown(rows));
console.log(JSON.stringify({ bench: "day", commit, options: values, stored, rows }));
if (stored.rows !== total) process.exitCode = 1;
