// `npm run bench -- traces [--spans 1000000,10000000] [--repetitions 200]`: how traces are read over HTTP as spans grow. Each size is a
// process of its own with the embedded engine and the routes of the API: one day of 50 organisations in traces of 8 spans, filled by the
// engine's own bulk insert, and one trace of 5,000 spans in each of them. When merges have ended, the questions go to every size in turns,
// each repetition for another organisation. p50 and p99 with the bytes of an answer; the ratio is to the first size.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { Pool } from "undici";
import type { Guards } from "../../backend/auth/request-identity.ts";
import { type ClickHouse, openClickHouse } from "../../backend/engines/clickhouse/client.ts";
import { migrate } from "../../backend/engines/clickhouse/migrate.ts";
import { sql, type Sql } from "../../backend/engines/clickhouse/sql.ts";
import { ResponseBudget } from "../../backend/http/response-budget.ts";
import { createApp } from "../../backend/http/app.ts";
import { createLog } from "../../backend/operations/log.ts";
import { registerTraceRoutes } from "../../backend/query/native/trace-routes.ts";
import { ClickHouseSpanStore } from "../../backend/storage/traces/store.ts";
import { quantile, report } from "../fixtures/measure.ts";
import { temporaryFolder } from "../fixtures/processes.ts";

const ORGS = 50;
const SPANS_A_TRACE = 8;
const LARGE_TRACE_SPANS = 5000;
const COMMIT_ROWS = 100_000;
const DAY_S = 86_400;
const MERGE_POLL_MS = 250;
const QUIET_POLLS = 12;

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { spans: { type: "string", default: "1000000,10000000" }, repetitions: { type: "string", default: "200" } },
});
const sizes = options.spans.split(",").map(Number);

interface Size {
  readonly child: ChildProcess;
  readonly pool: Pool;
  /** Of its newest span, in milliseconds. */
  readonly newestMs: number;
}

/** Name → path; organisations differ by `org`. */
const QUESTIONS: Record<string, (newestMs: number, org: number) => string> = {
  "services, as Grafana's health check": () => "/query/jaeger/api/services",
  "operations of a service": () => "/query/jaeger/api/services/service-3/operations",
  "search by service and duration, an hour": (newestMs) => search(newestMs, 3_600_000),
  "search by service and duration, the day": (newestMs) => search(newestMs, DAY_S * 1000),
  "a trace of 8 spans": (_newestMs, org) => `/query/traces/${traceOf(org, 1)}`,
  [`a trace of ${LARGE_TRACE_SPANS} spans`]: (_newestMs, org) => `/query/traces/${traceOf(org, 0)}`,
  [`the same, as Grafana asks`]: (_newestMs, org) => `/query/jaeger/api/traces/${traceOf(org, 0)}`,
};

function search(newestMs: number, backMs: number): string {
  const range = `start=${(newestMs - backMs) * 1000}&end=${newestMs * 1000}`;
  return `/query/jaeger/api/traces?service=service-3&minDuration=900us&limit=20&${range}`;
}

/** Trace 0 of an organisation is its large one. */
function traceOf(org: number, trace: number): string {
  return `${trace.toString(16).padStart(16, "0")}${org.toString(16).padStart(16, "0")}`;
}

async function compare(): Promise<void> {
  using folder = temporaryFolder();
  const open: Size[] = [];
  try {
    for (const spans of sizes) {
      const startedAt = performance.now();
      open.push(await start(folder.path, spans));
      process.stderr.write(`${spans} spans, merges ended: ${Math.round((performance.now() - startedAt) / 1000)} s\n`);
    }
    const table: Record<string, Record<string, string>> = {};
    for (const question of Object.keys(QUESTIONS)) table[question] = await askAll(open, question);
    report("traces", { ...options, sizes }, table);
  } finally {
    for (const { child, pool } of open) {
      await pool.destroy();
      child.disconnect();
      await once(child, "exit");
    }
  }
}

async function start(folder: string, spans: number): Promise<Size> {
  const child = fork(import.meta.filename, [`${folder}/${spans}`, "--spans", String(spans)], {
    env: { ...process.env, UV_THREADPOOL_SIZE: "16" },
  });
  const ended = once(child, "exit").then(([code]) => Promise.reject(new Error(`the backend's process ended with ${String(code)}`)));
  const [ready] = (await Promise.race([once(child, "message"), ended])) as [{ port: number; newestMs: number }];
  ended.catch(() => undefined);
  return { child, pool: new Pool(`http://127.0.0.1:${ready.port}`, { connections: 1 }), newestMs: ready.newestMs };
}

async function askAll(open: readonly Size[], question: string): Promise<Record<string, string>> {
  const times: number[][] = open.map(() => []);
  const bytes: number[] = [];
  const ask = async (at: number, repetition: number): Promise<number> => {
    const { pool, newestMs } = open[at] as Size;
    const org = (repetition * 7) % ORGS;
    const startedAt = performance.now();
    const answer = await pool.request({
      method: "GET",
      path: QUESTIONS[question]?.(newestMs, org) ?? "/",
      headers: { authorization: `Bearer org-${org}` },
    });
    const body = await answer.body.text();
    if (answer.statusCode !== 200) throw new Error(`${question}: ${answer.statusCode} ${body.slice(0, 200)}`);
    bytes[at] = body.length;
    return performance.now() - startedAt;
  };
  for (const at of open.keys()) await ask(at, 1);
  for (let repetition = 0; repetition < Number(options.repetitions); repetition += 1) {
    const order = repetition % 2 === 0 ? [...open.keys()] : [...open.keys()].toReversed();
    for (const at of order) times[at]?.push(await ask(at, repetition));
  }
  const row: Record<string, string> = {};
  const sorted = times.map((own) => own.toSorted((a, b) => a - b));
  for (const [at, spans] of sizes.entries()) {
    const [p50, p99] = [quantile(sorted[at] ?? [], 0.5), quantile(sorted[at] ?? [], 0.99)];
    row[`${spans / 1e6} M: p50, p99 ms`] = `${p50.toFixed(1)}, ${p99.toFixed(1)} (${Math.ceil((bytes[at] ?? 0) / 1000)} kB)`;
    if (at > 0) row[`÷ ${(sizes[0] ?? 0) / 1e6} M`] = (p50 / quantile(sorted[0] ?? [], 0.5)).toFixed(2);
  }
  return row;
}

