// `npm run bench -- fleet [--keys 10000] [--orgs 200] [--rules 5000] [--seconds 120] [--heartbeat-s 30] [--body-s 20] [--rotation-s 5]
// [--postgres] [--replicas 2]`: sends the requests of a fleet of agents to the backend: each key sends a heartbeat and a small body of logs
// at fixed intervals, clusters rotate their keys from time to time, and three hosts are removed while they send. The engines are embedded,
// or PostgreSQL, ClickHouse and VictoriaMetrics are external, with several replicas that each key uses in turn. Targets: each
// replica sends at most 5 statements per second to the accounts store, not counting heartbeats but counting rotations and rules; each
// replica refuses a removed host within 5 s; all responses are 2xx.
import { randomBytes, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { CLUSTER_HEARTBEAT_PATH, HOST_HEARTBEAT_PATH, ROTATE_KEY_PATH } from "../../common/protocol/enrolment.ts";
import { backendPlace, type BackendPlace, login } from "../fixtures/backend-process.ts";
import { startDistributedEngines } from "../fixtures/distributed.ts";
import { cpuMs, quantile, report, residentMb, shown } from "../fixtures/measure.ts";
import { INGEST_PATHS, LoadBody } from "../fixtures/otlp-load.ts";
import { type Answer, call, eventually, signedPost, temporaryFolder, TestProcess } from "../fixtures/processes.ts";
import { HEARTBEATS, type StatementCounts } from "./fleet/count-statements.ts";
import { fill, type FleetKey, PASSWORD } from "./fleet/fill.ts";
import { Fleet, type Outgoing } from "./fleet/fleet-senders.ts";

const { values } = parseArgs({
  options: {
    keys: { type: "string", default: "10000" },
    orgs: { type: "string", default: "200" },
    rules: { type: "string", default: "5000" },
    seconds: { type: "string", default: "120" },
    "heartbeat-s": { type: "string", default: "30" },
    "body-s": { type: "string", default: "20" },
    "rotation-s": { type: "string", default: "5" },
    postgres: { type: "boolean", default: false },
    replicas: { type: "string", default: "2" },
  },
});
const [keys, orgs, rules, seconds] = [values.keys, values.orgs, values.rules, values.seconds].map(Number) as [
  number,
  number,
  number,
  number,
];
const [heartbeatS, bodyS, rotationS] = [values["heartbeat-s"], values["body-s"], values["rotation-s"]].map(Number) as [
  number,
  number,
  number,
];
const RECORDS = 10;
/** Number of hosts that are removed, each in another organisation, in addition to those that send all the time. */
const REMOVED = 3;
/** Time until each key has been used at each replica once, and V8 has compiled hot code. */
const WARM_UP_MS = heartbeatS * 1000 * (values.postgres ? Number(values.replicas) : 1);
const COUNTED = ["--import", "./test/bench/fleet/count-statements.ts", "backend/main.ts", "serve"];

const JSON_BODY = { "content-type": "application/json" };

interface Replica {
  readonly place: BackendPlace;
  readonly process: TestProcess;
  readonly statements: string;
}

interface Reading {
  readonly statements: StatementCounts;
  readonly cpuMs: number;
}

await using stack = new AsyncDisposableStack();
const folder = stack.use(temporaryFolder());
const places = await openPlaces();
const all = await fill(places[0] as BackendPlace, { keys: keys + 2 * orgs, orgs, rules });
const [fleetKeys, spare] = [all.slice(0, keys), all.slice(keys).filter(({ kind }) => kind === "host")];
const replicas: Replica[] = [];
for (const place of places) replicas.push(await start(place));
const fleet = stack.use(new Fleet(places.map(({ apiUrl }) => apiUrl)));
const clusters = fleetKeys.filter(({ kind }) => kind === "cluster");
const body = new LoadBody("logs", RECORDS);
const { tables, wasWell } = await measure();
report("fleet", values, tables);
if (!wasWell) process.exitCode = 1;

async function openPlaces(): Promise<BackendPlace[]> {
  if (!values.postgres) return [await backendPlace(folder.path, { MASTER_KEY: randomBytes(32).toString("base64") })];
  const engines = stack.use(await startDistributedEngines());
  return await Promise.all(Array.from({ length: Number(values.replicas) }, (_, index) => engines.place(`replica-${index}`)));
}

async function start(place: BackendPlace): Promise<Replica> {
  const statements = join(place.dataDir, "..", "statements.json");
  const started = stack.use(new TestProcess(COUNTED, { ...place.env, FLEET_STATEMENTS: statements }, place.logFile));
  await started.ready(`${place.healthUrl}/readyz`);
  return { place, process: started, statements };
}

async function measure() {
  const ended = new AbortController();
  const load = send(ended.signal);
  await sleep(WARM_UP_MS);
  const before = replicas.map(reading);
  const removals: number[] = [];
  for (let turn = 0; turn < REMOVED; turn += 1) {
    await sleep((seconds * 1000) / REMOVED - 1);
    removals.push(...(await removedWithin(spare[turn] as FleetKey)));
  }
  const after = replicas.map(reading);
  ended.abort();
  await load;
  const counted = after.map((reading, index) => perSecond(before[index] as Reading, reading));
  const otherRates = counted.map(withoutHeartbeats);
  const isSteady = otherRates.every((rate) => rate <= 5) && Math.max(...removals) <= 5000;
  return { tables: shownTables(counted, otherRates, removals), wasWell: isSteady && only2xx() };
}

/** Sends all requests of the fleet; the keys take turns. */
async function send(until: AbortSignal): Promise<void> {
  const heartbeats = fleet.paced(keys / heartbeatS, until, async (n) => {
    const key = fleetKeys[n % keys] as FleetKey;
    await fleet.post("heartbeats", n + Math.floor(n / keys), key, heartbeatOf(key));
  });
  // Shifted by a quarter of the fleet, so that a key's heartbeat and body are not sent together.
  const bodies = fleet.paced(keys / bodyS, until, async (n) => {
    const key = fleetKeys[(n + Math.floor(keys / 4)) % keys] as FleetKey;
    await fleet.post("bodies", n + Math.floor(n / keys), key, { path: INGEST_PATHS.logs, body: Buffer.from(body.next()) });
  });
  const rotations = fleet.paced(1 / rotationS, until, async (n) => {
    const key = clusters[n % clusters.length] as FleetKey;
    const [status, text] = await fleet.post("rotations", n, key, {
      path: ROTATE_KEY_PATH,
      body: "{}",
      headers: { "idempotency-key": randomUUID() },
    });
    if (status === 200) key.apiKey = (JSON.parse(text) as { api_key: string }).api_key;
  });
  await Promise.all([heartbeats, bodies, rotations]);
}

function heartbeatOf({ kind }: FleetKey): Outgoing {
  const report = { agent_version: "1", interval_s: heartbeatS, collector: { state: "running", restarts: 0 } };
  return kind === "host"
    ? { path: HOST_HEARTBEAT_PATH, body: JSON.stringify(report) }
    : { path: CLUSTER_HEARTBEAT_PATH, body: JSON.stringify({ ...report, node: "node-1" }) };
}

/** Removes a host that every replica knows, through the first one. Returns after how many ms each replica refused its key. */
async function removedWithin({ admin, ownerId, apiKey }: FleetKey): Promise<number[]> {
  let last: Answer | undefined;
  const ask = async ({ place }: Replica) => {
    last = await signedPost(place.apiUrl, HOST_HEARTBEAT_PATH, apiKey, "{}", JSON_BODY);
    return last.status;
  };
  // An overloaded replica refuses requests for a while, as it does for any other sender.
  for (const replica of replicas)
    await eventually("a host's key is taken", async () => (await ask(replica)) === 204).catch((error: unknown) => {
      throw new Error(`a host's key is not taken: ${last?.status} ${last?.text}`, { cause: error });
    });
  const { apiUrl } = places[0] as BackendPlace;
  const bearer = await login(apiUrl, admin, PASSWORD);
  const removed = await call("DELETE", `${apiUrl}/api/v1/agents/${ownerId}`, { bearer });
  fleet.count("removals", removed.status);
  if (removed.status !== 204) return [];
  const at = performance.now();
  return await Promise.all(
    replicas.map(async (replica) => {
      await eventually("its key is refused", async () => (await ask(replica)) === 401);
      return performance.now() - at;
    }),
  );
}

function reading({ process: { child }, statements }: Replica): Reading {
  return { statements: JSON.parse(readFileSync(statements, "utf8")) as StatementCounts, cpuMs: cpuMs(child.pid ?? 0) };
}

interface PerSecond {
  readonly byKind: ReadonlyMap<string, number>;
  readonly cpuMs: number;
}

function perSecond(before: Reading, after: Reading): PerSecond {
  const s = (after.statements.ms - before.statements.ms) / 1000;
  const rate = ([kind, count]: [string, number]): [string, number] => [kind, (count - (before.statements.counts[kind] ?? 0)) / s];
  return { byKind: new Map(Object.entries(after.statements.counts).map(rate)), cpuMs: (after.cpuMs - before.cpuMs) / s };
}

function withoutHeartbeats({ byKind }: PerSecond): number {
  return [...byKind].reduce((sum, [kind, rate]) => sum + (kind === HEARTBEATS ? 0 : rate), 0);
}

function only2xx(): boolean {
  return [...fleet.answers.values()].every((statuses) => [...statuses.keys()].every((status) => status.startsWith("2")));
}

function shownTables(counted: readonly PerSecond[], otherRates: readonly number[], removals: readonly number[]) {
  const kinds = [...new Set(counted.flatMap(({ byKind }) => [...byKind.keys()]))].sort();
  const rates = (of: (one: PerSecond) => number) => ({ figure: counted.map((one) => of(one).toFixed(2)).join(", "), more: "" });
  const requests = [...fleet.answers].map(([what, statuses]) => {
    const times = (fleet.times.get(what) ?? []).toSorted((a, b) => a - b);
    const [half, most99, most] = [0.5, 0.99, 1].map((share) => quantile(times, share).toFixed(0));
    const figure = [...statuses].map(([status, count]) => `${status}: ${count}`).join(", ");
    return [what, { figure, more: times.length > 0 ? `p50 ${half}, p99 ${most99}, most ${most} ms` : "" }] as const;
  });
  return {
    "statements a second without heartbeats": {
      figure: otherRates.map((rate) => rate.toFixed(2)).join(", "),
      more: "reach ≤ 5, each replica",
    },
    ...Object.fromEntries(kinds.map((kind) => [`statements a second: ${kind}`, rates(({ byKind }) => byKind.get(kind) ?? 0)])),
    ...Object.fromEntries(requests),
    "a removed host is refused, ms": { figure: shown(removals), more: "reach ≤ 5,000, by each replica" },
    "CPU, ms a second": rates((one) => one.cpuMs),
    "resident, MB": { figure: replicas.map(({ process: { child } }) => residentMb(child.pid ?? 0).toFixed(0)).join(", "), more: "" },
    "the fleet had to wait": { figure: `${fleet.heldMs.toFixed(0)} ms`, more: "" },
  };
}
