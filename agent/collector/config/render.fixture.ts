// Settings of each kind of agent, the configuration that each renders, and the log files that a collector of a host reads, for tests that
// start a collector without an agent.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pino } from "pino";
import { readSettings, type Settings } from "../../settings.ts";
import { LogFiles } from "../files/log-files.ts";
import { logFileRules } from "../files/log-paths.ts";
import { configFromSettings, logFilesFolder, logPathRules } from "./config-from-settings.ts";

export const HOST = { BACKEND_URL: "https://b.example", STATE_DIR: "/var/lib/state" };
export const CLUSTER = {
  BACKEND_URL: "https://b.example",
  STATE_DIR: "/var/lib/state",
  CLUSTER_NAME: "prod",
  NODE_NAME: "node-1",
  NODE_IP: "10.0.0.7",
  POD_NAMESPACE: "telemetry",
  POD_UID: "8a4f",
  KUBERNETES_SERVICE_HOST: "10.96.0.1",
};
export const CASES: [name: string, identity: "host" | "cluster", env: NodeJS.ProcessEnv][] = [
  ["host", "host", HOST],
  [
    "host-logs-only-multiline",
    "host",
    { ...HOST, SIGNALS: "logs", LOG_PATHS: "/srv/app/*.log,/srv/$odd.txt", LOG_MULTILINE_START: "^\\d{4}-", LOG_LEVEL: "debug" },
  ],
  ["host-journal", "host", { ...HOST, SIGNALS: "logs", JOURNALD: "true", JOURNALD_UNITS: "nginx,ssh" }],
  ["cluster", "cluster", CLUSTER],
  [
    "cluster-excluding",
    "cluster",
    { ...CLUSTER, EXCLUDE_NAMESPACES: "kube-system,noisy", KUBELET_TLS: "skip", LOG_MULTILINE_START: "^\\S", METRICS_INTERVAL: "1m" },
  ],
  [
    "cluster-scraping-redacting",
    "cluster",
    {
      ...CLUSTER,
      SCRAPE_PODS: "true",
      WORKLOAD_NAMES: "true",
      POD_LABELS: "team,app.kubernetes.io/part-of",
      POD_ANNOTATIONS: "example.com/owner",
      LOG_POLICIES: "true",
      QUEUE_FSYNC: "true",
      REDACT: "password=\\S+\n\\$[0-9]+",
      DROP_METRICS: 'metric.name == "noise"',
      DROP_LOGS: "log.severity_number < SEVERITY_NUMBER_INFO",
      TRACES_SAMPLE_PERCENT: "12.5",
    },
  ],
  ["cluster-no-host", "cluster", { ...CLUSTER, HOST_ACCESS: "none" }],
  ["cluster-proc", "cluster", { ...CLUSTER, HOST_ACCESS: "proc" }],
  ["cluster-traces-only", "cluster", { ...CLUSTER, SIGNALS: "traces" }],
];

/** Overlays that operators may add. */
export const OVERLAYS = {
  "adds a processor and replaces a list": `processors: {attributes/team: {actions: [{key: team, value: a, action: insert}]}}
service: {pipelines: {traces: {processors: [attributes/team]}}}
receivers: {file_log/files: {include: [/only/this.log]}}`,
  "takes components out": "receivers: {hostmetrics: null}\nexporters: {debug: null}",
};

/** Renders the collector's configuration; the overlay is written to `folder`. */
export function render(folder: string, identity: "host" | "cluster", env: NodeJS.ProcessEnv, overlay?: string): string {
  if (overlay === undefined) return configFromSettings(readSettings(identity, env).settings);
  const file = join(folder, "overlay.yaml");
  writeFileSync(file, overlay);
  return configFromSettings(readSettings(identity, { ...env, COLLECTOR_CONFIG_FILE: file }).settings);
}

/** Opens the log files of a host, as the agent does before it starts the collector. */
export async function startLogFiles(settings: Settings): Promise<LogFiles> {
  const { host, logMaxAgeMs: maxAgeMs } = settings;
  if (!host) throw new Error("not the settings of a host agent");
  const files = new LogFiles({
    folder: logFilesFolder(settings),
    offsetsFile: "/none",
    readOffsets: () => Promise.resolve(undefined),
    rules: () => logFileRules(logPathRules(settings, host)),
    maxAgeMs,
    log: pino({ level: "warn" }),
  });
  await files.start(host.logPaths);
  return files;
}
