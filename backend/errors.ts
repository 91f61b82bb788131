// Defines the errors of the backend. `ERROR_CODES` is the closed table of codes and HTTP statuses. Except on the Prometheus routes, the
// body of an error is {"error": code, "message": what is wrong and what to do}. The descriptions here are for pages and /openapi.json;
// messages are written where errors are thrown. A `StartError` prevents the process from starting and can be fixed by the operator.
// Invariants: every response of 400 or above has a code of this table (http/error-response.ts); no message contains a secret, because
// clients see those of ApiError, and main.ts prints those of StartError without a stack.
import { joinHostPort } from "../common/ip-networks.ts";

/** code → [HTTP status, description]. */
export const ERROR_CODES = {
  malformed_request: [400, "the request is not valid HTTP/1.1, or repeats a header such as Host or Authorization"],
  malformed_body: [
    400,
    "the body cannot be read, for example because it is cut off, or has broken compression, invalid JSON or the wrong Content-Type",
  ],
  invalid_payload: [400, "the body or some of its records are invalid; the message says what is wrong"],
  invalid_field: [400, "a field of the body is missing, unknown or invalid; the message names it"],
  invalid_parameter: [400, "a parameter or a header is missing or invalid, or the answer would be too large; the message says why"],
  missing_idempotency_key: [400, "the Idempotency-Key header is missing or not a UUID"],
  query_too_expensive: [400, "the query is too long or complex, or needs too much time or memory; the message says why"],
  unstorable: [400, "the backend cannot store this content; sending it again will not help"],
  missing_header: [401, "a signature header is missing"],
  malformed_header: [401, "a signature header is malformed or repeated"],
  stale_timestamp: [401, "X-Timestamp is more than 5 minutes from the server's clock: check the sender's clock"],
  unknown_key: [401, "no key has this hash"],
  revoked_key: [401, "the key was revoked, or its overlap after a rotation or a new enrolment has ended"],
  bad_signature: [401, "the signature does not match the method, path and timestamp under this key"],
  invalid_token: [401, "the session or the token is missing or not valid: log in again, or ask for another token"],
  invalid_credentials: [
    401,
    "unknown e-mail, wrong password, a user who may not use a password, or an invitation or link that is not valid",
  ],
  login_refused: [401, "single sign-on failed; the message says why: start again"],
  invalid_install_token: [401, "the install token is missing, unknown, expired or used, or the token of an issuer is not accepted"],
  wrong_key_kind: [403, "this key may not use this endpoint"],
  forbidden: [
    403,
    "the caller may not do this, for example because of its role, kind of token, limits, network or missing TLS; the message says why",
  ],
  not_found: [404, "the resource does not exist in this organisation, the path does not exist, or the feature is not enabled"],
  method_not_allowed: [405, "see the Allow header"],
  request_timeout: [408, "the head of the request arrives too slowly, or, except on ingest, its body"],
  conflict: [409, "the current state does not allow this, for example because the name is taken"],
  session_changed: [409, "the browser's session belongs to another user than the one that X-Session-User names"],
  limit_reached: [409, "the organisation or cluster already has the maximum number of these"],
  cluster_in_use: [409, "another installation of the agent has this cluster's key and is alive; the message names it"],
  host_in_use: [409, "another host with the same machine id has a key and is alive; the message names it and says what to do"],
  rotation_in_progress: [409, "the last rotation is less than 5 minutes ago, or the key was replaced"],
  body_too_large: [
    413,
    "the body exceeds the limit of the route (32 MiB on signed ingest, compressed or decompressed); the message names it",
  ],
  batch_too_large: [413, "the body has too many records or values, or is too large once decoded: send smaller batches"],
  unsupported_encoding: [415, "this route of ingest does not accept the Content-Encoding or the Content-Type"],
  expectation_failed: [417, "the Expect header is not 100-continue"],
  idempotency_key_reused: [422, "this Idempotency-Key was used with another body"],
  over_quota: [
    429,
    "the organisation or the token exceeds a limit, or memory that slow bodies of the organisation hold was needed by another one",
  ],
  too_many_queries: [
    429,
    "the organisation has too many queries, tails or unread responses, or the slot of this query went to another organisation",
  ],
  login_backoff: [429, "too many failed or concurrent logins, wrong current passwords or invalid invitations"],
  head_too_large: [
    431,
    "path, query and headers exceed 64 KiB, or, without authentication and for enrolment, the query string 8,192 characters",
  ],
  internal: [
    500,
    "unexpected failure, or on alerting routes the database or vmalert is unavailable; the cause is logged under the request id",
  ],
  storage_unavailable: [502, "a storage engine or the account database is unavailable"],
  unavailable: [
    503,
    "the backend is stopping, a limit of the backend is reached, the body arrives too slowly, or a service that it needs is unavailable",
  ],
} as const satisfies Record<string, readonly [number, string]>;

export type ErrorCode = keyof typeof ERROR_CODES;

/** Senders repeat a request after these statuses, so that each has Retry-After, and RetryInfo in gRPC. */
const RETRIED: ReadonlySet<number> = new Set([429, 502, 503]);
const RETRY_AFTER_S = 5;

/** An error that becomes a response. The client sees `message`: it names what is wrong and what to do, and contains no secret. */
export class ApiError extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  /** Sent as `Retry-After`, whole seconds. 429, 502 and 503 always have it. */
  readonly retryAfterS: number | undefined;
  constructor(code: ErrorCode, message: string, options: { cause?: unknown; retryAfterS?: number } = {}) {
    super(message, { cause: options.cause });
    this.name = "ApiError";
    this.code = code;
    this.status = ERROR_CODES[code][0];
    this.retryAfterS = options.retryAfterS ?? (RETRIED.has(this.status) ? RETRY_AFTER_S : undefined);
  }
}

/** The `invalid_parameter` error for a parameter of a query string. `reason` follows the parameter's name in the message. */
export function createParameterError(name: string, reason: string, cause?: unknown): ApiError {
  return new ApiError("invalid_parameter", `${name}: ${reason}`, { cause });
}

export const TOO_EXPENSIVE = "this query takes too much time or memory: ask for a shorter range, add filters, or lower the limit";

/** The rows exceed the size or the memory that a query may use; fewer rows may be possible. */
export class TooLargeError extends ApiError {
  constructor(cause: unknown) {
    super("query_too_expensive", TOO_EXPENSIVE, { cause });
  }
}

export class StartError extends Error {
  override readonly name: string = "StartError";
}

/** Another process uses DATA_DIR; the message names it, and what to do. */
export class DataDirInUseError extends StartError {
  override readonly name = "DataDirInUseError";
}

/** A listener could not be opened. `variable`: the setting that chose its address. */
export function cannotListen(
  variable: string,
  at: { readonly host: string; readonly port: number },
  cause: NodeJS.ErrnoException,
): StartError {
  const reason = cause.code === "EADDRINUSE" ? "the port is in use" : cause.message;
  return new StartError(`${variable}: cannot listen on ${joinHostPort(at.host, at.port)}: ${reason}`, { cause });
}
