// Executes one plan (enrol, rotate, restore) in one session of the Lease holder, and returns whether the backend refused the key or token.
// Invariants: a permanent refusal is returned, not thrown; a rotation's Idempotency-Key is stored in the Secret before the call, and removed by
// the write that stores the new key (docs/decisions.md, "Enrolment"); only a key that is in the Secret signs.
import { randomUUID } from "node:crypto";
import type { ClusterSettings } from "../settings.ts";
import type { Credential } from "../credentials/credential-store.ts";
import type { KubernetesApi } from "../kubernetes/api.ts";
import { CLUSTER_HEARTBEAT_PATH, ROTATION_OVERLAP_MS } from "../../common/protocol/enrolment.ts";
import { keyHash } from "../../common/protocol/signature.ts";
import { type BackendApi, BackendError } from "../upstream/backend-api.ts";
import type { Plan } from "./plan.ts";
import { installationOf } from "./identity.ts";
import type { EnrolmentToken } from "../enrolment-token.ts";
import type { LeaderSession } from "./leader-session.ts";
import { isRotating, type PendingEnrolment, type PendingRotation } from "../credentials/cluster-secret.ts";

export type ClusterBackend = Pick<BackendApi, "registerCluster" | "rotateKey" | "heartbeat">;

/** The hash of a token or key that the backend has permanently refused; undefined if it refused none. */
export type Refusal = { readonly refusedToken: string } | { readonly refusedKey: string } | undefined;

/** Inputs of the execution in addition to the plan. */
export interface ExecutionContext {
  readonly settings: Pick<ClusterSettings, "clusterName" | "podNamespace" | "secretName">;
  readonly token: EnrolmentToken | undefined;
  readonly agentVersion: string;
  readonly kubernetes: KubernetesApi;
  readonly backend: ClusterBackend;
}

export async function execute(
  plan: Exclude<Plan, { kind: "none" | "create" }>,
  session: LeaderSession,
  context: ExecutionContext,
): Promise<Refusal> {
  if (plan.kind === "enrol") return enrol(plan.token, session, context);
  if (plan.kind === "rotate") return rotate(plan.credential, session, context);
  return restore(plan.credential, plan.usedTokenHash, session, context);
}

/** Sends one signed request to check whether the backend accepts this key; returns undefined if it does. */
export async function probe(credential: Credential, backend: ClusterBackend, signal: AbortSignal): Promise<Refusal> {
  try {
    await backend.heartbeat(CLUSTER_HEARTBEAT_PATH, credential, {}, signal);
    return undefined;
  } catch (error) {
    return keyRefusal(error, credential);
  }
}

async function enrol(tokenId: string, session: LeaderSession, context: ExecutionContext): Promise<Refusal> {
  const { settings, agentVersion, kubernetes, backend } = context;
  const { text = "", isIdentity = false } = context.token ?? {};
  try {
    const { clusterName } = settings;
    const installation = installationOf(settings);
    await enrolCluster(session, { token: text, tokenId, clusterName, agentVersion, installation, kubernetes, backend });
    return undefined;
  } catch (error) {
    // The same identity token is tried again, because the reason may be that the issuer is not trusted yet.
    if (!isIdentity && error instanceof BackendError && error.code === "invalid_install_token") return { refusedToken: tokenId };
    throw error;
  }
}

async function rotate(credential: Credential, session: LeaderSession, { backend }: ExecutionContext): Promise<Refusal> {
  try {
    await rotateKey(session, credential, backend);
    return undefined;
  } catch (error) {
    const isTooEarly = error instanceof BackendError && error.code === "rotation_in_progress";
    const refusal = isTooEarly ? undefined : keyRefusal(error, credential);
    // Stored in the Secret, so that no other agent requests a rotation before that time.
    const noRotationBefore = isTooEarly ? timeAfter(error.retryAfterS) : session.content.noRotationBefore;
    await session.write({ pendingRotation: undefined, noRotationBefore }, "rotation-abandoned");
    return refusal;
  }
}

function timeAfter(seconds = ROTATION_OVERLAP_MS / 1000): string {
  return new Date(Date.now() + seconds * 1000).toISOString();
}

