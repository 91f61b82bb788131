-- Clusters, hosts, their keys, and the one-time tokens they enrol with. Keys are found by `key_hash` (SHA-256 of the raw key);
-- `ciphertext` is the raw key under the master key named by `master_key_id`, bound to org and key id. Keys outlive what they
-- belonged to, revoked, so that their use is refused as "revoked" and not as "unknown".
CREATE TABLE api_keys (
  id uuid PRIMARY KEY,
  org_id uuid NOT NULL REFERENCES orgs (id),
  kind text NOT NULL CHECK (kind IN ('cluster', 'host', 'direct')),
  owner_id uuid NOT NULL,
  node text NOT NULL,
  key_hash text NOT NULL UNIQUE,
  ciphertext text NOT NULL,
  master_key_id text NOT NULL,
  created_at timestamptz NOT NULL,
  expires_at timestamptz,
  revoked_at timestamptz,
  first_used_at timestamptz,
  rotated_from uuid REFERENCES api_keys (id),
  rotation_idempotency_key uuid
);

CREATE INDEX api_keys_by_owner ON api_keys (owner_id, created_at);
CREATE INDEX api_keys_by_org ON api_keys (org_id, kind);
CREATE INDEX api_keys_by_master_key ON api_keys (master_key_id);

CREATE TABLE install_tokens (
  id uuid PRIMARY KEY,
  org_id uuid NOT NULL REFERENCES orgs (id),
  token_hash text NOT NULL UNIQUE,
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  used_at timestamptz,
  used_idempotency_key uuid,
  used_body_hash text,
  used_key_id uuid REFERENCES api_keys (id)
);

CREATE INDEX install_tokens_by_org ON install_tokens (org_id, created_at);

CREATE TABLE clusters (
  id uuid PRIMARY KEY,
  org_id uuid NOT NULL REFERENCES orgs (id),
  name text NOT NULL,
  cluster_uid text NOT NULL,
  created_at timestamptz NOT NULL,
  last_heartbeat timestamptz,
  heartbeat_interval_s integer NOT NULL DEFAULT 30,
  UNIQUE (org_id, cluster_uid)
);

CREATE TABLE cluster_nodes (
  cluster_id uuid NOT NULL REFERENCES clusters (id) ON DELETE CASCADE,
  name text NOT NULL,
  agent_version text,
  last_heartbeat timestamptz NOT NULL,
  collector jsonb,
  PRIMARY KEY (cluster_id, name)
);

CREATE TABLE hosts (
  id uuid PRIMARY KEY,
  org_id uuid NOT NULL REFERENCES orgs (id),
  hostname text NOT NULL,
  machine_id text NOT NULL,
  agent_version text,
  created_at timestamptz NOT NULL,
  last_heartbeat timestamptz,
  heartbeat_interval_s integer NOT NULL DEFAULT 30,
  collector jsonb,
  config jsonb NOT NULL DEFAULT '{}',
  config_version integer NOT NULL DEFAULT 0,
  config_in_force text,
  config_error text,
  UNIQUE (org_id, machine_id)
);
