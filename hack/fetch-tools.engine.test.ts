// Compares the list of programs, the pinned Go modules and the collector's manifest with each other, and runs each program with the options
// that are used.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { clusterCollectorConfig, collectorConfig } from "../agent/collector/config/collector-config.ts";
import { CATALOGUE, RUN_TOOLS, TEST_TOOLS, toolPath } from "./fetch-tools.ts";

const MODULES = join(import.meta.dirname, "tools");

interface Manifest {
  dist: { version: string };
  [kind: string]: { gomod: string }[] | { version: string };
}

const readManifest = (distribution: string): Manifest =>
  parse(readFileSync(join(MODULES, distribution, "manifest.yaml"), "utf8")) as Manifest;

describe("the catalogue", () => {
  it.each(CATALOGUE.filter((tool) => tool.module.package !== "."))(
    "builds $name $version from a module pinned to it",
    ({ version, module }) => {
      const pins = readFileSync(join(MODULES, module.folder, "go.mod"), "utf8");
      expect(pins.slice(pins.indexOf("tool "))).toMatch(new RegExp(`\\s${module.package}\\n`));
      const required = [...pins.matchAll(/^(?:require |\t)(\S+) (v\S+)/gm)].find(([, path]) => `${module.package}/`.startsWith(`${path}/`));
      // A commit before a release is pinned as v1.2.3-0.<time>-<commit>.
      expect(required?.[2]).toMatch(new RegExp(`^v${version.replaceAll(".", String.raw`\.`)}(-0\\.\\d{14}-[\\da-f]{12})?$`));
    },
  );

  it("contains every program that `npm start` and `npm test` need", () => {
    const names = CATALOGUE.map((tool) => tool.name);
    for (const name of [...RUN_TOOLS, ...TEST_TOOLS]) expect(names).toContain(name);
  });

  it("lists the known programs for an unknown one", async () => {
    await expect(toolPath("no-such-program")).rejects.toThrow(/unknown program no-such-program; known programs: victoria-metrics, vmalert/);
  });

  it.each(CATALOGUE.filter((tool) => tool.release))(
    "downloads $name from a release over https, named with its version",
    ({ release, version }) => {
      expect(release?.url).toMatch(/^https:/);
      expect(release?.url).toContain(version);
      expect(release?.checksums).toMatch(/^https:/);
      expect(release?.checksums).toContain(version);
    },
  );
});

describe.each(["otelcol-contrib", "otelcol-host"])("the collector %s", (distribution) => {
  it("matches the manifest, component by component", () => {
    const manifest = readManifest(distribution);
    const pins = readFileSync(join(MODULES, distribution, "go.mod"), "utf8");
    expect(CATALOGUE.find((tool) => tool.name === distribution)?.version).toBe(manifest.dist.version);
    const components = ["extensions", "receivers", "processors", "exporters"].flatMap((kind) => manifest[kind] as { gomod: string }[]);
    for (const { gomod } of components) expect(pins).toContain(`\t${gomod}\n`);
  });

  it.each(["receivers", "processors", "exporters", "extensions"] as const)("contains all %s that its agent renders", async (kind) => {
    const known = await knownTypes(distribution, kind);
    const configs = distribution === "otelcol-host" ? [ofHost] : [ofNode, ofCluster];
    const rendered = new Set(configs.flatMap((config) => Object.keys(config[kind])).map((id) => id.split("/")[0]));
    expect(rendered.size).toBeGreaterThan(0);
    expect([...rendered].filter((type) => type === undefined || !known.includes(type))).toEqual([]);
  });
});

const kubernetes = { nodeName: "node", waitForPods: true, trustsSenders: false, usesRelay: false };
const common = {
  proxy: { host: "127.0.0.1", port: 9599 },
  stateDir: "/state",
  signals: ["metrics", "logs", "traces"],
  queueBytes: 1e9,
  queueFsync: true,
  memoryMib: 512,
  logLevel: "info",
  compression: "gzip",
  resource: { "k8s.node.name": "node" },
  edits: { redact: ["x"], drop: { metrics: ["true"], logs: ["true"], traces: ["true"] }, tracesSamplePercent: 50 },
} as const;
const ofCluster = clusterCollectorConfig({ ...common, state: { intervalMs: 10_000 }, events: true });
const host = {
  hostMetrics: { intervalMs: 30_000, root: "/host", hasHostNetwork: true, hasFileSystems: true },
  files: {
    folder: "/state/log-files",
    maxAgeMs: 1,
    pollIntervalMs: 1000,
    hasManyFiles: true,
    parsing: "fields" as const,
    readsFields: true,
  },
  journal: { program: "/usr/bin/journalctl", units: [], maxAgeMs: 1, readsFields: true },
};
const listen = { grpc: { host: "127.0.0.1", port: 4317 }, http: { host: "127.0.0.1", port: 4318 } };
const ofHost = collectorConfig({ ...common, otlp: listen, ...host });
/** Every source of telemetry at once: more than any one agent renders. */
const ofNode = collectorConfig({
  ...common,
  ...host,
  otlp: { ...listen, kubernetes },
  podLogs: { kubernetes, ownPodUid: "uid", excludeNamespaces: [], maxAgeMs: 1, parsing: "fields", readsFields: true },
  kubelet: { intervalMs: 30_000, nodeIp: "10.0.0.1", tls: "verify", serviceAccountDir: "/sa" },
  workloadNames: kubernetes,
  scrapedPods: { intervalMs: 30_000, nodeName: "node" },
  cadvisor: { intervalMs: 30_000, nodeIp: "10.0.0.1", tls: "verify", serviceAccountDir: "/sa" },
});

/** With an unknown type, the collector lists the types that it has (`otelcol components` leaves out renamed ones). */
async function knownTypes(distribution: string, kind: string): Promise<string[]> {
  const asked = spawnSync(await toolPath(distribution), ["validate", "--config", `yaml:${kind}: {nosuch: {}}`], { encoding: "utf8" });
  return /valid values: \[(.*?)\]/.exec(asked.stderr)?.[1]?.split(" ") ?? [];
}
