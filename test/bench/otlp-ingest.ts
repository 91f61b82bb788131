// `npm run bench -- otlp-ingest [--rounds 3] [--seconds 4] [--clients 8] [--records 1000]`: logs and spans as OTLP/JSON over HTTP, signed,
// to the whole backend as one process, against the engine's own bulk insert of the same rows (test/fixtures/engine-insert.ts), in turns
// within one run, each with the machine to itself. The senders run beside the backend and share its cores; the bulk insert has no senders.
// Reach: ≥ 0.8 of the rows/s of statements of 10,000 rows, stretch 1.0; statements of 100,000 beside it. Nothing lost: the rows are counted
// in the end.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { Pool } from "undici";
import { sign } from "../../common/protocol/signature.ts";
import { openClickHouse } from "../../backend/engines/clickhouse/client.ts";
import { Sql, sql } from "../../backend/engines/clickhouse/sql.ts";
import { createLog } from "../../backend/operations/log.ts";
import { type LoneEngine, startEngine, STATEMENT_ROWS, type StatementRows } from "../fixtures/engine-insert.ts";
import { cpuMs, report, shown } from "../fixtures/measure.ts";
import { INGEST_PATHS, LOAD_SIGNALS, LoadBody, type LoadSignal } from "../fixtures/otlp-load.ts";
import { adminPassword, backendPlace, login, makeTenant, startBackend } from "../fixtures/backend-process.ts";
import { temporaryFolder } from "../fixtures/processes.ts";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "3" },
    seconds: { type: "string", default: "4" },
    clients: { type: "string", default: "8" },
    records: { type: "string", default: "1000" },
  },
});
const [rounds, seconds, clients, records] = [values.rounds, values.seconds, values.clients, values.records].map(Number) as [
  number,
  number,
  number,
  number,
];
/** So that what one round leaves to be merged does not burden the other. */
const REST_MS = 1000;
const stored: Record<LoadSignal, number> = { logs: 0, spans: 0 };

interface Round {
  readonly rowsPerSecond: number;
  readonly cpuUsPerRow: number;
  readonly sendersCpuUsPerRow: number;
}

using folder = temporaryFolder();
const place = await backendPlace(folder.path, { UV_THREADPOOL_SIZE: "16" });
mkdirSync(join(folder.path, "lone"));
type Way = "route" | StatementRows;
const results: Record<LoadSignal, Record<Way, Round[]>> = {
  logs: { route: [], 10_000: [], 100_000: [] },
  spans: { route: [], 10_000: [], 100_000: [] },
};
await measure();
await checkNothingLost();
print();

async function measure(): Promise<void> {
  await using backend = await startBackend(place);
  await using engine = await startEngine(join(folder.path, "lone"));
  const operator = await login(place.apiUrl, "admin@localhost", adminPassword(place));
  const { apiKey } = await makeTenant(place.apiUrl, operator, "bench");
  const pool = new Pool(place.apiUrl, { connections: clients });
  const pid = backend.child.pid ?? 0;
  for (const signal of LOAD_SIGNALS) {
    const bodies = Array.from({ length: clients }, () => new LoadBody(signal, records));
    const route = (ms: number) => throughTheRoute(pool, apiKey, signal, bodies, ms);
    await route(2000);
    await engine.insert(signal, STATEMENT_ROWS[0], 1000);
    for (let round = 0; round < rounds; round += 1) {
      const ways = [
        async () => void results[signal].route.push(await measured(pid, () => route(seconds * 1000))),
        ...STATEMENT_ROWS.map((rows) => async () => void results[signal][rows].push(await alone(engine, signal, rows))),
      ];
      for (const way of round % 2 === 0 ? ways : ways.toReversed()) {
        await sleep(REST_MS);
        await way();
      }
    }
  }
  await pool.close();
}

async function alone(engine: LoneEngine, signal: LoadSignal, statementRows: StatementRows): Promise<Round> {
  return measured(engine.pid, () => engine.insert(signal, statementRows, seconds * 1000));
}

async function measured(pid: number, work: () => Promise<{ rows: number; ms: number }>): Promise<Round> {
  const before = { cpu: cpuMs(pid), own: cpuMs(process.pid) };
  const { rows, ms } = await work();
  return {
    rowsPerSecond: (rows * 1000) / ms,
    cpuUsPerRow: ((cpuMs(pid) - before.cpu) * 1000) / rows,
    sendersCpuUsPerRow: ((cpuMs(process.pid) - before.own) * 1000) / rows,
  };
}

/** Each client sends the next body when the last one is answered: what is not answered 204 ends the run. */
async function throughTheRoute(pool: Pool, apiKey: string, signal: LoadSignal, bodies: readonly LoadBody[], ms: number) {
  const path = INGEST_PATHS[signal];
  const startedAt = performance.now();
  let rows = 0;
  const client = async (body: LoadBody): Promise<void> => {
    while (performance.now() - startedAt < ms) {
      const headers = { ...sign(apiKey, "POST", path, Date.now() / 1000), "content-type": "application/json" };
      const answer = await pool.request({ method: "POST", path, headers, body: body.next() });
      const text = await answer.body.text();
      if (answer.statusCode !== 204) throw new Error(`${path}: ${answer.statusCode} ${text}`);
      rows += records;
    }
  };
  await Promise.all(bodies.map(client));
  stored[signal] += rows;
  return { rows, ms: performance.now() - startedAt };
}

async function checkNothingLost(): Promise<void> {
  await using clickhouse = await openClickHouse({ dataDir: join(place.dataDir, "clickhouse"), log: createLog("silent") });
  for (const signal of LOAD_SIGNALS) {
    const [found] = await clickhouse.query<{ rows: string }>(sql`SELECT count() AS rows FROM ${new Sql(signal)}`);
    if (Number(found?.rows) !== stored[signal]) throw new Error(`${signal}: ${stored[signal]} acknowledged, ${found?.rows} stored`);
  }
}

function print(): void {
  const table: Record<string, Record<string, string>> = {};
  for (const signal of LOAD_SIGNALS) {
    const { route } = results[signal];
    for (const way of ["route", ...STATEMENT_ROWS] as const) {
      const own = results[signal][way];
      const ratios = route.map((round, index) => round.rowsPerSecond / (own[index]?.rowsPerSecond ?? Number.NaN));
      const isRoute = way === "route";
      table[`${signal}, ${isRoute ? "through the signed route" : `bulk insert, statements of ${way} rows`}`] = {
        "rows/s": shown(own.map((round) => round.rowsPerSecond)),
        "CPU µs/row": shown(
          own.map((round) => round.cpuUsPerRow),
          1,
        ),
        "senders CPU µs/row": isRoute
          ? shown(
              own.map((round) => round.sendersCpuUsPerRow),
              1,
            )
          : "",
        "route ÷ this": isRoute ? "" : shown(ratios, 2),
        "read back": isRoute ? `all ${stored[signal]}` : "",
      };
    }
  }
  report("otlp-ingest", values, table);
}
