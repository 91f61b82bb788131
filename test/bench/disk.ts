// `npm run bench -- disk [--records 500000] [--series 600] [--scrapes 1440]`: measures the disk space of telemetry: bytes per log record
// and span in the shipped tables, with commits of 20,000 rows, when merges have ended; bytes per sample and series in VictoriaMetrics, for
// half a day of scrapes every 30 s, and their resident memory (with --series 100000 --scrapes 4, because few series do not show it).
// Records are those of otlp-load.ts; each body has new random ids. A third of the series are counters, a third gauges that vary, a third
// constant. The load of the machine does not affect the results. `--costs [--records 500000] [--rounds 3]` measures instead CPU and bytes
// of a row with each index, projection and column removed in turn.
import { LOG_COLUMNS, SPAN_COLUMNS } from "../../backend/storage/table-columns.ts";
import { decodeWithHash } from "../../backend/ingest/otlp/otlp-body.fixture.ts";
import { globSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { openClickHouse, type ClickHouse } from "../../backend/engines/clickhouse/clickhouse-client.ts";
import { migrate } from "../../backend/engines/clickhouse/migrate.ts";
import { sql } from "../../backend/engines/clickhouse/sql.ts";
import { createLog } from "../../backend/log.ts";
import { report, residentMb } from "../fixtures/measure.ts";
import { startTestEngine } from "../fixtures/metrics-engine.ts";
import { LOAD_SIGNALS, LoadBody, type LoadSignal } from "../fixtures/otlp-load.ts";
import { temporaryFolder } from "../fixtures/processes.ts";
import { costs } from "./disk/costs.ts";

const { values } = parseArgs({
  options: {
    records: { type: "string", default: "500000" },
    series: { type: "string", default: "600" },
    scrapes: { type: "string", default: "1440" },
    costs: { type: "boolean", default: false },
    rounds: { type: "string", default: "3" },
  },
});
const [records, series, scrapes] = [values.records, values.series, values.scrapes].map(Number) as [number, number, number];
const BODY_RECORDS = 1000;
const COMMIT_BODIES = 20;
const MERGE_POLL_MS = 1000;
const SCRAPE_MS = 30_000;
const TABLES = {
  logs: { signal: "logs", columns: LOG_COLUMNS },
  spans: { signal: "traces", columns: SPAN_COLUMNS },
} as const;

using folder = temporaryFolder();
if (values.costs) console.log(await costsOfParts());
else report("disk", values, { ...(await otlp()), ...(await metrics()) });

async function costsOfParts(): Promise<string> {
  const log = createLog("silent");
  await using clickhouse = await openClickHouse({ dataDir: folder.path, log });
  await migrate(clickhouse, log);
  return await costs(clickhouse, records, Number(values.rounds));
}

async function otlp() {
  mkdirSync(join(folder.path, "engine"));
  const log = createLog("silent");
  await using clickhouse = await openClickHouse({ dataDir: join(folder.path, "engine"), log });
  await migrate(clickhouse, log);
  const sent: Record<LoadSignal, number> = { logs: 0, spans: 0 };
  for (const load of LOAD_SIGNALS) {
    for (let at = 0; at < records; at += COMMIT_BODIES * BODY_RECORDS) sent[load] += await commit(clickhouse, load, at);
  }
  const parts = await merged(clickhouse);
  return Object.fromEntries(
    LOAD_SIGNALS.map((load) => {
      const { bytes = "0", rows = "0", count = "0" } = parts.find(({ table }) => table === load) ?? {};
      const figures = {
        "bytes on the disk": (Number(bytes) / Number(rows)).toFixed(1),
        "bytes as sent": (sent[load] / Number(rows)).toFixed(0),
        of: `${rows} records in ${count} parts`,
      };
      return [`a record of ${load}`, figures];
    }),
  );
}

/** Returns the number of bytes as sent. */
async function commit(clickhouse: ClickHouse, load: LoadSignal, at: number): Promise<number> {
  const { signal, columns } = TABLES[load];
  const origin = { orgId: "organisation-of-usual-length", hostId: "host-of-usual-length", node: "node-1", receivedAtMs: Date.now() };
  const bodies = Array.from({ length: COMMIT_BODIES }, (_, index) => {
    const firstId = String(at + index * BODY_RECORDS + 1);
    const body = new LoadBody(load, BODY_RECORDS, `checkout-7d9c5b6f4d-${String(index).padStart(5, "0")}`).next();
    return { body, context: { ...origin, firstId, bodyHash: String(at + index + 1), retentionDays: 30 } };
  });
  const rows = bodies.flatMap(({ body, context }) => decodeWithHash({ signal, body, context }).sections);
  await clickhouse.insert({ table: load, columns, rows });
  return bodies.reduce((sum, { body }) => sum + body.length, 0);
}

/** Parts when no merge has begun for a while. */
async function merged(clickhouse: ClickHouse): Promise<{ table: string; bytes: string; rows: string; count: string }[]> {
  for (let quiet = 0; quiet < 3;) {
    await sleep(MERGE_POLL_MS);
    const [found] = await clickhouse.query<{ merges: string }>(sql`SELECT count() AS merges FROM system.merges`);
    quiet = Number(found?.merges) === 0 ? quiet + 1 : 0;
  }
  return await clickhouse.query(
    sql`SELECT table, sum(bytes_on_disk) AS bytes, sum(rows) AS rows, count() AS count FROM system.parts
        WHERE active AND database = currentDatabase() GROUP BY table`,
  );
}

async function metrics() {
  await using engine = await startTestEngine();
  const { pid } = JSON.parse(readFileSync(join(engine.dataDir, "victoria-metrics.pid"), "utf8")) as { pid: number };
  const residentBefore = residentMb(pid);
  const firstMs = Date.now() - scrapes * SCRAPE_MS;
  const state = Array.from({ length: series }, (_, index) => ({ labels: labelsOf(index), value: Math.floor(Math.random() * 1e6) }));
  for (let scrape = 0; scrape < scrapes; scrape += 1) {
    const text = state.map((one, index) => {
      if (index % 3 === 0) one.value += Math.floor(Math.random() * 100);
      if (index % 3 === 1) one.value = Math.round((one.value + Math.random() * 10 - 5) * 100) / 100;
      return `node_metric_of_usual_length_total{${one.labels}} ${one.value} ${firstMs + scrape * SCRAPE_MS}\n`;
    });
    const answer = await fetch(`${engine.writeUrl}/api/v1/import/prometheus`, { method: "POST", body: text.join("") });
    if (!answer.ok) throw new Error(`import: ${answer.status} ${await answer.text()}`);
  }
  const resident = ((residentMb(pid) - residentBefore) * 1e6) / series;
  await engine.flush();
  await fetch(`${engine.writeUrl}/internal/force_merge`);
  await sleep(MERGE_POLL_MS * 5);
  const samples = series * scrapes;
  const folderOfMetrics = join(engine.dataDir, "metrics");
  const [data, index] = [bytesOf(folderOfMetrics, "data/{small,big}/**"), bytesOf(folderOfMetrics, "{data/,}indexdb/**")];
  const of = `${samples} samples of ${series} series`;
  return {
    "a sample": { "bytes on the disk": (data / samples).toFixed(2), "bytes as sent": "", of },
    "a series, its labels": { "bytes on the disk": (index / series).toFixed(0), "bytes as sent": "", of },
    "a series, bytes resident": { "bytes on the disk": "", "bytes as sent": "", resident: resident.toFixed(0), of },
  };
}

function labelsOf(index: number): string {
  return `org_id="0b5a3c1e-0000-4000-8000-000000000001",host_id="8f14e45f-ceea-467f-9a0b-000000000001",node="node-1",k8s_namespace_name="shop",k8s_pod_name="checkout-7d9c5b6f4d-${index % 30}",k8s_container_name="server",kind="${index}"`;
}

function bytesOf(root: string, pattern: string): number {
  const files = globSync(pattern, { cwd: root, withFileTypes: true }).filter((one) => one.isFile());
  return files.reduce((sum, one) => sum + statSync(join(one.parentPath, one.name)).size, 0);
}
