// Sends the requests of one node's agent to the API server, with only the agent's code that sends them: identity, pods, and the reads of the
// Lease for cluster-wide collection. There is no collector; `direct` simulates one whose six components each list and watch the pods over
// their own connection. The backend is a stand-in in this process.
import { randomUUID } from "node:crypto";
import { pino } from "pino";
import { ClusterCollector, COLLECTION_LEASE } from "../../../agent/collector/cluster-collector.ts";
import type { Supervisor } from "../../../agent/collector/supervision/supervisor.ts";
import { keptPodFields } from "../../../agent/commands/start-parts.ts";
import { startClusterIdentity } from "../../../agent/identity/cluster-identity.ts";
import { enrolmentToken } from "../../../agent/enrolment-token.ts";
import { collectionLease, Lease } from "../../../agent/identity/lease.ts";
import { KubernetesApi } from "../../../agent/kubernetes/api.ts";
import type { KubernetesAccess } from "../../../agent/kubernetes/transport.ts";
import { NodePods } from "../../../agent/pods/node-pods.ts";
import type { BackendApi } from "../../../agent/upstream/backend-api.ts";
import { stub } from "../../fixtures/stub.ts";

/** Components of the collector that need pods, with all values of the chart enabled: three OTLP signals, files, usage, scraped pods. */
const COMPONENTS = 6;
const LEASE = "cluster-agent";
const SECRET = "cluster-agent-credentials";
const log = pino({ level: "silent" });

export interface SimulatedNode extends AsyncDisposable {
  /** The cluster's key, as this node knows it. */
  readonly key: () => string | undefined;
  readonly knowsPods: () => boolean;
}

/** Resolves when it has begun; its agent enrols, and learns its pods, by and by. */
export async function startNode(access: KubernetesAccess, namespace: string, nodeName: string, direct: boolean): Promise<SimulatedNode> {
  const stack = new AsyncDisposableStack();
  const api = (): KubernetesApi => stack.use(new KubernetesApi(access));
  const podUid = randomUUID();
  const settings = { clusterName: "bench", podNamespace: namespace, podUid, secretName: SECRET, leaseName: LEASE, keyRotationDays: 0 };
  const parts = {
    settings,
    kubernetes: api(),
    backend: BACKEND,
    agentVersion: "0.0.0",
    token: () => enrolmentToken("it_bench", undefined),
    log,
  };
  const identity = stack.use(await startClusterIdentity(parts));
  const keptFields = keptPodFields({ podLabels: [], podAnnotations: [] });
  const watches = Array.from({ length: direct ? COMPONENTS : 1 }, () => stack.use(new NodePods({ api: api(), nodeName, keptFields, log })));
  for (const watch of watches) watch.start();
  const timing = COLLECTION_LEASE;
  const lease = new Lease(api(), { namespace, name: collectionLease(LEASE), identity: podUid, timing, log });
  stack.use(new ClusterCollector({ lease, name: podUid, supervisor: () => NO_COLLECTOR, config: "", log }));
  return {
    key: () => identity.current()?.apiKey,
    knowsPods: () => watches.every(({ isKnown }) => isKnown),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** Requests a new key like the command `rotate`. */
export async function requestRotation(access: KubernetesAccess, namespace: string): Promise<void> {
  const { ClusterSecret } = await import("../../../agent/credentials/cluster-secret.ts");
  await using api = new KubernetesApi(access);
  await new ClusterSecret(api, { namespace, name: SECRET }).requestRotation(AbortSignal.timeout(10_000));
}

const NO_COLLECTOR = stub<Supervisor>({
  start: () => Promise.resolve(),
  status: () => undefined,
  [Symbol.asyncDispose]: () => Promise.resolve(),
});

const newKey = (): { api_key: string; key_created_at: string } => ({
  api_key: `ak_${randomUUID()}`,
  key_created_at: new Date().toISOString(),
});

const BACKEND = stub<BackendApi>({
  registerCluster: () => Promise.resolve({ body: { cluster_id: randomUUID(), ...newKey() }, org: randomUUID() }),
  heartbeat: () => Promise.resolve({ body: undefined, keyAgeDays: 0 }),
  rotateKey: () => Promise.resolve({ body: { ...newKey(), previous_key_expires_at: new Date(Date.now() + 300_000).toISOString() } }),
});
