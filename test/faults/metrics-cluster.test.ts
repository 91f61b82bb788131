// A backend on a real VictoriaMetrics cluster without replication, one of whose two storage nodes is unavailable: no query and no rule
// treats half of the data as all of it. Needs VM_CLUSTER_BIN; `npm test` does not download these programs.
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  login,
  makeTenant,
  adminPassword,
  startBackend,
  backendPlace,
  type BackendPlace,
  type Tenant,
} from "../fixtures/backend-process.ts";
import { NO_VM_CLUSTER, startMetricsCluster, vmClusterPrograms, type MetricsCluster } from "../fixtures/metrics-cluster.ts";
import { RULES_PASSWORD, startVmalert } from "../fixtures/vmalert-outside.ts";
import { call, eventually, freeAddresses, signedPost, temporaryFolder, type TestProcess } from "../fixtures/processes.ts";

const SERIES = 200;
const BASE = "/query/prometheus/api/v1";

describe.skipIf(!vmClusterPrograms)(`a metrics cluster${vmClusterPrograms ? "" : `: ${NO_VM_CLUSTER}`}`, () => {
  const folder = temporaryFolder();
  let cluster: MetricsCluster;
  let place: BackendPlace;
  let backend: TestProcess;
  let vmalert: AsyncDisposable;
  let tenant: Tenant;

  beforeAll(async () => {
    cluster = await startMetricsCluster();
    const [rules = "", evaluator = ""] = await freeAddresses(2);
    place = await backendPlace(folder.path, {
      METRICS_WRITE_URL: cluster.writeUrl,
      METRICS_QUERY_URL: cluster.queryUrl,
      MASTER_KEY: randomBytes(32).toString("base64"),
      JWT_SECRET: randomBytes(48).toString("base64"),
      RULES_LISTEN: rules,
      RULES_PASSWORD,
      EVALUATOR_QUERY_URL: `http://${evaluator}`,
    });
    backend = await startBackend(place);
    vmalert = await startVmalert({ rules, listen: evaluator, metricsUrl: cluster.queryUrl, metricsWriteUrl: cluster.writeUrl });
    tenant = await makeTenant(place.apiUrl, await login(place.apiUrl, "admin@localhost", adminPassword(place)), "cluster");
  });
  afterAll(async () => {
    await vmalert?.[Symbol.asyncDispose]();
    await backend?.end();
    await cluster?.[Symbol.asyncDispose]();
    folder[Symbol.dispose]();
  });

  const ask = (path: string) => call("GET", `${place.apiUrl}${BASE}${path}`, { bearer: tenant.token });
  const counted = async () => {
    const { json } = await ask("/query?query=count(part_m)");
    return Number(json.data?.result?.[0]?.value?.[1]);
  };
  const metricsState = async () =>
    ((await (await fetch(`${place.healthUrl}/readyz`)).json()) as { engines: { metrics: string } }).engines.metrics;
  const send = () => {
    const lines = Array.from({ length: SERIES }, (_, index) => `part_m{i="${index}"} 1\n`);
    return signedPost(place.apiUrl, "/ingest", tenant.apiKey, lines.join(""));
  };

  test("without a storage node queries return 502 with the reason, rules keep their state, and /readyz reports it", async () => {
    expect((await send()).status).toBe(204);
    await eventually("both nodes' series are counted", async () => (await counted()) === SERIES);
    // True for as long as all of the data is read, and false for the half of it.
    const rule = { name: "whole", expr: `count(part_m) == ${SERIES}`, severity: "warning", for: "0s" };
    const made = await call("POST", `${place.alertingUrl}/rules`, { bearer: tenant.token, body: rule });
    expect(made.status, made.text).toBe(201);
    const statusOfRule = async () =>
      (await call("GET", `${place.alertingUrl}/rules/${made.json.id as string}/status`, { bearer: tenant.token })).json;
    await eventually("the alert fires", async () => JSON.stringify(await statusOfRule()).includes('"firing"'));
    expect(await metricsState()).toBe("ok");

    await cluster.storage[1].stop();
    for (const path of [
      "/query?query=count(part_m)",
      "/query_range?query=part_m&start=0&end=60&step=60",
      "/series?match[]=part_m",
      "/labels",
    ]) {
      const { status, text, headers } = await ask(path);
      expect([path, status, headers.get("retry-after")]).toEqual([path, 502, "2"]);
      expect(text).toContain("storage node of the metrics cluster does not answer");
    }
    expect(await metricsState()).toBe("failing");
    await eventually("the rule fails", async () => JSON.stringify(await statusOfRule()).includes("metrics store is unavailable"));
    expect(JSON.stringify(await statusOfRule())).toContain('"firing"');
    // vminsert sends all to the node that is left.
    expect((await send()).status).toBe(204);

    await cluster.storage[1].restart();
    await eventually("queries are whole again", async () => (await counted()) === SERIES);
    await eventually("the cluster is ready", async () => (await metricsState()) === "ok");
  });
});
