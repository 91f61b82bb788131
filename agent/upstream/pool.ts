// The agent's connection pool to the backend, through HTTPS_PROXY if it applies. It trusts BACKEND_CA_FILE in addition to the system's and
// well-known authorities. Invariants: requests go only to the backend's origin; a redirect is returned like any other response and never
// followed; connections are renewed, so that a changed address of the backend is used within MAX_POOL_AGE_MS.
import { statSync } from "node:fs";
import { isIP } from "node:net";
import type { Readable } from "node:stream";
import { createSecureContext, getCACertificates, type SecureContext } from "node:tls";
import { readCertificates } from "../../common/files.ts";
import { bareHost, isLoopback } from "../../common/ip-networks.ts";
import { isExempt } from "../../common/no-proxy.ts";
import { Agent, AnswerCollector, type Dispatcher, Pool, ProxyAgent, type UpstreamAnswer } from "../http-pool.ts";

export interface UpstreamOptions {
  /** Origin of the backend as settings.ts validated it, e.g. `https://telemetry.example:8443`. */
  readonly backendUrl: string;
  /** PEM of additional authorities. Watched: a replaced file applies to new connections within CA_CHECK_INTERVAL_MS. */
  readonly caFile?: string | undefined;
  readonly httpsProxy?: string | undefined;
  readonly httpProxy?: string | undefined;
  /** Parsed by common/no-proxy.ts. Loopback is never reached through a proxy. */
  readonly noProxy?: string | undefined;
  readonly connectTimeoutMs?: number;
  /** Timeout between the last byte sent and the first byte of the response, and between any two bytes of it. */
  readonly answerTimeoutMs?: number;
  readonly maxConnections?: number;
  readonly nowMs?: () => number;
}

interface UpstreamRequest {
  readonly method: string;
  /** Sent exactly as given, because it is signed. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** A streamed body needs its `content-length` among the headers. */
  readonly body?: Uint8Array | string | AsyncIterable<Uint8Array> | undefined;
  readonly signal?: AbortSignal;
}

export interface Upstream extends AsyncDisposable {
  /** Returns a response with any HTTP status and a body of at most MAX_ANSWER_BYTES. Throws UpstreamError if there is none. */
  request(request: UpstreamRequest): Promise<UpstreamAnswer>;
}

/** The backend did not respond: not resolved, not connected, not trusted, timed out or disconnected. The message can be logged. */
export class UpstreamError extends Error {
  override readonly name = "UpstreamError";
  /** True if an established connection broke: the backend may have processed the request. */
  readonly wasConnected: boolean;
  constructor(message: string, wasConnected: boolean, options?: ErrorOptions) {
    super(message, options);
    this.wasConnected = wasConnected;
  }
}

/** For the log: where a redirect leads, without its path, which may contain a secret. */
export function redirectOf({ status, headers }: Pick<UpstreamAnswer, "status" | "headers">): string {
  const to = status >= 300 && status < 400 ? URL.parse(headers["location"] ?? "")?.origin : undefined;
  return to === undefined ? "" : ` (redirect to ${to})`;
}

/** The backend's responses are small JSON documents; remote configuration is the largest. */
const MAX_ANSWER_BYTES = 1024 * 1024;
const CA_CHECK_INTERVAL_MS = 10_000;
/** The backend's name is resolved again after this time, although its connections still work: it may have moved. */
const MAX_POOL_AGE_MS = 5 * 60_000;
/** After this many 5xx responses in a row, the name is resolved again at once: the address may belong to a stopped or draining backend. */
const MAX_SERVER_ERRORS = 3;
const MIN_POOL_AGE_MS = 30_000;

export function createUpstream(options: UpstreamOptions): Upstream {
  return new BackendUpstream(options);
}

class BackendUpstream implements Upstream {
  readonly #options: UpstreamOptions;
  readonly #nowMs: () => number;
  readonly #answerTimeoutMs: number;
  #dispatcher: Dispatcher;
  #caVersion: string | undefined;
  #caCheckedAtMs: number;
  #openedAtMs: number;
  /** 5xx responses since the last other response. */
  #serverErrors = 0;
  readonly #retired = new Set<Promise<void>>();

  constructor(options: UpstreamOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? (() => performance.now());
    this.#answerTimeoutMs = options.answerTimeoutMs ?? 25_000;
    this.#caCheckedAtMs = this.#nowMs();
    this.#openedAtMs = this.#nowMs();
    this.#caVersion = caVersion(options.caFile);
    this.#dispatcher = openPool(options);
  }

