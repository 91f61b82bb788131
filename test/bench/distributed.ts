// `npm run bench -- distributed [--seconds 30] [--shapes 120x1,30x20,20x10,12x40,60x4,4x60]` with VM_CLUSTER_BIN: CPU of each component of a
// distributed installation (two vmstorage with two copies, vminsert, vmselect, PostgreSQL, two replicas, a ClickHouse stand-in) under loads
// of several organisations, each with the merges that follow. A simulation from the first three loads is compared with the others, and
// estimates 10,000 nodes on 10 shards. Target: within 25 %. Takes twelve minutes of a quiet machine.
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { login, makeTenant, startBackend, type Tenant } from "../fixtures/backend-process.ts";
import { usedByProgram } from "../fixtures/components.ts";
import { FIRST_PASSWORD, startDistributedEngines } from "../fixtures/distributed.ts";
import { report } from "../fixtures/measure.ts";
import { startMetricsCluster } from "../fixtures/metrics-cluster.ts";
import { call } from "../fixtures/processes.ts";
import { startShardServers } from "../fixtures/shard-servers.ts";
import { LINES, SAMPLES, type Sender, sendRounds, SPANS } from "./distributed/node-load.ts";
import {
  type Cores,
  type Costs,
  fitCosts,
  type Installation,
  inserts,
  insertSeconds,
  MEASURED,
  NODES_10_000,
  type Point,
  type Shape,
  simulate,
} from "./distributed/simulate.ts";

