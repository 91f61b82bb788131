// Does one duty in one turn and says what the backend thinks of the key or the token. Invariant: a refusal that waiting cannot cure is a
// finding, not an error; everything else that fails is thrown, and tried again in another turn.
import type { ClusterSettings } from "../settings.ts";
import type { Credential } from "../credentials/store.ts";
import type { KubernetesApi } from "../kubernetes/api.ts";
import { CLUSTER_HEARTBEAT_PATH, ROTATION_OVERLAP_MS } from "../protocol/enrolment.ts";
import { keyHash } from "../protocol/signature.ts";
import { BackendError, type BackendApi } from "../upstream/backend-api.ts";
import type { Duty } from "./plan.ts";
import { enrolCluster } from "./enrol.ts";
import { installationOf } from "./installation.ts";
import { rotateKey } from "./rotate.ts";
import type { Turn } from "./leader-session.ts";

export type ClusterBackend = Pick<BackendApi, "registerCluster" | "rotateKey" | "heartbeat">;

/** What was learnt: nothing that matters, or a hash that the backend has refused for good. */
export type Finding = { readonly refusedToken: string } | { readonly refusedKey: string } | undefined;

export interface Means {
  readonly settings: Pick<ClusterSettings, "clusterName" | "podNamespace" | "secretName">;
  readonly installToken: string | undefined;
  readonly agentVersion: string;
  readonly kubernetes: KubernetesApi;
  readonly backend: ClusterBackend;
}

export async function perform(duty: Exclude<Duty, { kind: "none" }>, turn: Turn, means: Means): Promise<Finding> {
  if (duty.kind === "enrol") return enrol(duty.tokenHash, turn, means);
  if (duty.kind === "rotate") return rotate(duty.credential, turn, means);
  return restore(duty.credential, duty.usedTokenHash, turn, means);
}

/** Asks the backend with one signed request whether it accepts this key: undefined, or the finding that it does not. */
export async function probe(credential: Credential, backend: ClusterBackend, signal: AbortSignal): Promise<Finding> {
  try {
    await backend.heartbeat(CLUSTER_HEARTBEAT_PATH, credential, {}, signal);
    return undefined;
  } catch (error) {
    return keyFinding(error, credential);
  }
}

async function enrol(tokenHash: string, turn: Turn, means: Means): Promise<Finding> {
  const { settings, agentVersion, kubernetes, backend } = means;
  const installToken = means.installToken ?? "";
  try {
    const { clusterName } = settings;
    const installation = installationOf(settings);
    await enrolCluster(turn, { installToken, tokenHash, clusterName, agentVersion, installation, kubernetes, backend });
    return undefined;
  } catch (error) {
    if (error instanceof BackendError && error.code === "invalid_install_token") return { refusedToken: tokenHash };
    throw error;
  }
}

async function rotate(credential: Credential, turn: Turn, { backend }: Means): Promise<Finding> {
  try {
    await rotateKey(turn, credential, backend);
    return undefined;
  } catch (error) {
    const isTooEarly = error instanceof BackendError && error.code === "rotation_in_progress";
    const finding = isTooEarly ? undefined : keyFinding(error, credential);
    // In the Secret, so that no other agent asks in vain until then.
    const noRotationBefore = isTooEarly ? later(error.retryAfterS) : turn.content.noRotationBefore;
    await turn.write({ pendingRotation: undefined, noRotationBefore }, "rotation-abandoned");
    return finding;
  }
}

function later(seconds = ROTATION_OVERLAP_MS / 1000): string {
  return new Date(Date.now() + seconds * 1000).toISOString();
}

/** Puts the key that this agent still knows back into a Secret that was deleted and made anew, if the backend still accepts it. */
async function restore(credential: Credential, usedTokenHash: string | undefined, turn: Turn, { backend }: Means): Promise<Finding> {
  const finding = await probe(credential, backend, turn.signal);
  if (!finding) await turn.write({ credential, usedTokenHash }, "restored");
  return finding;
}

function keyFinding(error: unknown, credential: Credential): Finding {
  if (error instanceof BackendError && error.keyRefused) return { refusedKey: keyHash(credential.apiKey) };
  throw error;
}
