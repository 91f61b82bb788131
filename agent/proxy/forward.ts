// Signs a request, sends it to the backend, and classifies the response. Invariant: only 204 is success, and only a refusal that certainly comes
// from our backend is final; on any other response, the collector keeps the data and retries.
import type { Credential, CredentialSource } from "../credentials/credential-store.ts";
import { DROPPED_RECORDS_HEADER, parseDroppedRecords } from "../../common/protocol/dropped-records.ts";
import { FINAL_REFUSALS } from "../../common/protocol/enrolment.ts";
import { KEY_AGE_HEADER, sign } from "../../common/protocol/signature.ts";
import type { UpstreamAnswer } from "../http-pool.ts";
import type { Clock } from "../upstream/clock.ts";
import { redirectOf, type Upstream, UpstreamError } from "../upstream/pool.ts";
import { isKeyRefusal, type RefusedKey } from "../upstream/refused-key.ts";
import { MAX_RETRY_AFTER_S } from "../agent-limits.ts";

/** The time to sign with; responses correct it. */
export type SigningClock = Pick<Clock, "nowUnixS"> & Partial<Pick<Clock, "observe">>;

interface ForwardParts {
  readonly upstream: Upstream;
  readonly credentials: CredentialSource;
  readonly clock: SigningClock;
  /** Without it, a refused key is still used for each request. */
  readonly refusedKey?: RefusedKey | undefined;
}

export interface Post {
  /** One of the three ingest paths. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** May be read twice. A streamed body needs its `content-length` among the headers. */
  readonly body: Uint8Array | AsyncIterable<Uint8Array>;
}

export type ForwardResult =
  /** `dropped`: records by reason that the backend did not store, and that nothing can store. */
  | { readonly kind: "accepted"; readonly dropped?: readonly (readonly [reason: string, count: number])[] }
  /**
   * Final: the backend will never accept this body (400, 413), or not now (429). `lacksProtobuf`: the body is protobuf, which the backend's
   * release does not accept.
   */
  | {
      readonly kind: "refused";
      readonly status: number;
      readonly code: string;
      readonly message: string;
      readonly retryAfterS?: number;
      readonly lacksProtobuf?: boolean;
    }
  /**
   * Temporary or unclear: the collector keeps the body. `reason` is for the log. `isOwnLimit`: the proxy's memory is full, whatever the backend
   * would answer. `isTooLarge`: a 413, but not of the backend.
   */
  | {
      readonly kind: "retry";
      readonly reason: string;
      readonly retryAfterS: number;
      readonly isOwnLimit?: true;
      readonly isTooLarge?: true;
    };

export const PROTOBUF_TYPE = "application/x-protobuf";
const DEFAULT_RETRY_AFTER_S = 2;
/** While a key is refused, the collector retries after at most this time, so that a new key is used soon. */
const MAX_REFUSED_KEY_WAIT_S = 10;

export const NO_KEY_YET = retry("this agent has no key yet: it is enrolling, or waiting for its Secret or credentials file");

/**
 * Sends `post`; after a 401 or 403, reads the credential again and retries once with a new signature. Never throws, except if `signal`
 * aborts.
 */
export async function forward(parts: ForwardParts, post: Post, signal: AbortSignal): Promise<ForwardResult> {
  const credential = parts.credentials.current();
  if (!credential) return NO_KEY_YET;
  const paused = checkPause(parts, credential);
  if (paused) return paused;
  parts.refusedKey?.begin(credential);
  const isProtobuf = post.headers["content-type"] === PROTOBUF_TYPE;
  const first = await attempt(parts, post, credential, signal);
  if (!mayBeStaleKey(first)) return classify(first, isProtobuf);
  const renewed = await renew(
    parts.credentials,
    credential,
    first instanceof UpstreamError ? "connection cut off" : `answer ${first.status}`,
  );
  // A broken connection may be a refusal whose response was lost, because a backend may refuse before it has read the body. It is worth
  // sending the body again only with a new key.
  const isRefused = first instanceof UpstreamError || isKeyRefusal(first.status, parseError(first.body).code);
  if (!renewed || (isRefused && renewed.apiKey === credential.apiKey)) return classify(first, isProtobuf);
  return classify(await attempt(parts, post, renewed, signal), isProtobuf);
}

/** True if the result cannot change: accepted, or permanently refused. */
export function isFinal(result: ForwardResult): boolean {
  return result.kind === "accepted" || (result.kind === "refused" && result.status !== 429);
}

/** True if a part of the body may have another result. */
export function isOfWhole(result: ForwardResult): boolean {
  return result.kind === "retry" ? result.isTooLarge === true : result.kind === "refused" && result.status !== 429;
}

