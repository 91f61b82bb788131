// The manual: every setting of the agent, read from the environment. X_FILE reads X from a file. All problems are reported in one
// message, each naming its variable; the process then exits with 2. Nothing else in agent/ reads the environment.
//
// Both agents (where two defaults are given: host agent | cluster agent)
//   BACKEND_URL                              required; scheme, host and port only; http only to loopback or with ALLOW_PLAIN_HTTP
//   BACKEND_CA_FILE                          PEM of the authority that signed the backend's certificate, beside the system's and Node's
//   ALLOW_PLAIN_HTTP        false            true: http to a backend that is not on loopback
//   HTTPS_PROXY, HTTP_PROXY, NO_PROXY        the way out, upper or lower case, as curl reads them: http(s)://[user:password@]host:port,
//                                            and names, addresses or networks (10.0.0.0/8) reached without; never used for loopback
//   INSTALL_TOKEN                            one-time token of the first start; not needed once enrolled
//   STATE_DIR               /var/lib/atherops-otel-agent | /var/lib/atherops-agent   queue, checkpoints, collector configuration
//   HEARTBEAT_INTERVAL      30s              how often the backend is told that this agent lives; after three intervals of silence it is
//                                            shown as offline
//   COMPRESSION             gzip             to the backend: none | gzip | zstd
//   SIGNALS                 metrics,logs,traces   comma-separated: what is collected and sent; OTLP of other signals is not taken
//   METRICS_INTERVAL        30s              how often host, kubelet and cAdvisor metrics are read
//   HEALTH_LISTEN           :9598            /healthz, /readyz, /status, /metrics. Without a host: [::], which takes IPv4 too, or
//                                            0.0.0.0 where there is no IPv6
//   OTLP_GRPC_LISTEN        127.0.0.1:4317 | :4317   OTLP of applications
//   OTLP_HTTP_LISTEN        127.0.0.1:4318 | :4318
//   PROXY_LISTEN            127.0.0.1:9599   collector to proxy; loopback only
//   OTELCOL_PATH                             the collector; else otelcol-contrib on PATH, else the tool cache of hack/fetch-tools.ts
//   COLLECTOR_CONFIG_FILE                    YAML merged over the rendered configuration; see agent/collector/render.ts
//   ALLOW_OTHER_EXPORTERS   false            true: the merged configuration may send telemetry elsewhere, unsigned
//   COLLECTOR_MEMORY_MIB    400              above it the collector refuses new data until it has less
//   COLLECTOR_STOP_GRACE    35s              from TERM to KILL; longer than one export may take (30s)
//   QUEUE_MIB               512              disk queue of each signal; when full, files wait and applications are refused
//   LOG_MAX_AGE             168h             log files untouched for longer are not read
//   LOG_MULTILINE_START                      regular expression: a line that matches begins a record, others continue it
//   LOG_FIELDS              true             false: level, time and trace ids are not taken out of what log lines say
//   REDACT                                   regular expressions, one a line: what matches in a log line, an attribute or a span's name is ****
//   DROP_METRICS, DROP_LOGS, DROP_TRACES     conditions of the collector's filter processor (OTTL), one a line: what one is true for is
//                                            dropped, such as log.severity_number < SEVERITY_NUMBER_INFO
//   TRACES_SAMPLE_PERCENT   100              so many of a hundred traces are sent, the same ones by all agents
//   LOG_LEVEL               info             debug | info | warn | error; the collector is one level quieter
// Host agent
//   CREDENTIALS_FILE        /etc/atherops/credentials.json   written with mode 0600; mounted read-only, 0440 is taken too
//   LOG_PATHS               /var/log/**/*.log      comma-separated globs of files to read
//   LOG_PATHS_ALLOWED       /var/log/**            what LOG_PATHS and remote configuration may name, symbolic links resolved
//   JOURNALD                false            true: also what systemd's journal gets, from the first start with it on
//   JOURNALD_UNITS                           comma-separated: of these units alone, such as nginx
//   JOURNALCTL_PATH         /usr/bin/journalctl
//   REMOTE_CONFIG_INTERVAL  1m               how often the host's configuration is asked for; 0s: never
// Cluster agent
//   CLUSTER_NAME                             required; shown by the backend
//   NODE_NAME, POD_NAMESPACE, POD_UID        required; from the downward API
//   NODE_IP                 NODE_NAME        where the kubelet listens (port 10250)
//   SECRET_NAME             cluster-agent-credentials
//   LEASE_NAME              cluster-agent
//   KEY_ROTATION_DAYS       30               0: never by age
//   EXCLUDE_NAMESPACES                       comma-separated; their pods' logs are not read
//   KUBELET_TLS             verify           verify (with the cluster's authority) | skip | a PEM file
//   TRUST_OTLP_IDENTITY     false            true: what OTLP says of its pod, namespace, node and cluster counts (behind a gateway or mesh,
//                                            or for pods with the host's network); else only what the sender's address tells
//   SCRAPE_PODS             false            true: metrics of this node's pods with the annotation prometheus.io/scrape: "true"
//   WORKLOAD_NAMES          false            true: names of Deployments and so on also on what kubelet and cAdvisor say of pods
//   POD_RELAY               true             false: the collector's components each watch this node's pods at the API server, up to six
//                                            times, instead of asking the agent, which watches them once
//   POD_LABELS, POD_ANNOTATIONS              comma-separated names: these of pods are added to their logs, and to what they send
//   CLUSTER_STATE           false            true: state of deployments, pods, nodes, jobs and so on, as metrics, by one agent of the cluster
//   KUBERNETES_EVENTS       false            true: events of Kubernetes, as logs with the source kubernetes-events, likewise
//   CLUSTER_COLLECTOR_MEMORY_MIB  200        of the collector of these two, which runs on one node, beside that of the node
//   KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT   the API server; set by the kubelet
//   SERVICE_ACCOUNT_DIR     /var/run/secrets/kubernetes.io/serviceaccount   token and ca.crt
//   HOST_ROOT               /hostfs          where the node's root file system is mounted
//   HOST_ACCESS             full             what of the node is there: full | proc (below HOST_ROOT only proc and sys: no metrics of file
//                                            systems) | none (neither host metrics nor pods' log files)
//   VALUE_NAMES                              set by the Helm chart: which of its values sets which variable; errors name the value
import { resolve } from "node:path";
import type { ListenAddress } from "../common/settings-reader.ts";
import { AgentSettingsReader } from "./settings-kinds.ts";

