// The log events of the agent. log-events.ts joins this table with the backend's, and explains what an event is.

/** `area.what_happened` → [what it means, what to do]; the second text is empty if nothing has to be done. */
export const AGENT_LOG_EVENTS = {
  "agent.started": ["The agent runs.", ""],
  "agent.stopping": ["The agent received a signal and stops: the collector first, then the proxy.", ""],
  "clock.recovered": ["The clock agrees with the backend's again.", ""],
  "clock.skewed": [
    "The clock of this machine differs from the backend's, so signatures may be refused.",
    "Synchronise the clock, for example with chrony.",
  ],
  "cluster_collector.checkpoint_unknown": ["The position up to which events are delivered cannot be read (LOG_LEVEL=debug).", ""],
  "cluster_collector.election_failed": [
    "The agent cannot take part in the election for cluster-wide collection. It retries.",
    "Check the connection to the Kubernetes API and the permissions for Leases.",
  ],
  "cluster_collector.election_recovered": ["The agent takes part in the election for cluster-wide collection again.", ""],
  "cluster_collector.failed": [
    "The agent is elected, but cannot collect for the cluster. It retries.",
    "Check the error and the log of the collector.",
  ],
  "cluster_collector.recovered": ["Cluster-wide collection works again.", ""],
  "cluster_collector.started": ["This agent collects state and events of the cluster from now on.", ""],
  "cluster_collector.stopped": ["This agent no longer collects state and events of the cluster.", ""],
  "collector.checkpoint_failed": [
    "The agent cannot record which lines are delivered. After a kill, some may arrive twice.",
    "Check the disk of STATE_DIR.",
  ],
  "collector.config_failed": [
    "A new collector configuration cannot be applied; the previous one stays in use. The agent retries.",
    "Check the error.",
  ],
  "collector.config_not_used": ["The new collector configuration is not used.", "Check the error, which comes from the collector."],
  "collector.config_recovered": ["Collector configurations are applied again.", ""],
  "collector.config_rejected": ["The collector refuses its configuration; the previous one stays in use.", "Fix what the error names."],
  "collector.config_unchecked": [
    "The collector configuration could not be validated, and the collector starts with it.",
    "Check the error.",
  ],
  "collector.empty_queue_full": [
    "The disk queue is empty, but the collector cannot write to it. The agent restarts the collector, which compacts the queue.",
    "Free space in STATE_DIR if it happens again.",
  ],
  "collector.empty_queue_kept": ["A file of the disk queue cannot be read, so it is kept.", "Check the disk of STATE_DIR."],
  "collector.empty_queue_removed": ["The file of an empty disk queue was removed before the collector started, to free its space.", ""],
  "collector.exited": [
    "The collector exited unexpectedly. The agent restarts it with backoff.",
    "Check the reason and the log of the collector.",
  ],
  "collector.guard_failed": [
    "The process that ends the collector after the agent was killed cannot start.",
    "Check the limit of processes; the next start of the agent ends a collector that was left.",
  ],
  "collector.lines_already_stored": ["The collector read lines again that the backend has; they are not sent twice (LOG_LEVEL=debug).", ""],
  "collector.orphan_ended": ["A collector of an agent that was killed was still running, and is ended.", ""],
  "collector.progress_unknown": ["The collector did not report its progress (LOG_LEVEL=debug).", ""],
  "collector.queues_resized": ["The disk space for the disk queues changed, so the collector restarts with other limits.", ""],
  "collector.receiver_recovered": ["A receiver of the collector reports no more errors.", ""],
  "collector.record_failed": [
    "The agent cannot write a file about the collector; the collector runs without it.",
    "Check the disk of STATE_DIR.",
  ],
  "collector.skipped_queued_again": [
    "The collector skipped entries of a disk queue while the disk was full; they are queued again.",
    "Free space on the disk of STATE_DIR.",
  ],
  "collector.started": ["The collector has started.", ""],
  "collector.store_check_failed": [
    "A store file of the collector cannot be read or quarantined.",
    "Check the disk and the permissions of STATE_DIR.",
  ],
  "collector.store_damaged": [
    "A store file of the collector is damaged. It is quarantined, and the collector starts with an empty one.",
    "Check the disk of STATE_DIR.",
  ],
  "collector.store_empty": [
    "A store file of the collector is empty, as after a power failure. The collector creates it again.",
    "Check the disk if it happens without a power failure.",
  ],
  "collector.stores_unknown": [
    "The store files cannot be derived from the collector configuration, so they are not checked.",
    "Report it with the configuration.",
  ],
  "collector.supervision_failed": [
    "Supervision of the collector failed because of an internal error. The agent retries.",
    "Report it with the error and its stack.",
  ],
  "collector.waits_for_space": [
    "The disk is full and a disk queue holds entries, so the collector is not started: it could lose them. The agent retries.",
    "Free space on the disk of STATE_DIR.",
  ],
  "heartbeat.failed": ["A heartbeat failed. The agent retries at the next interval.", "Check the connection to the backend."],
  "heartbeat.recovered": ["Heartbeats succeed again.", ""],
  "identity.acting": ["This agent holds the Lease and enrols, rotates or repairs the key of the cluster.", ""],
  "identity.credentials_group_readable": [
    "The group of the credentials file may read the key, and the mount is read-only.",
    "Mount the Secret with defaultMode 0400 or without fsGroup.",
  ],
  "identity.credentials_unreadable": [
    "The credentials file cannot be read again; the known key stays in use.",
    "Check the file and its permissions.",
  ],
  "identity.enrolled": ["The host is enrolled, and its key is in the credentials file.", ""],
  "identity.enrolled_earlier": ["The key of an earlier enrolment is used.", ""],
  "identity.key_adopted": ["The agent has the key of the cluster, or uses a new one from now on.", ""],
  "identity.key_check_failed": ["The backend could not be asked about the key (LOG_LEVEL=debug).", ""],
  "identity.machine_id_not_written": ["The machine id could not be written to the credentials file (LOG_LEVEL=debug).", ""],
  "identity.overtaken": ["Another agent acted first (LOG_LEVEL=debug).", ""],
  "identity.problem": [
    "The agent has no usable identity. `problem` is the code, and the message contains what to do.",
    "Follow the message.",
  ],
  "identity.recovered": ["The agent has a usable identity again.", ""],
  "identity.reread_failed": ["The Secret cannot be read again; the known key stays in use (LOG_LEVEL=debug).", ""],
  "lease.release_failed": ["The Lease was not released and will expire (LOG_LEVEL=debug).", ""],
  "lease.renewal_delayed": ["The Lease was not renewed yet (LOG_LEVEL=debug).", ""],
  "log_files.cut": ["LOG_PATHS match more folders or links than the agent walks.", "Narrow LOG_PATHS."],
  "log_files.hard_link": [
    "Files with another hard link, in a folder that other users can write to, are not read.",
    "Remove the link, or the right of others to write to the folder.",
  ],
  "log_files.limit": ["The limit of open log files is reached; further files are not read.", "Narrow LOG_PATHS."],
  "log_files.link": [
    "The agent cannot make the link through which the collector reads a log file.",
    "Check the space and the disk of STATE_DIR.",
  ],
  "log_files.outside": [
    "Links that lead outside of LOG_PATHS_ALLOWED are not read.",
    "Add the target to LOG_PATHS_ALLOWED if it should be read; otherwise find out who made the link.",
  ],
  "log_files.pass": ["A pass over LOG_PATHS failed. The agent tries again.", "Check the error and the file system that it names."],
  "log_files.removed": [
    "More removed log files are open than the agent keeps, so it closes the oldest. Their unread lines are lost.",
    "Check why the backend does not accept logs.",
  ],
  "log_files.special": ["LOG_PATHS match something other than a regular file; it is not read.", "Narrow LOG_PATHS."],
  "log_files.unreadable": ["Log files cannot be opened.", "Run the agent as root or with CAP_DAC_READ_SEARCH, or narrow LOG_PATHS."],
  "monitors.known": ["ServiceMonitors and PodMonitors are watched again.", ""],
  "monitors.pod_truncated": [
    "A pod has so many labels and ports that its targets take more than 256 KiB; the last ports are not scraped.",
    "Give the pod fewer labels or ports.",
  ],
  "monitors.refused": [
    "A ServiceMonitor or PodMonitor, one of its endpoints, a Probe or a ScrapeConfig is not scraped.",
    'Check the reason; `atherops.io/scrape: "false"` as a label of the monitor suppresses this message.',
  ],
  "monitors.targets_truncated": [
    "The targets of all scrape jobs of this node are too large together. Not all pods of the largest job are scraped.",
    "Shorten the labels of these pods, or use fewer monitors that select them.",
  ],
  "monitors.unknown": [
    "ServiceMonitors, PodMonitors or Services cannot be listed or watched; those that are known stay in use.",
    "Check the connection to the Kubernetes API and the ClusterRole of the chart.",
  ],
  "policies.known": ["Namespaces and LogPolicy objects are watched again.", ""],
  "policies.rates_known": ["The log files of pods with a rate limit are measured again.", ""],
  "policies.rates_unknown": [
    "The log files of pods with a rate limit cannot be measured, so the shares that were last calculated stay in force.",
    "Check that /var/log/pods is mounted in the agent's pod.",
  ],
  "policies.unknown": [
    "Namespaces or LogPolicy objects cannot be listed or watched, or a status cannot be written. Known log policies stay in force; before the first list, logs of pods are not read.",
    "Check the connection to the Kubernetes API and the ClusterRole of the chart.",
  ],
  "permissions.check_failed": ["The permissions of the service account cannot be checked.", "Check the connection to the Kubernetes API."],
  "permissions.granted": ["The service account has all permissions now.", ""],
  "permissions.missing": ["The service account lacks permissions.", "Grant the permissions that `missing` lists."],
  "pods.known": ["The Kubernetes API answers; logs of pods are read.", ""],
  "pods.kubeconfig_failed": [
    "The kubeconfig for the collector cannot be written, so the collector queries the API server itself. With LOG_POLICIES the agent ends instead.",
    "Check the disk of STATE_DIR.",
  ],
  "pods.logs_unreadable": [
    "Logs of pods cannot be read, because their files are links to a folder that is not mounted.",
    "Follow the advice of the message: mount the folder into the agent.",
  ],
  "pods.unknown": [
    "The agent does not know the pods of its node yet, so their logs are not read.",
    "Check the connection to the Kubernetes API.",
  ],
  "pods.watch_ended": ["The watch of this node's pods ended and is started again (LOG_LEVEL=debug).", ""],
  "pods.watch_recovered": ["The pods of this node are watched again.", ""],
  "proxy.data_dropped": ["Parts of a signal cannot be converted and are left out.", "Check the reason."],
  "proxy.kernel_unavailable": [
    "The WebAssembly converter for metrics cannot run, so conversion costs more CPU.",
    "Report it with the error.",
  ],
  "proxy.request_refused": ["The backend refused a request permanently, so its data is lost.", "Check the message of the backend."],
  "proxy.signal_failing": [
    "Requests of a signal fail. The collector keeps the data and retries.",
    "Check the reason: the backend, the network or the key.",
  ],
  "proxy.signal_recovered": ["Requests of a signal succeed again.", ""],
  "remote_config.applied": ["A version of the remote configuration is in use.", ""],
  "remote_config.apply_failed": [
    "The remote configuration cannot be applied or stored. The agent retries.",
    "Check the error and the disk of STATE_DIR.",
  ],
  "remote_config.rejected": [
    "The remote configuration is invalid; the previous one stays in use.",
    "Fix the configuration; the error names the field.",
  ],
  "remote_config.unavailable": ["The remote configuration cannot be requested (LOG_LEVEL=debug).", ""],
  "secret.changed": ["The watch of the Secret reported a change (LOG_LEVEL=debug).", ""],
  "secret.read_failed": [
    "The Secret cannot be read; the known key stays in use. The agent retries.",
    "Check the connection to the Kubernetes API and the permissions.",
  ],
  "secret.read_recovered": ["The Secret can be read again.", ""],
  "secret.watch_ended": ["The watch of the Secret ended and is started again (LOG_LEVEL=debug).", ""],
  "secret.watch_silent": ["The watch of the Secret missed a change. The agent starts a new watch.", ""],
  "state.unavailable": [
    "The agent cannot take over the state folder of this node yet, and waits.",
    "The message gives the reason, such as another agent that still uses it.",
  ],
  "state.foreign": [
    "Another identity left its state on this node. It is neither sent nor removed.",
    "Remove the folder if that agent is gone for good.",
  ],
  "state.other_identity": [
    "The state on this node belongs to another identity. It is kept and not sent.",
    "See the guide for installation, section on moved nodes.",
  ],
  "state.owner_changed": ["The state on this node belongs to this identity from now on.", ""],
  "state.owner_not_written": ["The owner of the state cannot be written.", "Check the disk of STATE_DIR."],
  "state.permissions_failed": ["STATE_DIR cannot be made private (LOG_LEVEL=debug).", ""],
} as const satisfies Readonly<Record<`${string}.${string}`, readonly [meaning: string, action: string]>>;
