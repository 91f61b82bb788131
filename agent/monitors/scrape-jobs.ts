// Translates ServiceMonitors and PodMonitors of the Prometheus Operator to scrape jobs of one node's collector. For a ServiceMonitor, the pods
// that its Services select are scraped, so an agent finds its pods without watching endpoints. Invariants: only the agent on a pod's node
// scrapes it; requests go only to pods' own addresses; no credentials or files are sent, so a monitor that needs them is refused with a
// message; the same objects yield the same bytes in any order.
import { NO_SCRAPE_METRICS } from "../collector/config/fragments/scraped-pods.ts";
import { MAX_MONITOR_JOB_CHARACTERS } from "../agent-limits.ts";
import { FairShare } from "./fair-share.ts";
import { type Endpoint, type Monitor, nameOf, path, type Service } from "./monitor-objects.ts";
import { copyRule, escapeRegex, expandedCharacters, keepRule, labelName, MonitorError, relabelRules, type Rule } from "./relabeling.ts";
import { checkedSelector, namespacesOf, type PodSelector, selectsService, valueOf } from "./selectors.ts";

export interface ScrapeJobs {
  /** Scrape jobs by `job_name`, without their targets. */
  readonly jobs: ReadonlyMap<string, ScrapeJob>;
  /** `ServiceMonitor shop/web` → why it, or one of its endpoints, is not scraped. */
  readonly refused: ReadonlyMap<string, string>;
}

export interface ScrapeJob {
  readonly config: Rule;
  readonly pods: PodSelector;
}

interface ScrapeJobsInput {
  readonly monitors: readonly Monitor[];
  readonly services: readonly Service[];
  readonly defaultIntervalMs: number;
  /** Namespaces whose monitors may select pods in other namespaces. */
  readonly acrossNamespaces: readonly string[];
}

/** A monitor with this label set to "false" is not scraped by the agent. */
export const OPT_OUT_LABEL = "atherops.io/scrape";

export function scrapeJobs({ monitors, services, defaultIntervalMs, acrossNamespaces }: ScrapeJobsInput): ScrapeJobs {
  const share = new FairShare<ScrapeJob>();
  const refused = new Map<string, string>();
  const ordered = monitors.toSorted((a, b) => compare(nameOf(a), nameOf(b)));
  const orderedServices = services.toSorted((a, b) => compare(path(a.metadata), path(b.metadata)));
  for (const monitor of ordered) {
    if (monitor.metadata.labels?.[OPT_OUT_LABEL] === "false") continue;
    const refuse = (error: unknown): void =>
      void refused.set(nameOf(monitor), error instanceof MonitorError ? error.message : "does not follow its schema");
    // Monitors have many authors, and a mistake in one must not keep the others from being scraped.
    const { namespace } = monitor.metadata;
    attempt(() => {
      for (const target of listTargets(monitor, namespacesOf(monitor, acrossNamespaces), orderedServices)) {
        share.begin(namespace);
        if (target) attempt(() => share.add(namespace, nameOf(monitor), buildJob(monitor, target, defaultIntervalMs)), refuse);
      }
    }, refuse);
  }
  const jobs = share.jobs((name, { message }) => refused.set(name, message));
  return { jobs: new Map(jobs.map((job) => [String(job.config["job_name"]), job])), refused };
}

function attempt(action: () => void, failed: (error: unknown) => void): void {
  try {
    action();
  } catch (error) {
    failed(error);
  }
}

/** One job: an endpoint of a monitor; for a ServiceMonitor, combined with one of its Services. */
interface Target {
  readonly endpoint: Endpoint;
  readonly id: string;
  /** Name or number of a container's port. */
  readonly port: string | number | undefined;
  readonly pods: PodSelector;
  readonly labels: Readonly<Record<string, string>>;
}

/**
 * Yields targets one at a time, because a monitor may have a hundred thousand endpoints. Undefined: the Service does not have this port.
 */
function* listTargets(
  monitor: Monitor,
  namespaces: PodSelector["namespaces"],
  services: readonly Service[],
): Generator<Target | undefined> {
  const { spec, metadata } = monitor;
  if (monitor.kind === "PodMonitor") {
    const pods = { namespaces, selector: checkedSelector(spec.selector ?? {}) };
    for (const [i, endpoint] of (spec.podMetricsEndpoints ?? []).entries()) {
      const port = endpoint.port ?? endpoint.portNumber ?? endpoint.targetPort;
      yield { endpoint, id: String(i), port, pods, labels: { job: path(metadata), endpoint: String(port ?? "") } };
    }
    return;
  }
  const selected = services.filter((service) => selectsService(monitor, namespaces, service));
  for (const [i, endpoint] of (spec.endpoints ?? []).entries())
    for (const service of selected) yield serviceTarget(monitor, endpoint, String(i), service);
}

