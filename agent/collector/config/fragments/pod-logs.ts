// Collects logs of the node's pods, which container runtimes write under /var/log/pods (CRI, Docker). The agent's own pod is excluded, because
// each line about sending lines would cause another. Invariants: no file is read before the pods' opt-outs are known; a line is passed on in
// the call that read its end, which the collector's operator `container` does not do (docs/adr/0035-no-container-operator.md); unless an
// option needs the text of a line on the node, a line has no operator but those that join the parts of a long line.
import type { Component, Fragment } from "./fragment.ts";
import { CRI_LINES, fileAttributesFrom, LINES, nameScope, type NodeParsing, withoutFields } from "./file-lines.ts";
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
  /** What the collector parses of a line; with `multilineStart`, at least the text. */
  readonly parsing: NodeParsing;
  /** Level, time and trace are parsed from the line, here or in the backend. */
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
/** Where the collector stores file offsets, relative to the state folder. */
export const POD_OFFSETS_FILE = "checkpoints/receiver_filelog_pods";

const MAX_LINE = "1MiB";
/** Files with incomplete lines. Above it, the collector would flush the lines of all files together, as lines of one. */
const MAX_SOURCES = 1_000_000;

const ROOT = "/var/log/pods";
const POLL_INTERVAL_MS = 200;

export function podLogs(input: PodLogsInput): Fragment {
  const processors = [
    POD_FILES_ID,
    "k8s_attributes/files",
    "filter/opted-out",
    ...(input.hasPolicies ? [POLICIES_ID] : []),
    DEPLOYMENT_NAMES_ID,
  ];
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
        operators: lineOperators(input),
      },
    },
    processors: {
      [POD_FILES_ID]: podFiles(input),
      "k8s_attributes/files": fileAttributes(input.kubernetes, input.hasPolicies ? POLICY_ATTRIBUTES : []),
      ...(input.hasPolicies && { [POLICIES_ID]: POLICIES }),
      [DEPLOYMENT_NAMES_ID]: DEPLOYMENT_NAMES,
      "filter/opted-out": {
        error_mode: "ignore",
        log_conditions: [
          { context: "resource", conditions: [`resource.attributes["${OPT_OUT_ATTRIBUTE}"] == "false"`] },
          ...(input.hasPolicies ? [{ context: "log", conditions: [NOT_IN_SAMPLE] }] : []),
        ],
      },
    },
    pipelines: [{ id: "logs/pods", receivers: [PODS_RECEIVER], processors, blocks: true }],
  };
}

/** A time in a line is ignored if it is more than a day before the runtime's time. */
const FIELDS = logFields({ hasRuntimeTime: true, maxAgeMs: 86_400_000 });
const FIRST_FIELD = "fields-colours";
const END = "lines-end";

/** Operators of each line. Those of namespaces with a format of their own apply only to their lines. */
function lineOperators(input: PodLogsInput): object[] {
  const { multilineStart, namespaces = [] } = input;
  if (parsingOf(input) !== "nothing")
    return [...CONTAINER_FORMAT, ...multilineOperators(input), ...fieldOperators(input), { type: "noop", id: END }];
  const special = namespaces.filter((policy) => policy.multilineStart !== undefined && multilineStart === undefined);
  if (special.length === 0) return [...PARTS];
  const [first] = CONTAINER_FORMAT as readonly { readonly id: string }[];
  const routes = [{ expr: isInNamespaces(special), output: first?.id }];
  const parts = PARTS.map((operator, index) => (index === PARTS.length - 1 ? { ...operator, output: END } : operator));
  return [
    { type: "router", id: "formats", routes, default: PARTS[0]?.id },
    ...parts,
    ...CONTAINER_FORMAT,
    ...multilineOperators(input),
    { type: "noop", id: END },
  ];
}

function parsingOf({ parsing, multilineStart }: PodLogsInput): NodeParsing {
  return parsing === "nothing" && multilineStart !== undefined ? "text" : parsing;
}

const STREAMS = ["stderr", "stdout"] as const;
const FIRST_SPACE = 'indexOf(body, " ")';
/**
 * The runtime's prefix is `TIME STREAM TAG `; the tag of a part that is not the last one is P. Only lines that contain these words are
 * examined further.
 */
function startsWith(words: string): string {
  return `body contains " ${words} " and ${FIRST_SPACE} == indexOf(body, " ${words} ")`;
}

/**
 * The parts of a long line (16 KiB each) are held in memory until the last one arrives: a collector that is killed in between loses the
 * earlier parts. The runtime writes all parts at once. The lines of the two streams of a container alternate, so each has its own operator.
 */
const PARTS: readonly { readonly id: string }[] = STREAMS.map((stream) => ({
  type: "recombine",
  max_sources: MAX_SOURCES,
  id: `parts-${stream}`,
  if: startsWith(stream),
  combine_field: "body",
  combine_with: "\n",
  is_last_entry: `not (${startsWith(`${stream} P`)})`,
  source_identifier: 'attributes["log.file.path"]',
  max_batch_size: 0,
  max_unmatched_batch_size: 0,
  max_log_size: MAX_LINE,
}));

