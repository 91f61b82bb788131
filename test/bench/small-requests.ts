// `npm run bench -- small-requests [--seconds 20] [--clients 200] [--records 10]`: many small signed requests of logs to the whole backend
// as one process, then as many rows through the engine's own bulk insert. Reach: ≥ 1,000 requests/s sustained (--seconds 120), no 5xx,
// nothing lost, the number of active parts bounded. Every answer is counted by its status; the rows are read back in the end.
import { globSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Pool } from "undici";
import { sign } from "../../agent/protocol/signature.ts";
import { openClickHouse } from "../../backend/engines/clickhouse/client.ts";
import { sql } from "../../backend/engines/clickhouse/sql.ts";
import { createLog } from "../../backend/observability/log.ts";
import { startEngine } from "../fixtures/engine-insert.ts";
import { cpuMs, quantile, report, shown } from "../fixtures/measure.ts";
import { INGEST_PATHS, LoadBody } from "../fixtures/otlp-load.ts";
import { adminPassword, backendPlace, login, makeTenant, startBackend } from "../fixtures/backend-process.ts";
import { temporaryFolder } from "../fixtures/processes.ts";

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "20" },
    clients: { type: "string", default: "200" },
    records: { type: "string", default: "10" },
  },
});
const [seconds, clients, records] = [values.seconds, values.clients, values.records].map(Number) as [number, number, number];
const path = INGEST_PATHS.logs;
const WARM_UP_MS = 2000;
const answers = new Map<string, number>();
let times: number[] = [];
/** Requests answered in each second. */
const perSecond: number[] = [];
const parts: number[] = [];

using folder = temporaryFolder();
const place = await backendPlace(folder.path, { UV_THREADPOOL_SIZE: "16" });
const { warm, timed, cpuUs } = await measure();
const { rows, activeParts } = await readBack();
const acknowledged = (answers.get("204") ?? 0) * records;
report("small-requests", values, {
  "requests/s": { figure: (timed / seconds).toFixed(0), spread: shown(perSecond) },
  "answer, ms": { figure: `p50 ${at(0.5)}`, spread: `p99 ${at(0.99)}, most ${at(1)}` },
  answers: { figure: [...answers].map(([status, count]) => `${status}: ${count}`).join(", "), spread: `of them ${warm} to warm up` },
  "active parts": { figure: `at most ${Math.max(...parts)}`, spread: `${shown(parts)} during the run, ${activeParts} after it` },
  "rows read back": { figure: `${rows} of ${acknowledged}`, spread: rows === acknowledged ? "nothing lost, nothing twice" : "WRONG" },
  "backend CPU": { figure: `${cpuUs.toFixed(0)} µs/request`, spread: `${(cpuUs / records).toFixed(1)} µs/row` },
  "the same rows in bulk": {
    figure: await inBulk(),
    spread: `against ${((timed * records) / seconds).toFixed(0)} rows/s in small requests`,
  },
});
if (rows !== acknowledged || answers.size !== 1) process.exitCode = 1;

function at(share: number): string {
  return quantile(times, share).toFixed(0);
}

async function measure(): Promise<{ warm: number; timed: number; cpuUs: number }> {
  await using backend = await startBackend(place);
  const operator = await login(place.apiUrl, "admin@localhost", adminPassword(place));
  const { apiKey } = await makeTenant(place.apiUrl, operator, "bench");
  const pool = new Pool(place.apiUrl, { connections: clients });
  const bodies = Array.from({ length: clients }, () => new LoadBody("logs", records));
  const warm = await send(pool, apiKey, bodies, WARM_UP_MS);
  times = [];
  perSecond.length = 0;
  const before = cpuMs(backend.child.pid ?? 0);
  const watch = setInterval(() => parts.push(countActiveParts()), 1000);
  const timed = await send(pool, apiKey, bodies, seconds * 1000);
  clearInterval(watch);
  const cpuUs = ((cpuMs(backend.child.pid ?? 0) - before) * 1000) / timed;
  times.sort((a, b) => a - b);
  await pool.close();
  return { warm, timed, cpuUs };
}

async function send(pool: Pool, apiKey: string, bodies: readonly LoadBody[], ms: number): Promise<number> {
  const startedAt = performance.now();
  let count = 0;
  const client = async (body: LoadBody): Promise<void> => {
    for (let now = startedAt; now - startedAt < ms;) {
      const headers = { ...sign(apiKey, "POST", path, Date.now() / 1000), "content-type": "application/json" };
      const answer = await pool.request({ method: "POST", path, headers, body: body.next() });
      await answer.body.dump();
      const status = String(answer.statusCode);
      answers.set(status, (answers.get(status) ?? 0) + 1);
      times.push(performance.now() - now);
      now = performance.now();
      const second = Math.floor((now - startedAt) / 1000);
      if (second < Math.floor(ms / 1000)) perSecond[second] = (perSecond[second] ?? 0) + 1;
      count += 1;
    }
  };
  await Promise.all(bodies.map(client));
  return count;
}

/** Parts in the engine's folders that no part of a higher level contains: `<partition>_<first block>_<last block>_<level>`. */
function countActiveParts(): number {
  const names = globSync("*/*/*_*_*_*", { cwd: join(place.dataDir, "clickhouse", "store") });
  const found = names.flatMap((name) => {
    const [, table = "", partition = "", first, last, level] = /^(.*)\/(\d{8})_(\d+)_(\d+)_(\d+)$/.exec(name) ?? [];
    return first === undefined ? [] : [{ of: `${table} ${partition}`, first: Number(first), last: Number(last), level: Number(level) }];
  });
  return found.filter(
    (part) =>
      !found.some(
        (other) =>
          other !== part && other.of === part.of && other.first <= part.first && other.last >= part.last && other.level > part.level,
      ),
  ).length;
}

async function readBack(): Promise<{ rows: number; activeParts: number }> {
  await using clickhouse = await openClickHouse({ dataDir: join(place.dataDir, "clickhouse"), log: createLog("silent") });
  const [found] = await clickhouse.query<{ rows: string; parts: string }>(
    sql`SELECT (SELECT count() FROM logs) AS rows,
               (SELECT count() FROM system.parts WHERE active AND database = currentDatabase() AND table = 'logs') AS parts`,
  );
  return { rows: Number(found?.rows), activeParts: Number(found?.parts) };
}

async function inBulk(): Promise<string> {
  const lone = join(folder.path, "lone");
  mkdirSync(lone);
  await using engine = await startEngine(lone);
  await engine.insert("logs", 10_000, 1000);
  const inserted = await engine.insert("logs", 10_000, 5000);
  return `${((inserted.rows * 1000) / inserted.ms).toFixed(0)} rows/s`;
}
