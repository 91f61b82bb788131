// `rotate`: requests a new cluster key and waits until the Secret contains it. It only annotates the Secret; the agent that holds the
// Lease rotates the key, and all other agents load it. Cluster agent only.
import { pause } from "../../common/loop.ts";
import { ClusterSecret, rotationWaitMs } from "../credentials/cluster-secret.ts";
import { kubernetesInPod } from "../kubernetes/api.ts";
import { readSettings } from "../settings.ts";

const TIMEOUT_MS = 60_000;
const POLL_EVERY_MS = 500;
const TOO_EARLY = "not rotated: the key is less than 5 minutes old, and the previous key is still valid";

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
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const snapshot = await secret.read(signal);
  const before = snapshot?.credential;
  const where = `Secret ${cluster.podNamespace}/${cluster.secretName}`;
  if (!before) throw new RotateError(`${where} has no key yet: the cluster is not enrolled; see /status of an agent`);
  const waitMs = rotationWaitMs(snapshot);
  if (waitMs > 0) throw new RotateError(`${TOO_EARLY}; retry in ${seconds(waitMs)} s; no rotation was requested`);
  await secret.requestRotation(signal);
  console.log("rotation requested; waiting for the leader agent …");
  while (!signal.aborted) {
    // If the API server is briefly unavailable, the next pass reads the Secret again, until the deadline.
    const now = await secret.read(signal).catch(() => undefined);
    if (now?.credential && now.credential.apiKey !== before.apiKey) {
      console.log(`rotated: new cluster key created at ${now.credential.keyCreatedAt}; the old key remains valid for 5 minutes`);
      return;
    }
    const remainingMs = now ? rotationWaitMs(now) : 0;
    if (remainingMs > 0)
      throw new RotateError(
        `${TOO_EARLY}; no retry is needed: the request stays in ${where}, and an agent will rotate the key then, in ${seconds(remainingMs)} s`,
      );
    await pause(POLL_EVERY_MS);
  }
  throw new RotateError(
    `not rotated after ${TIMEOUT_MS / 1000} s, but the request stays in ${where}; check the agents' logs for the cause`,
  );
}

function seconds(ms: number): number {
  return Math.ceil(ms / 1000);
}
