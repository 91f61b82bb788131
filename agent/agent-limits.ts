// The limits of the agent. docs/reference/limits.md is generated from this file: each limit has one sentence, and its unit is in its name.

/** @internal Characters of one line of the collector's output; the rest of the line is dropped. */
export const MAX_LINE_LENGTH = 64 * 1024;
/**
 * @internal A line that is too long is cut up to this many characters earlier, so that no secret of this length is cut in two and left
 * unmasked.
 */
export const MAX_SECRET_LENGTH = 8 * 1024;
/** @internal Characters of output that are shown as the reason of the collector's exit. */
export const MAX_REASON_LENGTH = 2000;
/** @internal Protobuf bytes of one batch. */
export const MAX_BATCH_BYTES = 4_000_000;
/**
 * @internal Share of the disk space that all disk queues of one collector together may use; the space is what is free plus what the
 * queues occupy.
 */
export const QUEUE_DISK_SHARE = 0.5;
/** @internal Minimum size of each disk queue, even on a full disk. */
export const MIN_QUEUE_BYTES = 1024 * 1024;
/** @internal Longer metadata of a disk queue is not read; the metadata has 8 bytes for each entry that is being sent. */
export const MAX_METADATA_BYTES = 1024 * 1024;
/**
 * @internal Attributes of a point that are kept if its metric has the name of one of the agent's metrics, with the one that the agent adds.
 */
export const MAX_CLAIMED_ATTRIBUTES = 16;
/** @internal The collector reads no fields from a JSON line of this size or more. */
export const MAX_PARSED_LINE_BYTES = 65_536;
/** @internal Distinct outages of receivers that are tracked. */
export const MAX_OUTAGES = 100;
/**
 * @internal An outage is over if its error is not repeated for this time, or for three pauses between its errors (at least 30 s) if that is
 * shorter.
 */
export const MAX_QUIET_MS = 15 * 60_000;
/** Globs of log files in the remote configuration of a host. */
export const MAX_REMOTE_PATHS = 100;
/** @internal Characters that are read from a run of the collector that validates a configuration. */
export const MAX_VALIDATION_OUTPUT = 1_000_000;
/** @internal Maximum length of a file name on Linux. */
export const MAX_NAME_BYTES = 255;
/** Bytes at the beginning of a log file by which the collector identifies it. */
export const FINGERPRINT_BYTES = 4096;
/**
 * Deleted or rotated log files that the agent of a host keeps open until they are read; above this, the oldest are closed, and their unread
 * lines are lost.
 */
export const MAX_GONE_FILES = 1000;
/** Log files of a host that are open at one time; fewer if the process may not open so many files. */
export const MAX_OPEN_FILES = 20_000;
/**
 * @internal Stored lines of log files that are remembered until the collector has saved their offsets; the collector stores these after
 * each pass.
 */
export const MAX_STORED_LINES = 500_000;
/** @internal Stored batches of log lines that are remembered, because a killed collector may send them again. */
export const MAX_RESENT_BATCHES = 6000;
/** @internal Periods around an unclean end of the collector in which lines may have been read twice. */
export const MAX_DOUBT_PERIODS = 32;
/** Size of a line of a host's log file; the collector splits longer ones into several records. */
export const MAX_FILE_LINE_BYTES = 1024 * 1024;
/** @internal Resources, scopes and records of a request that is split; the collector sends far fewer in one batch. */
export const MAX_REQUEST_PARTS = 500_000;
/** @internal Requests without a response; the collector has far fewer in flight. */
export const MAX_UNANSWERED_REQUESTS = 64;
/** @internal Connections to the pod relay. */
export const MAX_RELAY_CONNECTIONS = 64;
/** @internal Additional connections if monitors are scraped, because the collector reads the targets of all jobs at once. */
export const MAX_TARGETS_CONNECTIONS = 1024;
/** @internal A watch with more unread bytes is closed. */
export const MAX_UNREAD_BYTES = 4 * 1024 * 1024;
/**
 * Scrape jobs that an agent makes from ServiceMonitors and PodMonitors: one for each endpoint and, for a ServiceMonitor, each of its
 * Services.
 */
