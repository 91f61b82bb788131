// Collects logs of the node's pods, which container runtimes write under /var/log/pods (CRI, Docker). The agent's own pod is excluded, because
// each line about sending lines would cause another. Invariants: no file is read before the pods' opt-outs are known; a line is passed on in
// the call that read its end, which the collector's operator `container` does not do (docs/adr/0035-no-container-operator.md).
import type { Fragment } from "./fragment.ts";
import { fileReaderSettings } from "./host-logs.ts";
import { logFields } from "./log-fields.ts";
import { NOT_IN_SAMPLE, POLICIES, POLICIES_ID, POLICY_ATTRIBUTES } from "./pod-log-policies.ts";
import { fileAttributes, DEPLOYMENT_NAMES, DEPLOYMENT_NAMES_ID, type KubernetesInput, OPT_OUT_ATTRIBUTE } from "./kubernetes-attributes.ts";

export interface PodLogsInput {
  readonly kubernetes: KubernetesInput;
  readonly ownPodUid: string;
  readonly excludeNamespaces: readonly string[];
  readonly maxAgeMs: number;
  readonly multilineStart?: string | undefined;
  /** Level, time and trace are parsed from the line. */
  readonly readsFields: boolean;
  /** True if annotations of pods redact and sample their logs. */
  readonly hasPolicies?: boolean;
  /** Namespaces that override `multilineStart` or `readsFields`. */
  readonly namespaces?: readonly NamespaceLogs[];
}

export interface NamespaceLogs {
  readonly namespace: string;
  readonly multilineStart?: string | undefined;
  readonly readsFields?: boolean | undefined;
}

export const PODS_RECEIVER = "file_log/pods";

const ROOT = "/var/log/pods";
const POLL_INTERVAL_MS = 200;

export function podLogs(input: PodLogsInput): Fragment {
  return {
    receivers: {
      [PODS_RECEIVER]: {
        // The kubelet renames 0.log to 0.log.<date>-<time> and compresses it only at the rotation after.
        include: [`${ROOT}/*/*/*.log`, `${ROOT}/*/*/*.log.2???????-??????`],
        exclude: [`${ROOT}/*_${input.ownPodUid}/*/*`, ...input.excludeNamespaces.map((name) => `${ROOT}/${name}_*/*/*`)],
        ...fileReaderSettings(input.maxAgeMs, POLL_INTERVAL_MS),
        include_file_name: false,
        include_file_path: true,
        // Bytes are read unchanged; sanitize_utf8 below replaces invalid ones.
        encoding: "utf8-raw",
        // If a line continues in the next one, its trailing spaces are in the middle of the text.
        preserve_trailing_whitespaces: true,
        operators: [...CONTAINER_FORMAT, ...multilineOperators(input), ...fieldOperators(input), SOURCE],
      },
    },
    processors: {
      "k8s_attributes/files": fileAttributes(input.kubernetes, input.hasPolicies ? POLICY_ATTRIBUTES : []),
      ...(input.hasPolicies && { [POLICIES_ID]: POLICIES }),
      [DEPLOYMENT_NAMES_ID]: DEPLOYMENT_NAMES,
      "filter/opted-out": {
        error_mode: "ignore",
        logs: { log_record: [`resource.attributes["${OPT_OUT_ATTRIBUTE}"] == "false"`, ...(input.hasPolicies ? [NOT_IN_SAMPLE] : [])] },
      },
    },
    pipelines: [
      {
        id: "logs/pods",
        receivers: [PODS_RECEIVER],
        processors: ["k8s_attributes/files", "filter/opted-out", ...(input.hasPolicies ? [POLICIES_ID] : []), DEPLOYMENT_NAMES_ID],
        blocks: true,
      },
    ],
  };
}

/** A time in a line is ignored if it is more than a day before the runtime's time. */
const FIELDS = logFields({ hasRuntimeTime: true, maxAgeMs: 86_400_000 });
const FIRST_FIELD = "fields-colours";

/** Without a better name, the container's name is the log's source. */
const SOURCE = {
  type: "copy",
  id: "source",
  from: 'resource["k8s.container.name"]',
  to: 'resource["service.name"]',
  if: 'resource["k8s.container.name"] != nil',
};

/**
 * Standard output and standard error of a container share a file, and their lines alternate, so each is combined by an operator of its own.
 * The incomplete record is only in memory: a collector that is killed loses up to two seconds of it. Lines without a preceding first line
 * become records of their own, so that pods with another format keep their lines.
 */
function recombineLines(start: string | undefined, id: string, condition: string | undefined): object[] {
  if (start === undefined) return [];
  return ['attributes["log.iostream"] == "stderr"', 'attributes["log.iostream"] != "stderr"'].map((isStream, index) => ({
    type: "recombine",
    id: `${id}-${index === 0 ? "stderr" : "stdout"}`,
    if: condition === undefined ? isStream : `${isStream} and ${condition}`,
    combine_field: "body",
    is_first_entry: `body matches ${JSON.stringify(start)}`,
    source_identifier: 'attributes["log.file.path"]',
    max_unmatched_batch_size: 1,
    force_flush_period: "2s",
    max_log_size: "1MiB",
  }));
}

