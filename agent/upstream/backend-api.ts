// The agent's calls to the backend: register, heartbeat, rotate, remote configuration; agent/proxy sends telemetry. Invariants: every failure is
// a BackendError with a code; no error or log contains a token, key or signature; every response updates the clock.
import type { Clock } from "./clock.ts";
import type { Credential } from "../credentials/credential-store.ts";
import * as wire from "../../common/protocol/enrolment.ts";
import { KEY_AGE_HEADER, sign, signedPath } from "../../common/protocol/signature.ts";
import { redirectOf, type Upstream, UpstreamError } from "./pool.ts";

const CALL_TIMEOUT_MS = 15_000;

/**
 * A call that did not succeed. `code` is the backend's error code (backend/errors.ts), or `unreachable` (no response: DNS, TLS, refused,
 * timed out), or `not_our_backend` (a response that is not in our error format: from a proxy or another server).
 */
export class BackendError extends Error {
  override readonly name = "BackendError";
  readonly code: string;
  /** HTTP status; 0 without a response. */
  readonly status: number;
  readonly retryAfterS: number | undefined;
  constructor(code: string, message: string, details: { status?: number; retryAfterS?: number; cause?: unknown } = {}) {
    super(message, { cause: details.cause });
    this.code = code;
    this.status = details.status ?? 0;
    this.retryAfterS = details.retryAfterS;
  }

  /** The key is unknown or revoked: waiting will not help, but enrolling again may. */
  get keyRefused(): boolean {
    return this.status === 401 && (wire.KEY_REFUSED_CODES as readonly string[]).includes(this.code);
  }
}

export type BackendApi = ReturnType<typeof createBackendApi>;

interface BackendApiOptions {
  readonly upstream: Upstream;
  readonly clock: Clock;
  readonly timeoutMs?: number;
}

interface Call {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly headers?: Record<string, string>;
  readonly body?: object;
  readonly signal?: AbortSignal | undefined;
}

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly json: unknown;
}

export function createBackendApi(options: BackendApiOptions) {
  const register = async (path: string, installToken: string, idempotencyKey: string, body: object, signal?: AbortSignal) => {
    // A header cannot contain every character, such as a typographic dash that was copied.
    if (!/^[!-~]+$/.test(installToken)) throw new BackendError("invalid_install_token", "the token has characters that no token has");
    const headers = { authorization: `Bearer ${installToken}`, [wire.IDEMPOTENCY_KEY_HEADER]: idempotencyKey };
    const { json, headers: answered } = await send(options, { method: "POST", path, headers, body, signal });
    return { json, org: readOrg(answered) };
  };
  return {
    /**
     * Repeating a registration with the same `key`, token and body returns the same key until that key has signed a request
     * (docs/decisions.md, "Enrolment").
     */
    async registerHost(token: string, key: string, request: wire.RegisterHostRequest, signal?: AbortSignal) {
      const { json, org } = await register(wire.REGISTER_HOST_PATH, token, key, request, signal);
      return { body: validate<wire.RegisterHostResponse>(json, ["agent_id", "api_key", "key_created_at"]), org };
    },
    async registerCluster(token: string, key: string, request: wire.RegisterClusterRequest, signal?: AbortSignal) {
      const { json, org } = await register(wire.REGISTER_CLUSTER_PATH, token, key, request, signal);
      return { body: validate<wire.RegisterClusterResponse>(json, ["cluster_id", "api_key", "key_created_at"]), org };
    },
    /**
     * `path` is CLUSTER_HEARTBEAT_PATH or HOST_HEARTBEAT_PATH. Returns the whole days since the key was created, and the organisation, if the
     * response contains them.
     */
    async heartbeat(
      path: string,
      credential: Credential,
      body: wire.Heartbeat,
      signal?: AbortSignal,
    ): Promise<{ keyAgeDays: number | undefined; org?: string | undefined }> {
      const { headers } = await sendSigned(options, credential, { method: "POST", path, body, signal });
      const text = headers[KEY_AGE_HEADER];
      return { keyAgeDays: text !== undefined && /^\d+$/.test(text) ? Number(text) : undefined, org: readOrg(headers) };
    },
    async rotateKey(credential: Credential, key: string, signal?: AbortSignal) {
      const headers = { [wire.IDEMPOTENCY_KEY_HEADER]: key };
      const answer = await sendSigned(options, credential, { method: "POST", path: wire.ROTATE_KEY_PATH, headers, signal });
      return { body: validate<wire.RotateKeyResponse>(answer.json, ["api_key", "key_created_at", "previous_key_expires_at"]) };
    },
    /** Reads the remote configuration of a cluster's node or of a host. `body` is undefined if the backend responds to `etag` with 304. */
    async remoteConfig(credential: Credential, node: string | undefined, etag: string | undefined, signal?: AbortSignal) {
      const configPath = (path: string): string => `${path}/${encodeURIComponent(credential.id)}/config`;
      const path = node === undefined ? configPath(wire.HOSTS_PATH) : `${configPath(wire.CLUSTERS_PATH)}?node=${encodeURIComponent(node)}`;
      const headers: Record<string, string> = etag === undefined ? {} : { "if-none-match": etag };
      const answer = await sendSigned(options, credential, { method: "GET", path, headers, signal });
      return { body: answer.status === 304 ? undefined : { etag: answer.headers["etag"], document: answer.json } };
    },
  };
}

