// `rotate`: requests a new cluster key and waits until the Secret has it. It only annotates the Secret; the agent that holds the Lease
// rotates the key, and all others follow. Cluster agent only.
import { pause } from "../../common/loop.ts";
import { ClusterSecret, rotationWaitMs } from "../credentials/cluster-secret.ts";
import { kubernetesInPod } from "../kubernetes/api.ts";
import { readSettings } from "../settings.ts";

const WITHIN_MS = 60_000;
const POLL_EVERY_MS = 500;

/** The key was not rotated; the message says what to do. */
export class RotateError extends Error {
  override readonly name = "RotateError";
}

/** Resolves once the Secret has a new key. Throws RotateError or KubernetesError. */
export async function rotateCommand(): Promise<void> {
  const { cluster } = readSettings("cluster").settings;
  if (!cluster) return;
  await using api = kubernetesInPod(cluster);
  const secret = new ClusterSecret(api, { namespace: cluster.podNamespace, name: cluster.secretName });
  const signal = AbortSignal.timeout(WITHIN_MS);
  const snapshot = await secret.read(signal);
  const before = snapshot?.credential;
  const where = `Secret ${cluster.podNamespace}/${cluster.secretName}`;
  if (!before) throw new RotateError(`${where} has no key yet: the cluster is not enrolled; see /status of an agent`);
  const waitMs = rotationWaitMs(snapshot);
  if (waitMs > 0) throw new RotateError(`${tooEarly(waitMs)}; no rotation was requested`);
  await secret.requestRotation(signal);
  console.log("rotation requested; waiting for the leader agent …");
  while (!signal.aborted) {
    // Safe: if the API server is briefly unavailable, reading the Secret is retried until the deadline.
    const now = await secret.read(signal).catch(() => undefined);
    if (now?.credential && now.credential.apiKey !== before.apiKey) {
      console.log(`rotated: new cluster key created at ${now.credential.keyCreatedAt}; the old key remains valid for 5 minutes`);
      return;
    }
    const refusedMs = now ? rotationWaitMs(now) : 0;
    if (refusedMs > 0)
      throw new RotateError(`${tooEarly(refusedMs)}; the request stays in ${where}, and an agent will rotate the key then`);
    await pause(POLL_EVERY_MS);
  }
  throw new RotateError(`not rotated after ${WITHIN_MS / 1000} s, but the request stays in ${where}; check the agents' logs for the cause`);
}

function tooEarly(waitMs: number): string {
  return `not rotated: the key is less than 5 minutes old, and the previous key is still valid; retry in ${Math.ceil(waitMs / 1000)} s`;
}
