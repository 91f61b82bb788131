// The routes of enrolment, one per file: clusters, hosts, install tokens, keys for direct ingest. Wired by serve.ts and by tests.
import type { FastifyInstance } from "fastify";
import type { Kysely } from "kysely";
import type { KeySource } from "../auth/signed-requests.ts";
import type { Guards } from "../auth/request-identity.ts";
import { registerClusterAdministration } from "./administer-clusters.ts";
import { registerHostAdministration } from "./administer-hosts.ts";
import { registerKeyAdministration } from "./administer-keys.ts";
import { registerInstallTokenAdministration } from "./administer-install-tokens.ts";
import { registerClusterHeartbeat } from "./heartbeat-cluster.ts";
import { registerHostHeartbeat } from "./heartbeat-host.ts";
import { registerHostConfig } from "./host-config.ts";
import type { KeyCache } from "./key-cache.ts";
import type { MasterKeys } from "./master-key.ts";
import { registerRegisterCluster } from "./register-cluster.ts";
import { registerRegisterHost } from "./register-host.ts";
import { registerRotateKey } from "./rotate-key.ts";
import type { EnrolmentTables } from "./table.ts";

export interface EnrolmentDeps {
  db: Kysely<EnrolmentTables>;
  masterKeys: MasterKeys;
  keys: KeySource & Pick<KeyCache, "forget">;
  guards: Guards;
  /** Unix milliseconds. */
  now: () => number;
  /** Nodes of one cluster. */
  maxNodes?: number;
  /** Of a page of a list: hosts, or clusters and their nodes. */
  pageRows?: number;
}

export function registerEnrolmentRoutes(app: FastifyInstance, options: Omit<EnrolmentDeps, "now"> & { now?: () => number }): void {
  const deps: EnrolmentDeps = { now: Date.now, ...options };
  registerRegisterCluster(app, deps);
  registerClusterHeartbeat(app, deps);
  registerRotateKey(app, deps);
  registerRegisterHost(app, deps);
  registerHostHeartbeat(app, deps);
  registerHostConfig(app, deps);
  registerInstallTokenAdministration(app, deps);
  registerClusterAdministration(app, deps);
  registerHostAdministration(app, deps);
  registerKeyAdministration(app, deps);
}