export { type ListenAddress, SettingsError } from "../common/settings-reader.ts";

export type Identity = "host" | "cluster";
export type Signal = "metrics" | "logs" | "traces";
export type Compression = "none" | "gzip" | "zstd";
export type HostAccess = "full" | "proc" | "none";
export type LogLevel = "debug" | "info" | "warn" | "error";

export const SIGNALS: readonly Signal[] = ["metrics", "logs", "traces"];
export const LOG_LEVELS = ["info", "debug", "warn", "error"] as const satisfies readonly LogLevel[];

/** Configuration that may be logged. */
export interface Settings {
  readonly identity: Identity;
  /** Origin without a trailing slash, e.g. `https://telemetry.example:8443`. */
  readonly backendUrl: string;
  readonly backendCaFile: string | undefined;
  readonly noProxy: string | undefined;
  readonly stateDir: string;
  /** Within stateDir, the folder of this agent's identity; undefined: stateDir itself. Not read from the environment (state-dir.ts). */
  readonly stateFolder?: string;
  readonly heartbeatIntervalMs: number;
  readonly compression: Compression;
  readonly signals: readonly Signal[];
  readonly metricsIntervalMs: number;
  readonly health: ListenAddress;
  readonly otlpGrpc: ListenAddress;
  readonly otlpHttp: ListenAddress;
  readonly proxy: ListenAddress;
  /** Candidates in order of preference; the first that exists is meant. */
  readonly otelcolPath: readonly string[];
  readonly collectorConfigFile: string | undefined;
  readonly allowOtherExporters: boolean;
  readonly collectorMemoryMib: number;
  readonly collectorStopGraceMs: number;
  readonly queueMib: number;
  readonly logMaxAgeMs: number;
  readonly logMultilineStart: string | undefined;
  /** Level, time and trace ids are taken out of what log lines say. */
  readonly logFields: boolean;
  readonly logLevel: LogLevel;
  /** Regular expressions of what is made unreadable. */
  readonly redact: readonly string[];
  /** Conditions of what is dropped, of each signal. */
  readonly drop: Readonly<Record<Signal, readonly string[]>>;
  readonly tracesSamplePercent: number;
  /** Present for the host agent only. */
  readonly host: HostSettings | undefined;
  /** Present for the cluster agent only. */
  readonly cluster: ClusterSettings | undefined;
}