/** Returns undefined if the Service does not have this port. */
function serviceTarget({ spec }: Monitor, endpoint: Endpoint, id: string, { metadata, spec: service }: Service): Target | undefined {
  const servicePort = service.ports?.find(({ name }) => endpoint.port !== undefined && name === endpoint.port);
  if (endpoint.port !== undefined && !servicePort) return undefined;
  const labels = metadata.labels ?? {};
  const targetLabels = (spec.targetLabels ?? []).flatMap((name) => {
    const value = valueOf(labels, name);
    return value === undefined ? [] : [[targetLabel(name), value] as const];
  });
  return {
    endpoint,
    id: `${id}/${path(metadata)}`,
    port: servicePort ? (servicePort.targetPort ?? servicePort.port) : endpoint.targetPort,
    pods: { namespaces: [metadata.namespace], selector: checkedSelector({ matchLabels: service.selector ?? {} }) },
    labels: {
      service: metadata.name,
      endpoint: String(endpoint.port ?? endpoint.targetPort ?? ""),
      job: (spec.jobLabel !== undefined && valueOf(labels, spec.jobLabel)) || metadata.name,
      ...Object.fromEntries(targetLabels),
    },
  };
}

/** Credentials and files of a monitor. Older operators wrote `bearerTokenSecret` with an empty key by default. */
const REFUSED_FIELDS = ["basicAuth", "authorization", "oauth2", "bearerTokenFile", "bearerTokenSecret", "proxyUrl", "proxyFromEnvironment"];
const TLS_FIELDS = new Set(["insecureSkipVerify", "serverName", "minVersion", "maxVersion"]);
const MAX_PAGE_SIZE = "16MB";
const MAX_SAMPLES = 20_000;

/** Characters that YAML, in which the collector reads jobs, cannot contain. */
const NO_YAML = /[\p{Cc}\p{Cs}\u2028\u2029\ufeff\ufffe\uffff]/u;
/** A character of an expression compiles to about one instruction, which takes 40 bytes. */
const EXPANDED_COST = 8;

/** Throws MonitorError if the job is too large. */
function buildJob(monitor: Monitor, target: Target, defaultIntervalMs: number): { job: ScrapeJob; cost: number } {
  const job = { config: buildConfig(monitor, target, defaultIntervalMs), pods: target.pods };
  const text = JSON.stringify(job, (_key, value: unknown) => {
    if (typeof value === "string" && NO_YAML.test(value)) throw new MonitorError("text with control characters is not supported");
    return value;
  });
  const { relabelings = [], metricRelabelings = [] } = target.endpoint;
  const expanded = [...relabelings, ...metricRelabelings].reduce(
    (sum, { regex = "" }) => sum + expandedCharacters(regex) - regex.length,
    0,
  );
  const cost = text.length + EXPANDED_COST * expanded;
  if (cost > MAX_MONITOR_JOB_CHARACTERS) throw new MonitorError("an endpoint is too large");
  return { job, cost };
}

function buildConfig(monitor: Monitor, { endpoint, id, port, labels }: Target, defaultIntervalMs: number): Rule {
  refuseCredentials(endpoint);
  if (port === undefined || port === "") throw new MonitorError("an endpoint has neither port nor targetPort");
  const intervalMs = durationMs(endpoint.interval, "interval") ?? defaultIntervalMs;
  const timeoutMs = Math.min(intervalMs, durationMs(endpoint.scrapeTimeout, "scrapeTimeout") ?? 10_000);
  const scheme = (endpoint.scheme ?? "http").toLowerCase();
  if (!["http", "https"].includes(scheme)) throw new MonitorError(`scheme "${scheme}" is not supported`);
  return {
    job_name: `${nameOf(monitor)}/${id}`,
    scrape_interval: `${intervalMs}ms`,
    scrape_timeout: `${timeoutMs}ms`,
    metrics_path: pagePath(endpoint.path),
    scheme,
    ...(endpoint.params && { params: parameters(endpoint.params) }),
    honor_timestamps: endpoint.honorTimestamps !== false,
    follow_redirects: false,
    body_size_limit: MAX_PAGE_SIZE,
    sample_limit: isCount(monitor.spec.sampleLimit) ? Math.min(MAX_SAMPLES, monitor.spec.sampleLimit) : MAX_SAMPLES,
    label_limit: 64,
    tls_config: tls(endpoint.tlsConfig),
    relabel_configs: [
      { source_labels: ["__meta_kubernetes_pod_phase"], regex: "Pending|Succeeded|Failed", action: "drop" },
      { source_labels: ["__meta_kubernetes_pod_container_init"], regex: "true", action: "drop" },
      ...addressRules(port),
      copyRule("__meta_kubernetes_namespace", "namespace"),
      copyRule("__meta_kubernetes_pod_name", "pod"),
      copyRule("__meta_kubernetes_pod_node_name", "node"),
      ...Object.entries(labels).map(([name, value]) => ({ target_label: name, replacement: value, action: "replace" })),
      ...podLabelRules(monitor),
      ...relabelRules(endpoint.relabelings, "relabelings"),
      // Prometheus joins scheme, address and path and parses them as one URL: `http://elsewhere/?` would send a request to another host.
      keepRule(["__scheme__"], "https?"),
    ],
    metric_relabel_configs: [...relabelRules(endpoint.metricRelabelings, "metricRelabelings"), NO_SCRAPE_METRICS],
  };
}

