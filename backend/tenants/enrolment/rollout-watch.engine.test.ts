// A staged rollout of a cluster's remote configuration is stopped if the nodes that have it become unhealthy, over HTTP, on both relational
// engines.
import { afterAll, beforeAll, expect, test } from "vitest";
import { accountsApp, type AccountsApp, listedCluster, makeOrg, type Org, registerCluster } from "../../../test/fixtures/accounts-app.ts";
import { describeOnEachStore } from "../../../test/fixtures/each-store.ts";
import { createLog } from "../../log.ts";
import { RolloutWatch } from "./rollout-watch.ts";
import type { EnrolmentTables } from "./enrolment-tables.ts";

const INTERVAL_MS = 30_000;
const NAMES = Array.from({ length: 40 }, (_, i) => `node-${i}`);

describeOnEachStore((store) => {
  let backend: AccountsApp;
  let org: Org;
  beforeAll(async () => {
    backend = await accountsApp(store.database, { env: { JWT_TTL: "30d" } });
    org = await makeOrg(backend);
  });
  afterAll(async () => await backend?.[Symbol.asyncDispose]());

  async function newestStop(): Promise<object> {
    await backend.trail.settled();
    return (await backend.call("GET", "/api/audit?action=cluster.config_stopped", { bearer: org.token })).json()[0];
  }

  /** A cluster of 40 nodes of which half has version 1, and what happens in it. */
  async function rollout() {
    const { cluster_id: id, api_key: key } = await registerCluster(backend, org.token);
    const path = `/api/clusters/${id}/config`;
    const versionOf = async (node: string): Promise<string> => (await backend.call("GET", `${path}?node=${node}`, { key })).json().version;
    const write = (percent: number, config: object = { log_level: "debug" }) =>
      backend.call("PUT", path, { bearer: org.token, body: { config, percent } });
    const beat = async (names: readonly string[], collector: object = {}, intervalS = 30) => {
      const reports = names.map((node) => ({ node, interval_s: intervalS, collector: { state: "running", ...collector } }));
      await Promise.all(reports.map((body) => backend.call("POST", "/heartbeat", { key, body })));
    };
    await beat(NAMES);
    await write(50);
    const versions = await Promise.all(NAMES.map(versionOf));
    const inside = NAMES.filter((_, i) => versions[i] === "1");
    const outside = NAMES.filter((_, i) => versions[i] === "0");
    // Ends the background loop; the tests run each pass themselves.
    await using watch = new RolloutWatch({
      db: store.database.tables<EnrolmentTables>(),
      log: createLog("silent"),
      trail: backend.trail,
      replicas: { isFirst: false },
      nowMs: () => backend.clock.ms,
    });
    const passes: Pick<RolloutWatch, "pass"> = watch;
    /** Three minutes of heartbeats: twice as long as a silent node counts as online. */
    const run = async (healthy: readonly string[], worse: readonly string[] = [], collector: object = {}) => {
      for (let beats = 0; beats < 6; beats += 1) {
        backend.clock.ms += INTERVAL_MS;
        await Promise.all([beat(healthy), beat(worse, collector)]);
        await passes.pass();
      }
      return (await listedCluster(backend, org, id)).config as { percent: number; stopped: string | null };
    };
    return { inside, outside, write, run, beat, pass: () => passes.pass(), versionOf };
  }

  async function rollsBack(problem: string, collector?: object): Promise<object> {
    const { inside, outside, run, versionOf, write } = await rollout();
    expect(await run(NAMES)).toMatchObject({ percent: 50, stopped: null });
    const [worse, healthy] = [inside.slice(0, 4), [...inside.slice(4), ...outside]];
    const config = await run(healthy, collector ? worse : [], collector);
    expect(config).toMatchObject({ percent: 0, stopped: expect.stringContaining(`${worse.toSorted()[0]}: ${problem}`) });
    expect(config.stopped).toContain(`4 of ${inside.length} nodes with it are unhealthy, 0 before`);
    expect(await versionOf(inside[0] ?? "")).toBe("0");
    expect(await newestStop()).toMatchObject({ actor: null, address: null, subject: { version: 1, reason: config.stopped } });
    await write(50);
    expect(await run(NAMES), "written again").toMatchObject({ percent: 50, stopped: null });
    expect(await versionOf(inside[0] ?? "")).toBe("1");
    return config;
  }

  test("rolls back nodes that go silent, with the reason", async () => {
    expect(await rollsBack("offline")).toMatchObject({ percent: 0 });
  });

  // What makes a node unhealthy is no question to the store.
  for (const [what, collector, problem] of [
    ["fill their queues", { queue_percent: 40 }, "disk queue 40 % full"],
    ["stop delivering", { failing: ["logs"] }, "logs not delivered"],
    ["run no collector", { state: "crash-loop" }, "collector is crash-loop"],
  ] as const)
    store.once(`rolls back nodes that ${what}, with the reason`, async () => {
      expect(await rollsBack(problem, collector)).toMatchObject({ percent: 0 });
    });

  store.once("continues while one node in ten is unhealthy, while all nodes are, and while no heartbeat arrives", async () => {
    const { inside, outside, run } = await rollout();
    expect(await run([...inside.slice(1), ...outside]), "one node").toMatchObject({ percent: 50, stopped: null });
    expect(await run([], NAMES, { failing: ["logs"] }), "all nodes").toMatchObject({ stopped: null });
    await run(NAMES);
    backend.clock.ms += 20 * INTERVAL_MS;
    expect(await run([]), "no node").toMatchObject({ stopped: null });
  });

  test("on all nodes, continues while the backend cannot store or a node group is removed, and not if collectors crash", async () => {
    const { inside, outside, run, write } = await rollout();
    await write(100);
    expect(await run([], NAMES, { failing: ["logs"], queue_percent: 40 }), "outage of a store").toMatchObject({ stopped: null });
    expect(await run(outside), "removed nodes").toMatchObject({ stopped: null });
    const stopped = await run(outside, inside, { state: "crash-loop" });
    expect(stopped).toMatchObject({ percent: 0, stopped: expect.stringContaining("collector is crash-loop") });
  });

  store.once("a longer heartbeat interval does not stop its own rollout", async () => {
    const { inside, outside, beat, pass, run, write } = await rollout();
    await write(50, { intervals: { heartbeat: "5m" } });
    for (let beats = 1; beats <= 30; beats += 1) {
      backend.clock.ms += INTERVAL_MS;
      if (beats % 10 === 0) await beat(inside, {}, 300);
      await beat(outside);
      await pass();
    }
    expect(await run([])).toMatchObject({ percent: 50, stopped: null });
  });

  store.once("ignores nodes that were unhealthy before the stage, and all nodes an hour later", async () => {
    const { inside, outside, run, write } = await rollout();
    const [broken, healthy] = [inside.slice(0, 6), [...inside.slice(6), ...outside]];
    await write(100, {});
    await run(healthy, broken, { failing: ["logs"] });
    await write(50);
    expect(await run(healthy, broken, { failing: ["logs"] })).toMatchObject({ percent: 50, stopped: null });
    backend.clock.ms += 60 * 60_000;
    expect(await run(outside)).toMatchObject({ percent: 50, stopped: null });
  });
});
