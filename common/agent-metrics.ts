// Names and help texts of the agent's own metrics: the agent publishes them, and the backend's Prometheus API has them in its metadata.
// As in Prometheus, the name shows the type: a counter ends in _total.

export const AGENT_METRICS = {
  atherops_agent_info: "Always 1; the version is a label.",
  atherops_agent_resident_memory_bytes: "Resident memory of the agent's own process.",
  atherops_agent_enrolled: "1 while the agent has a key.",
  atherops_agent_identity_problem: "1 while the agent cannot use or renew its identity; /status has the reason.",
  atherops_agent_key_age_days: "Age of the key, as the backend reports it.",
  atherops_agent_lease_held: "1 while this agent acts for the cluster.",
  atherops_agent_collects_for_cluster: "1 while this agent collects state and events of the whole cluster; one agent does at a time.",
  atherops_agent_clock_skew_seconds: "How far the backend's clock is ahead of this machine's.",
  atherops_agent_last_heartbeat_timestamp_seconds: "Time of the last heartbeat that the backend accepted.",
  atherops_agent_collector_running: "1 while the collector runs.",
  atherops_agent_collector_restarts_total: "Restarts of the collector after a crash.",
  atherops_agent_collector_config_refused: "1 while the collector refuses the newest configuration and runs an earlier one.",
  atherops_agent_logs_rate_limited_bytes_total: "Bytes of pods' logs that rate limits dropped, estimated from the growth of their files.",
  atherops_agent_requests_accepted_total: "Requests of the collector that the backend accepted.",
  atherops_agent_requests_retried_total: "Requests that the collector was asked to send again.",
  atherops_agent_requests_refused_total: "Requests that the backend refused for good; their data is lost.",
  atherops_agent_accepted_bytes_total:
    "Body bytes of the requests that the backend accepted: logs and traces of applications as the collector compressed them, metrics and lines of files uncompressed.",
  atherops_agent_records_dropped_total: "Metric points and records that were dropped, by reason; the rest of their request was delivered.",
  atherops_agent_failing: "1 while this signal cannot be delivered.",
  atherops_agent_last_success_timestamp_seconds: "When the backend last accepted data.",
} as const;
