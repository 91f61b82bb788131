// The Kubernetes API as the agent's own pod reaches it: the server that its settings name, as the pod's service account.
import { join } from "node:path";
import type { ClusterSettings } from "../settings.ts";
import { KubernetesApi } from "./api.ts";

export function kubernetesInPod({ kubernetesServer, serviceAccountDir }: ClusterSettings): KubernetesApi {
  return new KubernetesApi({
    server: kubernetesServer,
    caFile: join(serviceAccountDir, "ca.crt"),
    tokenFile: join(serviceAccountDir, "token"),
  });
}
