// The distributed form of the backend with two replicas under 200 requests a second, through the Service of a real cluster. A rolling
// update and the eviction of every replica, as by a drain, cause no error at a client. Killed replicas cause errors, which are counted. No
// acknowledged data is lost or doubled. The engines run on this machine, so the nodes must be this machine.
import { randomBytes } from "node:crypto";
import { readdirSync } from "node:fs";
import { once } from "node:events";
import { createServer } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { login, makeTenant, type Tenant } from "../fixtures/backend-process.ts";
import { type DistributedEngines, FIRST_PASSWORD, startDistributedEngines } from "../fixtures/distributed.ts";
import { NO_POSTGRES, postgresBinaries } from "../fixtures/postgres.ts";
import { call, eventually, readIfThere } from "../fixtures/processes.ts";
import { Relay } from "../fixtures/relay.ts";
import { apply, get, helm, kubectl, NAMESPACE } from "./cluster.ts";
import { BACKEND_CHART, makeNamespace, removeNamespace, WAIT } from "./installation.ts";
import { PacedLoad, type Seen } from "./paced-load.ts";

const PER_SECOND = Number(process.env["E2E_REQUESTS_PER_SECOND"] ?? 200);
/** Before and after each disturbance. */
const REQUESTS = 1000;
const REPLICAS = ["-l", "app.kubernetes.io/component=api"];

interface Node {
  readonly metadata: { readonly name: string };
  readonly status: { readonly addresses: readonly { readonly type: string; readonly address: string }[] };
}

const nodes = JSON.parse(await kubectl(["get", "nodes", "-o", "json"])).items as Node[];
const addresses = nodes.map(({ status }) => status.addresses.find(({ type }) => type === "InternalIP")?.address ?? "");
const [address = ""] = addresses;
const areHere = (await Promise.all(addresses.map(canListenOn))).every(Boolean);
const MISSING = [areHere ? [] : "a node is not this machine", postgresBinaries ? [] : NO_POSTGRES].flat().join("; ");

interface Pod {
  readonly metadata: { readonly name: string; readonly uid: string; readonly deletionTimestamp?: string };
  readonly spec: { readonly nodeName: string };
  readonly status: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}