/** Returns the result for a key that the backend has just refused; undefined if the key may be used. */
export function checkPause({ refusedKey }: Pick<ForwardParts, "refusedKey">, credential: Credential): ForwardResult | undefined {
  const pause = refusedKey?.pause(credential);
  return (
    pause &&
    retry(`the backend refuses this agent's key (${pause.reason})`, Math.min(Math.ceil(pause.waitMs / 1000), MAX_REFUSED_KEY_WAIT_S))
  );
}

/** If another request has already loaded a new key, the store is not read again. */
async function renew(credentials: CredentialSource, used: Credential, reason: string): Promise<Credential | undefined> {
  const known = credentials.current();
  return known !== undefined && known.apiKey !== used.apiKey ? known : credentials.refresh(reason);
}

async function attempt(
  parts: ForwardParts,
  post: Post,
  credential: Credential,
  signal: AbortSignal,
): Promise<UpstreamAnswer | UpstreamError> {
  const sentAtMs = Date.now();
  const headers = { ...post.headers, ...sign(credential.apiKey, "POST", post.path, parts.clock.nowUnixS()) };
  try {
    const answer = await parts.upstream.request({ method: "POST", path: post.path, headers, body: post.body, signal });
    parts.clock.observe?.(answer.headers["date"], sentAtMs, Date.now());
    const keyAgeDays = answer.status === 401 ? undefined : wholeNumber(answer.headers[KEY_AGE_HEADER]);
    if (keyAgeDays !== undefined) parts.credentials.noteKeyAge?.(credential, keyAgeDays);
    noteKey(parts.refusedKey, credential, answer);
    return answer;
  } catch (error) {
    parts.refusedKey?.answered(credential, false);
    if (error instanceof UpstreamError) return error;
    throw error;
  }
}

function noteKey(refusedKey: RefusedKey | undefined, credential: Credential, { status, body }: UpstreamAnswer): void {
  const { code, message } = parseError(body);
  if (isKeyRefusal(status, code)) refusedKey?.refused(credential, `${code}: ${message}`);
  else refusedKey?.answered(credential, status === 204);
}

function mayBeStaleKey(outcome: UpstreamAnswer | UpstreamError): boolean {
  return outcome instanceof UpstreamError ? outcome.wasConnected : outcome.status === 401 || outcome.status === 403;
}

/** How a backend of the previous release refuses protobuf. */
const LACKS_PROTOBUF: Readonly<Record<number, readonly string[]>> = {
  400: ["malformed_body", "invalid_payload"],
  415: ["unsupported_encoding"],
};

function classify(outcome: UpstreamAnswer | UpstreamError, isProtobuf: boolean): ForwardResult {
  if (outcome instanceof UpstreamError) return retry(outcome.message);
  const { status } = outcome;
  if (status === 204) {
    const dropped = parseDroppedRecords(outcome.headers[DROPPED_RECORDS_HEADER]);
    return { kind: "accepted", ...(dropped.length > 0 && { dropped }) };
  }
  const { code, message } = parseError(outcome.body);
  const retryAfterS = wholeNumber(outcome.headers["retry-after"]);
  if (isProtobuf && outcome.headers["accept-post"] === undefined && code !== undefined && LACKS_PROTOBUF[status]?.includes(code))
    return { kind: "refused", status, code, message, lacksProtobuf: true };
  if (code !== undefined && FINAL_REFUSALS[status]?.includes(code)) {
    return { kind: "refused", status, code, message, ...(status === 429 ? { retryAfterS: limitRetryAfter(retryAfterS) } : {}) };
  }
  const detail = code === undefined ? "without an error code of the backend: a proxy may have responded" : `${code}: ${message}`;
  return {
    ...retry(`BACKEND_URL answered ${status}${redirectOf(outcome)} ${detail}`, retryAfterS),
    ...(status === 413 && { isTooLarge: true }),
  };
}

function retry(reason: string, retryAfterS?: number): Extract<ForwardResult, { kind: "retry" }> {
  return { kind: "retry", reason, retryAfterS: limitRetryAfter(retryAfterS) };
}

function limitRetryAfter(retryAfterS: number | undefined): number {
  return Math.min(Math.max(retryAfterS ?? DEFAULT_RETRY_AFTER_S, 1), MAX_RETRY_AFTER_S);
}

function wholeNumber(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : undefined;
}

/** Parses `{"error": code, "message": text}`. Both are truncated, because they are logged. */
function parseError(body: string): { code: string | undefined; message: string } {
  // A success has no body; the exception would cost more than the rest of this file.
  if (body === "") return { code: undefined, message: "" };
  try {
    const { error, message } = JSON.parse(body) as { error?: unknown; message?: unknown };
    const isCode = typeof error === "string" && /^[a-z_]{1,64}$/.test(error);
    return { code: isCode ? error : undefined, message: typeof message === "string" ? message.slice(0, 300) : "" };
  } catch {
    return { code: undefined, message: "" };
  }
}
