// The cluster agent's identity as main needs it: cluster-identity.ts on the pod's own API server and service account.
// Loaded only by the cluster agent. Ended by disposing it and nothing else: the collector's last flush still needs it.
import { join } from "node:path";
import { KubernetesApi } from "../kubernetes/api.ts";
import type { Log } from "../log.ts";
import type { ClusterSettings } from "../settings.ts";
import type { BackendApi } from "../upstream/backend-api.ts";
import { startClusterIdentity } from "./cluster-identity.ts";
import type { AgentIdentity } from "./identity.ts";

/** The pod's own API server, as its own service account. */
export function kubernetesOf({ kubernetesServer, serviceAccountDir }: ClusterSettings): KubernetesApi {
  return new KubernetesApi({
    server: kubernetesServer,
    caFile: join(serviceAccountDir, "ca.crt"),
    tokenFile: join(serviceAccountDir, "token"),
  });
}

export async function startClusterAgentIdentity(options: {
  cluster: ClusterSettings;
  installToken: () => string | undefined;
  agentVersion: string;
  backend: BackendApi;
  log: Log;
}): Promise<AgentIdentity> {
  const { cluster, ...rest } = options;
  const kubernetes = kubernetesOf(cluster);
  const identity = await startClusterIdentity({ ...rest, settings: cluster, kubernetes });
  return {
    current: () => identity.current(),
    refresh: (reason) => identity.refresh(reason),
    noteKeyAge: (credential, days) => identity.noteKeyAge(credential, days),
    status: () => identity.status(),
    isKnown: () => identity.isKnown(),
    async [Symbol.asyncDispose]() {
      await identity[Symbol.asyncDispose]();
      await kubernetes[Symbol.asyncDispose]();
    },
  };
}
