// The tables of enrolment for kysely, which engines/relational/migrations/010-enrolment.sql creates, and what every route of enrolment gets.
// Types only, so that routes do not import each other through this file.
import type { ColumnType, Generated, Kysely } from "kysely";
import type { ClusterConfig, Heartbeat, HostConfig } from "../../../common/protocol/enrolment.ts";
import type { IngestTokenTables } from "../../auth/ingest-tokens/ingest-token-table.ts";
import type { IssuerTables } from "../../auth/issuers/issuer-table.ts";
import type { TrustedIssuers } from "../../auth/issuers/trusted-issuers.ts";
import type { IngestTokens } from "../../auth/ingest-tokens/ingest-tokens.ts";
import type { Guards, KeyKind } from "../../http/request-identity.ts";
import type { KeySource } from "../../auth/signed-requests.ts";
import type { MasterKeys } from "./master-key.ts";

/** Written as JSON text, read as a value. */
type Json<T> = ColumnType<T, string, string>;

export interface KeyRow {
  id: string;
  org_id: string;
  kind: KeyKind;
  owner_id: string;
  node: string;
  key_hash: string;
  ciphertext: string;
  master_key_id: string;
  created_at: Date;
  /** The end of the overlap; null for the current key of the owner. */
  expires_at: Date | null;
  revoked_at: Date | null;
  first_used_at: Date | null;
  rotated_from: string | null;
  rotation_idempotency_key: string | null;
}

export interface InstallTokenRow {
  id: string;
  org_id: string;
  token_hash: string;
  created_at: Date;
  expires_at: Date;
  used_at: Date | null;
  used_idempotency_key: string | null;
  used_body_hash: string | null;
  used_key_id: string | null;
  /** Set for an enrolment with a token of this issuer. */
  issuer_id: string | null;
}

/** The state of the collector in an agent's heartbeat, with truncated texts. */
export type CollectorReport = NonNullable<Heartbeat["collector"]>;

export interface ClusterTable {
  id: string;
  org_id: string;
  name: string;
  cluster_uid: string;
  created_at: Date;
  last_heartbeat: Date | null;
  heartbeat_interval_s: Generated<number>;
  /** The installation of the agent that has the current key; null if it is unknown. */
  installation: ColumnType<string | null, string | null | undefined, string | null>;
  config: ColumnType<ClusterConfig, string | undefined, string>;
  config_version: Generated<number>;
  /** Share of the nodes that use it; the others use the previous one. */
  config_percent: Generated<number>;
  previous_config: ColumnType<ClusterConfig, string | undefined, string>;
  previous_version: Generated<number>;
  config_watched_until: Date | null;
  config_unhealthy_before: Generated<number>;
  /** Why its rollout was stopped. */
  config_stopped: string | null;
  /** The issuer whose token enrolled it. */
  issuer_id: ColumnType<string | null, string | null | undefined, string | null>;
}

export interface ClusterNodeTable {
  cluster_id: string;
  name: string;
  agent_version: string | null;
  last_heartbeat: Date;
  collector: Json<CollectorReport | null>;
  config_in_force: ColumnType<string | null, string | null | undefined, string | null>;
  config_error: ColumnType<string | null, string | null | undefined, string | null>;
}

export interface HostTable {
  id: string;
  org_id: string;
  hostname: string;
  machine_id: string;
  agent_version: string | null;
  created_at: Date;
  last_heartbeat: Date | null;
  heartbeat_interval_s: Generated<number>;
  collector: ColumnType<CollectorReport | null, string | null, string | null>;
  config: ColumnType<HostConfig, string | undefined, string>;
  config_version: Generated<number>;
  config_in_force: string | null;
  config_error: string | null;
  /** The issuer whose token enrolled it, and the subject of the token. */
  issuer_id: ColumnType<string | null, string | null | undefined, string | null>;
  issuer_subject: ColumnType<string | null, string | null | undefined, string | null>;
}

export interface EnrolmentTables extends IngestTokenTables, IssuerTables {
  api_keys: KeyRow;
  install_tokens: InstallTokenRow;
  clusters: ClusterTable;
  cluster_nodes: ClusterNodeTable;
  hosts: HostTable;
}

export interface EnrolmentDeps {
  db: Kysely<EnrolmentTables>;
  masterKeys: MasterKeys;
  keys: KeySource & { forget(...hashes: string[]): void };
  guards: Guards;
  ingestTokens: Pick<IngestTokens, "requireEnabled" | "forget">;
  issuers: Pick<TrustedIssuers, "verify" | "fetchKeys" | "forget">;
  now: () => number;
  /** Maximum of nodes per cluster. */
  maxNodes?: number;
  /** Rows per page of a list: hosts, or clusters and their nodes. */
  pageRows?: number;
}