// ---- the process of a size

async function serve(dataDir: string, spans: number): Promise<void> {
  const log = createLog("silent");
  const clickhouse = await openClickHouse({ dataDir, log, threads: 16 });
  await migrate(clickhouse, log);
  const nowMs = Date.now();
  await fill(clickhouse, spans, Math.floor(nowMs / 1000));
  await mergesEnd(clickhouse);
  const store = await ClickHouseSpanStore.open(clickhouse, 30);
  const app = await createApp({ log });
  registerTraceRoutes(app, { store, answers: new ResponseBudget(), guards });
  await app.listen({ host: "127.0.0.1", port: 0 });
  process.on("disconnect", () => {
    void (async () => {
      await app.close();
      await store[Symbol.asyncDispose]();
      await clickhouse[Symbol.asyncDispose]();
    })();
  });
  process.send?.({ port: (app.server.address() as AddressInfo).port, newestMs: nowMs });
}

/** Who asks is told by the bearer: what is measured is reading. */
const guards: Pick<Guards, "reader"> = {
  reader: () => async (request) => {
    request.readToken = { tokenId: "bench", orgId: (request.headers.authorization ?? "").replace("Bearer ", "") };
  },
};

/** Span n is of organisation n % 50; the last rows of each are its large trace, over ten minutes in the middle of the day. */
async function fill(clickhouse: ClickHouse, spans: number, endS: number): Promise<void> {
  const large = ORGS * LARGE_TRACE_SPANS;
  if (spans < 2 * large) throw new Error(`--spans: at least ${2 * large}, because each organisation has a trace of ${LARGE_TRACE_SPANS}`);
  const small = spans - large;
  const stepNs = Math.floor((DAY_S * 1e9) / small);
  const nsOf = sql`toInt64(${endS - DAY_S}) * 1000000000 + number * ${stepNs}`;
  const largeNs = sql`toInt64(${endS - DAY_S / 2}) * 1000000000 + number * ${Math.floor(600e9 / large)}`;
  const org = sql`number % ${ORGS}`;
  const traceId = sql`lower(concat(leftPad(hex(toUInt64(1 + intDiv(number, ${ORGS * SPANS_A_TRACE}))), 16, '0'), leftPad(hex(toUInt64(${org})), 16, '0')))`;
  const largeId = sql`lower(concat(leftPad('', 16, '0'), leftPad(hex(toUInt64(${org})), 16, '0')))`;
  for (let at = 0; at < small; at += COMMIT_ROWS)
    await clickhouse.command(insert(nsOf, traceId, sql`FROM numbers(${at}, ${Math.min(COMMIT_ROWS, small - at)})`));
  await clickhouse.command(insert(largeNs, largeId, sql`FROM numbers(${large})`));
  await clickhouse.command(sql`INSERT INTO span_operations
    SELECT org_id, service, operation, kind, toStartOfDay(max(spans.time)) + toIntervalDay(1) AS time FROM spans GROUP BY org_id, service, operation, kind`);
}

function insert(ns: Sql, traceId: Sql, rows: Sql): Sql {
  return sql`INSERT INTO spans (org_id, host_id, node, received_at, body_hash, time, id, trace_id, span_id, parent_span_id, service, operation, kind, duration_ns, status_code, attributes)
    SELECT concat('org-', toString(number % ${ORGS})), 'host', concat('node-', toString(number % 7)), now(), cityHash64(intDiv(number, 1000)),
      fromUnixTimestamp64Nano(${ns}, 'UTC'), number, ${traceId}, leftPad(lower(hex(number + 1)), 16, '0'),
      if(intDiv(number, ${ORGS}) % ${SPANS_A_TRACE} = 0, '', leftPad(lower(hex(number + 1 - ${ORGS})), 16, '0')),
      concat('service-', toString(cityHash64(number, 1) % 20)), concat('GET /', toString(cityHash64(number, 2) % 50)), 'SERVER', cityHash64(number, 3) % 1000000,
      if(cityHash64(number, 4) % 50 = 0, 'ERROR', 'UNSET'),
      map('k8s.pod.name', concat('pod-', toString(number % 100)), 'k8s.namespace.name', 'shop', 'http.method', 'GET', 'request.id', hex(cityHash64(number, 5))) ${rows}`;
}

/** Some readings without a merge, one after the other: the engine looks for the next merge in between. */
async function mergesEnd(clickhouse: ClickHouse): Promise<void> {
  for (let quiet = 0; quiet < QUIET_POLLS;) {
    const [row] = await clickhouse.query<{ running: string }>(sql`SELECT count() AS running FROM system.merges`);
    quiet = row?.running === "0" ? quiet + 1 : 0;
    await sleep(MERGE_POLL_MS);
  }
}

if (process.send === undefined) await compare();
else await serve(positionals[0] as string, sizes[0] as number);
