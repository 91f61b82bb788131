// A distributed installation under load, while each of its parts is killed in turn: two vmstorage nodes with two copies of each sample,
// vminsert, vmselect, PostgreSQL, two replicas. All acknowledged data is stored exactly once: lost and duplicated samples and rows are
// counted.
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { login, makeTenant, startBackend, type BackendPlace, type Tenant } from "../fixtures/backend-process.ts";
import { type CountedLoad, startCountedLoad } from "../fixtures/counted-load.ts";
import { FIRST_PASSWORD, startDistributedEngines, type DistributedEngines } from "../fixtures/distributed.ts";
import { NO_VM_CLUSTER, startMetricsCluster, vmClusterPrograms, type MetricsCluster } from "../fixtures/metrics-cluster.ts";
import { NO_POSTGRES, postgresBinaries } from "../fixtures/postgres.ts";
import { call, eventually, type TestProcess } from "../fixtures/processes.ts";

const MISSING = [vmClusterPrograms ? [] : NO_VM_CLUSTER, postgresBinaries ? [] : NO_POSTGRES].flat().join("; ");
const SENDERS = Number(process.env["DISTRIBUTED_SENDERS"] ?? 6);
/** How long PostgreSQL is unavailable. */
const OUTAGE_S = Number(process.env["DISTRIBUTED_OUTAGE_S"] ?? 10);
/** Bodies of each signal that are acknowledged before and after a kill. */
const BODIES = 60;
const EXACTLY_ONCE = { lostSamples: 0, lostRows: 0, doubledRows: 0 };

describe.skipIf(MISSING !== "")(`a distributed installation under load${MISSING && `: ${MISSING}`}`, () => {
  let cluster: MetricsCluster;
  let engines: DistributedEngines;
  let places: readonly [BackendPlace, BackendPlace];
  let replicas: [TestProcess, TestProcess];
  let operator: string;
  let tenant: Tenant;
  let load: CountedLoad;
  let organisations = 0;

  beforeAll(async () => {
    cluster = await startMetricsCluster(2);
    engines = await startDistributedEngines(cluster);
    places = [await engines.place("one"), await engines.place("other")];
    replicas = (await Promise.all(places.map((place) => startBackend(place)))) as [TestProcess, TestProcess];
    operator = await login(places[0].apiUrl, "admin@localhost", FIRST_PASSWORD);
  });

  beforeEach(async () => {
    tenant = await makeTenant(places[0].apiUrl, operator, `kills-${(organisations += 1)}`);
    const urls = places.map(({ apiUrl }) => apiUrl);
    load = startCountedLoad(urls, tenant.apiKey, SENDERS);
    await acknowledged(BODIES);
  });

  afterEach(async () => void (await load.stop()));

  afterAll(async () => {
    await Promise.all((replicas ?? []).map((replica) => replica.end()));
    await engines?.[Symbol.asyncDispose]();
    await cluster?.[Symbol.asyncDispose]();
  });

  async function acknowledged(bodies: number): Promise<void> {
    const { samples, rows } = load.counts;
    const isEnough = (): boolean => Math.min(load.counts.samples - samples, load.counts.rows - rows) >= 10 * bodies;
    await eventually(`${bodies} more bodies are acknowledged`, isEnough, 120_000);
  }

  async function storedSamples(): Promise<number> {
    const query = new URLSearchParams({ query: "sum(count_over_time(counted[1h]))" });
    const answer = await call("GET", `${places[0].apiUrl}/query/prometheus/api/v1/query?${query.toString()}`, { bearer: tenant.token });
    return Number(answer.json?.data?.result?.[0]?.value?.[1] ?? 0);
  }

  async function storedRows(): Promise<{ stored: number; distinct: number }> {
    const body = `SELECT toUInt32(count()) AS stored, toUInt32(uniqExact(message)) AS distinct FROM logs WHERE org_id = '${tenant.orgId}'`;
    const answer = await call("POST", `${new URL(engines.clickhouse.url).origin}/?default_format=JSONEachRow`, { body });
    return answer.json as { stored: number; distinct: number };
  }

  /** Stops the load, and compares what was acknowledged with what is stored. */
  async function endOfLoad(): Promise<Record<string, number>> {
    const { samples, rows, failures } = await load.stop();
    const found = await eventually(
      "samples are counted",
      async () => ((await storedSamples()) >= samples ? samples : undefined),
      60_000,
    ).catch(storedSamples);
    const { stored, distinct } = await storedRows();
    const outcome = { lostSamples: samples - found, lostRows: rows - distinct, doubledRows: stored - distinct };
    console.log(`${expect.getState().currentTestName}: ${samples} samples, ${rows} rows, ${failures.length} attempts failed`, outcome);
    expect(samples).toBeGreaterThan(0);
    return outcome;
  }

  test("loses nothing if vminsert is killed", async () => {
    for (let kill = 0; kill < 3; kill += 1) {
      await cluster.insert.stop("SIGKILL");
      await cluster.insert.restart();
      await acknowledged(BODIES);
    }
    expect(await endOfLoad()).toEqual(EXACTLY_ONCE);
  });

  test.each([0, 1] as const)("loses nothing if vmstorage %i is killed", async (node) => {
    await cluster.storage[node].stop("SIGKILL");
    await acknowledged(BODIES);
    await cluster.storage[node].restart();
    await acknowledged(BODIES);
    // Paces the kills: a node that was killed must have on disk what the other one alone has in memory.
    await sleep(8000);
    expect(await endOfLoad()).toEqual(EXACTLY_ONCE);
  });

  test("loses nothing if vmselect is killed", async () => {
    await cluster.select.stop("SIGKILL");
    await acknowledged(BODIES);
    await cluster.select.restart();
    expect(await endOfLoad()).toEqual(EXACTLY_ONCE);
  });

  test.each([0, 1] as const)("loses nothing if replica %i is killed", async (index) => {
    for (let kill = 0; kill < 3; kill += 1) {
      await replicas[index].end("SIGKILL");
      await acknowledged(BODIES / 2);
      replicas[index] = await startBackend(places[index]);
      await acknowledged(BODIES / 2);
    }
    expect(await endOfLoad()).toEqual(EXACTLY_ONCE);
  });

  test("accepts known keys while PostgreSQL is unavailable after a kill", { timeout: 300_000 + 1000 * OUTAGE_S }, async () => {
    await engines.postgres.stop("killed");
    await acknowledged(BODIES);
    const { failures } = load.counts;
    // Paces the outage: as long as a failover may take.
    await sleep(1000 * OUTAGE_S);
    await acknowledged(BODIES);
    expect(load.counts.failures).toEqual(failures);
    await engines.postgres.resume();
    await acknowledged(BODIES);
    expect(await endOfLoad()).toEqual(EXACTLY_ONCE);
  });
});
