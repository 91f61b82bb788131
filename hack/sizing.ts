// Calculates the tables of docs/sizing.md from the measured and assumed figures on the same page, which also explains the formulae.
// Invariant: the results depend only on these figures, so that a new measurement changes a single row. `npm run reference` writes the
// tables; reference.test.ts fails if the page differs.

/** A row of the page: `| \`name\` | value | …`. */
const FIGURE = /^\| `([a-z_]+)` \| ([\d.,]+) \|/gm;
const CALCULATED = /(?<=<!-- calculated: ([a-z]+) -->\n\n)[^]*?(?=\n<!-- end -->)/g;
const NAMES = [
  // Assumptions about a node.
  "lines",
  "line_bytes",
  "spans",
  "span_requests",
  "series",
  "interval_s",
  "heartbeat_s",
  "days",
  "pod_changes",
  // Measured costs of one unit.
  "request_us",
  "log_us",
  "log_engine_us",
  "span_us",
  "span_engine_us",
  "sample_us",
  "sample_engine_us",
  "requests_of_a_process",
  "log_bytes",
  "span_bytes",
  "sample_bytes",
  "series_bytes",
  "series_memory",
  "ingest_memory_mib",
  "peak_above_mib",
  // Measured requests of an agent to the API server of its cluster.
  "api_requests",
  "api_cluster_requests",
  "api_answer_bytes",
  "api_change_bytes",
  "api_watches",
  "api_watches_direct",
] as const;
type Figures = Readonly<Record<(typeof NAMES)[number], number>>;

const NODES = [10, 100, 1000, 10_000];
/** Nodes of one cluster; Kubernetes supports up to 5,000. */
const NODES_OF_CLUSTER = [10, 100, 1000, 5000];
const MINUTE_S = 60;
const DAY_S = 86_400;
const GIB = 1024 ** 3;
const US_OF_A_CORE = 1_000_000;
/**
 * New lines of all files are sent in one request when they reach this size, or one second after the first of them
 * (agent/collector/config/collector-config.ts).
 */
const GATHERED_BYTES = 262_144;
/** Planned utilisation of a core, which leaves room for bursts and queries. */
const MAX_CPU_SHARE = 0.6;
/** Share of the memory limit that VictoriaMetrics may use for metrics; queries and merges need the rest. */
const METRICS_SHARE = 0.3;
const REPLICA_CORES = 2;

/** `page` with its calculated tables updated. Throws if a figure is missing. */
export function withCalculatedTables(page: string): string {
  const found = new Map([...page.matchAll(FIGURE)].map(([, name = "", value = ""]) => [name, Number(value.replaceAll(",", ""))]));
  const figures = Object.fromEntries(
    NAMES.map((name) => {
      const value = found.get(name);
      if (value === undefined || Number.isNaN(value)) throw new Error(`docs/sizing.md has no figure ${name}`);
      return [name, value];
    }),
  ) as Figures;
  return page.replaceAll(CALCULATED, (_, name: string) => {
    const rows = TABLES[name];
    if (!rows) throw new Error(`docs/sizing.md has no table ${name}`);
    const all = name === "apiserver" ? NODES_OF_CLUSTER : NODES;
    return markdown(all.map((nodes) => ({ nodes: groupDigits(nodes), ...rows(loadOf(nodes, figures), figures) })));
  });
}

type Load = ReturnType<typeof loadOf>;

/** Telemetry per second from this number of nodes. */
function loadOf(nodes: number, f: Figures) {
  const fileRequests = Math.max(f.lines / (1 + f.lines), (f.lines * f.line_bytes) / GATHERED_BYTES);
  return {
    nodes,
    requests: nodes * (fileRequests + f.span_requests + 3 / f.interval_s),
    heartbeats: nodes / f.heartbeat_s,
    lines: nodes * f.lines,
    spans: nodes * f.spans,
    samples: (nodes * f.series) / f.interval_s,
    series: nodes * f.series,
  };
}

