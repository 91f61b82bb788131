// Enrols the cluster under the Lease: announce, register, store. Invariant: the Idempotency-Key and the body of the call are in the Secret
// before the call, so that an agent that starts after a crash makes the very same call and is answered the very same key; the install token is
// never burnt.
import { randomUUID } from "node:crypto";
import type { PendingEnrolment } from "../credentials/cluster-secret.ts";
import type { KubernetesApi } from "../kubernetes/api.ts";
import type { Credential } from "../credentials/store.ts";
import type { RegisterClusterResponse } from "../protocol/enrolment.ts";
import { type BackendApi, BackendError, type Registered } from "../upstream/backend-api.ts";
import type { LeaderSession } from "./leader-session.ts";

export interface EnrolmentCall {
  readonly installToken: string;
  readonly tokenHash: string;
  readonly clusterName: string;
  readonly agentVersion: string;
  /** `<namespace>/<Secret>`. */
  readonly installation: string;
  readonly kubernetes: KubernetesApi;
  readonly backend: Pick<BackendApi, "registerCluster">;
}

/** Rejects with BackendError when the backend refuses, KubernetesError when the API server does. */
export async function enrolCluster(session: LeaderSession, call: EnrolmentCall): Promise<void> {
  const announced = await announce(session, call);
  const register = ({ idempotencyKey, body }: PendingEnrolment): Promise<Registered<RegisterClusterResponse>> =>
    call.backend.registerCluster(call.installToken, idempotencyKey, body, session.signal);
  const answer = await register(announced).catch(async (error: unknown) => {
    if (!isUnknownField(error)) throw error;
    return register(await announceAsOfOld(session, call, announced));
  });
  await session.step("registered");
  const credential = credentialOf(answer, call.agentVersion, session.content.credential);
  const { [call.tokenHash]: _, ...pendingEnrolments } = session.content.pendingEnrolments;
  const done = { pendingEnrolments, pendingRotation: undefined, noRotationBefore: undefined, rotateRequested: false };
  await session.write({ credential, usedTokenHash: call.tokenHash, ...done }, "enrolment-stored");
}

/** An identity that an agent of earlier has enrolled stays one: what that agent left on the nodes is its own. */
function credentialOf({ body, org }: Registered<RegisterClusterResponse>, version: string, before: Credential | undefined): Credential {
  const isOfEarlier = before?.id === body.cluster_id && before.enrolledBy === undefined;
  const found = { id: body.cluster_id, apiKey: body.api_key, keyCreatedAt: body.key_created_at };
  return { ...found, ...(org !== undefined && { org }), ...(!isOfEarlier && { enrolledBy: version }) };
}

async function announce(session: LeaderSession, call: EnrolmentCall): Promise<PendingEnrolment> {
  const earlier = session.content.pendingEnrolments[call.tokenHash];
  if (earlier) return earlier;
  const body = {
    cluster_name: call.clusterName,
    cluster_uid: await clusterUid(call.kubernetes, session.signal),
    agent_version: call.agentVersion,
    installation: call.installation,
  };
  return write(session, call, { idempotencyKey: randomUUID(), body });
}

/** A backend of an earlier version does not know installations, and refuses a field that it does not know. */
function isUnknownField(error: unknown): boolean {
  return error instanceof BackendError && error.code === "invalid_field" && error.message.includes("installation");
}

function announceAsOfOld(session: LeaderSession, call: EnrolmentCall, { body }: PendingEnrolment): Promise<PendingEnrolment> {
  const { installation: _, ...known } = body;
  return write(session, call, { idempotencyKey: randomUUID(), body: known });
}

async function write(session: LeaderSession, call: EnrolmentCall, announced: PendingEnrolment): Promise<PendingEnrolment> {
  const pendingEnrolments = { ...session.content.pendingEnrolments, [call.tokenHash]: announced };
  await session.write({ pendingEnrolments }, "enrolment-announced");
  return announced;
}

/** What makes a cluster the same cluster across reinstallations: the UID of its namespace kube-system. */
async function clusterUid(kubernetes: KubernetesApi, signal: AbortSignal): Promise<string> {
  const namespace = await kubernetes.readNamespace("kube-system", signal);
  return namespace.metadata?.uid ?? "";
}