export const MAX_MONITOR_JOBS = 1000;
/** @internal JSON of one scrape job; repetitions in its regular expressions count several times. */
export const MAX_MONITOR_JOB_CHARACTERS = 64 * 1024;
/** @internal JSON of all scrape jobs of an agent, counted in the same way; namespaces share it. */
export const MAX_MONITOR_CHARACTERS = 1024 * 1024;
/** @internal Endpoints of one namespace's monitors that are examined; each counts once per Service that its monitor selects. */
export const MAX_MONITOR_TARGETS = 10_000;
/** @internal JSON of the targets of one pod for ServiceMonitors and PodMonitors; its further ports are not scraped. */
export const MAX_POD_TARGETS_CHARACTERS = 256 * 1024;
/** @internal JSON of the targets of all these jobs on a node; if it is exceeded, the largest jobs lose targets. */
export const MAX_NODE_TARGETS_CHARACTERS = 8 * 1024 * 1024;
/**
 * @internal Bytes of one page of a list of monitors, Services, namespaces or LogPolicy objects; a larger page is requested again as smaller
 * pages.
 */
export const MAX_MONITOR_PAGE_BYTES = 4 * 1024 * 1024;
/**
 * JSON, in characters, of what the agent uses of all ServiceMonitors, all PodMonitors, or all Services of one namespace; further objects
 * are ignored.
 */
export const MAX_NAMESPACE_OBJECT_CHARACTERS = 2 * 1024 * 1024;
/**
 * JSON, in characters, of what the agent uses of all ServiceMonitors, all PodMonitors, all Services, or all LogPolicy objects. If it is
 * exceeded, objects of the largest namespaces are ignored; for LogPolicy objects, pod logs of these namespaces are not sent.
 */
export const MAX_OBJECT_CHARACTERS = 8 * 1024 * 1024;
/** Characters of a regular expression in an annotation or a LogPolicy. */
export const MAX_POLICY_REGEX_CHARACTERS = 256;
/** @internal Characters of such an expression with expanded repetitions. */
export const MAX_POLICY_EXPANDED_CHARACTERS = 2048;
/** Namespaces whose annotations change the collector's configuration; the oldest namespaces count. */
export const MAX_POLICY_NAMESPACES = 100;
/**
 * JSON, in characters, of the names of all namespaces with their annotations for logs; if it is exceeded, pod logs of some namespaces are
 * not sent.
 */
export const MAX_NAMESPACES_CHARACTERS = 2 * 1024 * 1024;
/** JSON, in characters, of the LogPolicy objects of one namespace; if it is exceeded, the namespace's pod logs are not sent. */
export const MAX_NAMESPACE_POLICY_CHARACTERS = 64 * 1024;
/** LogPolicy objects of one namespace; of more, only the oldest are applied. */
export const MAX_NAMESPACE_POLICIES = 8;
/** @internal JSON of the selector of a LogPolicy; one with a longer selector is invalid. */
export const MAX_SELECTOR_CHARACTERS = 4096;
/** @internal Namespaces for which bytes that rate limits dropped are counted separately. */
export const MAX_RATE_NAMESPACES = 100;
/** @internal Files and folders of one pod that are read to measure how its logs grow. */
export const MAX_RATED_FILES = 1000;
/** A line of a pod with redaction by annotation or LogPolicy is cut to this size. */
export const MAX_REDACTED_LINE_BYTES = 65_536;
/** @internal A larger pod is stored without ports and long annotations, and if necessary without owners and with fewer labels. */
export const MAX_POD_CHARACTERS = 64 * 1024;
/** @internal Small chunks of a body are joined up to this size, because each chunk costs additional memory. */
export const MAX_SMALL_PIECES_BYTES = 16 * 1024;
/** @internal A longer `Retry-After` of the backend is reduced to this. */
export const MAX_RETRY_AFTER_S = 300;
/**
 * Invalid records of one request of the collector that the agent leaves out one by one; with more, valid records of the request can be
 * lost too.
 */
export const MAX_INVALID_RECORDS = 64;
/** @internal Batches for which the agent remembers which parts were delivered. */
export const MAX_PARTLY_SENT_BATCHES = 64;
/** @internal The backend's limit of a request body. */
export const MAX_BODY_BYTES = 32 * 1024 * 1024;
/** @internal Decompressed bodies that the proxy reads or splits before it forwards them. */
export const MAX_JSON_BODY_BYTES = 2 * MAX_BODY_BYTES;
/** @internal Connections to the proxy. */
export const MAX_PROXY_CONNECTIONS = 512;