export interface HostSettings {
  readonly credentialsFile: string;
  readonly logPaths: readonly string[];
  readonly logPathsAllowed: readonly string[];
  /** Undefined: the journal is not read. */
  readonly journal: JournalSettings | undefined;
  /** 0: never. */
  readonly remoteConfigIntervalMs: number;
}

export interface JournalSettings {
  /** Absolute path of `journalctl`. */
  readonly program: string;
  /** Empty: all. */
  readonly units: readonly string[];
}

export interface ClusterSettings {
  readonly clusterName: string;
  readonly nodeName: string;
  readonly nodeIp: string;
  readonly podNamespace: string;
  readonly podUid: string;
  readonly secretName: string;
  readonly leaseName: string;
  /** 0: never by age. */
  readonly keyRotationDays: number;
  readonly excludeNamespaces: readonly string[];
  /** `verify`, `skip`, or the path of a PEM file. */
  readonly kubeletTls: string;
  /** What senders of OTLP claim of their place in Kubernetes counts. */
  readonly trustOtlpIdentity: boolean;
  readonly hostRoot: string;
  readonly scrapePods: boolean;
  readonly workloadNames: boolean;
  readonly podRelay: boolean;
  readonly podLabels: readonly string[];
  readonly podAnnotations: readonly string[];
  /** What one agent of the cluster collects for all of it. */
  readonly clusterState: boolean;
  readonly kubernetesEvents: boolean;
  readonly clusterCollectorMemoryMib: number;
  readonly hostAccess: HostAccess;
  /** Scheme, host and port. */
  readonly kubernetesServer: string;
  readonly serviceAccountDir: string;
}

/** Configuration that must never be logged; the outgoing proxy's URLs are here because they may hold passwords. */
export interface Secrets {
  readonly installToken: string | undefined;
  readonly httpsProxy: string | undefined;
  readonly httpProxy: string | undefined;
}

/** The pinned version whose build the tool cache holds; the same as in hack/fetch-tools.ts. */
export const COLLECTOR_VERSION = "0.149.0";

/** Reads and validates everything. Throws one SettingsError that lists all problems. */
export function readSettings(identity: Identity, env: NodeJS.ProcessEnv = process.env): { settings: Settings; secrets: Secrets } {
  const read = new AgentSettingsReader(env);
  const settings = readPlain(read, identity);
  const secrets = {
    // Its file may be gone: once enrolled, the token is no longer needed.
    installToken: read.text("INSTALL_TOKEN", { mayBeGone: true }),
    httpsProxy: read.proxyUrl("HTTPS_PROXY"),
    httpProxy: read.proxyUrl("HTTP_PROXY"),
  };
  read.finish();
  return { settings, secrets };
}

/** A message in the words of who set the variables that it names: with VALUE_NAMES, a Helm chart's values in their place. */
export function inValueNames(message: string, env: NodeJS.ProcessEnv = process.env): string {
  const names = valueNames(env["VALUE_NAMES"]);
  return message.replaceAll(/\b[A-Z]+(?:_[A-Z]+)+\b/g, (name) => names.get(name) ?? names.get(name.replace(/_FILE$/, "")) ?? name);
}

/** A chart of another version than the image may say anything: what is not understood translates nothing. */
function valueNames(json: string | undefined): Map<string, string> {
  try {
    return new Map(Object.entries(JSON.parse(json || "{}") as Record<string, string>));
  } catch {
    return new Map();
  }
}

/** The install token as it is now: INSTALL_TOKEN_FILE is a mounted Secret, which changes while the agent runs. Undefined when unreadable. */
export function readInstallToken(env: NodeJS.ProcessEnv = process.env): string | undefined {
  return new AgentSettingsReader(env).text("INSTALL_TOKEN");
}

