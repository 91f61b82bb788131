// `rotate`: asks for a new key of the cluster now. It only marks the Secret; the agent that holds the Lease acts, and all others follow.
// Cluster agent only. Called by main.ts.
import { ClusterSecret } from "./credentials/cluster-secret.ts";
import { kubernetesAccess } from "./enrolment/cluster-identity.ts";
import { KubernetesApi } from "./kubernetes/api.ts";
import { readSettings } from "./settings.ts";

const ASK_WITHIN_MS = 15_000;

/** Resolves once the API server has the mark. Throws KubernetesError. */
export async function rotateCommand(): Promise<void> {
  const { cluster } = readSettings("cluster").settings;
  if (!cluster) return;
  await using api = new KubernetesApi(kubernetesAccess(cluster));
  const secret = new ClusterSecret(api, { namespace: cluster.podNamespace, name: cluster.secretName });
  await secret.requestRotation(AbortSignal.timeout(ASK_WITHIN_MS));
  console.log("asked for: one of the agents rotates the key within seconds, and all follow; see key_created_at in their /status");
}
