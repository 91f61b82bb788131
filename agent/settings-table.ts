// All settings of the agent: a table of environment variables, from which the reader, the types, `--help` and the reference page are
// generated. X_FILE reads X from a file. To add a setting, add a row and run `npm run reference`.
import { duration, file, flag, integer, list, listen, oneOf, path, proxyUrl, text } from "../common/settings-kinds.ts";
import { group, setting } from "../common/settings-table.ts";
import { absolutePaths, backendUrl, kubeletTls, lines, loopback, pattern, patterns, pemFile, percent, someOf } from "./settings-kinds.ts";

export type Identity = "host" | "cluster";
export const SIGNALS = ["metrics", "logs", "traces"] as const;
export type Signal = (typeof SIGNALS)[number];
export const LOG_LEVELS = ["info", "debug", "warn", "error"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** The pinned version of the collector, the same as in hack/fetch-tools.ts. */
export const COLLECTOR_VERSION = "0.149.0";

const DAY_MS = 86_400_000;
/** A larger value is probably a number of bytes. */
const TIB_IN_MIB = 1024 * 1024;

/** Settings of both agents. */
export const BOTH = {
  ...group("Backend", {
    backendUrl: setting("BACKEND_URL", backendUrl, {
      isRequired: true,
      value: "backendUrl",
      description: "Scheme, host and port of the backend. http is accepted only for loopback, or with `ALLOW_PLAIN_HTTP`.",
    }),
    backendCaFile: setting("BACKEND_CA_FILE", pemFile, {
      value: "backendCa",
      description:
        "PEM file of the certificate authority that signed the backend's certificate, trusted in addition to those of the system and of Node.js.",
    }),
    allowPlainHttp: setting("ALLOW_PLAIN_HTTP", flag, {
      default: "false",
      value: "allowPlainHttp",
      description: "Allows http to a backend that is not on loopback.",
    }),
    httpsProxy: setting("HTTPS_PROXY", proxyUrl, {
      isSecret: true,
      isEitherCase: true,
      value: "proxy.httpsProxy",
      description:
        "Outgoing proxy for https, `http(s)://[user:password@]host:port`. The agent also reads the lower-case variable, as curl does. It never uses the proxy for loopback.",
    }),
    httpProxy: setting("HTTP_PROXY", proxyUrl, { isSecret: true, isEitherCase: true, description: "Outgoing proxy for http." }),
    noProxy: setting("NO_PROXY", text, {
      isEitherCase: true,
      value: "proxy.noProxy",
      description: "Names, addresses or networks (`10.0.0.0/8`) that bypass the proxy, comma-separated.",
    }),
    installToken: setting("INSTALL_TOKEN", text, {
      isSecret: true,
      mayBeGone: true,
      value: "installToken",
      description: "One-time token for enrolment.",
    }),
    identityToken: setting("IDENTITY_TOKEN", text, {
      isSecret: true,
      mayBeGone: true,
      value: "identity.audience",
      description:
        "Token of an issuer that the organisation trusts, with which the agent enrols instead of `INSTALL_TOKEN`. `IDENTITY_TOKEN_FILE` names a file that is read before each attempt, because its issuer replaces it.",
    }),
    heartbeatIntervalMs: setting("HEARTBEAT_INTERVAL", duration({ min: 1000, max: 3_600_000 }), {
      default: "30s",
      value: "heartbeatInterval",
      description: "Time between heartbeats. The backend shows an agent as offline after three missed ones.",
    }),
    remoteConfigIntervalMs: setting("REMOTE_CONFIG_INTERVAL", duration({ min: 0 }), {
      default: "1m",
      value: "remoteConfigInterval",
      description: "Time between two requests for the remote configuration of this host or cluster; `0s` turns them off.",
    }),
    compression: setting("COMPRESSION", oneOf(["gzip", "none", "zstd"]), {
      default: "zstd",
      value: "compression",
      description: "Compression of telemetry that is sent to the backend.",
    }),
  }),
  ...group("Collection", {
    signals: setting("SIGNALS", someOf(SIGNALS), {
      default: SIGNALS.join(","),
      value: "signals",
      description: "Signals to collect and send. OTLP of other signals is refused.",
    }),
    metricsIntervalMs: setting("METRICS_INTERVAL", duration({ min: 1000, max: DAY_MS }), {
      default: "30s",
      value: "metricsInterval",
      description:
        "Collection interval of metrics of the host, kubelet, cAdvisor and scraped pods, unless their monitor sets one; state of the cluster is collected every 10 s, or more often if this is shorter.",
    }),
    logMaxAgeMs: setting("LOG_MAX_AGE", duration({ min: 60_000, max: 36_500 * DAY_MS }), {
      default: "168h",
      description: "The agent does not read log files whose last modification is older than this.",
    }),
    logMultilineStart: setting("LOG_MULTILINE_START", pattern, {
      value: "logs.multilineStart",
      description:
        "A line of a log file that matches starts a record; other lines continue it. For pods, this needs more CPU on the node, because the collector then parses the container runtime's format.",
    }),
    logFields: setting("LOG_FIELDS", flag, {
      default: "true",
      value: "logs.fields",
      description: "Parses level, time and trace IDs from log lines.",
    }),
    redact: setting("REDACT", patterns, {
      default: "",
      value: "redact",
      description:
        "Matching text in log lines and attributes, and in names, status messages and event names of spans, is replaced by `****`. Paths of log files are not changed. The collector then parses each log line, which needs more CPU on the node.",
    }),
    dropMetrics: setting("DROP_METRICS", lines, {
      default: "",
      value: "drop.metrics",
      description:
        "OTTL conditions of the collector's filter processor. The agent drops metrics or data points for which one of them is true.",
    }),
    dropLogs: setting("DROP_LOGS", lines, {
      default: "",
      value: "drop.logs",
      description:
        "The same for log records, for example `log.severity_number > 0 and log.severity_number < SEVERITY_NUMBER_INFO`. Conditions on anything but the resource can need more CPU on the node, because the collector then parses log lines.",
    }),
    dropTraces: setting("DROP_TRACES", lines, { default: "", value: "drop.traces", description: "The same for spans." }),
    tracesSamplePercent: setting("TRACES_SAMPLE_PERCENT", percent, {
      default: "100",
      unit: "%",
      value: "tracesSamplePercent",
      description: "Percentage of traces to send. Agents with the same percentage select the same traces.",
    }),
  }),
  ...group("Addresses", {
    health: setting("HEALTH_LISTEN", listen(), {
      default: ":9598",
      description:
        "Address that serves `/healthz`, `/readyz`, `/status` and `/metrics`. Without a host: all addresses of the machine. The packages of the host agent set `127.0.0.1:9598`.",
    }),
    otlpGrpc: setting("OTLP_GRPC_LISTEN", listen(), {
      default: { host: "127.0.0.1:4317", cluster: ":4317" },
      description: "Address that receives OTLP over gRPC from applications.",
    }),
    otlpHttp: setting("OTLP_HTTP_LISTEN", listen(), {
      default: { host: "127.0.0.1:4318", cluster: ":4318" },
      description: "Address that receives OTLP over HTTP from applications.",
    }),
    proxy: setting("PROXY_LISTEN", loopback, {
      default: "127.0.0.1:9599",
      description: "Address of the signing proxy, to which the collector sends; loopback only.",
    }),
  }),
  ...group("Collector and state", {
    stateDir: setting("STATE_DIR", path, {
      default: { host: "/var/lib/atherops-otel-agent", cluster: "/var/lib/atherops-agent" },
      value: "stateHostPath",
      description: "Folder for the disk queue, checkpoints and the collector's configuration.",
    }),
    queueMib: setting("QUEUE_MIB", integer({ min: 16, max: TIB_IN_MIB }), {
      default: "512",
      unit: "MiB",
      value: "collector.queueMib",
      description:
        "Size of each disk queue: for metrics, for traces, for logs of applications, and for lines of files and the journal. The second collector, which collects for the whole cluster, has two more. The queues of one collector together use at most half of the free disk space plus the space that they already use, but at least 1 MiB each. If a queue is full, files and the journal are not read, requests from applications are refused, and metrics and Kubernetes events that the collector itself collects are lost.",
    }),
    queueFsync: setting("QUEUE_FSYNC", flag, {
      default: "false",
      value: "collector.queueFsync",
      description:
        "Acknowledges OTLP from applications after an fsync of the disk queue, so that a power failure of the node does not lose it. Each request then needs six fsyncs, one after the other: with 5 ms per fsync, the collector delivers at most about 30 requests per second and signal. If applications send more, the queue fills up, and requests are refused. Lines of files are read again from their files, so their queue has no fsync.",
    }),
    otelcolPath: setting("OTELCOL_PATH", text, {
      description:
        "Path of the collector. Default: `otelcol-contrib` on `PATH` (host agent: `otelcol-host` first), then the tool cache of hack/fetch-tools.ts. Images and packages set it.",
    }),
    collectorConfigFile: setting("COLLECTOR_CONFIG_FILE", file, {
      value: "collector.extraConfig",
      description:
        "YAML that is merged into the configuration of the collector, not of the second one; see agent/collector/config/render.ts.",
    }),
    allowOtherExporters: setting("ALLOW_OTHER_EXPORTERS", flag, {
      default: "false",
      value: "collector.allowOtherExporters",
      description: "Allows the merged configuration to send unsigned telemetry to other destinations.",
    }),
    collectorMemoryMib: setting("COLLECTOR_MEMORY_MIB", integer({ min: 64, max: TIB_IN_MIB }), {
      default: "400",
      unit: "MiB",
      value: "collector.memoryMib",
      description:
        "Memory of the collector. While it uses more than about 80 % of this, it refuses new data, except lines of files and the journal.",
    }),
    collectorStopGraceMs: setting("COLLECTOR_STOP_GRACE", duration({ min: 0, max: DAY_MS }), {
      default: "35s",
      description: "Time between SIGTERM and SIGKILL for the collector. Keep it longer than the timeout of one export (30 s).",
    }),
    logLevel: setting("LOG_LEVEL", oneOf(LOG_LEVELS), {
      default: "info",
      value: "logLevel",
      description: "Level of the agent's log. The collector's level is `info` for `debug`, `warn` for `info`, and otherwise the same.",
    }),
  }),
};

export const HOST = group("Host agent", {
  credentialsFile: setting("CREDENTIALS_FILE", path, {
    default: "/etc/atherops/credentials.json",
    description: "File with the key, written with mode 0600. If it is mounted read-only, 0440 is accepted too.",
  }),
  logPaths: setting("LOG_PATHS", absolutePaths, { default: "/var/log/**/*.log", description: "Log files to read." }),
  logPathsAllowed: setting("LOG_PATHS_ALLOWED", absolutePaths, {
    description:
      "Globs of files that may be read, after symbolic links are resolved. Default: `/var/log/**` and `LOG_PATHS`. The remote configuration and, if it is set, `LOG_PATHS` must be within it.",
  }),
  journald: setting("JOURNALD", flag, {
    default: "false",
    description: "Also reads systemd's journal, beginning with entries after the first start with this setting.",
  }),
  journaldUnits: setting("JOURNALD_UNITS", list, {
    default: "",
    description: "With `JOURNALD`: reads only these units, for example `nginx`.",
  }),
  journalctlPath: setting("JOURNALCTL_PATH", path, { default: "/usr/bin/journalctl", description: "Path of the program `journalctl`." }),
});

export const CLUSTER = group("Cluster agent", {
  nodeName: setting("NODE_NAME", text, { isRequired: true, description: "Name of the node, from the downward API." }),
  clusterName: setting("CLUSTER_NAME", text, {
    isRequired: true,
    value: "clusterName",
    description: "Name of the cluster in the backend.",
  }),
  nodeIp: setting("NODE_IP", text, { description: "Address of the kubelet (port 10250). Default: `NODE_NAME`." }),
  podNamespace: setting("POD_NAMESPACE", text, { isRequired: true, description: "Namespace of the agent's pod, from the downward API." }),
  podUid: setting("POD_UID", text, { isRequired: true, description: "UID of the agent's pod, from the downward API." }),
  secretName: setting("SECRET_NAME", text, {
    default: "cluster-agent-credentials",
    value: "identity.secretName",
    description: "The Secret that holds the cluster's key.",
  }),
  leaseName: setting("LEASE_NAME", text, {
    default: "cluster-agent",
    value: "identity.leaseName",
    description:
      "The Lease whose holder enrols and rotates the key. The holder of the Lease with this name and `-collection` collects for the whole cluster.",
  }),
  keyRotationDays: setting("KEY_ROTATION_DAYS", integer({ min: 0 }), {
    default: "30",
    unit: "days",
    value: "keyRotationDays",
    description: "The agent rotates the cluster's key at this age. 0: the agent never rotates a key because of its age.",
  }),
  excludeNamespaces: setting("EXCLUDE_NAMESPACES", list, {
    default: "",
    value: "logs.excludeNamespaces",
    description: "The agent does not read pod logs of these namespaces.",
  }),
  kubeletTls: setting("KUBELET_TLS", kubeletTls, {
    default: "verify",
    value: "kubelet.tls",
    description:
      "How the kubelet's certificate is verified: `verify` uses the cluster's certificate authority; a PEM file contains a different one; `skip`: it is not verified.",
  }),
  trustOtlpIdentity: setting("TRUST_OTLP_IDENTITY", flag, {
    default: "false",
    value: "otlp.trustSenderIdentity",
    description:
      "Accepts the pod, namespace, node and cluster that OTLP senders claim. Use it if OTLP arrives through gateways or service meshes, or from pods in the host's network. Otherwise, the sender's address identifies its pod.",
  }),
  hostRoot: setting("HOST_ROOT", text, {
    default: "/hostfs",
    description: "Mount point of the node's root file system, from which host metrics are read.",
  }),
  clusterState: setting("CLUSTER_STATE", flag, {
    default: "false",
    value: "clusterState.enabled",
    valueDefault: "true",
    description: "One agent of the cluster sends the state of its objects, such as Deployments, pods and nodes, as metrics.",
  }),
  scrapePods: setting("SCRAPE_PODS", flag, {
    default: "false",
    value: "scrapePods.enabled",
    valueDefault: "true",
    description: 'Scrapes pods of this node that have the annotation `prometheus.io/scrape: "true"`.',
  }),
  prometheusOperator: setting("PROMETHEUS_OPERATOR", flag, {
    default: "false",
    value: "discovery.prometheusOperator",
    description: "Scrapes pods of this node that ServiceMonitors and PodMonitors of the Prometheus Operator select.",
  }),
  monitorsAcrossNamespaces: setting("MONITORS_ACROSS_NAMESPACES", list, {
    default: "",
    value: "discovery.acrossNamespaces",
    description: "Namespaces whose monitors may select pods of other namespaces; `*`: all.",
  }),
  workloadNames: setting("WORKLOAD_NAMES", flag, {
    default: "false",
    value: "workloadNames.enabled",
    valueDefault: "true",
    description: "Adds names of Deployments and other workloads to kubelet and cAdvisor metrics of pods.",
  }),
  podRelay: setting("POD_RELAY", flag, {
    default: "true",
    value: "podRelay.enabled",
    description:
      "The agent watches the pods of its node once for all components of the collector. `false`: each component watches the API server itself.",
  }),
  logPolicies: setting("LOG_POLICIES", flag, {
    default: "false",
    value: "logs.policies",
    description: "Annotations of pods and namespaces, and LogPolicy objects, control which logs are read, redacted, sampled and limited.",
  }),
  podLabels: setting("POD_LABELS", list, {
    default: "",
    value: "podAttributes.labels",
    description: "Labels of pods that are added to their logs and to the OTLP that they send.",
  }),
  podAnnotations: setting("POD_ANNOTATIONS", list, {
    default: "",
    value: "podAttributes.annotations",
    description: "Annotations of pods that are added to their logs and to the OTLP that they send.",
  }),
  kubernetesEvents: setting("KUBERNETES_EVENTS", flag, {
    default: "false",
    value: "events.enabled",
    valueDefault: "true",
    description: "One agent of the cluster sends Kubernetes events as logs with the source `kubernetes-events`.",
  }),
  clusterCollectorMemoryMib: setting("CLUSTER_COLLECTOR_MEMORY_MIB", integer({ min: 64, max: TIB_IN_MIB }), {
    default: "200",
    unit: "MiB",
    value: "clusterCollector.memoryMib",
    description: "The same as `COLLECTOR_MEMORY_MIB`, for the second collector, which collects state and events and runs on one node.",
  }),
  hostAccess: setting("HOST_ACCESS", oneOf(["full", "proc", "none"]), {
    default: "full",
    value: "hostAccess",
    description:
      "Parts of the node that are mounted. `proc`: only `proc` and `sys` are mounted below `HOST_ROOT`, so there are no file system metrics. `none`: neither host metrics nor pod logs.",
  }),
  kubernetesServiceHost: setting("KUBERNETES_SERVICE_HOST", text, {
    isRequired: true,
    description: "Host of the API server; set by the kubelet.",
  }),
  kubernetesServicePort: setting("KUBERNETES_SERVICE_PORT", integer({ min: 1 }), {
    default: "443",
    description: "Port of the API server; set by the kubelet.",
  }),
  serviceAccountDir: setting("SERVICE_ACCOUNT_DIR", text, {
    default: "/var/run/secrets/kubernetes.io/serviceaccount",
    description: "Folder that contains `token` and `ca.crt`.",
  }),
  valueNames: setting("VALUE_NAMES", text, {
    description: "Set by the Helm chart: maps variables to chart values, so that errors name the value.",
  }),
});
