// Decides the next action of a cluster agent from the content of the Secret and the agent's knowledge. It is a pure function, so that its
// test covers every state that a crash can leave. Invariant: the plan depends only on the current state, so the next holder of the Lease
// continues where the last one died. Source: docs/decisions.md, "Enrolment".
import { isRotating, type SecretContent } from "../credentials/cluster-secret.ts";
import type { EnrolmentToken } from "../enrolment-token.ts";
import type { Credential } from "../credentials/credential-store.ts";
import { keyHash } from "../../common/protocol/signature.ts";

export interface Situation {
  /** The Secret; undefined if it does not exist. */
  readonly secret: SecretContent | undefined;
  /** The credential that this agent signs with; kept if the Secret is deleted. */
  readonly remembered: Credential | undefined;
  /** This agent's own token. */
  readonly ownToken: Pick<EnrolmentToken, "id" | "isIdentity"> | undefined;
  /** Id of the token that was exchanged for the remembered credential. */
  readonly rememberedTokenId: string | undefined;
  /** Ids of install tokens that the backend has refused. */
  readonly refusedTokens: ReadonlySet<string>;
  /** Hash of the key that the backend has refused as unknown or revoked. */
  readonly refusedKey: string | undefined;
  /** `X-Key-Age-Days` of a key, by the key's hash. */
  readonly keyAge: { readonly keyHash: string; readonly days: number } | undefined;
  /** 0: age never triggers a rotation. */
  readonly keyRotationDays: number;
  /** How long a requested rotation must wait. */
  readonly rotationWaitMs: number;
}

const NEW_TOKEN = 'create one (`atherops tokens create`) and put it into the Secret of installToken, or set it with "helm upgrade"';

/** Problems that only the operator can solve, and how. */
const PROBLEMS = {
  secret_missing: `the Secret does not exist: "helm upgrade" creates it, empty; running agents write a key that they know back into it`,
  no_install_token: `the cluster has no key, and this agent has no install token (installToken is not set, or its Secret or the key in it does not exist); ${NEW_TOKEN}`,
  install_token_refused: `the backend refuses the install token (unknown, expired or used); ${NEW_TOKEN}`,
  key_refused: `the backend refuses the cluster's key (unknown or revoked), and there is no unused install token; ${NEW_TOKEN}; telemetry is kept on disk until then`,
} as const;

type ProblemCode = keyof typeof PROBLEMS;

/** The message for the operator; `secret` is `<namespace>/<name>`. */
export function advice(code: ProblemCode, secret: string): string {
  return `Secret ${secret}: ${PROBLEMS[code]}`;
}

export type Plan =
  /** Creates the Secret, which is missing. */
  | { readonly kind: "create" }
  | { readonly kind: "enrol"; /** Its id. */ readonly token: string; readonly why: string }
  | { readonly kind: "restore"; readonly credential: Credential; readonly usedTokenHash: string | undefined }
  | { readonly kind: "rotate"; readonly credential: Credential; readonly why: string }
  /** `againInMs`: when the next plan is due. */
  | { readonly kind: "none"; readonly problem?: ProblemCode; readonly againInMs?: number };

export function decidePlan(situation: Situation): Plan {
  if (!situation.secret) return situation.ownToken?.isIdentity ? { kind: "create" } : { kind: "none", problem: "secret_missing" };
  if (!situation.secret.credential) return planWithoutCredential(situation);
  return planWithCredential(situation, situation.secret, situation.secret.credential);
}

function planWithoutCredential(situation: Situation): Plan {
  const { remembered, ownToken, rememberedTokenId } = situation;
  const hasNewToken = ownToken && !ownToken.isIdentity && rememberedTokenId !== undefined && ownToken.id !== rememberedTokenId;
  if (remembered && keyHash(remembered.apiKey) !== situation.refusedKey && !hasNewToken) {
    return { kind: "restore", credential: remembered, usedTokenHash: rememberedTokenId };
  }
  if (!ownToken) return { kind: "none", problem: "no_install_token" };
  if (situation.refusedTokens.has(ownToken.id)) return { kind: "none", problem: "install_token_refused" };
  return { kind: "enrol", token: ownToken.id, why: "the cluster has no key yet" };
}

function planWithCredential(situation: Situation, secret: SecretContent, credential: Credential): Plan {
  const hash = keyHash(credential.apiKey);
  // The key may be refused because of a rotation whose response was lost; the refused key can still request that response.
  if (isRotating(secret)) return { kind: "rotate", credential, why: "an announced rotation is not finished" };
  if (hash === situation.refusedKey) return planAfterRefusal(situation, secret);
  if (secret.rotateRequested && situation.rotationWaitMs === 0) return { kind: "rotate", credential, why: "it was requested" };
  const ageDays = situation.keyAge?.keyHash === hash ? situation.keyAge.days : 0;
  if (situation.keyRotationDays > 0 && ageDays >= situation.keyRotationDays) {
    return { kind: "rotate", credential, why: `the key is ${ageDays} days old` };
  }
  return secret.rotateRequested ? { kind: "none", againInMs: situation.rotationWaitMs } : { kind: "none" };
}

function planAfterRefusal(situation: Situation, secret: SecretContent): Plan {
  const { ownToken } = situation;
  const isUsed = ownToken?.id === secret.usedTokenHash && !ownToken?.isIdentity;
  if (!ownToken || isUsed) return { kind: "none", problem: "key_refused" };
  if (situation.refusedTokens.has(ownToken.id)) return { kind: "none", problem: "install_token_refused" };
  const reason = ownToken.isIdentity ? "the cluster's issuer proves its identity" : "there is an unused install token";
  return { kind: "enrol", token: ownToken.id, why: `the backend refuses the key, and ${reason}` };
}
