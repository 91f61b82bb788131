// The routes of enrolment: clusters, hosts, install tokens, keys for direct ingest, ingest tokens.
import type { FastifyInstance } from "fastify";
import { registerClusterAdministration } from "./administer-clusters.ts";
import { registerHostAdministration } from "./administer-hosts.ts";
import { registerIngestTokenAdministration } from "./administer-ingest-tokens.ts";
import { registerKeyAdministration } from "./administer-keys.ts";
import { registerInstallTokenAdministration } from "./administer-install-tokens.ts";
import type { EnrolmentDeps } from "./deps.ts";
import { registerClusterHeartbeat } from "./heartbeat-cluster.ts";
import { registerHostHeartbeat } from "./heartbeat-host.ts";
import { registerHostConfig } from "./host-config.ts";
import { registerRegisterCluster } from "./register-cluster.ts";
import { registerRegisterHost } from "./register-host.ts";
import { registerRotateKey } from "./rotate-key.ts";

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
  registerIngestTokenAdministration(app, deps);
}