function multilineOperators({ multilineStart, namespaces = [] }: PodLogsInput): object[] {
  const special = namespaces.filter((policy) => policy.multilineStart !== undefined);
  const others = special.length > 0 ? `not (${isInNamespaces(special)})` : undefined;
  return [
    ...special.flatMap((policy) => recombineLines(policy.multilineStart, `multiline-${policy.namespace}`, isInNamespaces([policy]))),
    ...recombineLines(multilineStart, "multiline", others),
  ];
}

function fieldOperators({ readsFields, namespaces = [] }: PodLogsInput): object[] {
  const others = namespaces.filter((policy) => policy.readsFields === !readsFields);
  if (others.length === 0) return readsFields ? FIELDS : [];
  const routes = [{ expr: isInNamespaces(others), output: readsFields ? "source" : FIRST_FIELD }];
  return [{ type: "router", id: "fields", routes, default: readsFields ? FIRST_FIELD : "source" }, ...FIELDS];
}

function isInNamespaces(policies: readonly NamespaceLogs[]): string {
  return `resource["k8s.namespace.name"] in ${JSON.stringify(policies.map(({ namespace }) => namespace))}`;
}

const CRI_LINE = "^(?P<time>[^ ]+) (?P<stream>stdout|stderr) (?P<logtag>[^ ]*) ?(?P<log>.*)$";
const IS_CRI = "attributes.logtag != nil";
/**
 * The parts of a long line (tag P, 16 KiB each) are held in memory until the last one (F) arrives: a collector that is killed in between
 * loses the earlier parts. The runtime writes all parts at once.
 */
const MAX_LINE = "1MiB";

/**
 * …/<namespace>_<pod>_<uid>/<container>/<restarts>.log, also as the kubelet renames it. A static pod's uid in the path is the hash of its
 * manifest, 32 digits, and differs from its uid in the API: it is ignored, so the pod is found by name.
 */
const PATH =
  "^.*/(?P<namespace>[^_]+)_(?P<pod>[^_]+)_(?:(?P<uid>[a-f0-9]+-[a-f0-9-]+)|[a-f0-9]+)/(?P<container>[^._]+)/(?P<restarts>\\d+)\\.log(\\.\\d{8}-\\d{6})?$";
const PATH_FIELDS = {
  namespace: "k8s.namespace.name",
  pod: "k8s.pod.name",
  uid: "k8s.pod.uid",
  container: "k8s.container.name",
  restarts: "k8s.container.restart_count",
};

const HAS_PATH_FIELDS = "attributes.of != nil";

/** Operators that extract the line that the container wrote. A line in neither format is passed on unchanged. */
const CONTAINER_FORMAT: readonly object[] = [
  { type: "container", id: "docker", format: "docker", add_metadata_from_filepath: false, if: 'body startsWith "{"' },
  {
    type: "regex_parser",
    id: "cri",
    regex: CRI_LINE,
    if: 'attributes["log.iostream"] == nil',
    timestamp: { parse_from: "attributes.time", layout_type: "gotime", layout: "2006-01-02T15:04:05.999999999Z07:00" },
  },
  ...["stdout", "stderr"].map((stream) => ({
    type: "recombine",
    id: `cri-parts-${stream}`,
    if: `attributes.stream == "${stream}"`,
    combine_field: "attributes.log",
    combine_with: "",
    is_last_entry: 'attributes.logtag == "F"',
    source_identifier: 'attributes["log.file.path"]',
    max_batch_size: 0,
    max_unmatched_batch_size: 0,
    max_log_size: MAX_LINE,
  })),
  { type: "move", from: "attributes.log", to: "body", if: IS_CRI },
  { type: "move", from: "attributes.stream", to: 'attributes["log.iostream"]', if: IS_CRI },
  { type: "remove", field: "attributes.time", if: IS_CRI },
  { type: "remove", field: "attributes.logtag", if: IS_CRI },
  // Only after parts are joined: a part of a long line may end in the middle of a character.
  { type: "sanitize_utf8", field: "body" },
  {
    type: "regex_parser",
    id: "path",
    regex: PATH,
    parse_from: 'attributes["log.file.path"]',
    parse_to: "attributes.of",
    cache: { size: 512 },
  },
  ...Object.entries(PATH_FIELDS).map(([part, field]) => ({
    type: "move",
    from: `attributes.of.${part}`,
    to: `resource["${field}"]`,
    if: part === "uid" ? `${HAS_PATH_FIELDS} and attributes.of.uid != ""` : HAS_PATH_FIELDS,
  })),
  { type: "remove", field: "attributes.of", if: HAS_PATH_FIELDS },
];
