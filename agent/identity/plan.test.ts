import { expect, it } from "vitest";
import type { SecretContent } from "../credentials/cluster-secret.ts";
import { keyHash } from "../../common/protocol/signature.ts";
import { decidePlan, type Situation } from "./plan.ts";

const KEY = { id: "c", apiKey: "ak_1", keyCreatedAt: "2026-01-01T00:00:00Z" };
const HASH = keyHash(KEY.apiKey);
const EMPTY: SecretContent = { pendingEnrolments: {}, rotateRequested: false };
const ENROLLED: SecretContent = { ...EMPTY, credential: KEY, usedTokenHash: "token-1" };
const ROTATING: SecretContent = { ...ENROLLED, pendingRotation: { idempotencyKey: "i", keyHash: HASH } };

const INSTALL = (id: string) => ({ id, isIdentity: false });
const IDENTITY = { id: "identity", isIdentity: true };

function situation(change: Partial<Situation>): Situation {
  return {
    secret: ENROLLED,
    remembered: KEY,
    ownToken: INSTALL("token-1"),
    rememberedTokenId: "token-1",
    refusedTokens: new Set(),
    refusedKey: undefined,
    keyAge: undefined,
    keyRotationDays: 30,
    rotationWaitMs: 0,
    ...change,
  };
}

const BY_AGE = { secret: { ...ENROLLED, rotateRequested: true }, keyAge: { keyHash: HASH, days: 30 } };
const FRESH = { secret: EMPTY, remembered: undefined, rememberedTokenId: undefined };

it.for<[string, Partial<Situation>, string]>([
  ["an enrolled cluster with a young key: nothing", { keyAge: { keyHash: HASH, days: 29 } }, "none"],
  ["an empty Secret and an install token: enrol", FRESH, "enrol"],
  ["an enrolment that was announced and not finished: enrol", { ...FRESH, secret: announced() }, "enrol"],
  ["an empty Secret and no install token: say so", { ...FRESH, ownToken: undefined }, "no_install_token"],
  ["an empty Secret and a refused token: say so", { ...FRESH, refusedTokens: new Set(["token-1"]) }, "install_token_refused"],
  ["no Secret: say so", { secret: undefined }, "secret_missing"],
  ["an empty Secret and a key that is remembered: restore", { secret: EMPTY }, "restore"],
  ["the same without any install token: restore", { secret: EMPTY, ownToken: undefined }, "restore"],
  ["an empty Secret and a token other than the remembered key's: enrol", { secret: EMPTY, ownToken: INSTALL("token-2") }, "enrol"],
  ["an empty Secret and a remembered key that is refused: enrol", { secret: EMPTY, refusedKey: HASH }, "enrol"],
  ["a key that has reached the age: rotate", { keyAge: { keyHash: HASH, days: 30 } }, "rotate"],
  ["an age that is of another key: nothing", { keyAge: { keyHash: "other", days: 99 } }, "none"],
  ["any age with rotation by age off: nothing", { keyAge: { keyHash: HASH, days: 9999 }, keyRotationDays: 0 }, "none"],
  ["a rotation that was asked for: rotate", { secret: { ...ENROLLED, rotateRequested: true } }, "rotate"],
  ["the same with rotation by age off: rotate", { secret: { ...ENROLLED, rotateRequested: true }, keyRotationDays: 0 }, "rotate"],
  ["one that was asked for too early: nothing yet", { secret: { ...ENROLLED, rotateRequested: true }, rotationWaitMs: 9 }, "none"],
  ["one by age at that time, which no key of that age can be too early for: rotate", { ...BY_AGE, rotationWaitMs: 9 }, "rotate"],
  ["an announced one at that time: rotate, for the lost answer", { secret: ROTATING, rotationWaitMs: 9 }, "rotate"],
  ["a rotation that was announced and not finished: rotate", { secret: ROTATING }, "rotate"],
  ["the same with a key that is refused meanwhile: rotate, for the lost answer", { secret: ROTATING, refusedKey: HASH }, "rotate"],
  ["an announcement that is about an older key: nothing", { secret: { ...ROTATING, credential: { ...KEY, apiKey: "ak_2" } } }, "none"],
  ["a refused key and the token it came from: say so", { refusedKey: HASH }, "key_refused"],
  ["a refused key and no token: say so", { refusedKey: HASH, ownToken: undefined }, "key_refused"],
  ["a refused key and an unused token: enrol", { refusedKey: HASH, ownToken: INSTALL("token-2") }, "enrol"],
  [
    "a refused key and an unused token that is refused too: say so",
    { refusedKey: HASH, ownToken: INSTALL("token-2"), refusedTokens: new Set(["token-2"]) },
    "install_token_refused",
  ],
  ["an empty Secret and an identity token: enrol", { ...FRESH, ownToken: IDENTITY }, "enrol"],
  ["no Secret and an identity token: create it", { secret: undefined, ownToken: IDENTITY }, "create"],
  ["an empty Secret, an identity token and a key that is remembered: restore", { secret: EMPTY, ownToken: IDENTITY }, "restore"],
  [
    "a refused key and the identity token that it came from: enrol again",
    { refusedKey: HASH, ownToken: IDENTITY, secret: { ...ENROLLED, usedTokenHash: "identity" } },
    "enrol",
  ],
  ["a refused key that is no longer the one in force: nothing", { refusedKey: "other" }, "none"],
])("%s", ([, change, expected]) => {
  const plan = decidePlan(situation(change));
  expect(plan.kind === "none" ? (plan.problem ?? "none") : plan.kind).toBe(expected);
});

function announced(): SecretContent {
  const body = { cluster_name: "n", cluster_uid: "u", agent_version: "1" };
  return { ...EMPTY, pendingEnrolments: { "token-1": { idempotencyKey: "i", body } } };
}
