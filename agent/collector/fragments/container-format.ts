// What container runtimes write around each line of a container: time, stream, and whether the line goes on in the next one (CRI:
// containerd, CRI-O), or the same as JSON (Docker). Invariant: a line is handed on within the call that read its end. The collector's own
// operator `container` breaks that for CRI: its lines go through a buffer (100 lines or 100 ms) that a place in the file does not wait for,
// so a killed collector loses them (pkg/stanza v0.149.0, operator/parser/container/config.go, NewBatchingLogEmitter; seen with 8 lines).
// Its Docker half has no buffer. Fields are those of `container`, but for `logtag`, which nobody needs afterwards.

const CRI_LINE = "^(?P<time>[^ ]+) (?P<stream>stdout|stderr) (?P<logtag>[^ ]*) ?(?P<log>.*)$";
const IS_CRI = "attributes.logtag != nil";
/**
 * Of a long line, its parts (tag P, 16 KiB each) are held in memory until the last one (F) is there: a collector killed in between loses
 * those before. The runtime writes them at once.
 */
const MAX_LINE = "1MiB";

/**
 * …/<namespace>_<pod>_<uid>/<container>/<restarts>.log, and as the kubelet renames it. A static pod has the hash of its manifest as uid, 32
 * digits, and the API server another one for it: that is not taken, so that its name leads to the pod.
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

const IS_OF_POD = "attributes.of != nil";

/** The operators that turn a line of a file into the line that the container wrote. A line of neither kind is passed on as it is. */
export const CONTAINER_FORMAT: readonly object[] = [
  { type: "container", id: "docker", format: "docker", add_metadata_from_filepath: false, if: 'body startsWith "{"' },
  {
    type: "regex_parser",
    id: "cri",
    regex: CRI_LINE,
    if: 'attributes["log.iostream"] == nil',
    timestamp: { parse_from: "attributes.time", layout_type: "gotime", layout: "2006-01-02T15:04:05.999999999Z07:00" },
  },
  {
    type: "recombine",
    id: "cri-parts",
    if: IS_CRI,
    combine_field: "attributes.log",
    combine_with: "",
    is_last_entry: 'attributes.logtag == "F"',
    source_identifier: 'attributes["log.file.path"]',
    max_batch_size: 0,
    max_unmatched_batch_size: 0,
    max_log_size: MAX_LINE,
  },
  { type: "move", from: "attributes.log", to: "body", if: IS_CRI },
  { type: "move", from: "attributes.stream", to: 'attributes["log.iostream"]', if: IS_CRI },
  { type: "remove", field: "attributes.time", if: IS_CRI },
  { type: "remove", field: "attributes.logtag", if: IS_CRI },
  // Only now: a part of a long line ends anywhere, also in the middle of a character.
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
    if: part === "uid" ? `${IS_OF_POD} and attributes.of.uid != ""` : IS_OF_POD,
  })),
  { type: "remove", field: "attributes.of", if: IS_OF_POD },
];
