// The limits of the agent. docs/reference/limits.md is generated from this file: each limit has one sentence, and its unit is in its name.

// collector/supervision/child-log.ts
/** Characters of one line of the collector's output; the rest of the line is dropped. */
export const MAX_LINE_LENGTH = 64 * 1024;
/** Characters kept from one piece of output to the next, so that a secret across two pieces is masked. */
export const MAX_SECRET_LENGTH = 8 * 1024;
/** Characters of the output that is shown as the reason why the collector ended. */
export const MAX_REASON_LENGTH = 2000;

// collector/config/collector-config.ts
/** Protobuf bytes of one batch; the same data as JSON stays far below the backend's 32 MiB. */
export const MAX_BATCH_BYTES = 4_000_000;

// collector/supervision/queue-space.ts
/** Part of the disk space, free or occupied by disk queues, that all queues together may use. */
export const QUEUE_DISK_SHARE = 0.5;
/** Bytes that each disk queue may hold however little space the disk has; below it, nothing new would ever be queued. */
export const MIN_QUEUE_BYTES = 1024 * 1024;

// collector/supervision/queue-file.ts
/** Longer metadata of a disk queue is not read; it has 8 bytes for each entry that is being sent. */
export const MAX_METADATA_BYTES = 1024 * 1024;

// collector/config/fragments/otlp.ts
/** Attributes kept of an OTLP resource; a series has at most 35 labels, and the sender's own must fit. */
export const MAX_CLAIMED_ATTRIBUTES = 16;

// collector/config/fragments/log-fields.ts
/** A longer log line is not parsed for fields. */
export const MAX_PARSED_LINE_BYTES = 65_536;

// collector/supervision/child-log.ts, of outages
/** Distinct outages of the collector's components that are remembered. */
export const MAX_OUTAGES = 100;
/** An error that is not repeated within this time is over, or was no outage. */
export const MAX_QUIET_MS = 15 * 60_000;

// collector/config/remote-config.ts
/** Globs of log files in a remote configuration. */
export const MAX_REMOTE_PATHS = 100;

// collector/supervision/config-files.ts
/** Characters that are read from a run of the collector that validates a configuration. */
export const MAX_VALIDATION_OUTPUT = 1_000_000;

// collector/files/link-name.ts
/** Linux allows no longer name in a folder. */
export const MAX_NAME_BYTES = 255;

// collector/files/log-files.ts
/** Deleted files that stay open; their disk space is freed only when they are closed. */
export const MAX_GONE_FILES = 1000;
/** Log files that are open at one time. */
export const MAX_OPEN_FILES = 20_000;

// collector/files/stored-batches.ts
/** Batches of a log file that are remembered, of 100 lines each: 5 million lines. */
export const MAX_STORED_BATCHES = 50_000;
/** A killed collector sends again what was still in its queue: about 110 of the smallest batches in each of six requests. */
export const MAX_RESENT_BATCHES = 800;
/** Periods around an unclean end of the collector in which lines may have been read twice. */
export const MAX_DOUBT_PERIODS = 32;

// collector/files/unanswered-requests.ts
/** Far more than the collector has in flight. */
export const MAX_UNANSWERED_REQUESTS = 64;

// pods/relay.ts
/** About ten components of the collector connect, with one or two connections each. */
export const MAX_RELAY_CONNECTIONS = 64;
/** In addition, if monitors are scraped: the collector reads the targets of all their jobs at once. */
export const MAX_TARGETS_CONNECTIONS = 1024;
/** A watch that lets more events pile up is closed. */
export const MAX_UNREAD_BYTES = 4 * 1024 * 1024;

// monitors/scrape-jobs.ts
/** Scrape jobs of ServiceMonitors and PodMonitors: an endpoint of a monitor, for each Service that it selects. */
export const MAX_MONITOR_JOBS = 1000;
/** JSON of one scrape job, plus eight times the length of its regular expressions with their repetitions written out. */
export const MAX_MONITOR_JOB_CHARACTERS = 64 * 1024;

// monitors/fair-share.ts
/**
 * JSON of all scrape jobs of a node, with regular expressions counted in the same way; namespaces share it. The collector (v0.149) needs
 * 200 MiB and 1 s of CPU to read 1 MiB.
 */
export const MAX_MONITOR_CHARACTERS = 1024 * 1024;
/** Endpoints that are examined of the monitors of one namespace; each counts once per Service that its monitor selects. */
export const MAX_MONITOR_TARGETS = 10_000;