/** Writes the key that this agent still has back to a Secret that was deleted and recreated, if the backend still accepts it. */
async function restore(
  credential: Credential,
  usedTokenHash: string | undefined,
  session: LeaderSession,
  { backend }: ExecutionContext,
): Promise<Refusal> {
  const refusal = await probe(credential, backend, session.signal);
  if (!refusal) await session.write({ credential, usedTokenHash }, "restored");
  return refusal;
}

function keyRefusal(error: unknown, credential: Credential): Refusal {
  if (error instanceof BackendError && error.keyRefused) return { refusedKey: keyHash(credential.apiKey) };
  throw error;
}

/** `credential` is the current one, which signs the call. Rejects with BackendError or KubernetesError, and may be called again. */
export async function rotateKey(session: LeaderSession, credential: Credential, backend: Pick<BackendApi, "rotateKey">): Promise<void> {
  const { idempotencyKey } = await announceRotation(session, credential);
  const { body: answer } = await backend.rotateKey(credential, idempotencyKey, session.signal);
  await session.step("rotated");
  const rotated = { ...credential, apiKey: answer.api_key, keyCreatedAt: answer.key_created_at };
  const noRotationBefore = answer.previous_key_expires_at;
  await session.write({ credential: rotated, pendingRotation: undefined, noRotationBefore, rotateRequested: false }, "rotation-stored");
}

async function announceRotation(session: LeaderSession, credential: Credential): Promise<PendingRotation> {
  const earlier = session.content.pendingRotation;
  if (earlier && isRotating(session.content)) return earlier;
  const pendingRotation = { idempotencyKey: randomUUID(), keyHash: keyHash(credential.apiKey) };
  await session.write({ pendingRotation }, "rotation-announced");
  return pendingRotation;
}

// Enrols the cluster under the Lease: announces, registers, stores. Invariant: the Idempotency-Key and the body of the call are in the
// Secret before the call, so that after a crash, another agent makes the identical call and gets the same key; the install token is never
// wasted.

interface EnrolmentCall {
  readonly token: string;
  readonly tokenId: string;
  readonly clusterName: string;
  readonly agentVersion: string;
  /** `<namespace>/<Secret>`. */
  readonly installation: string;
  readonly kubernetes: KubernetesApi;
  readonly backend: Pick<BackendApi, "registerCluster">;
}

/** Rejects with BackendError if the backend refuses, KubernetesError if the API server does. */
async function enrolCluster(session: LeaderSession, call: EnrolmentCall): Promise<void> {
  const { idempotencyKey, body } = await announceEnrolment(session, call);
  const { body: answer, org } = await call.backend.registerCluster(call.token, idempotencyKey, body, session.signal);
  await session.step("registered");
  const { cluster_id: id, api_key: apiKey, key_created_at: keyCreatedAt } = answer;
  const credential = { id, apiKey, keyCreatedAt, ...(org !== undefined && { org }) };
  const { [call.tokenId]: _, ...pendingEnrolments } = session.content.pendingEnrolments;
  const resetFields = { pendingEnrolments, pendingRotation: undefined, noRotationBefore: undefined, rotateRequested: false };
  await session.write({ credential, usedTokenHash: call.tokenId, ...resetFields }, "enrolment-stored");
}

async function announceEnrolment(session: LeaderSession, call: EnrolmentCall): Promise<PendingEnrolment> {
  const earlier = session.content.pendingEnrolments[call.tokenId];
  if (earlier) return earlier;
  const body = {
    cluster_name: call.clusterName,
    cluster_uid: await clusterUid(call.kubernetes, session.signal),
    agent_version: call.agentVersion,
    installation: call.installation,
  };
  const announced = { idempotencyKey: randomUUID(), body };
  const pendingEnrolments = { ...session.content.pendingEnrolments, [call.tokenId]: announced };
  await session.write({ pendingEnrolments }, "enrolment-announced");
  return announced;
}

/** The UID of the namespace kube-system identifies a cluster across reinstallations. */
async function clusterUid(kubernetes: KubernetesApi, signal: AbortSignal): Promise<string> {
  const namespace = await kubernetes.readNamespace("kube-system", signal);
  return namespace.metadata?.uid ?? "";
}