function readPlain(read: AgentSettingsReader, identity: Identity): Settings {
  const isHost = identity === "host";
  const otlpHost = isHost ? "127.0.0.1" : "";
  return {
    identity,
    backendUrl: read.backendUrl("BACKEND_URL", read.flag("ALLOW_PLAIN_HTTP")),
    backendCaFile: read.readableFile("BACKEND_CA_FILE"),
    noProxy: read.eitherCase("NO_PROXY"),
    stateDir: resolve(read.text("STATE_DIR") ?? (isHost ? "/var/lib/atherops-otel-agent" : "/var/lib/atherops-agent")),
    heartbeatIntervalMs: read.duration("HEARTBEAT_INTERVAL", "30s", 1000),
    compression: read.oneOf("COMPRESSION", ["gzip", "none", "zstd"]),
    signals: read.someOf("SIGNALS", SIGNALS),
    metricsIntervalMs: read.duration("METRICS_INTERVAL", "30s", 1000),
    health: read.listen("HEALTH_LISTEN", ":9598"),
    otlpGrpc: read.listen("OTLP_GRPC_LISTEN", `${otlpHost}:4317`),
    otlpHttp: read.listen("OTLP_HTTP_LISTEN", `${otlpHost}:4318`),
    proxy: read.loopback("PROXY_LISTEN", "127.0.0.1:9599"),
    otelcolPath: read.program("OTELCOL_PATH", "otelcol-contrib", COLLECTOR_VERSION),
    collectorConfigFile: read.readableFile("COLLECTOR_CONFIG_FILE"),
    allowOtherExporters: read.flag("ALLOW_OTHER_EXPORTERS"),
    collectorMemoryMib: read.integer("COLLECTOR_MEMORY_MIB", 400, 64),
    collectorStopGraceMs: read.duration("COLLECTOR_STOP_GRACE", "35s", 0),
    queueMib: read.integer("QUEUE_MIB", 512, 16),
    logMaxAgeMs: read.duration("LOG_MAX_AGE", "168h", 60_000),
    logMultilineStart: read.pattern("LOG_MULTILINE_START"),
    logFields: read.oneOf("LOG_FIELDS", ["true", "false"]) === "true",
    logLevel: read.oneOf("LOG_LEVEL", LOG_LEVELS),
    redact: read.patterns("REDACT"),
    drop: { metrics: read.lines("DROP_METRICS"), logs: read.lines("DROP_LOGS"), traces: read.lines("DROP_TRACES") },
    tracesSamplePercent: read.percent("TRACES_SAMPLE_PERCENT"),
    host: isHost ? readHost(read) : undefined,
    cluster: isHost ? undefined : readCluster(read),
  };
}

function readHost(read: AgentSettingsReader): HostSettings {
  return {
    credentialsFile: resolve(read.text("CREDENTIALS_FILE") ?? "/etc/atherops/credentials.json"),
    logPaths: read.absolutePaths("LOG_PATHS", "/var/log/**/*.log"),
    logPathsAllowed: read.absolutePaths("LOG_PATHS_ALLOWED", "/var/log/**"),
    journal: readJournal(read),
    remoteConfigIntervalMs: read.duration("REMOTE_CONFIG_INTERVAL", "1m", 0),
  };
}

function readJournal(read: AgentSettingsReader): JournalSettings | undefined {
  const journal = { program: resolve(read.text("JOURNALCTL_PATH") ?? "/usr/bin/journalctl"), units: read.list("JOURNALD_UNITS") };
  return read.flag("JOURNALD") ? journal : undefined;
}

function readCluster(read: AgentSettingsReader): ClusterSettings {
  const nodeName = read.required("NODE_NAME");
  return {
    clusterName: read.required("CLUSTER_NAME"),
    nodeName,
    nodeIp: read.text("NODE_IP") ?? nodeName,
    podNamespace: read.required("POD_NAMESPACE"),
    podUid: read.required("POD_UID"),
    secretName: read.text("SECRET_NAME") ?? "cluster-agent-credentials",
    leaseName: read.text("LEASE_NAME") ?? "cluster-agent",
    keyRotationDays: read.integer("KEY_ROTATION_DAYS", 30, 0),
    excludeNamespaces: read.list("EXCLUDE_NAMESPACES"),
    kubeletTls: read.kubeletTls("KUBELET_TLS"),
    trustOtlpIdentity: read.flag("TRUST_OTLP_IDENTITY"),
    hostRoot: read.text("HOST_ROOT") ?? "/hostfs",
    clusterState: read.flag("CLUSTER_STATE"),
    scrapePods: read.flag("SCRAPE_PODS"),
    workloadNames: read.flag("WORKLOAD_NAMES"),
    podRelay: read.oneOf("POD_RELAY", ["true", "false"]) === "true",
    podLabels: read.list("POD_LABELS"),
    podAnnotations: read.list("POD_ANNOTATIONS"),
    kubernetesEvents: read.flag("KUBERNETES_EVENTS"),
    clusterCollectorMemoryMib: read.integer("CLUSTER_COLLECTOR_MEMORY_MIB", 200, 64),
    hostAccess: read.oneOf("HOST_ACCESS", ["full", "proc", "none"]),
    kubernetesServer: read.kubernetesServer(),
    serviceAccountDir: read.text("SERVICE_ACCOUNT_DIR") ?? "/var/run/secrets/kubernetes.io/serviceaccount",
  };
}