const TABLES: Readonly<Record<string, (load: Load, f: Figures) => Record<string, string>>> = {
  load: ({ requests, lines, spans, samples, series, heartbeats }) => ({
    "requests/s": groupDigits(requests),
    "log records/s": groupDigits(lines),
    "spans/s": groupDigits(spans),
    "samples/s": groupDigits(samples),
    series: groupDigits(series),
    "heartbeats/s": heartbeats.toFixed(1),
  }),
  embedded(load, f) {
    const busy = load.requests * f.request_us + load.lines * f.log_us + load.spans * f.span_us + load.samples * f.sample_us;
    const fits = load.requests <= f.requests_of_a_process;
    return {
      cores: fits ? coresOf(busy) : "beyond one process",
      "memory limit": fits ? gib(memoryOf(load, f)) : "",
      "disk for logs": gib(diskOf(load.lines * f.log_bytes, f)),
      "disk for spans": gib(diskOf(load.spans * f.span_bytes, f)),
      "disk for metrics": gib(diskOf(load.samples * f.sample_bytes, f) + load.series * f.series_bytes),
    };
  },
  distributed(load, f) {
    const ofEngine = load.lines * f.log_engine_us + load.spans * f.span_engine_us;
    const ofMetrics = load.samples * f.sample_engine_us;
    const ofApi =
      load.requests * f.request_us + (load.lines * f.log_us + load.spans * f.span_us - ofEngine) + (load.samples * f.sample_us - ofMetrics);
    const replicas = Math.max(2, Math.ceil(ofApi / US_OF_A_CORE / MAX_CPU_SHARE / REPLICA_CORES));
    return {
      "replicas of 2 cores": groupDigits(replicas),
      "memory limit per replica": gib((f.ingest_memory_mib + f.peak_above_mib) * 1024 ** 2),
      "ClickHouse, cores": coresOf(ofEngine),
      "VictoriaMetrics, cores": coresOf(ofMetrics),
      "VictoriaMetrics, memory": gib((load.series * f.series_memory) / METRICS_SHARE),
    };
  },
  apiserver: (load, f) => ({
    "requests/s": askedPerSecond(load, f).toFixed(1),
    "responses, kB/s": groupDigits((askedPerSecond(load, f) * f.api_answer_bytes) / 1000),
    "open watches": groupDigits(load.nodes * f.api_watches),
    "pod changes, kB/s": groupDigits(changesOf(load, f.api_watches, f)),
    "open watches without the relay": groupDigits(load.nodes * f.api_watches_direct),
    "pod changes without the relay, kB/s": groupDigits(changesOf(load, f.api_watches_direct, f)),
  }),
};

function askedPerSecond({ nodes }: Load, f: Figures): number {
  return (nodes * f.api_requests + f.api_cluster_requests) / MINUTE_S;
}

/** One of an agent's watches is for its Secret; each watch on pods receives every pod change. */
function changesOf({ nodes }: Load, watches: number, f: Figures): number {
  return (nodes * (watches - 1) * f.pod_changes * f.api_change_bytes) / MINUTE_S / 1000;
}

function memoryOf({ series }: Load, f: Figures): number {
  const ofBackend = ((f.ingest_memory_mib + f.peak_above_mib) * 1024 ** 2) / (1 - METRICS_SHARE);
  return Math.max(ofBackend, (series * f.series_memory) / METRICS_SHARE);
}

function diskOf(bytesPerSecond: number, { days }: Figures): number {
  return bytesPerSecond * DAY_S * days;
}

function coresOf(us: number): string {
  const cores = us / US_OF_A_CORE / MAX_CPU_SHARE;
  return cores < 1 ? "1" : groupDigits(Math.ceil(cores));
}

function gib(bytes: number): string {
  const value = bytes / GIB;
  return `${value < 10 ? value.toFixed(1) : groupDigits(value)} GiB`;
}

function groupDigits(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

function markdown(rows: readonly Record<string, string>[]): string {
  const columns = Object.keys(rows[0] ?? {});
  const lines = [columns, columns.map(() => "---"), ...rows.map((row) => columns.map((column) => row[column] ?? ""))];
  return `${lines.map((cells) => `| ${cells.join(" | ")} |`).join("\n")}\n`;
}
