// Builds the collector's configuration as a typed value. It is pure: the same input renders the same bytes. Invariants: our three exporters
// send only to the signing proxy; data that was acknowledged to an application or read from a file is in a disk queue and is retried
// without limit; component ids never change, because queue and checkpoint files carry them (renaming one orphans its data).
import { joinHostPort } from "../../../common/ip-networks.ts";
import { FILES_HEADER, START_ATTRIBUTE } from "../files/file-batch.ts";
import type { Compression, ListenAddress, LogLevel, Signal } from "../../settings.ts";
import { MAX_BATCH_BYTES } from "../../agent-limits.ts";
import { CHECKPOINT_STORAGE, type Component, type Fragment, type FragmentPipeline } from "./fragments/fragment.ts";
import { editProcessors, type EditsInput, editProcessorIds } from "./fragments/operator-edits.ts";
import { cadvisor, kubelet, type KubeletInput } from "./fragments/kubelet.ts";
import { clusterState, kubernetesEvents } from "./fragments/cluster-objects.ts";
import { files, type FilesInput, journal, type JournalInput } from "./fragments/host-logs.ts";
import { hostMetrics, type HostMetricsInput } from "./fragments/host-metrics.ts";
import { otlp, type OtlpInput } from "./fragments/otlp-receiver.ts";
import { podLogs, type PodLogsInput } from "./fragments/pod-logs.ts";
import { monitoredPods, scrapedPods, type ScrapedPodsInput } from "./fragments/scraped-pods.ts";
import { type KubernetesInput, withWorkloadNames } from "./fragments/kubernetes-attributes.ts";

export interface Pipeline {
  readonly receivers: readonly string[];
  readonly processors: readonly string[];
  readonly exporters: readonly string[];
}

export interface CollectorConfig {
  readonly extensions: Readonly<Record<string, Component>>;
  readonly receivers: Readonly<Record<string, Component>>;
  readonly processors: Readonly<Record<string, Component>>;
  readonly exporters: Readonly<Record<string, Component>>;
  readonly service: {
    readonly extensions: readonly string[];
    readonly telemetry: Component;
    readonly pipelines: Readonly<Record<string, Pipeline>>;
  };
}

/** Input for every collector. */
interface CommonInput {
  readonly proxy: ListenAddress;
  /** Holds `queue` and `checkpoints`. */
  readonly stateDir: string;
  readonly signals: readonly Signal[];
  readonly queueBytes: number;
  /** True: an application's request is acknowledged after an fsync of the disk queue. */
  readonly queueFsync: boolean;
  readonly memoryMib: number;
  readonly logLevel: LogLevel;
  /** Compression towards the backend: the proxy forwards logs and traces of applications as they arrive. */
  readonly compression: Compression;
  /** Resource attributes added where absent, so that series from different nodes stay distinct. */
  readonly resource: Readonly<Record<string, string>>;
  readonly edits: EditsInput;
}

export interface CollectorInput extends CommonInput {
  readonly otlp: OtlpInput;
  readonly hostMetrics?: HostMetricsInput | undefined;
  readonly files?: FilesInput | undefined;
  readonly journal?: JournalInput | undefined;
  readonly podLogs?: PodLogsInput | undefined;
  readonly kubelet?: KubeletInput | undefined;
  readonly cadvisor?: KubeletInput | undefined;
  readonly scrapedPods?: ScrapedPodsInput | undefined;
  /** URL of the scrape jobs that monitors define. */
  readonly monitoredPods?: string | undefined;
  /** Adds workload names to kubelet and cAdvisor metrics; undefined: no names are added. */
  readonly workloadNames?: KubernetesInput | undefined;
}

/** Input for the collector of the whole cluster; one runs per cluster (cluster-collector.ts). */
interface ClusterCollectorInput extends CommonInput {
  /** Undefined: not collected. */
  readonly state?: { readonly intervalMs: number } | undefined;
  readonly events: boolean;
}

