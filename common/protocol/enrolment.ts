// The wire contract of enrolment: paths, header names and bodies of register, heartbeat, rotate-key and remote configuration, and which
// refusals are final. Invariant: it imports only node: modules. Source: docs/decisions.md, "Enrolment".

export const REGISTER_CLUSTER_PATH = "/api/clusters/register";
export const REGISTER_HOST_PATH = "/api/v1/agents/register";
export const CLUSTER_HEARTBEAT_PATH = "/heartbeat";
/**
 * Remote configuration of one cluster is at `<CLUSTERS_PATH>/<cluster_id>/config?node=<name>`, that of one host at
 * `<HOSTS_PATH>/<agent_id>/config`.
 */
export const CLUSTERS_PATH = "/api/clusters";
export const HOSTS_PATH = "/api/v1/agents";
export const HOST_HEARTBEAT_PATH = "/ingest/agents/heartbeat";
export const ROTATE_KEY_PATH = "/api/clusters/rotate-key";
export const IDEMPOTENCY_KEY_HEADER = "idempotency-key";
/** Header of responses to registrations and heartbeats: id of the organisation that the key belongs to. */
export const ORG_ID_HEADER = "x-org-id";

/** How long the previous key is accepted after a rotation. */
export const ROTATION_OVERLAP_MS = 5 * 60_000;

export interface RegisterClusterRequest {
  cluster_name: string;
  /** UID of the namespace kube-system. */
  cluster_uid: string;
  agent_version: string;
  /** `<namespace>/<Secret>` of the agents that share the key: an agent of another installation that is still running is not displaced. */
  installation?: string;
}
export interface RegisterClusterResponse {
  cluster_id: string;
  api_key: string;
  /** RFC 3339. */
  key_created_at: string;
}
export interface RegisterHostRequest {
  hostname: string;
  machine_id: string;
  agent_version: string;
}
export interface RegisterHostResponse {
  agent_id: string;
  api_key: string;
  key_created_at: string;
}
export interface RotateKeyResponse {
  api_key: string;
  key_created_at: string;
  /** RFC 3339; the old key is accepted until then. */
  previous_key_expires_at: string;
}
/**
 * A node with this `queue_percent` or more is unhealthy. The minute of data that the queue holds during an outage of the backend is less.
 */
export const FULL_QUEUE_PERCENT = 25;

/** Informational and bounded; every field is optional. */
export interface Heartbeat {
  node?: string;
  agent_version?: string;
  interval_s?: number;
  /** Cluster agent: the same as in its registration. */
  installation?: string;
  collector?: {
    state?: string;
    restarts?: number;
    last_error?: string;
    /** Fill level of the fullest disk queue. */
    queue_percent?: number;
    /** Signals that are not delivered. */
    failing?: string[];
  };
  /** The version of the remote configuration in force, and why a newer one was refused. */
  config?: { version?: string; error?: string };
}
/** Remote configuration of a host: only these four fields are allowed. */
export interface HostConfig {
  /** Prometheus durations by name of the interval, e.g. `{"metrics": "30s", "heartbeat": "1m"}`. */
  intervals?: { metrics?: string; heartbeat?: string };
  log_paths?: string[];
  signals?: ("metrics" | "logs" | "traces")[];
  log_level?: "debug" | "info" | "warn" | "error";
}
/** Remote configuration of a cluster: the same without log paths. */
export type ClusterConfig = Omit<HostConfig, "log_paths">;
export interface ClusterConfigRequest {
  config: ClusterConfig;
  /** Share of the nodes that use it; 100 by default. */
  percent?: number;
}
export interface ClusterConfigResponse {
  version: string;
  config: ClusterConfig;
}
export interface HostConfigResponse {
  version: string;
  config: HostConfig;
}

/** Error codes of the backend that an agent acts upon (a subset of backend/errors.ts). */
export const KEY_REFUSED_CODES = ["unknown_key", "revoked_key"] as const;

export const FINAL_REFUSALS: Readonly<Record<number, readonly string[]>> = {
  400: [
    "malformed_body",
    "invalid_payload",
    "invalid_field",
    "invalid_parameter",
    "missing_idempotency_key",
    "query_too_expensive",
    "unstorable",
  ],
  413: ["body_too_large", "batch_too_large"],
  429: ["over_quota", "too_many_queries", "login_backoff"],
};
