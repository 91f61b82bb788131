// Rotates the cluster's key under the Lease: announce, rotate, store. Invariant: the Idempotency-Key is in the Secret before the call and
// leaves it in the write that stores the new key; until then the old key is the one in the Secret, and may ask for the same answer again
// however late (docs/decisions.md, "Enrolment"). No key signs that is not in the Secret.
import { randomUUID } from "node:crypto";
import { isRotating, type PendingRotation } from "../credentials/cluster-secret.ts";
import type { Credential } from "../credentials/store.ts";
import { keyHash } from "../../common/protocol/signature.ts";
import type { BackendApi } from "../upstream/backend-api.ts";
import type { LeaderSession } from "./leader-session.ts";

/** `credential` is the one in force, which signs the call. Rejects with BackendError or KubernetesError, and may be called again. */
export async function rotateKey(session: LeaderSession, credential: Credential, backend: Pick<BackendApi, "rotateKey">): Promise<void> {
  const { idempotencyKey } = await announce(session, credential);
  const { body: answer } = await backend.rotateKey(credential, idempotencyKey, session.signal);
  await session.step("rotated");
  const rotated = { ...credential, apiKey: answer.api_key, keyCreatedAt: answer.key_created_at };
  const noRotationBefore = answer.previous_key_expires_at;
  await session.write({ credential: rotated, pendingRotation: undefined, noRotationBefore, rotateRequested: false }, "rotation-stored");
}

async function announce(session: LeaderSession, credential: Credential): Promise<PendingRotation> {
  const earlier = session.content.pendingRotation;
  if (earlier && isRotating(session.content)) return earlier;
  const pendingRotation = { idempotencyKey: randomUUID(), keyHash: keyHash(credential.apiKey) };
  await session.write({ pendingRotation }, "rotation-announced");
  return pendingRotation;
}
