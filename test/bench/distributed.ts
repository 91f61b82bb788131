// `npm run bench -- distributed [--loads 4,12,24] [--seconds 30]` with VM_CLUSTER_BIN: CPU of each component of a distributed installation (two
// vmstorage with two copies, vminsert, vmselect, PostgreSQL, two replicas, a ClickHouse stand-in) under three loads of small bodies. Then a
// simulation from the first and the last load, next to what was measured, and for 10,000 nodes on 10 shards. Target: within 25 %.
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { login, makeTenant, startBackend } from "../fixtures/backend-process.ts";
import { usedByProgram } from "../fixtures/components.ts";
import { startCountedLoad } from "../fixtures/counted-load.ts";
import { FIRST_PASSWORD, startDistributedEngines } from "../fixtures/distributed.ts";
import { report } from "../fixtures/measure.ts";
import { startMetricsCluster } from "../fixtures/metrics-cluster.ts";
import { startShardServers } from "../fixtures/shard-servers.ts";
import { simulate, type Point, NODES_10_000 } from "./distributed/simulate.ts";

const { values } = parseArgs({ options: { loads: { type: "string", default: "4,12,24" }, seconds: { type: "string", default: "30" } } });
const loads = values.loads.split(",").map(Number);
const WARM_UP_MS = 10_000;
/** As startCountedLoad sends them. */
const RECORDS_OF_A_BODY = 10;

await using stack = new AsyncDisposableStack();
const cluster = stack.use(await startMetricsCluster(2));
const shards = stack.use(await startShardServers(1, 1));
const engines = stack.use(await startDistributedEngines(cluster));
const env = { CLICKHOUSE_URL: shards.urlOf(1) };
const places = [await engines.place("one", env), await engines.place("other", env)] as const;
for (const place of places) stack.use(await startBackend(place));
const operator = await login(places[0].apiUrl, "admin@localhost", FIRST_PASSWORD);
const tenant = await makeTenant(places[0].apiUrl, operator, "load");
const set = await fetch(`${places[0].apiUrl}/api/orgs/${tenant.orgId}/limits`, {
  method: "PUT",
  headers: { authorization: `Bearer ${operator}`, "content-type": "application/json" },
  body: JSON.stringify({ bytes_per_second: 0, records_per_second: 0 }),
});
if (!set.ok) throw new Error(await set.text());

const points: Point[] = [];
for (const senders of loads) {
  const load = startCountedLoad(
    places.map(({ apiUrl }) => apiUrl),
    tenant.apiKey,
    senders,
  );
  // Paces the load: connections and caches are warm.
  await sleep(points.length === 0 ? 3 * WARM_UP_MS : WARM_UP_MS);
  const [before, counts, startedMs] = [usedByProgram(), load.counts, performance.now()];
  await sleep(Number(values.seconds) * 1000);
  const seconds = (performance.now() - startedMs) / 1000;
  const [after, done] = [usedByProgram(), load.counts];
  await load.stop();
  const cores = [...after].map(([name, { cpuMs }]) => [name, (cpuMs - (before.get(name)?.cpuMs ?? 0)) / 1000 / seconds] as const);
  const [rowsPerSecond, samplesPerSecond] = [(done.rows - counts.rows) / seconds, (done.samples - counts.samples) / seconds];
  points.push({
    bodiesPerSecond: (rowsPerSecond + samplesPerSecond) / RECORDS_OF_A_BODY,
    rowsPerSecond,
    samplesPerSecond,
    cores: Object.fromEntries(cores),
  });
}

const table: Record<string, Record<string, string>> = {};
for (const [index, point] of points.entries()) {
  const load = `${point.rowsPerSecond.toFixed(0)} rows/s, ${point.samplesPerSecond.toFixed(0)} samples/s`;
  const simulated = simulate(points, point);
  table[`${index + 1}: ${load}`] = Object.fromEntries(
    Object.entries(point.cores).map(([name, cores]) => [name, `${cores.toFixed(3)} (${(simulated[name] ?? 0).toFixed(3)})`]),
  );
}
const many = simulate(points, NODES_10_000, 10);
table["10,000 nodes, 10 shards, simulated"] = Object.fromEntries(Object.entries(many).map(([name, cores]) => [name, cores.toFixed(1)]));
report("distributed", { loads, seconds: Number(values.seconds) }, table);
