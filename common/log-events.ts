// The identifiers of log messages of both programs: the field `event`. Searches and alerts may rely on an identifier; the text of a
// message may change. hack/reference.test.ts rejects an `event` that is not listed here, and `npm run reference` writes
// docs/reference/log-events.md.
import { AGENT_LOG_EVENTS } from "./agent-log-events.ts";

/** `area.what_happened` → [what it means, what to do]; the second text is empty if nothing has to be done. */
const BACKEND_LOG_EVENTS = {
  "accounts.thread_ended": [
    "The thread of the SQLite store ended. Its pending statements failed; the next one restarts it.",
    "Check the reason and the disk of DATA_DIR.",
  ],
  "audit.entry": ["An entry of the audit log.", ""],
  "audit.entry_dropped": [
    "The database refuses an entry of the audit log, so it is only in this log.",
    "Report it with the action that it names.",
  ],
  "audit.write_failed": [
    "The audit log cannot be written. The backend keeps entries in memory and retries.",
    "Check the account database.",
  ],
  "audit.write_recovered": ["The audit log is written again. `dropped` counts entries that are only in this log.", ""],
  "auth.stale_keys": [
    "The account database does not answer. Keys, sessions and read tokens are accepted as last known, for up to 15 minutes.",
    "Check the database and the connection to it; revocations take effect when it answers again.",
  ],
  "auth.stale_keys_ended": ["The account database answers again, and revocations are in force.", ""],
  "auth.untrusted_proxy": [
    "A login arrived with X-Forwarded-For from an address that is not in TRUSTED_PROXIES. The header is ignored, so all clients of that proxy count as one.",
    "If the address is your ingress or load balancer, add it to TRUSTED_PROXIES.",
  ],
  "backend.console_missing": ["The web console was not built.", "Run node hack/console.mjs, or set CONSOLE=false."],
  "backend.kernel_missing": [
    "A WebAssembly kernel was not built, so ingest costs several times more CPU.",
    "Build it with node hack/kernel.mjs, or use the published image.",
  ],
  "backend.rules_not_served": [
    "vmalert is external, but RULES_LISTEN is not set, so no rules are evaluated.",
    "Set RULES_LISTEN and point vmalert at it.",
  ],
  "backend.started": ["The backend accepts requests.", ""],
  "backend.starting": ["The backend starts with these settings; secrets are left out.", ""],
  "backend.stopping": ["The backend received a signal, finishes running requests and stops.", ""],
  "backup.completed": ["A scheduled backup was completed.", ""],
  "backup.failed": ["A scheduled backup failed. The backend retries.", "Check the error, and the space and permissions of BACKUP_FOLDER."],
  "backup.no_socket": [
    "The file system of DATA_DIR does not support sockets, so a backup of the running backend is not possible.",
    "Stop the backend for backups, or use another file system.",
  ],
  "backup.recovered": ["A scheduled backup succeeded after failures.", ""],
  "backup.snapshot_created": ["A backup holds a snapshot of the engines, which keep running.", ""],
  "backup.snapshot_failed": [
    "The engines could not be snapshotted for a backup.",
    "Check the error and the disk of DATA_DIR, then start the backup again.",
  ],
  "backup.snapshot_released": ["The snapshot of a backup was released.", ""],
  "backup.still_failing": ["Scheduled backups still fail.", "Check the error, and the space and permissions of BACKUP_FOLDER."],
  "bootstrap.completed": ["The first start created an organisation and its operator.", ""],
  "bootstrap.master_key_rotated": [
    "API keys and channel secrets are encrypted with the new MASTER_KEY.",
    "Remove MASTER_PREVIOUS_KEY once all replicas use the new key.",
  ],
  "clickhouse.distributed_tables": ["Distributed tables were created, or replaced because their columns changed.", ""],
  "clickhouse.merge_sync_set": ["A table fsyncs its merged parts from now on.", ""],
  "clickhouse.opened": ["The log and trace store is open. The embedded engine opens at its first use.", ""],
  "clickhouse.prepared": ["The command prepare-clickhouse has made the tables of all shards.", ""],
  "clickhouse.retention_set": ["The retention of a table was changed to the setting.", ""],
  "clickhouse.tier_set": ["Older parts of a table move to another volume from now on.", ""],
  "clickhouse.schema_migrated": ["A migration of the ClickHouse schema was applied.", ""],
  "database.connection_lost": [
    "A connection to PostgreSQL was lost. The next statement reconnects.",
    "Check PostgreSQL and the network if it happens again.",
  ],
  "database.reconnected": ["The backend is connected to PostgreSQL again.", ""],
  "database.schema_migrated": ["A migration of the account database was applied.", ""],
  "engine.down": [
    "An embedded engine exited or did not become ready. It is restarted with backoff.",
    "Check the error, which has the last lines of the engine.",
  ],
  "engine.orphan_ended": ["An engine of a backend that was killed was still running, and was ended.", ""],
  "engine.output": ["A line that an embedded engine printed (LOG_LEVEL=debug).", ""],
  "engine.recovered": ["An embedded engine runs again.", ""],
  "engine.still_down": ["An embedded engine still does not run.", "Check the error, which has the last lines of the engine."],
  "evaluator.no_dry_run": [
    "vmalert was not found for checks of new rules. A rule that vmalert refuses is withheld after it was stored.",
    "Set VMALERT_PATH or install vmalert.",
  ],
  "evaluator.recovered": ["vmalert is available again.", ""],
  "evaluator.rule_file_quarantined": [
    "vmalert refuses a rule file of the last run. The file is kept under another name and written again from the database.",
    "Check the output of vmalert; the rule is listed with its error in the API.",
  ],
  "evaluator.rule_withheld": [
    "vmalert refuses a rule, so the backend withholds it. Other rules are evaluated.",
    "Fix the rule; its status has the reason.",
  ],
  "evaluator.rules_readable": ["The rules can be read from the database again.", ""],
  "evaluator.rules_refused": ["vmalert refused its rules. The backend tries changed rules one at a time.", ""],
  "evaluator.rules_unreadable": [
    "The rules cannot be read from the database; vmalert gets the last known ones.",
    "Check the account database.",
  ],
  "evaluator.still_unavailable": ["vmalert is still unavailable.", "Check vmalert and its connection to the backend."],
  "evaluator.sync_failed": ["vmalert does not have all rules yet. The backend retries.", "Check vmalert and the connection to it."],
  "evaluator.sync_recovered": ["vmalert has all rules.", ""],
  "evaluator.sync_still_failing": ["vmalert still does not have all rules.", "Check vmalert and the connection to it."],
  "evaluator.unavailable": [
    "vmalert is unavailable. Metric rules are not evaluated, and alerts keep their last state.",
    "Check vmalert and its connection to the backend.",
  ],
  "health.engine_recovered": ["The engine answers again.", ""],
  "health.engine_still_unavailable": ["An engine still does not answer.", "Check the engine and the connection to it."],
  "health.engine_unavailable": ["An engine does not answer, so /readyz reports it.", "Check the engine and the connection to it."],
  "health.response_failed": [
    "A health probe could not be answered because of an internal error.",
    "Report it with the error and its stack.",
  ],
  "grpc.call_failed": ["A gRPC call failed because of the backend; its sender tries again.", "Check the error."],
  "http.connection_limit_reached": [
    "MAX_CONNECTIONS is reached. Unauthenticated and idle connections are closed to accept new ones.",
    "If these are your own agents, raise MAX_CONNECTIONS or add a replica.",
  ],
  "http.request_completed": ["A request was answered (LOG_LEVEL=debug).", ""],
  "http.request_failed": ["A request was answered with 500.", "Report it with the error and its stack."],
  "http.requests_failing": [
    "Requests fail for one reason, for example because an engine does not answer.",
    "Check what `cause` names; /readyz has the state of the engines.",
  ],
  "http.requests_recovered": ["Requests that failed for this reason succeed again.", ""],
  "http.requests_still_failing": ["Requests still fail for the same reason.", "Check what `cause` of the first message names."],
  "journal.columns_not_kept": [
    "The description of the journal's columns cannot be written, so a version with other columns could not read its rows.",
    "Check the permissions and the disk of DATA_DIR.",
  ],
  "journal.damaged": [
    "A journal file is damaged, so acknowledged rows may be lost.",
    "Check the disk; keep the quarantined copy if there is one.",
  ],
  "journal.dead_letter": [
    "ClickHouse permanently refuses acknowledged rows. They are kept in the file that the message names.",
    "Report it with the error; the file can be replayed once the cause is fixed.",
  ],
  "journal.engine_recovered": ["ClickHouse accepts rows again.", ""],
  "journal.engine_still_unavailable": ["ClickHouse still does not accept rows.", "Check the error and the disk of DATA_DIR."],
  "journal.engine_unavailable": [
    "ClickHouse does not accept rows. Acknowledged rows stay in the journal, and the backend retries.",
    "Check the error and the disk of DATA_DIR.",
  ],
  "journal.replayed": ["Rows of the journal of an earlier process are stored.", ""],
  "journal.rows_dropped": [
    "ClickHouse permanently refuses acknowledged rows, and there is no space for more dead letters, so they are lost.",
    "Report it with the error; move the files of the dead-letters folder to another disk.",
  ],
  "journal.rows_kept": [
    "The backend stops while ClickHouse does not accept rows. They stay in the journal for the next start.",
    "Check the error of the earlier messages.",
  ],
  "journal.rows_left": [
    "An external engine is configured, but the journal of the embedded engine contains acknowledged rows.",
    "Start once without the address of the external engine, so that the rows are written.",
  ],
  "journal.rows_left_unknown": [
    "The journal of the embedded engine cannot be read and may contain acknowledged rows.",
    "Check the permissions and the disk of DATA_DIR.",
  ],
  "journal.torn_tail": ["A journal file ends in an incomplete, unacknowledged write, as after a power cut. The rest is used.", ""],
  "journal.unreadable": ["A journal file cannot be read. The next start tries again.", "Check the permissions and the disk of DATA_DIR."],
  "journal.write_failed": [
    "The journal cannot be written. The backend acknowledges after each commit instead, which is slower.",
    "Check the permissions and the disk of DATA_DIR.",
  ],
  "journal.write_recovered": ["The journal is written again.", ""],
  "journal.write_still_failing": ["The journal still cannot be written.", "Check the permissions and the disk of DATA_DIR."],
  "journal.writes_left": [
    "METRICS_WRITE_URL is set, but the journal of the embedded engine contains acknowledged metrics.",
    "Start once without METRICS_WRITE_URL, so that the metrics are written.",
  ],
  "journal.writes_left_unknown": [
    "The metrics journal of the embedded engine cannot be read and may contain acknowledged metrics.",
    "Check the permissions and the disk of DATA_DIR.",
  ],
  "log_rules.count_failed": ["Log records cannot be counted for alert rules. The backend retries.", "Check the log and trace store."],
  "log_rules.count_recovered": ["Log records are counted for alert rules again.", ""],
  "log_rules.rule_failed": [
    "The records of one rule could not be counted because of an internal error.",
    "Report it with the error and its stack.",
  ],
  "metrics_journal.replay_failed": [
    "VictoriaMetrics does not accept the metrics of the journal. The backend retries.",
    "Check the log of VictoriaMetrics and the disk.",
  ],
  "metrics_journal.replay_recovered": ["VictoriaMetrics accepts the metrics of the journal again.", ""],
  "metrics_journal.replayed": ["Metrics of the journal were written to VictoriaMetrics.", ""],
  "notification.address_not_permitted": [
    "A channel's host resolves to an address that notifications may not reach. Nothing was sent.",
    "If the receiver is yours, permit its network; otherwise ask the organisation that owns the channel.",
  ],
  "notification.cleanup_failed": ["Old deliveries and alerts cannot be removed. The backend retries.", "Check the account database."],
  "notification.cleanup_recovered": ["Old deliveries and alerts are removed again.", ""],
  "notification.dispatch_failed": ["Alerts cannot be routed to receivers. The backend retries.", "Check the account database."],
  "notification.dispatch_recovered": ["Alerts are routed again.", ""],
  "notification.dispatch_still_failing": ["Alerts still cannot be routed to receivers.", "Check the account database."],
  "notification.email_failed": ["The mail server did not accept a message (LOG_LEVEL=debug).", "Check the settings of the mail server."],
  "notification.intake_failed": ["Alerts of vmalert cannot be stored. vmalert sends them again.", "Check the account database."],
  "notification.intake_recovered": ["Alerts of vmalert are stored again.", ""],
  "notification.intake_still_failing": ["Alerts of vmalert still cannot be stored.", "Check the account database."],
  "notification.outbox_failed": [
    "Messages cannot be read from the database, or their result cannot be stored. The backend retries.",
    "Check the account database.",
  ],
  "notification.outbox_recovered": ["Messages are sent again.", ""],
  "notification.process_suspended": [
    "The process was suspended, or the clock was changed. Alerts are not resolved for a while.",
    "Check whether the machine was paused, or its clock set.",
  ],
  "notification.send_error": [
    "A message could not be sent because of an internal error. The backend retries.",
    "Report it with the error and its stack.",
  ],
  "replicas.claims_recovered": ["Bodies of logs and spans that reach several replicas are recognised again.", ""],
  "replicas.claims_unavailable": [
    "The account database does not answer, so replicas cannot agree on who stores a body. Ingest goes on; a repeated body may be stored twice.",
    "Check the account database.",
  ],
  "replicas.slots_recovered": ["Replicas share the query slots of organisations again.", ""],
  "replicas.slots_unavailable": [
    "The account database does not answer, so replicas cannot share query slots. Each uses an equal part, at least one slot of each organisation.",
    "Check the account database.",
  ],
  "sandbox.job_killed": [
    "A query exceeded the time or memory of its sandbox process, which was killed.",
    "If it is a query of a dashboard, shorten its time range.",
  ],
  "removal.expired": [
    "Rows of organisations whose retention is shorter than that of the table are deleted. `days` lists the days whose rows are deleted.",
    "",
  ],
  "removal.failed": [
    "Expired rows, or data of a deleted organisation, cannot be removed. The backend retries.",
    "Check the reason; GET /api/deletions shows what is left of deleted organisations.",
  ],
  "removal.organisation_erased": ["A deleted organisation is erased: no store had any of its data for 20 minutes.", ""],
  "removal.recovered": ["Expired and deleted data is removed again.", ""],
  "rollout.stopped": [
    "More nodes with a cluster's new remote configuration are unhealthy than before, so all of its nodes get the previous one. `reason` names nodes and what is wrong.",
    "Check these nodes with `atherops fleet` and `diagnose`; write the configuration again to resume.",
  ],
  "rollout.unwatched": [
    "Rollouts of remote configuration are not stopped while the account database does not answer. The backend retries.",
    "Check the account database.",
  ],
  "rollout.watched": ["Rollouts of remote configuration are watched again.", ""],
  "span_summaries.failed": [
    "Edges between services, series of spans and copies of old minutes cannot be updated. The backend retries; spans themselves are not affected.",
    "Check ClickHouse and VictoriaMetrics.",
  ],
  "span_summaries.recovered": ["Span summaries are updated again.", ""],
  "tls.certificate_expired": [
    "The TLS certificate has expired.",
    "Replace the certificate and its key; they are reloaded without a restart.",
  ],
  "tls.certificate_expires_soon": [
    "The TLS certificate expires within 14 days.",
    "Replace the certificate and its key; they are reloaded without a restart.",
  ],
  "tls.reload_failed": [
    "The TLS certificate and key cannot be loaded; the old ones stay in use.",
    "Check that both files exist and belong together.",
  ],
  "tls.reload_recovered": ["The TLS certificate and key can be loaded again.", ""],
  "tls.reloaded": ["A new TLS certificate is in use.", ""],
  "usage.row_dropped": ["The database refuses a row of usage, so these counts are lost.", "Report it with the fields of the message."],
  "usage.write_failed": [
    "Usage of organisations cannot be written. The backend keeps the counts and retries.",
    "Check the account database.",
  ],
  "usage.write_recovered": ["Usage is written again.", ""],
} as const satisfies Readonly<Record<`${string}.${string}`, readonly [meaning: string, action: string]>>;

export const LOG_EVENTS = { ...AGENT_LOG_EVENTS, ...BACKEND_LOG_EVENTS };

export type LogEvent = keyof typeof LOG_EVENTS;