/** Signs and sends; a `stale_timestamp` response has just updated the clock, so the request is signed and sent once more. */
async function sendSigned(options: BackendApiOptions, credential: Credential, call: Call): Promise<Answer> {
  const attempt = () => {
    const signature = sign(credential.apiKey, call.method, signedPath(call.path), options.clock.nowUnixS());
    return send(options, { ...call, headers: { ...call.headers, ...signature } });
  };
  try {
    return await attempt();
  } catch (error) {
    if (!(error instanceof BackendError && error.code === "stale_timestamp")) throw error;
    return attempt();
  }
}

/**
 * Sends one request. Returns 204, 304, and 2xx with a JSON document, throws BackendError for all others, such as the page of a proxy that logs
 * users in; never follows a redirect.
 */
async function send(options: BackendApiOptions, call: Call): Promise<Answer> {
  const timeout = AbortSignal.timeout(options.timeoutMs ?? CALL_TIMEOUT_MS);
  const sentAtMs = Date.now();
  const answer = await options.upstream
    .request({
      method: call.method,
      path: call.path,
      headers: { ...call.headers, ...(call.body && { "content-type": "application/json" }) },
      body: call.body && JSON.stringify(call.body),
      signal: call.signal ? AbortSignal.any([call.signal, timeout]) : timeout,
    })
    .catch((error: unknown) => {
      call.signal?.throwIfAborted();
      if (!(error instanceof UpstreamError) && !timeout.aborted) throw error;
      throw new BackendError("unreachable", timeout.aborted ? "the backend did not respond in time" : (error as Error).message, {
        cause: error,
      });
    });
  options.clock.observe(answer.headers["date"], sentAtMs, Date.now());
  const json = parseJson(answer.body);
  const isSuccess = answer.status >= 200 && answer.status < 300 && typeof json === "object" && json !== null;
  if (isSuccess || answer.status === 204 || answer.status === 304) return { ...answer, json };
  throw refusal(call.path, answer.status, answer.headers, json);
}

function refusal(path: string, status: number, headers: Answer["headers"], json: unknown): BackendError {
  const { error, message } = (json ?? {}) as { error?: unknown; message?: unknown };
  const retryAfter = Number(headers["retry-after"] ?? Number.NaN);
  const details = { status, retryAfterS: Number.isFinite(retryAfter) ? retryAfter : undefined };
  if (typeof error === "string" && typeof message === "string") {
    return new BackendError(error, `the backend refused ${path}: ${message} (${error})`, details);
  }
  const text = `${path} answered ${status}${redirectOf({ status, headers })} without an error of the backend: check BACKEND_URL and proxies`;
  return new BackendError("not_our_backend", text, details);
}

function validate<T extends object>(json: unknown, required: (keyof T & string)[]): T {
  const document = (json ?? {}) as Record<string, unknown>;
  const missing = required.filter((field) => typeof document[field] !== "string" || document[field] === "");
  if (missing.length === 0) return document as T;
  throw new BackendError("not_our_backend", `the backend's response lacks ${missing.join(", ")}: check BACKEND_URL`, { status: 200 });
}

function readOrg(headers: Answer["headers"]): string | undefined {
  return headers[wire.ORG_ID_HEADER] || undefined;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