describe.skipIf(MISSING !== "")(`two replicas under load${MISSING && `: ${MISSING}`}`, () => {
  const started = new AsyncDisposableStack();
  let engines: DistributedEngines;
  let url: string;
  let operator: string;
  let organisations = 0;

  beforeAll(async () => {
    await makeNamespace();
    engines = started.use(await startDistributedEngines());
    await installDistributed();
    url = `http://${(await get("service", "backend")).spec.clusterIP}:8080`;
    operator = await eventually("a login", () => login(url, "admin@localhost", FIRST_PASSWORD));
  });

  afterAll(async () => {
    if (!process.env["E2E_KEEP"]) await removeNamespace();
    await started.disposeAsync();
  });

  /** The same URL, from pods. */
  async function fromPods(loopbackUrl: string): Promise<string> {
    const given = new URL(loopbackUrl);
    const relay = started.use(await Relay.start(Number(given.port), address));
    given.host = `${address}:${relay.port}`;
    return given.href.replace(/\/$/, "");
  }

  async function installDistributed(): Promise<void> {
    const secret = (name: string, stringData: object) => ({
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name, namespace: NAMESPACE },
      stringData,
    });
    const random = (bytes: number) => randomBytes(bytes).toString("base64");
    const metrics = await fromPods(engines.metricsUrl);
    await apply(
      secret("connections", { DATABASE_URL: await fromPods(engines.databaseUrl), CLICKHOUSE_URL: await fromPods(engines.clickhouse.url) }),
      secret("telemetry-secrets", { MASTER_KEY: random(32), JWT_SECRET: random(48), ADMIN_PASSWORD: FIRST_PASSWORD }),
    );
    const small = { requests: { cpu: "50m", memory: "256Mi" }, limits: { memory: "1Gi" } };
    const values = {
      mode: "distributed",
      secrets: { existingSecret: "telemetry-secrets" },
      jwtTtl: "2h",
      ingestTokens: { enabled: true, overHttp: true },
      distributed: {
        connectionSecret: "connections",
        metrics: { writeUrl: metrics, queryUrl: metrics },
        // Nothing of this test needs rules.
        vmalert: { queryUrl: metrics, offerRules: false },
        api: { autoscaling: { enabled: false }, resources: small },
        alerting: { replicas: 1, resources: small },
      },
    };
    const flags = Object.entries(values).flatMap(([name, value]) => ["--set-json", `${name}=${JSON.stringify(value)}`]);
    await helm("install", "backend", BACKEND_CHART, ...flags, ...WAIT);
  }

  async function readyReplicas(): Promise<Pod[]> {
    const isReady = ({ metadata, status }: Pod) =>
      metadata.deletionTimestamp === undefined && status.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True");
    return ((await get("pods", ...REPLICAS)).items as Pod[]).filter(isReady);
  }

  /** Loads the replicas while `disturb` runs, and for a while before and after it; compares what was acknowledged with what is stored. */
  async function disturbed(disturb: () => Promise<void>): Promise<{ seen: Seen; lost: object }> {
    const tenant = await makeTenant(url, operator, `disturbed-${(organisations += 1)}`);
    const made = await call("POST", `${url}/api/ingest-tokens`, { bearer: tenant.token, body: { name: "load" } });
    const load = new PacedLoad(url, { apiKey: tenant.apiKey, ingestToken: made.json.token, session: tenant.token }, PER_SECOND);
    const more = async () => {
      const { requests } = load.seen;
      await eventually("more requests", () => load.seen.requests > requests + REQUESTS, 120_000);
    };
    await more();
    await disturb();
    await more();
    const seen = await load.stop();
    const lost = await lostOf(tenant, seen);
    console.log(`${expect.getState().currentTestName}:`, seen, lost);
    expect(seen.rows).toBeGreaterThan(0);
    expect(seen.samples).toBeGreaterThan(0);
    return { seen, lost };
  }

  async function lostOf({ orgId, token }: Tenant, { rows, samples }: Seen): Promise<object> {
    const body = `SELECT toUInt32(count()) AS stored, toUInt32(uniqExact(message)) AS distinct FROM logs WHERE org_id = '${orgId}'`;
    const { json } = await call("POST", `${new URL(engines.clickhouse.url).origin}/?default_format=JSONEachRow`, { body });
    const query = new URLSearchParams({ query: "sum(count_over_time(paced[1h]))" });
    const count = async () => {
      const answer = await call("GET", `${url}/query/prometheus/api/v1/query?${query.toString()}`, { bearer: token });
      return Number(answer.json?.data?.result?.[0]?.value?.[1] ?? 0);
    };
    const found = await eventually("samples are counted", async () => (await count()) >= samples && (await count()), 60_000).catch(count);
    return { rows: rows - json.distinct, doubledRows: json.stored - json.distinct, samples: samples - found };
  }

  const NOTHING_LOST = { rows: 0, doubledRows: 0, samples: 0 };

  test("a rolling update causes no error", async () => {
    const before = await readyReplicas();
    expect(before).toHaveLength(2);
    const { seen, lost } = await disturbed(
      async () => void (await helm("upgrade", "backend", BACKEND_CHART, "--reuse-values", "--set", "logLevel=warn", ...WAIT)),
    );
    const after = await readyReplicas();
    expect(after.map(({ metadata }) => metadata.name)).not.toEqual(expect.arrayContaining([before[0]?.metadata.name]));
    expect({ errors: seen.errors, lost }).toEqual({ errors: {}, lost: NOTHING_LOST });
  });

  test("the eviction of every replica, as by a drain, causes no error, and one is always there", async () => {
    const { seen, lost } = await disturbed(async () => {
      const evicted = await readyReplicas();
      for (const { metadata } of evicted) await eventually("the budget allows the eviction", () => evict(metadata.name), 180_000);
      await eventually(
        "replaced",
        async () => {
          const now = (await get("pods", ...REPLICAS)).items as Pod[];
          return now.length === 2 && (await readyReplicas()).length === 2;
        },
        180_000,
      );
    });
    expect({ errors: seen.errors, lost }).toEqual({ errors: {}, lost: NOTHING_LOST });
  });

  test.skipIf(nodes.length < 2)("kubectl drain of a node causes no error (needs two nodes)", async () => {
    const drained = (await readyReplicas())[0]?.spec.nodeName ?? "";
    const { seen, lost } = await disturbed(async () => {
      await kubectl(["drain", drained, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=300s"]);
      await eventually("replaced", async () => (await readyReplicas()).length === 2, 180_000);
    }).finally(() => kubectl(["uncordon", drained]));
    expect((await readyReplicas()).map(({ spec }) => spec.nodeName)).not.toContain(drained);
    expect({ errors: seen.errors, lost }).toEqual({ errors: {}, lost: NOTHING_LOST });
  });

  test("killed replicas lose nothing", async () => {
    const { seen, lost } = await disturbed(async () => {
      for (const pid of replicaProcesses()) {
        process.kill(pid, "SIGKILL");
        await eventually("noticed", async () => (await readyReplicas()).length < 2);
        await eventually("started again", async () => (await readyReplicas()).length === 2, 180_000);
      }
    });
    expect(Object.keys(seen.errors)).not.toEqual([]);
    expect(lost).toEqual(NOTHING_LOST);
  });
});

/** Not by the list of interfaces: it leaves out a bridge to which no pod is connected. */
async function canListenOn(host: string): Promise<boolean> {
  const server = createServer();
  try {
    await once(server.listen(0, host), "listening");
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EADDRNOTAVAIL") return false;
    throw error;
  } finally {
    server.close();
  }
}

/** False while the PodDisruptionBudget refuses. */
async function evict(name: string): Promise<boolean> {
  const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace: NAMESPACE } };
  const path = `/api/v1/namespaces/${NAMESPACE}/pods/${name}/eviction`;
  try {
    await kubectl(["create", "--raw", path, "-f", "-"], JSON.stringify(eviction));
    return true;
  } catch (error) {
    if (/disruption budget/i.test(String(error))) return false;
    throw error;
  }
}

/** Of the image: other tests on this machine may run replicas, too. */
function replicaProcesses(): number[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.filter((pid) => /\0\/app\/backend\/\S+\.js\0serve\0--roles\0api\0/.test(readIfThere(`/proc/${pid}/cmdline`))).map(Number);
}
