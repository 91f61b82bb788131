// `npm run bench -- distributed [--seconds 30] [--shapes 5x40,200x1,20x10,12x40,100x4]` with VM_CLUSTER_BIN: CPU of each component of a distributed
// installation (two vmstorage with two copies, vminsert, vmselect, PostgreSQL, two replicas, a ClickHouse stand-in) under loads of several
// organisations, each with the merges that follow. A simulation from the first two loads is compared with the others, and estimates 10,000
// nodes on 10 shards. Target: within 25 %. Not run to its end yet (docs/measurements/2026-11-26-growth.md, "Since then").
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { login, makeTenant, startBackend, type Tenant } from "../fixtures/backend-process.ts";
import { usedByProgram } from "../fixtures/components.ts";
import { FIRST_PASSWORD, startDistributedEngines } from "../fixtures/distributed.ts";
import { report } from "../fixtures/measure.ts";
import { startMetricsCluster } from "../fixtures/metrics-cluster.ts";
import { call } from "../fixtures/processes.ts";
import { startShardServers } from "../fixtures/shard-servers.ts";
import { LINES, REQUESTS_OF_A_ROUND, SAMPLES, type Sender, sendRounds, SPANS } from "./distributed/node-load.ts";
import { costs, NODES_10_000, type Cores, type Point, type Shape, simulate } from "./distributed/simulate.ts";

const { values } = parseArgs({
  options: { shapes: { type: "string", default: "5x40,200x1,20x10,12x40,100x4" }, seconds: { type: "string", default: "30" } },
});
/** ROUNDSxNODES: rounds a second, and nodes in each. */
const shapes = values.shapes.split(",").map((shape): Shape => {
  const [roundsPerSecond = 0, nodesOfARound = 0] = shape.split("x").map(Number);
  return { roundsPerSecond, nodesOfARound };
});
const seconds = Number(values.seconds);
const ORGANISATIONS = 4;
const SENDERS_OF_EACH = 8;
const REST_S = 20;
/** The engines write what they have in memory within five seconds. */
const LEAST_SETTLE_S = 12;
const MOST_SETTLE_S = 120;
const COMPONENTS = ["main", "postgres", "vminsert", "vmselect", "vmstorage", "shard-server"];

await using stack = new AsyncDisposableStack();
const cluster = stack.use(await startMetricsCluster(2));
const shards = stack.use(await startShardServers(1, 1));
const engines = stack.use(await startDistributedEngines(cluster));
const env = { CLICKHOUSE_URL: shards.urlOf(1), QUOTA_ACTIVE_SERIES: "0" };
const places = [await engines.place("one", env), await engines.place("other", env)] as const;
for (const place of places) stack.use(await startBackend(place));
const operator = await login(places[0].apiUrl, "admin@localhost", FIRST_PASSWORD);
const tenants: Tenant[] = [];
for (let index = 0; index < ORGANISATIONS; index += 1) tenants.push(await makeTenant(places[0].apiUrl, operator, `load-${index}`));
for (const { orgId } of tenants) {
  const body = { bytes_per_second: 0, records_per_second: 0 };
  const set = await call("PUT", `${places[0].apiUrl}/api/orgs/${orgId}/limits`, { bearer: operator, body });
  if (set.status >= 300) throw new Error(set.text);
}
const senders = tenants.flatMap(({ apiKey }) =>
  Array.from({ length: SENDERS_OF_EACH }, (_, index): Sender => ({ apiUrl: places[index % places.length]?.apiUrl ?? "", apiKey })),
);

/** Records of a node that a component gets. */
function recordsFor(name: string): number {
  if (name.startsWith("vm")) return SAMPLES;
  return name === "shard-server" ? LINES + SPANS : LINES + SPANS + SAMPLES;
}

function cpuSeconds(): Cores {
  const used = usedByProgram();
  return Object.fromEntries(COMPONENTS.map((name) => [name, (used.get(name)?.cpuMs ?? 0) / 1000]));
}

function difference(after: Cores, before: Cores, divisor = 1): Cores {
  return Object.fromEntries(Object.entries(after).map(([name, value]) => [name, (value - (before[name] ?? 0)) / divisor]));
}