// monitors/pod-targets.ts
/** JSON of the targets of one pod, each of which repeats the labels of the pod; ports beyond it are not scraped. */
export const MAX_POD_TARGETS_CHARACTERS = 256 * 1024;

// monitors/monitors.ts
/** JSON of the targets of all jobs of a node; beyond it, the largest jobs have only some of their targets. */
export const MAX_NODE_TARGETS_CHARACTERS = 8 * 1024 * 1024;

// kubernetes/object-watch.ts
/** Bytes of one page of a list of monitors or Services; larger ones are read again in smaller pages. */
export const MAX_MONITOR_PAGE_BYTES = 4 * 1024 * 1024;
/** Characters of JSON that are kept of all monitors of one namespace, or of all its Services; further objects are not used. */
export const MAX_NAMESPACE_OBJECT_CHARACTERS = 2 * 1024 * 1024;
/** Characters of JSON that are kept of all objects of one kind; beyond it, objects of the largest namespaces are not used. */
export const MAX_OBJECT_CHARACTERS = 8 * 1024 * 1024;

// policies/policy-values.ts
/** Characters of a regular expression in an annotation or a LogPolicy. */
export const MAX_POLICY_REGEX_CHARACTERS = 256;
/** Characters of such an expression with its repetitions written out. */
export const MAX_POLICY_EXPANDED_CHARACTERS = 2048;

// policies/log-policies.ts
/** Namespaces whose annotations change the configuration of the collector; the oldest. */
export const MAX_POLICY_NAMESPACES = 100;

/** JSON of the annotations of all namespaces; beyond it, logs of the pods of the largest are not read. */
export const MAX_NAMESPACES_CHARACTERS = 2 * 1024 * 1024;

// policies/policy-resources.ts
/** JSON of the LogPolicy objects of one namespace; beyond it, logs of its pods are not read. */
export const MAX_NAMESPACE_POLICY_CHARACTERS = 64 * 1024;
/** LogPolicy objects of one namespace that are applied; the oldest. The collector matches the redaction of each with every line. */
export const MAX_NAMESPACE_POLICIES = 8;
/** JSON of the selector of a LogPolicy; one with a longer selector is invalid. */
export const MAX_SELECTOR_CHARACTERS = 4096;

// policies/log-rates.ts
/** Namespaces with their own count of the bytes that rate limits dropped. */
export const MAX_RATE_NAMESPACES = 100;
/** Log files of one pod whose growth is measured; the kubelet keeps five per container. */
export const MAX_RATED_FILES = 1000;

// collector/config/fragments/pod-log-policies.ts
/** A line of a pod with redaction by annotation is cut to this size, because each character could become four. */
export const MAX_REDACTED_LINE_BYTES = 65_536;

// pods/node-pods.ts
/** A larger pod is kept without ports and long annotations, and if necessary without owners and with fewer labels. */
export const MAX_POD_CHARACTERS = 64 * 1024;

// proxy/body.ts
/** Small pieces of a body are joined up to this size, because each costs memory of its own. */
export const MAX_SMALL_PIECES_BYTES = 16 * 1024;

// proxy/fast-exposition.ts
/** Larger bodies are converted in TypeScript, because the memory of the kernel never shrinks. */
export const MAX_KERNEL_BODY_BYTES = 4 * 1024 * 1024;
/** More exposition text is converted in TypeScript, which cuts it into several requests. */
export const MAX_KERNEL_TEXT_BYTES = 16 * 1024 * 1024;
/** Metrics that the kernel may leave to TypeScript; with more, TypeScript alone is cheaper. */
export const MAX_LEFT_METRICS = 500;
/** Labels of a resource, which are repeated in each line. */
export const MAX_HEAD_BYTES = 16 * 1024;

// proxy/forward.ts
/** A longer `Retry-After` is cut, so that a wrong header cannot stop a node for a day. */
export const MAX_RETRY_AFTER_S = 300;

// proxy/part-sender.ts
/** Number of batches for which the agent remembers the parts that were already delivered. */
export const MAX_PARTLY_SENT_BATCHES = 64;

// proxy/server.ts
/** The backend's limit for a body. */
export const MAX_BODY_BYTES = 32 * 1024 * 1024;
/** Bodies that the proxy converts or splits before it forwards them. */
export const MAX_JSON_BODY_BYTES = 2 * MAX_BODY_BYTES;
/** The collector has about twenty; other programs of the machine may open more. */
export const MAX_PROXY_CONNECTIONS = 512;
