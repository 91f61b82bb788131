// `npm run bench -- small-requests [--seconds 20] [--clients 200] [--records 10] [--client raw|undici] [--against DIR [--rounds 12]]`: sends
// many small signed requests of logs to the whole backend as one process, then the same number of rows through the engine's own bulk insert. Targets: ≥ 6,000
// requests/s sustained (--seconds 120), no 5xx, no loss, a limited number of active parts. Every response is counted by its status, and the
// rows are read back at the end. The client runs on the same cores: its CPU is printed too, and figures of different clients are not
// comparable. `--against`: the ratio of the CPU time to that of another checkout, both at the same time.
import { globSync, mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { openClickHouse } from "../../backend/engines/clickhouse/clickhouse-client.ts";
import { sql } from "../../backend/engines/clickhouse/sql.ts";
import { createLog } from "../../backend/log.ts";
import { startEngine } from "../fixtures/engine-insert.ts";
import { cpuMs, mainThreadCpuMs, quantile, report, shown } from "../fixtures/measure.ts";
import { INGEST_PATHS, LoadBody } from "../fixtures/otlp-load.ts";
import { adminPassword, type BackendPlace, backendPlace, login, makeTenant, startBackend } from "../fixtures/backend-process.ts";
import { ROOT, temporaryFolder } from "../fixtures/processes.ts";
import { compareSideBySide } from "./small-requests/side-by-side.ts";
import { type Client, type ClientName, CLIENTS, OPEN_CLIENT } from "./small-requests/small-request-client.ts";

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "20" },
    clients: { type: "string", default: "200" },
    records: { type: "string", default: "10" },
    client: { type: "string", default: "raw" },
    against: { type: "string" },
    rounds: { type: "string", default: "12" },
  },
});
if (!CLIENTS.includes(values.client as ClientName)) throw new Error(`--client is ${CLIENTS.join(" or ")}`);
const [seconds, clients, records] = [values.seconds, values.clients, values.records].map(Number) as [number, number, number];
const path = INGEST_PATHS.logs;
const WARM_UP_MS = 2000;
const answers = new Map<string, number>();
let times: number[] = [];
/** Requests answered in each second. */
const perSecond: number[] = [];
const parts: number[] = [];
/** CPU time of this process for counting the parts. */
let lookingUs = 0;

using folder = temporaryFolder();
if (values.against === undefined) await measureAlone(await backendPlace(folder.path));
else {
  const checkouts = [resolve(values.against), ROOT] as const;
  report(
    "small-requests",
    values,
    await compareSideBySide({ checkouts, folder: folder.path, clients, records, rounds: Number(values.rounds) }),
  );
}

async function measureAlone(place: BackendPlace): Promise<void> {
  const { warm, timed, cpuUs, mainUs, clientUs } = await measure(place);
  const { rows, activeParts } = await readBack(place);
  const acknowledged = (answers.get("204") ?? 0) * records;
  report("small-requests", values, {
    "requests/s": { figure: (timed / seconds).toFixed(0), spread: shown(perSecond) },
    "answer, ms": { figure: `p50 ${at(0.5)}`, spread: `p99 ${at(0.99)}, most ${at(1)}` },
    answers: { figure: [...answers].map(([status, count]) => `${status}: ${count}`).join(", "), spread: `of them ${warm} to warm up` },
    "active parts": { figure: `at most ${Math.max(...parts)}`, spread: `${shown(parts)} during the run, ${activeParts} after it` },
    "rows read back": { figure: `${rows} of ${acknowledged}`, spread: rows === acknowledged ? "nothing lost, nothing twice" : "WRONG" },
    "backend CPU": { figure: `${cpuUs.toFixed(0)} µs/request`, spread: `${(cpuUs / records).toFixed(1)} µs/row` },
    "of it the main thread": { figure: `${mainUs.toFixed(0)} µs/request`, spread: "" },
    "client CPU": { figure: `${clientUs.toFixed(0)} µs/request`, spread: "this process, on the same cores" },
    "the same rows in bulk": {
      figure: await inBulk(),
      spread: `against ${((timed * records) / seconds).toFixed(0)} rows/s in small requests`,
    },
  });
  if (rows !== acknowledged || answers.size !== 1) process.exitCode = 1;
}

function at(share: number): string {
  return quantile(times, share).toFixed(0);
}

async function measure(place: BackendPlace): Promise<Record<"warm" | "timed" | "cpuUs" | "mainUs" | "clientUs", number>> {
  await using backend = await startBackend(place);
  const operator = await login(place.apiUrl, "admin@localhost", adminPassword(place));
  const { apiKey } = await makeTenant(place.apiUrl, operator, "bench");
  await using client = OPEN_CLIENT[values.client as ClientName]({ url: place.apiUrl, path, apiKey }, clients);
  const bodies = Array.from({ length: clients }, () => new LoadBody("logs", records));
  const warm = await send(client, bodies, WARM_UP_MS);
  times = [];
  perSecond.length = 0;
  const pid = backend.child.pid ?? 0;
  const [before, mainBefore, ownBefore] = [cpuMs(pid), mainThreadCpuMs(pid), ownCpuUs()];
  const watch = setInterval(() => lookAtParts(place), 1000);
  const timed = await send(client, bodies, seconds * 1000);
  clearInterval(watch);
  const cpuUs = ((cpuMs(pid) - before) * 1000) / timed;
  const mainUs = ((mainThreadCpuMs(pid) - mainBefore) * 1000) / timed;
  const clientUs = (ownCpuUs() - ownBefore - lookingUs) / timed;
  times.sort((a, b) => a - b);
  return { warm, timed, cpuUs, mainUs, clientUs };
}

function ownCpuUs(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}

function lookAtParts(place: BackendPlace): void {
  const before = ownCpuUs();
  parts.push(countActiveParts(place));
  lookingUs += ownCpuUs() - before;
}

async function send(client: Client, bodies: readonly LoadBody[], ms: number): Promise<number> {
  const startedAt = performance.now();
  let count = 0;
  const sender = async (body: LoadBody): Promise<void> => {
    for (let now = startedAt; now - startedAt < ms;) {
      const status = await client.post(body.next());
      answers.set(status, (answers.get(status) ?? 0) + 1);
      times.push(performance.now() - now);
      now = performance.now();
      const second = Math.floor((now - startedAt) / 1000);
      if (second < Math.floor(ms / 1000)) perSecond[second] = (perSecond[second] ?? 0) + 1;
      count += 1;
    }
  };
  await Promise.all(bodies.map(sender));
  return count;
}

/** Parts in the engine's folders that no part of a higher level contains: `<partition>_<first block>_<last block>_<level>`. */
function countActiveParts(place: BackendPlace): number {
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

async function readBack(place: BackendPlace): Promise<{ rows: number; activeParts: number }> {
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