/**
 * Set by the supervisor at each start of the collector to free loopback ports, so that ports do not collide and the configuration's bytes
 * do not change.
 */
export const HEALTH_PORT_VARIABLE = "ATHEROPS_COLLECTOR_HEALTH_PORT";
export const METRICS_PORT_VARIABLE = "ATHEROPS_COLLECTOR_METRICS_PORT";
/** Token by which the proxy recognises the collector's own requests with log file lines. */
export const FILES_TOKEN_VARIABLE = "ATHEROPS_FILES_TOKEN";
/** Number of the collector's start, which batches of files have (agent/collector/files/stored-batches.ts); 0 while it is validated. */
export const START_VARIABLE = "ATHEROPS_COLLECTOR_START";
/** The kubeconfig of the collector; on a node it points to the agent (agent/pods/relay.ts). */
export const KUBECONFIG_VARIABLE = "KUBECONFIG";
/** The URL at which the agent serves scrape jobs of monitors and their targets (agent/monitors). */
export const ALLOCATOR_VARIABLE = "ATHEROPS_TARGET_ALLOCATOR";
/** resourceVersion from which a collector of the cluster's events reads; empty: only events after its start. */
export const EVENTS_FROM_VARIABLE = "ATHEROPS_EVENTS_FROM";
/** Bytes that each disk queue may hold, if the disk has too little space for the configured size (supervision/queue-space.ts). */
export const QUEUE_BYTES_VARIABLE = "ATHEROPS_QUEUE_BYTES";
/** `queue_size` of our exporters; capture group 1 is the configured size. */
export const QUEUE_SIZE = new RegExp(`^\\$\\{env:${QUEUE_BYTES_VARIABLE}:-(\\d+)\\}$`);
/**
 * References to environment variables that the collector expands, so render.ts does not escape their `$`. QUEUE_BYTES_VARIABLE is not here:
 * its reference contains the configured size, and QUEUE_SIZE matches it.
 */
export const EXPANDED_REFERENCES = [
  HEALTH_PORT_VARIABLE,
  METRICS_PORT_VARIABLE,
  FILES_TOKEN_VARIABLE,
  `${START_VARIABLE}:-0`,
  KUBECONFIG_VARIABLE,
  ALLOCATOR_VARIABLE,
  EVENTS_FROM_VARIABLE,
].map((name) => `\${env:${name}}`);

/** Exporter of the logs and traces that applications send. If its queue is full, applications get an error and retry. */
export const EXPORTER = "otlp_http/atherops";
/** Exporter of metrics, which have a queue of their own. If it is full, applications get an error and retry. */
export const METRICS_EXPORTER = "otlp_http/atherops-metrics";
/** Exporter of log lines from files and the journal. If its queue is full, reading pauses. */
export const FILES_EXPORTER = "otlp_http/files";
/** All our exporters; each sends to the proxy. */
export const EXPORTERS: readonly string[] = [EXPORTER, METRICS_EXPORTER, FILES_EXPORTER];
export const QUEUE_STORAGE = "file_storage/queue";
/** The same folder as QUEUE_STORAGE, with fsync. File names do not depend on the storage, so queues are kept if an exporter changes it. */
const SYNCED_QUEUE_STORAGE = "file_storage/synced-queue";
const START_PROCESSOR = "resource/start";

export function collectorConfig(input: CollectorInput): CollectorConfig {
  const has = (signal: Signal): boolean => input.signals.includes(signal);
  const usage = [input.kubelet && kubelet(input.kubelet), input.cadvisor && cadvisor(input.cadvisor)].filter((part) => part !== undefined);
  return joinFragments(input, [
    otlp(input.otlp, input.signals),
    has("metrics") && input.hostMetrics ? hostMetrics(input.hostMetrics) : undefined,
    ...(has("metrics") ? (input.workloadNames && usage.length > 0 ? [withWorkloadNames(usage, input.workloadNames)] : usage) : []),
    has("metrics") && input.scrapedPods ? scrapedPods(input.scrapedPods) : undefined,
    has("metrics") && input.monitoredPods ? monitoredPods(input.monitoredPods) : undefined,
    has("logs") && input.files ? files(input.files) : undefined,
    has("logs") && input.journal ? journal(input.journal) : undefined,
    has("logs") && input.podLogs ? podLogs(input.podLogs) : undefined,
  ]);
}

