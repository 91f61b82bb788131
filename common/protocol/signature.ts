// The wire contract of signed requests: what is signed, how, and what a verifier accepts. Invariant: it depends only on node: modules, so
// that agent, backend and readers of the contract share one definition. Source: docs/contract.md, "Signed requests", and docs/decisions.md,
// "HTTP".
import { createHash, createHmac, timingSafeEqual } from "node:crypto";

export const TIMESTAMP_HEADER = "x-timestamp";
export const KEY_HASH_HEADER = "x-key-hash";
export const SIGNATURE_HEADER = "x-signature";
/** Whole days since the key was created; set on every response to a request that a cluster or host key signed. */
export const KEY_AGE_HEADER = "x-key-age-days";

/** Largest accepted difference between `X-Timestamp` and the server's clock, inclusive. */
export const CLOCK_TOLERANCE_S = 300;

/** The signed bytes: `<unix_ts>\n<METHOD>\n<path>`; `timestamp` exactly as sent, `path` as received, without query string. */
export function canonicalMessage(timestamp: string, method: string, path: string): string {
  return `${timestamp}\n${method}\n${path}`;
}

/** Lowercase hex SHA-256 of the raw key: identifies the key without sending it. */
export function keyHash(rawKey: string): string {
  return createHash("sha256").update(rawKey, "utf8").digest("hex");
}

/** The three headers for one request. `nowUnixS` is in Unix seconds. */
export function sign(rawKey: string, method: string, path: string, nowUnixS: number): Record<string, string> {
  const timestamp = String(Math.floor(nowUnixS));
  return {
    [TIMESTAMP_HEADER]: timestamp,
    [KEY_HASH_HEADER]: keyHash(rawKey),
    [SIGNATURE_HEADER]: signatureOf(rawKey, timestamp, method, path).toString("hex"),
  };
}

/** True if `signature` (64 hex characters, any case) is the HMAC of the message under `rawKey`. Timing-safe. */
export function verify(rawKey: string, timestamp: string, method: string, path: string, signature: string): boolean {
  const expected = signatureOf(rawKey, timestamp, method, path);
  const received = /^[0-9a-fA-F]{64}$/.test(signature) ? Buffer.from(signature, "hex") : Buffer.alloc(expected.length);
  return timingSafeEqual(expected, received) && received.length === expected.length && signature.length === 64;
}

/** The path that is signed: the request target up to the first `?`, exactly as received (no decoding, no normalising). */
export function signedPath(requestTarget: string): string {
  const query = requestTarget.indexOf("?");
  return query === -1 ? requestTarget : requestTarget.slice(0, query);
}

/**
 * latin1: `node:http` represents each byte of a request target as one character, both when receiving and when sending; these bytes are
 * signed.
 */
function signatureOf(rawKey: string, timestamp: string, method: string, path: string): Buffer {
  return createHmac("sha256", rawKey)
    .update(canonicalMessage(timestamp, method, path), "latin1")
    .digest();
}
