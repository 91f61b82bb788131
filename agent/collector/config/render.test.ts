import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { EXPORTER, FILES_EXPORTER, METRICS_EXPORTER } from "./collector-config.ts";
import { readSettings } from "../../settings.ts";
import { configFromSettings } from "./config-from-settings.ts";
import { CASES, CLUSTER, HOST, OVERLAYS, render } from "./render.fixture.ts";
import { CollectorConfigError } from "./render.ts";

// Update the golden files with: npm test -- agent/collector/config/render.test.ts -u

interface Operator {
  readonly type: string;
  readonly on_error?: string;
}

let folder: string;
beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), "atherops-render-"))));
afterAll(() => rmSync(folder, { recursive: true }));

describe("the rendered configuration", () => {
  test.each(["${file:/etc/shadow}${env:KUBECONFIG}", "x${env:ATHEROPS_FILES_TOKEN}"])(
    "does not expand environment variables in %s",
    (condition) => {
      const yaml = render(folder, "cluster", { ...CLUSTER, DROP_LOGS: condition });
      expect(parse(yaml).processors["filter/drop"]).toMatchObject({ log_conditions: [condition.replaceAll("$", "$$$$")] });
    },
  );

  test.each(CASES)("for %s matches the golden file", async (name, identity, env) => {
    const yaml = render(folder, identity, env).replace(/host\.name\n(\s+)value: .*/, "host.name\n$1value: <hostname>");
    await expect(yaml).toMatchFileSnapshot(`golden/${name}.yaml`);
  });

  test.each(CASES)("for %s prints no line that an operator cannot parse: it may contain secrets", (_, identity, env) => {
    const receivers = Object.values(parse(render(folder, identity, env)).receivers as Record<string, { operators?: Operator[] }>);
    const parsers = receivers.flatMap(({ operators = [] }) => operators.filter(({ type }) => /parser|container/.test(type)));
    expect(parsers.filter((parser) => parser.on_error !== "send_quiet")).toEqual([]);
  });

  test("of a cluster node follows the remote configuration", () => {
    const { settings } = readSettings("cluster", { ...CLUSTER, STATE_DIR: folder });
    const adjustment = { metricsIntervalMs: 7000, signals: ["metrics"] } as const;
    const { receivers, service } = parse(configFromSettings(settings, { adjustment }));
    expect(receivers["kubeletstats"].collection_interval).toBe("7000ms");
    expect(Object.keys(service.pipelines).filter((id) => !id.startsWith("metrics"))).toEqual([]);
  });

  test("is byte-identical for the same settings", () => {
    expect(render(folder, "cluster", CLUSTER)).toBe(render(folder, "cluster", CLUSTER));
  });

  test("contains no receiver or processor for files if nothing is mounted, only the kubelet's", () => {
    const { receivers } = parse(render(folder, "cluster", { ...CLUSTER, HOST_ACCESS: "none" }));
    expect(Object.keys(receivers).sort()).toEqual(["kubeletstats", "otlp", "prometheus/cadvisor"]);
  });

  test("omits file system sizes if only /proc and /sys are mounted, because they would be the container's", () => {
    const { receivers } = parse(render(folder, "cluster", { ...CLUSTER, HOST_ACCESS: "proc" }));
    expect(Object.keys(receivers["hostmetrics"].scrapers).sort()).toEqual(["cpu", "disk", "load", "memory", "paging", "processes"]);
    expect(receivers).toHaveProperty("file_log/pods");
  });

  test.each([
    [2000, "1000ms", undefined],
    [2500, "5000ms", 32],
    [10_000, "20000ms", 32],
    [60_000, "20000ms", 32],
  ])("for a host with %i log files pauses %s between passes and reads %s at once", (openLogFiles, pause, atOnce) => {
    const { receivers } = parse(configFromSettings(readSettings("host", HOST).settings, { openLogFiles }));
    expect(receivers["file_log/files"]).toMatchObject({ poll_interval: pause });
    expect(receivers["file_log/files"].max_concurrent_files).toBe(atOnce);
  });

  test.each([
    ["all ask the agent", {}, "receivers: {hostmetrics: null}", "kubeConfig"],
    ["so they do where the operator takes one out", {}, "processors: {k8s_attributes/files: null}", "kubeConfig"],
    ["all ask the API server where the operator changes one", {}, "processors: {k8s_attributes: {passthrough: true}}", "serviceAccount"],
    ["all ask the API server where the relay is off", { POD_RELAY: "false" }, "", "serviceAccount"],
  ])("for components that look up pods: %s", (_what, env, overlay, asks) => {
    const all = { ...CLUSTER, WORKLOAD_NAMES: "true", SCRAPE_PODS: "true", ...env };
    const { processors, receivers } = parse(render(folder, "cluster", all, overlay)) as {
      processors: Record<string, { auth_type?: string }>;
      receivers: { "prometheus/pods": { config: { scrape_configs: [{ kubernetes_sd_configs: [{ kubeconfig_file?: string }] }] } } };
    };
    const asking = Object.values(processors).flatMap(({ auth_type }) => auth_type ?? []);
    expect(new Set(asking)).toEqual(new Set([asks]));
    const [job] = receivers["prometheus/pods"].config.scrape_configs;
    expect(job.kubernetes_sd_configs[0].kubeconfig_file).toBe(asks === "kubeConfig" ? "${env:KUBECONFIG}" : undefined);
  });

  test("is rejected with log policies if an overlay changes how pods are looked up, because redaction would stop", () => {
    const overlay = "processors: {k8s_attributes: {passthrough: true}}";
    expect(() => render(folder, "cluster", { ...CLUSTER, LOG_POLICIES: "true" }, overlay)).toThrow(/LOG_POLICIES cannot be combined with/);
  });

  test("exports every pipeline to the signing proxy only", () => {
    for (const [, identity, env] of CASES) {
      const config = parse(render(folder, identity, env)) as { exporters: Record<string, { endpoint: string }> };
      expect(new Set(Object.values(config.exporters).map(({ endpoint }) => endpoint))).toEqual(new Set(["http://127.0.0.1:9599"]));
    }
  });
});

