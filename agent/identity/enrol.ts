// Enrols the cluster under the Lease: announce, register, store. Invariant: the Idempotency-Key and the body of the call are in the Secret
// before the call, so that an agent that starts after a crash makes the very same call and is answered the very same key; the install token is
// never burnt.
import { randomUUID } from "node:crypto";
import type { PendingEnrolment } from "../credentials/cluster-secret.ts";
import type { KubernetesApi } from "../kubernetes/api.ts";
import type { Credential } from "../credentials/store.ts";
import type { RegisterClusterResponse } from "../../common/protocol/enrolment.ts";
import type { BackendApi, Registered } from "../upstream/backend-api.ts";
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
  const { idempotencyKey, body } = await announce(session, call);
  const answer = await call.backend.registerCluster(call.installToken, idempotencyKey, body, session.signal);
  await session.step("registered");
  const credential = readCredential(answer);
  const { [call.tokenHash]: _, ...pendingEnrolments } = session.content.pendingEnrolments;
  const done = { pendingEnrolments, pendingRotation: undefined, noRotationBefore: undefined, rotateRequested: false };
  await session.write({ credential, usedTokenHash: call.tokenHash, ...done }, "enrolment-stored");
}

function readCredential({ body, org }: Registered<RegisterClusterResponse>): Credential {
  return { id: body.cluster_id, apiKey: body.api_key, keyCreatedAt: body.key_created_at, ...(org !== undefined && { org }) };
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
  const announced = { idempotencyKey: randomUUID(), body };
  const pendingEnrolments = { ...session.content.pendingEnrolments, [call.tokenHash]: announced };
  await session.write({ pendingEnrolments }, "enrolment-announced");
  return announced;
}

/** What makes a cluster the same cluster across reinstallations: the UID of its namespace kube-system. */
async function clusterUid(kubernetes: KubernetesApi, signal: AbortSignal): Promise<string> {
  const namespace = await kubernetes.readNamespace("kube-system", signal);
  return namespace.metadata?.uid ?? "";
}
