// A backend whose embedded engine was filled before it started, by the engine's own bulk insert: a day of logs of its first organisation. The
// senders of a small shop on Kubernetes add an hour of spans, metrics and logs.
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type ClickHouse, openClickHouse } from "../../../backend/engines/clickhouse/clickhouse-client.ts";
import { migrate } from "../../../backend/engines/clickhouse/migrate.ts";
import { sql } from "../../../backend/engines/clickhouse/sql.ts";
import { createLog } from "../../../backend/log.ts";
import { adminPassword, type BackendPlace, backendPlace, login, startBackend } from "../../fixtures/backend-process.ts";
import { call } from "../../fixtures/processes.ts";
import { startShopCluster } from "../../fixtures/shop-cluster.ts";
import { visit } from "../../fixtures/shop-visits.ts";

const COMMIT_ROWS = 100_000;
const LONGEST_MERGES_MS = 60_000;
const DAY_NS = 86_400_000_000_000n;
const HOUR_MS = 3_600_000;
const VISITS = 200;

export interface Filled extends AsyncDisposable {
  readonly place: BackendPlace;
}

export async function startFilled(folder: string, logs: number): Promise<Filled> {
  const place = await backendPlace(folder, { UV_THREADPOOL_SIZE: "16", JWT_TTL: "24h" });
  const empty = await startBackend(place);
  const bearer = await login(place.apiUrl, "admin@localhost", adminPassword(place));
  const [org] = (await call("GET", `${place.apiUrl}/api/orgs`, { bearer })).json as { org_id: string }[];
  await empty.end();
  const startedAt = performance.now();
  await fill(join(place.dataDir, "clickhouse"), org?.org_id ?? "", logs);
  process.stderr.write(`filled in ${Math.round((performance.now() - startedAt) / 1000)} s\n`);
  const backend = await startBackend(place);
  const visits = Array.from({ length: VISITS }, (_, at) =>
    visit(at, Date.now() - (HOUR_MS * (VISITS - at)) / (VISITS + 4), at === VISITS - 1),
  );
  const { token: installToken } = (await call("POST", `${place.apiUrl}/api/install-tokens`, { bearer, body: {} })).json as {
    token: string;
  };
  await startShopCluster(place.apiUrl, installToken, visits.flat());
  return { place, [Symbol.asyncDispose]: async () => void (await backend.end()) };
}

async function fill(dataDir: string, orgId: string, logs: number): Promise<void> {
  const log = createLog("silent");
  await using clickhouse = await openClickHouse({ dataDir, log, threads: 8 });
  await migrate(clickhouse, log);
  const nowNs = BigInt(Date.now()) * 1_000_000n;
  const stepNs = DAY_NS / BigInt(Math.max(1, logs));
  const [stored] = await clickhouse.query<{ rows: string }>(sql`SELECT count() AS rows FROM logs WHERE node LIKE 'node-%'`);
  // A folder of an earlier run has some or all of them.
  for (let at = Number(stored?.rows ?? 0); at < logs; at += COMMIT_ROWS) {
    const time = sql`fromUnixTimestamp64Nano(toInt64(${nowNs - DAY_NS}) + number * ${stepNs}, 'UTC')`;
    const level = sql`if(cityHash64(number, 3) % 50 = 0, 'error', if(cityHash64(number, 7) % 20 = 0, 'warn', 'info'))`;
    const message = sql`concat('GET /api/items/', toString(cityHash64(number, 4) % 100000), ' served ', hex(cityHash64(number, 5)), ' in ', toString(number % 900), ' ms')`;
    const labels = sql`map('k8s.pod.name', concat('pod-', toString(number % 100)), 'k8s.namespace.name', 'shop', 'http.method', 'GET', 'request.id', hex(cityHash64(number, 2)))`;
    await clickhouse.command(sql`INSERT INTO logs (org_id, host_id, node, received_at, body_hash, time, id, level, severity_number, source, message, labels)
      SELECT ${orgId}, 'host', concat('node-', toString(number % 7)), now(), cityHash64(intDiv(number, 1000)), ${time}, number, ${level}, 9,
        concat('service-', toString(cityHash64(number, 1) % 20)), ${message}, ${labels} FROM numbers(${at}, ${Math.min(COMMIT_ROWS, logs - at)})`);
  }
  await mergesEnd(clickhouse);
}

/** Merges would continue during the first questions. The wait is limited. Between two readings, the engine looks for the next merge. */
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
