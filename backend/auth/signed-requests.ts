// Verifies signed requests: headers, clock window, key, signature and kind of key. Invariant: it reads headers only, never the request
// body. Every refusal is a 401 with its own code (403 for a wrong kind), and a cached key needs no wait. Specified in docs/contract.md,
// "Signed requests".
import { timingSafeEqual } from "node:crypto";
import type { FastifyReply, FastifyRequest, onRequestAsyncHookHandler } from "fastify";
import {
  canonicalMessage,
  CLOCK_TOLERANCE_S,
  KEY_AGE_HEADER,
  KEY_HASH_HEADER,
  SIGNATURE_HEADER,
  signedPath,
  TIMESTAMP_HEADER,
  verify,
} from "../../common/protocol/signature.ts";
import { ApiError } from "../errors.ts";
import { MAX_REMEMBERED_LENGTH, MAX_SHOWN_PATH_CHARACTERS } from "./auth-limits.ts";
import type { Guards, KeyKind, SigningKey } from "../http/request-identity.ts";

/** A key with what its verification needs. */
export interface VerifyingKey {
  readonly rawKey: string;
  readonly signing: SigningKey;
  /** When the key expires, Unix milliseconds; Infinity for a current key. */
  readonly expiresMs: number;
  readonly revoked: boolean;
  /** False until it has signed its first accepted request. */
  used: boolean;
}

/** Finds keys by their SHA-256. Returns a value instead of a promise if the key is cached. */
export interface KeySource {
  find(hash: string): VerifyingKey | undefined | Promise<VerifyingKey | undefined>;
  /** Records the first use, before the request is answered. */
  used(key: VerifyingKey): Promise<void>;
}

export interface SignedGuardOptions {
  keys: KeySource;
  now?: () => number;
}

const DAY_MS = 86_400_000;
/** Verified against when the hash is unknown, so that both refusals cost the same work. */
const DECOY_KEY = `ak_${"0".repeat(43)}`;

/** The guard of signed endpoints: accepts valid keys of these kinds. */
export function createSignedGuard(options: SignedGuardOptions): Guards["signed"] {
  return (...kinds) => guard(options, kinds, () => false);
}

/**
 * The guard of rotate-key: a key of a cluster, also an expired one if the request repeats an Idempotency-Key. The route decides whether
 * that rotation may be repeated.
 */
export function createRotationGuard(options: SignedGuardOptions): onRequestAsyncHookHandler {
  return guard(options, ["cluster"], (request) => request.headers["idempotency-key"] !== undefined);
}

function guard(
  { keys, now = Date.now }: SignedGuardOptions,
  kinds: readonly KeyKind[],
  mayBeExpired: (request: FastifyRequest) => boolean,
): onRequestAsyncHookHandler {
  return async (request, reply) => {
    const headers = readHeaders(request.raw.rawHeaders);
    checkClock(headers.timestamp, now());
    const found = keys.find(headers.keyHash);
    const key = found instanceof Promise ? await found : found;
    checkSignature(request, key, headers);
    const { signing } = key;
    if (key.revoked || (now() >= key.expiresMs && !mayBeExpired(request))) throw revoked();
    setKeyAge(reply, signing, now());
    if (!kinds.includes(signing.kind))
      throw new ApiError("wrong_key_kind", `this endpoint accepts keys of kind ${kinds.join(" or ")}; this one is ${signing.kind}`);
    if (!key.used && now() < key.expiresMs) await keys.used(key);
    request.signingKey = signing;
  };
}

export function revoked(): ApiError {
  return new ApiError("revoked_key", "the key was revoked or replaced: use the current key, or enrol again with an install token");
}

interface SignatureHeaders {
  timestamp: string;
  keyHash: string;
  signature: string;
}