/** Contains a pipeline for state and one for events, if they are enabled. */
export function clusterCollectorConfig(input: ClusterCollectorInput): CollectorConfig {
  return joinFragments(input, [
    input.state && clusterState(input.state),
    input.events ? kubernetesEvents(`\${env:${EVENTS_FROM_VARIABLE}}`) : undefined,
  ]);
}

function joinFragments(input: CommonInput, parts: readonly (Fragment | undefined)[]): CollectorConfig {
  const fragments = parts.filter((fragment) => fragment !== undefined);
  const pipelines = fragments.flatMap((fragment) => fragment.pipelines);
  const exporters = new Set(pipelines.map(chooseExporter));
  return {
    extensions: extensions(input),
    receivers: Object.assign({}, ...fragments.map((fragment) => fragment.receivers)) as Record<string, Component>,
    processors: {
      memory_limiter: { check_interval: "1s", limit_mib: input.memoryMib, spike_limit_mib: Math.floor(input.memoryMib / 5) },
      "resource/node": { attributes: Object.entries(input.resource).map(([key, value]) => ({ key, value, action: "insert" })) },
      ...(exporters.has(FILES_EXPORTER) && {
        [START_PROCESSOR]: { attributes: [{ key: START_ATTRIBUTE, value: `\${env:${START_VARIABLE}:-0}`, action: "insert" }] },
      }),
      ...(Object.assign({}, ...fragments.map((fragment) => fragment.processors)) as Record<string, Component>),
      ...editProcessors(input.edits, input.signals),
    },
    exporters: {
      [EXPORTER]: exporter(input, compressionConfig(input.compression), false),
      ...(exporters.has(METRICS_EXPORTER) && { [METRICS_EXPORTER]: exporter(input, compressionConfig(input.compression), false) }),
      ...(exporters.has(FILES_EXPORTER) && { [FILES_EXPORTER]: exporter(input, FILE_LINES, true) }),
    },
    service: {
      extensions: Object.keys(extensions(input)),
      telemetry: telemetry(input.logLevel),
      pipelines: Object.fromEntries(
        pipelines.map((pipeline) => {
          const { id, receivers, processors, blocks } = pipeline;
          return [
            id,
            {
              receivers,
              // A full queue already slows down reading. If the memory limiter refused lines, the reader would keep refused lines in memory
              // and lose them on shutdown.
              processors: [
                ...(blocks ? [] : ["memory_limiter"]),
                ...processors,
                "resource/node",
                ...editProcessorIds(parseSignal(id), input.edits),
                ...(blocks ? [START_PROCESSOR] : []),
              ],
              exporters: [chooseExporter(pipeline)],
            },
          ];
        }),
      ),
    },
  };
}

function chooseExporter({ id, blocks }: Pick<FragmentPipeline, "id" | "blocks">): string {
  if (blocks) return FILES_EXPORTER;
  return parseSignal(id) === "metrics" ? METRICS_EXPORTER : EXPORTER;
}

/** Returns the signal of a pipeline id such as `logs/pods`. */
function parseSignal(pipeline: string): Signal {
  return pipeline.split("/")[0] as Signal;
}