function refuseCredentials(endpoint: Endpoint): void {
  for (const [name, value] of Object.entries(endpoint)) {
    const isEmpty = value === null || value === "" || value === false || (isMap(value) && !value["key"] && name === "bearerTokenSecret");
    if (REFUSED_FIELDS.includes(name) && !isEmpty) throw new MonitorError(`${name} is not supported`);
  }
}

function tls(config: Endpoint["tlsConfig"] = {}): Rule {
  for (const [name, value] of Object.entries(config)) {
    const isEmpty = value === null || (isMap(value) && Object.keys(value).length === 0);
    if (!TLS_FIELDS.has(name) && !isEmpty) throw new MonitorError(`tlsConfig.${name} is not supported`);
  }
  const { insecureSkipVerify, serverName } = config;
  return { insecure_skip_verify: insecureSkipVerify === true, ...(typeof serverName === "string" && { server_name: serverName }) };
}

/** A named port keeps the target of that port; a port number becomes the address of one target per pod. */
function addressRules(port: string | number): Rule[] {
  const number = Number(port);
  if (Number.isInteger(number)) {
    if (number < 1 || number > 65_535) throw new MonitorError(`port ${port} is not supported`);
    return [addressRule("([0-9.]+)", `$1:${number}`), addressRule("([0-9a-fA-F:]*:[0-9a-fA-F:.]*)", `[$1]:${number}`)];
  }
  return [
    keepRule(["__meta_kubernetes_pod_container_port_name"], escapeRegex(String(port))),
    copyRule("__meta_kubernetes_pod_container_name", "container"),
  ];
}

function addressRule(regex: string, replacement: string): Rule {
  return { source_labels: ["__meta_kubernetes_pod_ip"], regex, target_label: "__address__", replacement, action: "replace" };
}

/** Throws MonitorError. */
function targetLabel(name: string): string {
  const label = labelName(name);
  if (!/^(?!__)[a-zA-Z_]/.test(label)) throw new MonitorError(`the label "${name.slice(0, 100)}" is not supported`);
  return label;
}

function podLabel(name: string): string {
  return `__meta_kubernetes_pod_label_${labelName(name)}`;
}

function podLabelRules({ kind, spec }: Monitor): Rule[] {
  const rules = (spec.podTargetLabels ?? []).map((name) => copyRule(podLabel(name), targetLabel(name)));
  return kind === "PodMonitor" && spec.jobLabel ? [...rules, copyRule(podLabel(spec.jobLabel), "job")] : rules;
}

function pagePath(path = "/metrics"): string {
  if (!/^\/[\x21-\x7e]*$/.test(path) || path.length > 1024) throw new MonitorError("path is not supported");
  return path;
}

function parameters(params: NonNullable<Endpoint["params"]>): Rule {
  // YAML would interpret `<<` as a merge key.
  if (!Object.keys(params).every((name) => /^[\w.[\]-]{1,200}$/.test(name))) throw new MonitorError("a name in params is not supported");
  if (!Object.values(params).every((values: unknown) => Array.isArray(values) && values.every((value) => typeof value === "string")))
    throw new MonitorError("params is not supported");
  return params;
}

const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };
const MIN_INTERVAL_MS = 1000;

/** Parses Prometheus durations of hours, minutes, seconds and milliseconds; undefined if there is none. */
function durationMs(text: string | undefined, field: string): number | undefined {
  if (text === undefined || text === "") return undefined;
  if (!/^(\d{1,6}(h|ms|m|s))+$/.test(text)) throw new MonitorError(`${field} "${text.slice(0, 20)}" is not supported`);
  const parts = [...text.matchAll(/(\d{1,6})(ms|[hms])/g)];
  const sumMs = parts.reduce((sum, [, number, unit = ""]) => sum + Number(number) * (UNITS_MS[unit] ?? 0), 0);
  return Math.min(Math.max(sumMs, MIN_INTERVAL_MS), 24 * 3_600_000);
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) > 0;
}

function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
