// A backend whose embedded engine was filled before it started, by the engine's own bulk insert: a day of logs of its first organisation,
// and one large trace within the last hour.
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type ClickHouse, openClickHouse } from "../../../backend/engines/clickhouse/client.ts";
import { migrate } from "../../../backend/engines/clickhouse/migrate.ts";
import { sql } from "../../../backend/engines/clickhouse/sql.ts";
import { createLog } from "../../../backend/operations/log.ts";
import { adminPassword, type BackendPlace, backendPlace, login, startBackend } from "../../fixtures/backend-process.ts";
import { call } from "../../fixtures/processes.ts";

export const TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736";
/** In the message of one record of 20,011. */
export const NEEDLE = "needle";
const COMMIT_ROWS = 100_000;
const LONGEST_MERGES_MS = 60_000;
const DAY_NS = 86_400_000_000_000n;
const TRACE_NS = 10_000_000_000n;
/** Each span of the trace but the first has one of the few before it as its parent. */
const CHILDREN = 5;

export interface Filled extends AsyncDisposable {
  readonly place: BackendPlace;
  /** A raw key for direct ingest. */
  readonly key: string;
}

export async function startFilled(folder: string, rows: { logs: number; spans: number }): Promise<Filled> {
  const place = await backendPlace(folder, { UV_THREADPOOL_SIZE: "16", JWT_TTL: "24h" });
  const empty = await startBackend(place);
  const bearer = await login(place.apiUrl, "admin@localhost", adminPassword(place));
  const [org] = (await call("GET", `${place.apiUrl}/api/orgs`, { bearer })).json as { org_id: string }[];
  const key = (await call("POST", `${place.apiUrl}/api/keys`, { bearer, body: { name: "bench" } })).json.api_key as string;
  await empty.end();
  const startedAt = performance.now();
  await fill(join(place.dataDir, "clickhouse"), org?.org_id ?? "", rows);
  process.stderr.write(`filled in ${Math.round((performance.now() - startedAt) / 1000)} s\n`);
  const backend = await startBackend(place);
  return { place, key, [Symbol.asyncDispose]: async () => void (await backend.end()) };
}

async function fill(dataDir: string, orgId: string, { logs, spans }: { logs: number; spans: number }): Promise<void> {
  const log = createLog("silent");
  await using clickhouse = await openClickHouse({ dataDir, log, threads: 8 });
  await migrate(clickhouse, log);
  const nowNs = BigInt(Date.now()) * 1_000_000n;
  const stepNs = DAY_NS / BigInt(Math.max(1, logs));
  for (let at = 0; at < logs; at += COMMIT_ROWS) {
    const time = sql`fromUnixTimestamp64Nano(toInt64(${nowNs - DAY_NS}) + number * ${stepNs}, 'UTC')`;
    const level = sql`if(cityHash64(number, 3) % 50 = 0, 'error', if(cityHash64(number, 7) % 20 = 0, 'warn', 'info'))`;
    const message = sql`concat('GET /api/items/', toString(cityHash64(number, 4) % 100000), if(number % 20011 = 17, ${` ${NEEDLE} `}, ' served '), hex(cityHash64(number, 5)), ' in ', toString(number % 900), ' ms')`;
    const labels = sql`map('k8s.pod.name', concat('pod-', toString(number % 100)), 'k8s.namespace.name', 'shop', 'http.method', 'GET', 'request.id', hex(cityHash64(number, 2)))`;
    await clickhouse.command(sql`INSERT INTO logs (org_id, host_id, node, received_at, body_hash, time, id, level, severity_number, source, message, labels)
      SELECT ${orgId}, 'host', concat('node-', toString(number % 7)), now(), cityHash64(intDiv(number, 1000)), ${time}, number, ${level}, 9,
        concat('service-', toString(cityHash64(number, 1) % 20)), ${message}, ${labels} FROM numbers(${at}, ${Math.min(COMMIT_ROWS, logs - at)})`);
  }
  const start = sql`fromUnixTimestamp64Nano(toInt64(${nowNs - 60_000_000_000n}) + number * ${TRACE_NS / BigInt(Math.max(1, spans))}, 'UTC')`;
  await clickhouse.command(sql`INSERT INTO spans (org_id, host_id, node, received_at, body_hash, time, id, trace_id, span_id, parent_span_id, service, operation, kind, duration_ns, status_code, attributes)
    SELECT ${orgId}, 'host', 'node', now(), 1, ${start}, number, ${TRACE_ID}, leftPad(lower(hex(number + 1)), 16, '0'),
      if(number = 0, '', leftPad(lower(hex(intDiv(number - 1, ${CHILDREN}) + 1)), 16, '0')), concat('service-', toString(number % 12)),
      concat('GET /', toString(number % 50)), 'SERVER', if(number = 0, ${TRACE_NS}, 1000000 + cityHash64(number) % 50000000), if(number % 97 = 5, 'ERROR', 'UNSET'),
      map('http.method', 'GET', 'request.id', hex(cityHash64(number, 5))) FROM numbers(${spans})`);
  await mergesEnd(clickhouse);
}

/** They would go on beside the first questions; not for longer than somebody waits. Between two readings the engine looks for the next one. */
async function mergesEnd(clickhouse: ClickHouse): Promise<void> {
  const endMs = performance.now() + LONGEST_MERGES_MS;
  for (let quiet = 0; quiet < 5; await sleep(300)) {
    const [row] = await clickhouse.query<{ running: string }>(sql`SELECT count() AS running FROM system.merges`);
    quiet = Number(row?.running) === 0 ? quiet + 1 : 0;
    if (performance.now() < endMs) continue;
    process.stderr.write("merges go on\n");
    return;
  }
}