function extensions({ stateDir, queueFsync }: CommonInput): Record<string, Component> {
  // The option `recreate` is not used, because it detects only some kinds of damage, does not report the lost data and keeps every old file;
  // supervision/damaged-stores.ts replaces it.
  const store = (name: string): Component => ({ directory: `${stateDir}/${name}`, create_directory: true });
  const queue = { ...store("queue"), compaction: { on_rebound: true, directory: `${stateDir}/queue`, cleanup_on_start: true } };
  return {
    health_check: { endpoint: `127.0.0.1:\${env:${HEALTH_PORT_VARIABLE}}` },
    // Two stores: a full or corrupt queue must not destroy the file offsets. The collector maps the file of a queue into memory, and would map
    // a full one twice to compact it at its start; the file of an empty one is removed then (supervision/queue-space.ts).
    [QUEUE_STORAGE]: queue,
    ...(queueFsync && { [SYNCED_QUEUE_STORAGE]: { ...queue, fsync: true } }),
    [CHECKPOINT_STORAGE]: store("checkpoints"),
  };
}

/** The lowest level already shrinks telemetry tenfold, and the node's CPU belongs to its workloads. */
function compressionConfig(compression: Compression): Component {
  return { compression, ...(compression !== "none" && { compression_params: { level: 1 } }) };
}

/** Uncompressed, because the proxy removes the offset of each line (agent/collector/files/file-batch.ts) and then compresses the body. */
const FILE_LINES: Component = { compression: "none", headers: { [FILES_HEADER]: `\${env:${FILES_TOKEN_VARIABLE}}` } };

function exporter({ proxy, queueBytes, queueFsync }: CommonInput, body: Component, blocks: boolean): Component {
  return {
    endpoint: proxyUrl(proxy),
    encoding: "proto",
    ...body,
    timeout: "30s",
    // 0: retried without limit, however long the backend is unavailable.
    retry_on_failure: { enabled: true, initial_interval: "1s", max_interval: "30s", max_elapsed_time: "0s" },
    sending_queue: {
      enabled: true,
      // Lines are read again from their files after a power failure: their offsets are not fsynced either.
      storage: queueFsync && !blocks ? SYNCED_QUEUE_STORAGE : QUEUE_STORAGE,
      sizer: "bytes",
      queue_size: `\${env:${QUEUE_BYTES_VARIABLE}:-${queueBytes}}`,
      num_consumers: 4,
      block_on_overflow: blocks,
      batch: { sizer: "bytes", max_size: MAX_BATCH_BYTES, ...(blocks ? BATCHED : UNBATCHED) },
    },
  };
}

/**
 * Each batch of a source becomes one entry of the disk queue and one request, split only if it is too large. A request that is repeated
 * after a crash therefore has the same bytes, and the backend stores it once.
 */
const UNBATCHED: Component = { min_size: 0, flush_timeout: "200ms" };

/**
 * New lines of all files are batched for at most one second. An entry leaves the disk queue after the response to its request
 * (exporterhelper v0.149, partition_batcher.go); after a crash, the proxy recognises entries in whatever request they arrive
 * (agent/collector/files). Batches are not larger, because entries stay in flight until the response to their batch, and the queue rewrites
 * its list of in-flight entries on every state change (docs/adr/0053-queue-in-the-collector.md).
 */
const BATCHED: Component = { min_size: 262_144, flush_timeout: "1s" };

export function proxyUrl({ host, port }: ListenAddress): string {
  return `http://${joinHostPort(host, port)}`;
}

/** The collector logs one level less than LOG_LEVEL: its `info` lines at each start would bury the agent's own. */
const COLLECTOR_LEVEL: Readonly<Record<LogLevel, LogLevel>> = { debug: "info", info: "warn", warn: "warn", error: "error" };

function telemetry(level: LogLevel): Component {
  return {
    logs: { level: COLLECTOR_LEVEL[level], encoding: "json" },
    metrics: {
      level: "normal",
      readers: [
        {
          pull: {
            exporter: {
              prometheus: {
                host: "127.0.0.1",
                port: `\${env:${METRICS_PORT_VARIABLE}}`,
                without_type_suffix: true,
                without_units: true,
                without_scope_info: true,
              },
            },
          },
        },
      ],
    },
  };
}