async function merges(): Promise<number> {
  const url = new URL(shards.urlOf(1));
  const answer = await call("POST", `${url.origin}/?default_format=TabSeparated`, { body: "SELECT count() FROM system.merges" });
  return Number(answer.text);
}

/** Until no merge has run for some seconds. */
async function settle(): Promise<void> {
  let quiet = 0;
  for (let second = 0; second < MOST_SETTLE_S && (second < LEAST_SETTLE_S || quiet < 5); second += 1) {
    // Paces the look at merges.
    await sleep(1000);
    quiet = (await merges()) === 0 ? quiet + 1 : 0;
  }
}

/** Cores while nothing is sent. */
async function measureRest(): Promise<Cores> {
  const before = cpuSeconds();
  // The time that is measured.
  await sleep(REST_S * 1000);
  return difference(cpuSeconds(), before, REST_S);
}

async function measure(shape: Shape, rest: Cores): Promise<Point & { readonly failures: number }> {
  const [before, startedMs] = [cpuSeconds(), performance.now()];
  const sent = await sendRounds(senders, shape, seconds);
  await settle();
  const used = difference(cpuSeconds(), before);
  const settledS = (performance.now() - startedMs) / 1000 - sent.seconds;
  // What merges used after the load is part of it, and what the components used at rest in that time is not.
  const cores = Object.fromEntries(
    Object.entries(used).map(([name, cpuS]) => [name, (cpuS - settledS * (rest[name] ?? 0)) / sent.seconds]),
  );
  return { roundsPerSecond: sent.rounds / sent.seconds, nodesOfARound: shape.nodesOfARound, cores, failures: sent.failures };
}

for (const shape of shapes.slice(0, 2)) await sendRounds(senders, shape, seconds / 2);
await settle();
const rest = await measureRest();
const points: (Point & { readonly failures: number })[] = [];
for (const shape of shapes) points.push(await measure(shape, rest));

const [first, second] = points;
if (!first || !second) throw new Error("two loads are needed");
const fitted = [first, second] as const;
const table: Record<string, Record<string, string>> = {
  "at rest": Object.fromEntries(COMPONENTS.map((name) => [name, (rest[name] ?? 0).toFixed(3)])),
};
for (const [index, point] of points.entries()) {
  const simulated = simulate(rest, fitted, point);
  const rounds = point.roundsPerSecond;
  const records = rounds * point.nodesOfARound * (LINES + SPANS + SAMPLES);
  const load = `${index < 2 ? "fitted" : "check"}: ${rounds.toFixed(1)} rounds/s of ${point.nodesOfARound} nodes, ${records.toFixed(0)} records/s`;
  const show = (name: string): string => {
    const [measured = 0, expected = 0] = [point.cores[name], simulated[name]];
    const error = index < 2 ? "" : `, ${((expected / measured - 1) * 100).toFixed(0)} %`;
    return `${measured.toFixed(3)} (${expected.toFixed(3)}${error})`;
  };
  table[`${load}, ${point.failures} failures`] = Object.fromEntries(COMPONENTS.map((name) => [name, show(name)]));
}
const cost = (name: string) => costs(fitted.map((point) => ({ ...point, cores: (point.cores[name] ?? 0) - (rest[name] ?? 0) })));
const microseconds = (name: string, unit: "perRound" | "perNode", count: number): string => ((cost(name)[unit] * 1e6) / count).toFixed(2);
table["µs of a request"] = Object.fromEntries(COMPONENTS.map((name) => [name, microseconds(name, "perRound", REQUESTS_OF_A_ROUND)]));
table["µs of a record, row or sample"] = Object.fromEntries(
  COMPONENTS.map((name) => [name, microseconds(name, "perNode", recordsFor(name))]),
);
const many = simulate(rest, fitted, NODES_10_000, 10);
table["10,000 nodes on 10 shards"] = Object.fromEntries(COMPONENTS.map((name) => [name, (many[name] ?? 0).toFixed(1)]));
report("distributed", { shapes, seconds }, table);
