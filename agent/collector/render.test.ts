import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { toolPath } from "../../hack/fetch-tools.ts";
import { readSettings } from "../settings.ts";
import { EXPORTER, FILES_EXPORTER } from "./config.ts";
import { nodeCollectorConfig } from "./config-from-settings.ts";
import { CollectorConfigError } from "./render.ts";
import { validateCollectorConfig } from "./validate.ts";

// Update the golden files with: vitest run --project unit agent/collector/render.test.ts -u

const HOST = { BACKEND_URL: "https://b.example", STATE_DIR: "/var/lib/state" };
const CLUSTER = {
  BACKEND_URL: "https://b.example",
  STATE_DIR: "/var/lib/state",
  CLUSTER_NAME: "prod",
  NODE_NAME: "node-1",
  NODE_IP: "10.0.0.7",
  POD_NAMESPACE: "telemetry",
  POD_UID: "8a4f",
  KUBERNETES_SERVICE_HOST: "10.96.0.1",
};
const CASES: [name: string, identity: "host" | "cluster", env: NodeJS.ProcessEnv][] = [
  ["host", "host", HOST],
  [
    "host-logs-only-multiline",
    "host",
    { ...HOST, SIGNALS: "logs", LOG_PATHS: "/srv/app/*.log,/srv/$odd.txt", LOG_MULTILINE_START: "^\\d{4}-", LOG_LEVEL: "debug" },
  ],
  ["cluster", "cluster", CLUSTER],
  [
    "cluster-excluding",
    "cluster",
    { ...CLUSTER, EXCLUDE_NAMESPACES: "kube-system,noisy", KUBELET_TLS: "skip", LOG_MULTILINE_START: "^\\S", METRICS_INTERVAL: "1m" },
  ],
  ["cluster-traces-only", "cluster", { ...CLUSTER, SIGNALS: "traces" }],
];

let folder: string;
let program: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "atherops-render-"));
  program = await toolPath("otelcol-contrib");
});
afterAll(() => rmSync(folder, { recursive: true }));

function render(identity: "host" | "cluster", env: NodeJS.ProcessEnv, overlay?: string): string {
  if (overlay === undefined) return nodeCollectorConfig(readSettings(identity, env).settings);
  const file = join(folder, "overlay.yaml");
  writeFileSync(file, overlay);
  return nodeCollectorConfig(readSettings(identity, { ...env, COLLECTOR_CONFIG_FILE: file }).settings);
}

/** The collector's verdict; state and service account are folders of the test. */
function validate(yaml: string): Promise<void> {
  const account = join(folder, "account");
  mkdirSync(account, { recursive: true });
  for (const name of ["ca.crt", "token"]) writeFileSync(join(account, name), "");
  const file = join(folder, "config.yaml");
  writeFileSync(
    file,
    yaml
      .replaceAll("/var/lib/state", join(folder, "state"))
      .replaceAll("/var/run/secrets/kubernetes.io/serviceaccount", account)
      .replaceAll("/hostfs", "/"),
  );
  return validateCollectorConfig(program, file, {
    env: { KUBERNETES_SERVICE_HOST: "127.0.0.1", KUBERNETES_SERVICE_PORT: "1" },
    memoryMib: 400,
  });
}

describe("the rendered configuration", () => {
  test.each(CASES)("of %s is the golden file", async (name, identity, env) => {
    const yaml = render(identity, env).replace(/host\.name\n(\s+)value: .*/, "host.name\n$1value: <hostname>");
    await expect(yaml).toMatchFileSnapshot(`golden/${name}.yaml`);
  });

  test.each(CASES)("of %s is accepted by the collector", async (_name, identity, env) => {
    // kubeletstats reads the pod's own token when it is made, from a path that exists in pods only; the end-to-end tests run it.
    const overlay = identity === "cluster" && env["SIGNALS"] === undefined ? "receivers: {kubeletstats: null}" : undefined;
    await expect(validate(render(identity, env, overlay))).resolves.toBeUndefined();
  });

  test("is the same bytes for the same settings", () => {
    expect(render("cluster", CLUSTER)).toBe(render("cluster", CLUSTER));
  });

  test("sends every pipeline to the signing proxy and nowhere else", () => {
    for (const [, identity, env] of CASES) {
      const config = parse(render(identity, env)) as { exporters: Record<string, { endpoint: string }> };
      expect(new Set(Object.values(config.exporters).map(({ endpoint }) => endpoint))).toEqual(new Set(["http://127.0.0.1:9599"]));
    }
  });
});

describe("COLLECTOR_CONFIG_FILE", () => {
  test("adds to maps and to the lists of pipelines, and replaces other lists", async () => {
    const yaml = render(
      "host",
      HOST,
      `processors: {attributes/team: {actions: [{key: team, value: a, action: insert}]}}
service: {pipelines: {traces: {processors: [attributes/team]}}}
receivers: {file_log/files: {include: [/only/this.log]}}`,
    );
    const config = parse(yaml);
    expect(config.service.pipelines.traces.processors).toEqual(["memory_limiter", "resource/node", "attributes/team"]);
    expect(config.receivers["file_log/files"].include).toEqual(["/only/this.log"]);
    expect(config.receivers["file_log/files"].storage).toBe("file_storage/checkpoints");
    await expect(validate(yaml)).resolves.toBeUndefined();
  });

  test("takes a component out with null, and its pipeline when nothing is left to receive", async () => {
    const yaml = render("host", HOST, "receivers: {hostmetrics: null}\nexporters: {debug: null}");
    const config = parse(yaml);
    expect(config.service.pipelines["metrics/node"]).toBeUndefined();
    expect(config.exporters).toHaveProperty("debug", null);
    await expect(validate(yaml)).resolves.toBeUndefined();
  });

  test.each([
    ["a foreign exporter", "exporters: {otlp: {endpoint: evil:4317}}", "adds the exporter otlp"],
    ["one under our type", "exporters: {otlp_http/evil: {endpoint: http://evil}}", "adds the exporter otlp_http/evil"],
    ["another endpoint for ours", `exporters: {${EXPORTER}: {endpoint: http://evil}}`, "changes endpoint"],
    ["a signal's own endpoint", `exporters: {${FILES_EXPORTER}: {logs_endpoint: http://evil/x}}`, "changes logs_endpoint"],
    ["a proxy before ours", `exporters: {${EXPORTER}: {proxy_url: http://evil}}`, "changes proxy_url"],
    [
      "the collector's own telemetry",
      "service: {telemetry: {logs: {processors: [{batch: {exporter: {otlp: {endpoint: x}}}}]}}}",
      "service.telemetry",
    ],
  ])("is refused for %s, unless ALLOW_OTHER_EXPORTERS is true", (_what, overlay, words) => {
    expect(() => render("host", HOST, overlay)).toThrow(words);
    expect(() => render("host", HOST, overlay)).toThrow("ALLOW_OTHER_EXPORTERS");
    expect(render("host", { ...HOST, ALLOW_OTHER_EXPORTERS: "true" }, overlay)).toContain("exporters:");
  });

  test.each([
    ["broken: [", "not YAML"],
    ["- a list", "must be a map"],
  ])("that is %s is refused in words", (overlay, words) => {
    expect(() => render("host", HOST, overlay)).toThrow(CollectorConfigError);
    expect(() => render("host", HOST, overlay)).toThrow(words);
  });

  test("that the collector does not understand is refused in the collector's own words", async () => {
    await expect(validate(render("host", HOST, "processors: {memory_limiter: {limit_mibs: 7}}"))).rejects.toThrow(/limit_mibs/);
  });
});