/** Reads the three headers from the raw list, because repeated headers must be refused. */
function readHeaders(raw: readonly string[]): SignatureHeaders {
  const timestamp = readSingle(raw, TIMESTAMP_HEADER);
  const keyHash = readSingle(raw, KEY_HASH_HEADER);
  const signature = readSingle(raw, SIGNATURE_HEADER);
  if (!/^\d{1,15}$/.test(timestamp)) throw malformed("X-Timestamp must be Unix seconds in decimal digits");
  if (!/^[0-9a-f]{64}$/.test(keyHash)) throw malformed("X-Key-Hash must be 64 lowercase hex characters: SHA-256 of the API key");
  if (!/^[0-9a-fA-F]{64}$/.test(signature)) throw malformed("X-Signature must be 64 hex characters: HMAC-SHA256 under the API key");
  return { timestamp, keyHash, signature };
}

function readSingle(raw: readonly string[], name: string): string {
  let value: string | undefined;
  for (let index = 0; index < raw.length; index += 2) {
    const candidate = raw[index] as string;
    if (candidate.length !== name.length || candidate.toLowerCase() !== name) continue;
    if (value !== undefined) throw malformed(`${name} is repeated: send it once`);
    value = raw[index + 1] as string;
  }
  if (value === undefined)
    throw new ApiError("missing_header", `${name} is missing: signed requests need X-Timestamp, X-Key-Hash, X-Signature`);
  return value;
}

function malformed(message: string): ApiError {
  return new ApiError("malformed_header", message);
}

function checkClock(timestamp: string, nowMs: number): void {
  const skewS = Math.floor(nowMs / 1000) - Number(timestamp);
  if (Math.abs(skewS) <= CLOCK_TOLERANCE_S) return;
  const direction = skewS > 0 ? "behind" : "ahead of";
  throw new ApiError(
    "stale_timestamp",
    `X-Timestamp is ${Math.abs(skewS)} s ${direction} the server's clock, more than ${CLOCK_TOLERANCE_S} s: set the sender's clock`,
  );
}

function checkSignature(request: FastifyRequest, key: VerifyingKey | undefined, headers: SignatureHeaders): asserts key is VerifyingKey {
  const { method = "", url = "" } = request.raw;
  const path = signedPath(url);
  const message = canonicalMessage(headers.timestamp, method, path);
  if (key && isRepeated(key, message, headers.signature)) return;
  const valid = verify(key?.rawKey ?? DECOY_KEY, headers.timestamp, method, path, headers.signature);
  if (key && valid) remember(key, message, headers.signature);
  if (!key) throw new ApiError("unknown_key", "no key has this hash: check the key, or enrol again with an install token");
  if (!valid)
    throw new ApiError(
      "bad_signature",
      `the signature does not match: this key must sign \`<timestamp>\\n<METHOD>\\n<path>\`; ${method} ${shortened(path)} arrived`,
    );
}

/** A proxy in front may have changed the path. Node.js accepts only printable ASCII in it. */
function shortened(path: string): string {
  return path.length > MAX_SHOWN_PATH_CHARACTERS ? `${path.slice(0, MAX_SHOWN_PATH_CHARACTERS)}…` : path;
}

/** The last valid signature of each key, because all requests of one second to one path have the same signature. */
const lastValid = new WeakMap<VerifyingKey, { readonly message: string; readonly signature: Buffer }>();

function isRepeated(key: VerifyingKey, message: string, signature: string): boolean {
  const last = lastValid.get(key);
  return last?.message === message && timingSafeEqual(last.signature, Buffer.from(signature, "latin1"));
}

function remember(key: VerifyingKey, message: string, signature: string): void {
  if (message.length <= MAX_REMEMBERED_LENGTH) lastValid.set(key, { message, signature: Buffer.from(signature, "latin1") });
}

/** Set before other checks, so that their errors have the header too. */
function setKeyAge(reply: FastifyReply, key: SigningKey, nowMs: number): void {
  if (key.kind === "direct") return;
  void reply.header(KEY_AGE_HEADER, String(Math.max(0, Math.floor((nowMs - key.createdAt.getTime()) / DAY_MS))));
}
