// The public keys of an issuer: reads a JSON Web Key Set, and fetches the one of an issuer that publishes its metadata (OpenID Connect
// Discovery 1.0). Invariants: requests follow the rules of backend/outgoing (https, permitted addresses, no redirects); bytes, time and
// the number of keys are limited; only the public members of keys are kept.
import type { JWK } from "jose";
import { FairQueue } from "../../admission/fair-queue.ts";
import type { Outgoing } from "../../outgoing/outgoing.ts";
import { RequestFailed } from "../../outgoing/outgoing.ts";
import { MAX_ISSUER_KEYS, MAX_ISSUER_RESPONSE_BYTES, MAX_ISSUER_URL_LENGTH, MAX_MODULUS_LENGTH } from "../auth-limits.ts";

/** For both requests together. */
const TIMEOUT_MS = 5_000;
const MIN_MODULUS_LENGTH = 342;
const PUBLIC_MEMBERS = ["kty", "kid", "alg", "use", "n", "e", "crv", "x", "y"] as const;
const CURVES = new Set(["P-256", "P-384", "P-521", "Ed25519"]);

/** The issuer has no usable keys. The message may be shown to administrators of the organisation. */
export class KeysUnavailable extends Error {
  override readonly name = "KeysUnavailable";
}

/** `orgId`: the organisation that trusts the issuer. Throws KeysUnavailable. */
export type FetchKeys = (issuer: string, orgId: string) => Promise<readonly JWK[]>;

/** Issuers that are asked at one time: each answer takes CPU time, and the organisation that trusts a slow one chose it. */
const QUEUE_LIMITS = { running: 16, perOrg: 4, waitingPerOrg: 64, fullMessage: "too many issuers of this organisation are being asked" };

export function createFetchKeys(outgoing: Pick<Outgoing, "get">, timeoutMs = TIMEOUT_MS): FetchKeys {
  const queue = new FairQueue(QUEUE_LIMITS);
  return async (issuer, orgId) =>
    await queue.run(orgId, undefined, async () => {
      const signal = AbortSignal.timeout(timeoutMs);
      const read = async (url: string) => await readJson(outgoing, url, signal);
      const metadata = await read(`${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`);
      if (metadata["issuer"] !== issuer) throw new KeysUnavailable("its metadata has another issuer than its URL");
      const uri = metadata["jwks_uri"];
      if (typeof uri !== "string") throw new KeysUnavailable("its metadata has no jwks_uri");
      const keys = readKeySet(await read(uri));
      if (keys.length === 0) throw new KeysUnavailable("its key set has no public key with a key id that can verify signatures");
      return keys;
    });
}

async function readJson(outgoing: Pick<Outgoing, "get">, text: string, signal: AbortSignal): Promise<Record<string, unknown>> {
  const url = text.length <= MAX_ISSUER_URL_LENGTH * 2 ? URL.parse(text) : null;
  if (!url) throw new KeysUnavailable("its metadata has an invalid jwks_uri");
  try {
    const { status, body } = await outgoing.get(url, { maxBytes: MAX_ISSUER_RESPONSE_BYTES, signal });
    if (status !== 200) throw new KeysUnavailable(`${url.pathname} returned status ${status}`);
    const value: unknown = JSON.parse(body.toString("utf8"));
    if (typeof value !== "object" || value === null) throw new KeysUnavailable(`${url.pathname}: the response is no JSON object`);
    return value as Record<string, unknown>;
  } catch (cause) {
    if (cause instanceof KeysUnavailable) throw cause;
    const reason = cause instanceof RequestFailed ? cause.message : "the response is not JSON";
    throw new KeysUnavailable(`${url.pathname}: ${reason}`, { cause });
  }
}

/** The keys that can verify signatures; others are left out. Throws KeysUnavailable if this is no key set, or if it has too many keys. */
export function readKeySet(value: unknown): JWK[] {
  const keys = (value as { keys?: unknown } | null)?.keys;
  if (!Array.isArray(keys)) throw new KeysUnavailable('the key set is not {"keys": […]}');
  if (keys.length > MAX_ISSUER_KEYS) throw new KeysUnavailable(`the key set has more than ${MAX_ISSUER_KEYS} keys`);
  return keys.filter(isUsable).map((key) => Object.fromEntries(PUBLIC_MEMBERS.flatMap((name) => toMember(key, name))) as unknown as JWK);
}

function toMember(key: Record<string, unknown>, name: string): [string, unknown][] {
  return Object.hasOwn(key, name) ? [[name, key[name]]] : [];
}

function isUsable(key: unknown): key is Record<string, unknown> {
  if (typeof key !== "object" || key === null) return false;
  const { kty, kid, use, n, e, crv, x, y, d } = key as Record<string, unknown>;
  // Anyone who has read a private key can sign with it.
  if (!isShort(kid) || d !== undefined || (use !== undefined && use !== "sig")) return false;
  if (kty === "RSA") return isShort(n, MAX_MODULUS_LENGTH) && n.length >= MIN_MODULUS_LENGTH && isShort(e, 6);
  return (kty === "EC" || kty === "OKP") && typeof crv === "string" && CURVES.has(crv) && isShort(x) && (y === undefined || isShort(y));
}

function isShort(value: unknown, maxLength = 200): value is string {
  return typeof value === "string" && value.length > 0 && value.length <= maxLength;
}
