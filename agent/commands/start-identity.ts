// Starts the identity of a host or of a cluster. Invariant: each loads only what it needs; a host agent never loads the Kubernetes API.
import { hostname } from "node:os";
import { readMachineId } from "../identity/machine-id.ts";
import type { AgentIdentity } from "../identity/identity.ts";
import type { KubernetesApi } from "../kubernetes/api.ts";
import type { TransportOptions } from "../kubernetes/transport.ts";
import type { Log } from "../log.ts";
import { type ClusterSettings, readInstallToken, type Secrets, type Settings } from "../settings.ts";
import type { BackendApi } from "../upstream/backend-api.ts";

/** Stopped with `started`, so after the collector's last flush, which still needs it. */
export async function startIdentity(
  settings: Settings,
  secrets: Secrets,
  agentVersion: string,
  backend: BackendApi,
  log: Log,
  started: AsyncDisposableStack,
): Promise<AgentIdentity> {
  if (settings.cluster) {
    const { startClusterIdentity } = await import("../identity/cluster-identity.ts");
    const kubernetes = started.use(await kubernetesOf(settings.cluster));
    const parts = { settings: settings.cluster, kubernetes, agentVersion, backend, log };
    return started.use(await startClusterIdentity({ ...parts, installToken: () => readInstallToken() }));
  }
  const [{ CredentialsFile }, { startHostIdentity }] = await Promise.all([
    import("../credentials/file.ts"),
    import("../identity/host-identity.ts"),
  ]);
  const file = new CredentialsFile(settings.host?.credentialsFile ?? "");
  const systemId = readMachineId();
  // The name identifies the host if the system has no id.
  const host = { hostname: hostname(), machine_id: systemId ?? hostname(), agent_version: agentVersion };
  return started.use(startHostIdentity({ file, installToken: secrets.installToken, host, systemId, backend, log }));
}

/** Loaded by the cluster agent only. */
export async function kubernetesOf(cluster: ClusterSettings, options: TransportOptions = {}): Promise<KubernetesApi> {
  const { kubernetesInPod } = await import("../kubernetes/in-pod.ts");
  return kubernetesInPod(cluster, options);
}
