// The Kubernetes API as the agent's own pod reaches it: the server that its settings name, as the pod's service account.
import { join } from "node:path";
import type { ClusterSettings } from "../settings.ts";
import { KubernetesApi } from "./api.ts";
import type { TransportOptions } from "./transport.ts";

export function kubernetesInPod({ kubernetesServer, serviceAccountDir }: ClusterSettings, options: TransportOptions = {}): KubernetesApi {
  const access = {
    server: kubernetesServer,
    caFile: join(serviceAccountDir, "ca.crt"),
    tokenFile: join(serviceAccountDir, "token"),
  };
  return new KubernetesApi(access, options);
}