const POD_FILES_ID = "transform/pod-files";

function podFiles(input: PodLogsInput): Component {
  const parsing = parsingOf(input);
  const { namespaces = [], readsFields } = input;
  const lines = namespaces.filter((policy) => policy.multilineStart !== undefined);
  const others = namespaces.filter((policy) => policy.readsFields === !readsFields);
  const cri =
    parsing === "nothing" ? [nameScope(CRI_LINES), ...lines.map(({ namespace }) => nameScope(LINES, isNamespace(namespace)))] : [];
  const raw = readsFields
    ? others.map(({ namespace }) => withoutFields(isNamespace(namespace)))
    : [withoutFields(others.length > 0 ? `not (${others.map(({ namespace }) => isNamespace(namespace)).join(" or ")})` : undefined)];
  return fileAttributesFrom({
    resource: PATH_ATTRIBUTES,
    scopes: parsing === "fields" ? [] : [...(parsing === "text" ? [nameScope(LINES)] : cri), ...raw],
    keepsPath: parsing !== "nothing",
  });
}

function isNamespace(namespace: string): string {
  return `resource.attributes["k8s.namespace.name"] == ${JSON.stringify(namespace)}`;
}

/**
 * Standard output and standard error of a container share a file, and their lines alternate, so each is combined by an operator of its own.
 * The incomplete record is only in memory: a collector that is killed loses up to two seconds of it. Lines without a preceding first line
 * become records of their own, so that pods with another format keep their lines.
 */
function recombineLines(start: string | undefined, id: string, condition: string | undefined): object[] {
  if (start === undefined) return [];
  return ['attributes["log.iostream"] == "stderr"', 'attributes["log.iostream"] != "stderr"'].map((isStream, index) => ({
    type: "recombine",
    max_sources: MAX_SOURCES,
    id: `${id}-${index === 0 ? "stderr" : "stdout"}`,
    if: condition === undefined ? isStream : `${isStream} and ${condition}`,
    combine_field: "body",
    is_first_entry: `body matches ${JSON.stringify(start)}`,
    source_identifier: 'attributes["log.file.path"]',
    max_unmatched_batch_size: 1,
    force_flush_period: "2s",
    max_log_size: MAX_LINE,
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

function fieldOperators({ parsing, readsFields, namespaces = [] }: PodLogsInput): object[] {
  if (parsing !== "fields") return [];
  const others = namespaces.filter((policy) => policy.readsFields === !readsFields);
  if (others.length === 0) return readsFields ? FIELDS : [];
  const routes = [{ expr: isInNamespaces(others), output: readsFields ? END : FIRST_FIELD }];
  return [{ type: "router", id: "fields", routes, default: readsFields ? FIRST_FIELD : END }, ...FIELDS];
}

/** The name of a pod's folder begins with the namespace. */
function isInNamespaces(policies: readonly NamespaceLogs[]): string {
  const namespace = 'split(split(attributes["log.file.path"], "/")[-3], "_")[0]';
  return `${namespace} in ${JSON.stringify(policies.map(({ namespace: name }) => name))}`;
}

const CRI_LINE = "^(?P<time>[^ ]+) (?P<stream>stdout|stderr) (?P<logtag>[^ ]*) ?(?P<log>.*)$";
const IS_CRI = "attributes.logtag != nil";
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
const FOUND = "resource.cache";
const PATH_ATTRIBUTES = [
  `merge_maps(${FOUND}, ExtractPatterns(resource.attributes["log.file.path"], ${JSON.stringify(PATH)}), "upsert")`,
  ...Object.entries(PATH_FIELDS).map(
    ([part, field]) =>
      `set(resource.attributes["${field}"], ${FOUND}["${part}"]) where ${FOUND}["${part}"] != nil and ${FOUND}["${part}"] != ""`,
  ),
  // Without a better name, the container's name is the log's source.
  `set(resource.attributes["service.name"], ${FOUND}["container"]) where ${FOUND}["container"] != nil`,
];

/**
 * Operators that extract the line that the container wrote. A line in neither format is passed on unchanged, and not printed: the collector
 * would log what it has parsed of it, before redaction.
 */
const CONTAINER_FORMAT: readonly object[] = [
  {
    type: "container",
    id: "docker",
    format: "docker",
    add_metadata_from_filepath: false,
    if: 'body startsWith "{"',
    on_error: "send_quiet",
  },
  {
    type: "regex_parser",
    id: "cri",
    regex: CRI_LINE,
    if: 'attributes["log.iostream"] == nil',
    on_error: "send_quiet",
    timestamp: { parse_from: "attributes.time", layout_type: "gotime", layout: "2006-01-02T15:04:05.999999999Z07:00" },
  },
  ...STREAMS.map((stream) => ({
    type: "recombine",
    max_sources: MAX_SOURCES,
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
];