const { values } = parseArgs({
  options: {
    shapes: { type: "string", default: "120x1,30x20,20x10,12x40,60x4,4x60" },
    seconds: { type: "string", default: "30" },
    "insert-interval-ms": { type: "string", default: "0" },
  },
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
/** Each load is measured this often, in turns. */
const PASSES = 2;
/** The simulation is fitted to these first loads. */
const FITTED = 3;
const LARGE_INSTALLATION: Installation = { replicas: 10, shards: 10 };
const NO_COSTS: Costs = { perRequest: 0, perInsert: 0, perNode: 0 };
const COMPONENTS = ["main", "postgres", "vminsert", "vmselect", "vmstorage", "shard-server"];

await using stack = new AsyncDisposableStack();
const cluster = stack.use(await startMetricsCluster(2));
const shards = stack.use(await startShardServers(1, 1));
const engines = stack.use(await startDistributedEngines(cluster));
const env = {
  CLICKHOUSE_URL: shards.urlOf(1),
  CLICKHOUSE_INSERT_INTERVAL_MS: values["insert-interval-ms"],
  QUOTA_ACTIVE_SERIES: "0",
};
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

async function numberOfShard(query: string): Promise<number> {
  const url = new URL(shards.urlOf(1));
  const answer = await call("POST", `${url.origin}/?default_format=TabSeparated`, { body: query });
  return Number(answer.text);
}

const countInserts = (): Promise<number> => numberOfShard("SELECT sum(value) FROM system.events WHERE event = 'InsertQuery'");

/** Until no merge has run for some seconds. */
async function settle(): Promise<void> {
  let quiet = 0;
  for (let second = 0; second < MOST_SETTLE_S && (second < LEAST_SETTLE_S || quiet < 5); second += 1) {
    // Paces the look at merges.
    await sleep(1000);
    quiet = (await numberOfShard("SELECT count() FROM system.merges")) === 0 ? quiet + 1 : 0;
  }
}

/** Cores while nothing is sent. */
async function measureRest(): Promise<Cores> {
  const before = cpuSeconds();
  // The time that is measured.
  await sleep(REST_S * 1000);
  return difference(cpuSeconds(), before, REST_S);
}

interface MeasuredPoint extends Point {
  readonly failures: number;
}

function mean(points: readonly MeasuredPoint[]): MeasuredPoint {
  const [first] = points;
  if (!first) throw new Error("nothing was measured");
  const average = (value: (point: MeasuredPoint) => number): number => points.reduce((sum, point) => sum + value(point), 0) / points.length;
  return {
    nodesOfARound: first.nodesOfARound,
    roundsPerSecond: average((point) => point.roundsPerSecond),
    insertsPerSecond: average((point) => point.insertsPerSecond),
    failures: points.reduce((sum, point) => sum + point.failures, 0),
    cores: Object.fromEntries(COMPONENTS.map((name) => [name, average((point) => point.cores[name] ?? 0)])),
  };
}

async function measure(shape: Shape, rest: Cores): Promise<MeasuredPoint> {
  const [before, insertsBefore, startedMs] = [cpuSeconds(), await countInserts(), performance.now()];
  const sent = await sendRounds(senders, shape, seconds);
  const insertsPerSecond = ((await countInserts()) - insertsBefore) / sent.seconds;
  await settle();
  const used = difference(cpuSeconds(), before);
  const settledS = (performance.now() - startedMs) / 1000 - sent.seconds;
  // What merges used after the load is part of it, and what the components used at rest in that time is not.
  const cores = Object.fromEntries(
    Object.entries(used).map(([name, cpuS]) => [name, (cpuS - settledS * (rest[name] ?? 0)) / sent.seconds]),
  );
  const roundsPerSecond = sent.rounds / sent.seconds;
  return { roundsPerSecond, nodesOfARound: shape.nodesOfARound, cores, insertsPerSecond, failures: sent.failures };
}

for (const shape of shapes.slice(0, FITTED)) await sendRounds(senders, shape, seconds / 2);
await settle();
const rest = await measureRest();
const passes: MeasuredPoint[][] = [];
for (let pass = 0; pass < PASSES; pass += 1) {
  const points: MeasuredPoint[] = [];
  for (const shape of shapes) points.push(await measure(shape, rest));
  passes.push(points);
}
const points = shapes.map((_, index) => mean(passes.flatMap((pass) => pass[index] ?? [])));

const fitted = points.slice(0, FITTED);
const secondsOfInsert = insertSeconds(fitted);
const costs = Object.fromEntries(COMPONENTS.map((name) => [name, fitCosts(fitted, name, rest[name] ?? 0)]));
const simulated = (name: string, load: Shape, insertsPerSecond: number, ofRest = 1): number =>
  simulate(ofRest * (rest[name] ?? 0), costs[name] ?? NO_COSTS, load, insertsPerSecond);
const row = (cell: (name: string) => string, insertCell: string): Record<string, string> => ({
  ...Object.fromEntries(COMPONENTS.map((name) => [name, cell(name)])),
  "inserts/s": insertCell,
});
/** A measured figure, in brackets the simulated one and its error. */
function comparison(measured: number, expected: number): string {
  const error = ((expected / measured - 1) * 100).toFixed(0);
  return `${measured.toFixed(3)} (${expected.toFixed(3)}, ${error} %)`;
}
const table: Record<string, Record<string, string>> = { "at rest": row((name) => (rest[name] ?? 0).toFixed(3), "") };
for (const [index, point] of points.entries()) {
  const { roundsPerSecond: rounds, nodesOfARound, insertsPerSecond, failures } = point;
  const expected = inserts(point, MEASURED, secondsOfInsert);
  const records = rounds * nodesOfARound * (LINES + SPANS + SAMPLES);
  const kind = index < FITTED ? "fitted" : "check";
  const load = `${kind}: ${rounds.toFixed(1)} rounds/s of ${nodesOfARound} nodes, ${records.toFixed(0)} records/s, ${failures} failures`;
  table[load] = row((name) => comparison(point.cores[name] ?? 0, simulated(name, point, expected)), comparison(insertsPerSecond, expected));
}
const microseconds = (seconds = 0): string => (seconds * 1e6).toFixed(1);
table["µs of a request"] = row((name) => microseconds(costs[name]?.perRequest), "");
table["µs of an insert"] = row((name) => microseconds(costs[name]?.perInsert), `one each ${(secondsOfInsert * 1000).toFixed(0)} ms`);
table["µs of a record, row or sample"] = row((name) => microseconds((costs[name]?.perNode ?? 0) / recordsFor(name)), "");
const manyInserts = inserts(NODES_10_000, LARGE_INSTALLATION, secondsOfInsert);
/** Each replica and each shard uses what it uses at rest. */
function partsAtRest(name: string): number {
  if (name === "main") return LARGE_INSTALLATION.replicas / MEASURED.replicas;
  return name === "shard-server" ? LARGE_INSTALLATION.shards : 1;
}
table[`10,000 nodes, ${LARGE_INSTALLATION.replicas} replicas, ${LARGE_INSTALLATION.shards} shards`] = row(
  (name) => simulated(name, NODES_10_000, manyInserts, partsAtRest(name)).toFixed(1),
  manyInserts.toFixed(0),
);
report("distributed", { shapes, seconds }, table);