describe("COLLECTOR_CONFIG_FILE", () => {
  test("merges maps and lists of pipelines, and replaces other lists", () => {
    const yaml = render(folder, "host", HOST, OVERLAYS["adds a processor and replaces a list"]);
    const config = parse(yaml);
    expect(config.service.pipelines.traces.processors).toEqual(["memory_limiter", "resource/node", "attributes/team"]);
    expect(config.receivers["file_log/files"].include).toEqual(["/only/this.log"]);
    expect(config.receivers["file_log/files"].storage).toBe("file_storage/checkpoints");
  });

  test("removes a component with null, and its pipeline if no receiver is left", () => {
    const yaml = render(folder, "host", HOST, OVERLAYS["takes components out"]);
    const config = parse(yaml);
    expect(config.service.pipelines["metrics/node"]).toBeUndefined();
    expect(config.exporters).toHaveProperty("debug", null);
  });

  test.each([
    ["a foreign exporter", "exporters: {otlp: {endpoint: evil:4317}}", "adds the exporter otlp"],
    ["one under our type", "exporters: {otlp_http/evil: {endpoint: http://evil}}", "adds the exporter otlp_http/evil"],
    ["another endpoint for ours", `exporters: {${EXPORTER}: {endpoint: http://evil}}`, "changes endpoint"],
    ["a signal's own endpoint", `exporters: {${FILES_EXPORTER}: {logs_endpoint: http://evil/x}}`, "changes logs_endpoint"],
    ["an endpoint of metrics", `exporters: {${METRICS_EXPORTER}: {metrics_endpoint: http://evil/x}}`, "changes metrics_endpoint"],
    ["a proxy before ours", `exporters: {${EXPORTER}: {proxy_url: http://evil}}`, "changes proxy_url"],
    [
      "the collector's own telemetry",
      "service: {telemetry: {logs: {processors: [{batch: {exporter: {otlp: {endpoint: x}}}}]}}}",
      "service.telemetry",
    ],
  ])("is rejected for %s, unless ALLOW_OTHER_EXPORTERS is true", (_what, overlay, words) => {
    expect(() => render(folder, "host", HOST, overlay)).toThrow(words);
    expect(() => render(folder, "host", HOST, overlay)).toThrow("ALLOW_OTHER_EXPORTERS");
    expect(render(folder, "host", { ...HOST, ALLOW_OTHER_EXPORTERS: "true" }, overlay)).toContain("exporters:");
  });

  test.each([
    ["broken: [", "not YAML"],
    ["- a list", "must be a map"],
  ])("that is %s is rejected with a message", (overlay, words) => {
    expect(() => render(folder, "host", HOST, overlay)).toThrow(CollectorConfigError);
    expect(() => render(folder, "host", HOST, overlay)).toThrow(words);
  });
});