  async request(request: UpstreamRequest): Promise<UpstreamAnswer> {
    this.#renewPool();
    try {
      const collector = new AnswerCollector(request.signal, MAX_ANSWER_BYTES);
      const options = {
        origin: this.#options.backendUrl,
        path: request.path,
        method: request.method,
        headers: request.headers,
        // undici accepts any async iterable, but its types only allow streams.
        body: (request.body ?? null) as Uint8Array | Readable | null,
        // The pools of an outgoing proxy do not inherit these.
        headersTimeout: this.#answerTimeoutMs,
        bodyTimeout: this.#answerTimeoutMs,
      };
      this.#dispatcher.dispatch(options, collector);
      const answer = await collector.answer;
      this.#serverErrors = answer.status >= 500 ? this.#serverErrors + 1 : 0;
      return answer;
    } catch (cause) {
      throw describeFailure(cause, this.#options.backendUrl, request.signal?.aborted ?? false);
    }
  }

  /** Requests in flight finish on the pool on which they started. */
  #renewPool(): void {
    const ageMs = this.#nowMs() - this.#openedAtMs;
    const isRejecting = this.#serverErrors >= MAX_SERVER_ERRORS && ageMs >= MIN_POOL_AGE_MS;
    if (!this.#hasNewCaFile() && ageMs < MAX_POOL_AGE_MS && !isRejecting) return;
    const previous = this.#dispatcher;
    try {
      this.#dispatcher = openPool(this.#options);
    } catch {
      // Safe to ignore: the CA file has no certificate now, and the open pool still trusts its last content. Tried again soon.
      this.#openedAtMs = this.#nowMs() - MAX_POOL_AGE_MS + CA_CHECK_INTERVAL_MS;
      return;
    }
    const closing = previous.close().finally(() => this.#retired.delete(closing));
    this.#retired.add(closing);
    this.#openedAtMs = this.#nowMs();
    this.#serverErrors = 0;
  }

  #hasNewCaFile(): boolean {
    const { caFile } = this.#options;
    if (caFile === undefined || this.#nowMs() - this.#caCheckedAtMs < CA_CHECK_INTERVAL_MS) return false;
    this.#caCheckedAtMs = this.#nowMs();
    const version = caVersion(caFile);
    if (version === undefined || version === this.#caVersion) return false;
    this.#caVersion = version;
    return true;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#dispatcher.close(), ...this.#retired]);
  }
}

function openPool(options: UpstreamOptions): Dispatcher {
  const { backendUrl, caFile, noProxy = "" } = options;
  const { hostname, protocol } = new URL(backendUrl);
  const proxy = protocol === "https:" ? options.httpsProxy : options.httpProxy;
  const viaProxy = proxy !== undefined && !isLoopback(hostname) && !isExempt(backendUrl, noProxy);
  const secure = protocol === "https:" || (viaProxy && proxy.startsWith("https:"));
  const tls = secure ? { secureContext: createTrustContext(caFile) } : {};
  const connectTimeout = options.connectTimeoutMs ?? 5_000;
  const connections = options.maxConnections ?? 16;
  const pool = { connections, pipelining: 1, allowH2: false, connectTimeout, keepAliveTimeout: 30_000 };
  if (!viaProxy) return new Agent({ ...pool, connect: { ...tls, timeout: connectTimeout } });
  return new ProxyAgent({
    ...pool,
    uri: proxy,
    requestTls: { ...tls, ...(isIP(bareHost(hostname)) === 0 ? { servername: hostname } : {}) },
    proxyTls: tls,
    // For CONNECT requests: a proxy that accepts the connection but does not respond is treated like one that does not accept it.
    clientFactory: (origin, poolOptions) => new Pool(origin, { ...poolOptions, headersTimeout: connectTimeout }),
  });
}

/** Created once for all connections: a host has hundreds of authorities. */
function createTrustContext(caFile: string | undefined): SecureContext {
  const additional = caFile === undefined ? [] : [readCertificates(caFile)];
  return createSecureContext({ ca: [...new Set([...getCACertificates("default"), ...getCACertificates("system"), ...additional])] });
}

/** Changes when the file's content changes; undefined while it cannot be read, as during a replacement. */
function caVersion(caFile: string | undefined): string | undefined {
  if (caFile === undefined) return undefined;
  try {
    const { mtimeMs, ino, size } = statSync(caFile);
    return size === 0 ? undefined : `${ino}:${mtimeMs}:${size}`;
  } catch {
    return undefined;
  }
}

const BROKEN_CONNECTION = new Set(["UND_ERR_SOCKET", "ECONNRESET", "EPIPE", "UND_ERR_HEADERS_TIMEOUT", "UND_ERR_BODY_TIMEOUT"]);

function describeFailure(cause: unknown, backendUrl: string, isAborted: boolean): UpstreamError {
  const { code, message } = cause as { code?: string; message?: string };
  // OpenSSL's own message has source files and a line break.
  const text = code === "ERR_SSL_WRONG_VERSION_NUMBER" ? "the server answers without TLS" : message?.trim() || "connection failed";
  // Most of Node's messages contain their code; undici's do not.
  const reason = code && !text.includes(code) ? `${code}: ${text}` : text;
  return new UpstreamError(`no response from ${backendUrl}: ${isAborted ? "stopped waiting" : reason}`, BROKEN_CONNECTION.has(code ?? ""), {
    cause,
  });
}
