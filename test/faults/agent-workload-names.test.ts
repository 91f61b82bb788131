// Workload names on cAdvisor's metrics of pods, and labels and annotations of pods on their logs, through the real collector with the
// cluster agent's configuration. Stand-ins serve the two calls of the API and cAdvisor's page.
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { configFromSettings } from "../../agent/collector/config/config-from-settings.ts";
import { Sink, type SinkPoint, type SinkRecord } from "../../agent/collector/supervision/sink.fixture.ts";
import { CLUSTER } from "../../agent/collector/config/render.fixture.ts";
import { readSettings } from "../../agent/settings.ts";
import { startCollector } from "../fixtures/collector.ts";
import { PodsApi } from "../fixtures/pods-api.ts";
import { eventually, freeAddresses, temporaryFolder } from "../fixtures/processes.ts";

const POD = {
  namespace: "shop",
  name: "checkout-7d9c5b6f4d-abcde",
  uid: "0b5a3c1e-0000-4000-8000-000000000001",
  replicaSet: "checkout-7d9c5b6f4d",
  labels: { team: "payments", other: "x" },
  annotations: { "example.com/owner": "ann" },
};
/** A hash of nine characters, as a quarter of all Deployments have, and a name that only looks like one. */
const SHORT = {
  ...POD,
  name: "web-shop-7d9c5b6f4-vwxyz",
  uid: "0b5a3c1e-0000-4000-8000-000000000002",
  replicaSet: "web-shop-7d9c5b6f4",
  labels: { "pod-template-hash": "7d9c5b6f4" },
};
const BARE = { ...SHORT, name: "bare-2-vwxyz", uid: "0b5a3c1e-0000-4000-8000-000000000003", replicaSet: "bare-2", labels: {} };
const PAGE = `# TYPE container_memory_working_set_bytes gauge
container_memory_working_set_bytes{container="server",namespace="shop",pod="${POD.name}"} 7
container_memory_cache{container="server",namespace="shop",pod="${SHORT.name}"} 8
container_memory_rss{container="server",namespace="shop",pod="${BARE.name}"} 9
# TYPE machine_cpu_cores gauge
machine_cpu_cores 2
`;

test("a cAdvisor series has its workload and its own labels, a log the selected labels and annotations", async () => {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(temporaryFolder());
  const sink = stack.use(await Sink.start());
  const api = stack.use(await PodsApi.start(folder.path, [POD, SHORT, BARE]));
  const server = createServer((_request, response) => response.writeHead(200, { "content-type": "text/plain" }).end(PAGE));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  stack.defer(() => {
    server.closeAllConnections();
    server.close();
  });
  const target = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const overlay = {
    processors: { k8s_attributes: null, "k8s_attributes/usage": { auth_type: "none" }, "k8s_attributes/files": { auth_type: "none" } },
    receivers: {
      hostmetrics: null,
      kubeletstats: null,
      "prometheus/cadvisor": {
        config: {
          scrape_configs: [{ job_name: "cadvisor", scrape_interval: "1s", scrape_timeout: "1s", static_configs: [{ targets: [target] }] }],
        },
      },
    },
  };
  writeFileSync(join(folder.path, "overlay.json"), JSON.stringify(overlay));
  const [grpc, http] = await freeAddresses(2);
  const { settings } = readSettings("cluster", {
    ...CLUSTER,
    BACKEND_URL: sink.url,
    KUBERNETES_SERVICE_HOST: "127.0.0.1",
    STATE_DIR: join(folder.path, "state"),
    COLLECTOR_CONFIG_FILE: join(folder.path, "overlay.json"),
    PROXY_LISTEN: `127.0.0.1:${sink.port}`,
    OTLP_GRPC_LISTEN: grpc,
    OTLP_HTTP_LISTEN: http,
    SIGNALS: "metrics,logs",
    WORKLOAD_NAMES: "true",
    POD_LABELS: "team",
    POD_ANNOTATIONS: "example.com/owner",
  });
  for (const { namespace, name, uid } of [POD, SHORT]) {
    const log = join(folder.path, "pods", `${namespace}_${name}_${uid}`, "server");
    mkdirSync(log, { recursive: true });
    writeFileSync(join(log, "0.log"), `${new Date().toISOString()} stdout F of ${name}\n`);
  }
  const config = configFromSettings(settings).replaceAll("/var/log/pods", join(folder.path, "pods"));
  const env = { KUBERNETES_SERVICE_HOST: "127.0.0.1", KUBERNETES_SERVICE_PORT: String(api.port) };
  stack.use(await startCollector(settings.stateDir, config, env));
  await eventually("a series and a line are there", () => sink.records.length > 1 && of("container_memory_working_set_bytes"), 60_000);
  expect(of("container_memory_working_set_bytes")).toMatchObject({
    resource: { namespace: "shop", pod: POD.name, "k8s.deployment.name": "checkout", "k8s.pod.name": POD.name, "service.name": "cadvisor" },
    attributes: { container: "server" },
  });
  expect(of("machine_cpu_cores")?.resource).not.toHaveProperty("k8s.pod.name");
  const [ofShort, ofBare] = [of("container_memory_cache"), of("container_memory_rss")];
  expect(ofShort?.resource).toMatchObject({ "k8s.deployment.name": "web-shop", "k8s.pod.name": SHORT.name });
  expect(ofBare?.resource).toMatchObject({ "k8s.pod.name": BARE.name });
  expect(ofBare?.resource).not.toHaveProperty("k8s.deployment.name");
  expect(JSON.stringify(sink.metrics)).not.toContain("template_hash");
  const record = (name: string): SinkRecord | undefined => sink.records.find(({ body }) => body === `of ${name}`);
  expect(record(SHORT.name)?.resource).toMatchObject({ "k8s.deployment.name": "web-shop", "k8s.pod.uid": SHORT.uid });
  expect(record(POD.name)).toMatchObject({
    resource: { "k8s.deployment.name": "checkout", "k8s.pod.label.team": "payments", "k8s.pod.annotation.example.com/owner": "ann" },
  });
  const keys = sink.records.flatMap(({ resource }) => Object.keys(resource));
  expect(keys.filter((key) => /other|hash/.test(key))).toEqual([]);

  function of(metric: string): SinkPoint | undefined {
    return sink.points.find((point) => point.metric === metric);
  }
});
