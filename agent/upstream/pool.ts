// The agent's only way out: a pool of kept-alive connections to the backend, through HTTPS_PROXY where one applies, trusting
// BACKEND_CA_FILE in addition to the system's and the well-known authorities. Invariant: requests go to the backend's origin and nowhere else;
// a redirect is an answer like any other and never followed.
import { readFileSync, statSync } from "node:fs";
import { isIP } from "node:net";
import type { Readable } from "node:stream";
import { createSecureContext, getCACertificates, type SecureContext } from "node:tls";
import { bareHost, isLoopback } from "../../common/ip-networks.ts";
import { isExempt } from "../../common/no-proxy.ts";
import { Agent, type Dispatcher, Pool, ProxyAgent } from "../http-pool.ts";

export interface UpstreamOptions {
  /** Origin of the backend as settings.ts validated it, e.g. `https://telemetry.example:8443`. */
  readonly backendUrl: string;
  /** PEM of further authorities. Watched: a replaced file is in force for new connections within CA_CHECK_INTERVAL_MS. */
  readonly caFile?: string | undefined;
  readonly httpsProxy?: string | undefined;
  readonly httpProxy?: string | undefined;
  /** As common/no-proxy.ts reads it. Loopback is never reached through a proxy. */
  readonly noProxy?: string | undefined;
  readonly connectTimeoutMs?: number;
  /** From the last byte sent to the answer's first, and between any two bytes of the answer. */
  readonly answerTimeoutMs?: number;
  readonly maxConnections?: number;
  readonly nowMs?: () => number;
}

export interface UpstreamRequest {
  readonly method: string;
  /** Sent exactly as given: what is signed is what travels. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** One that comes in pieces needs its `content-length` among the headers. */
  readonly body?: Uint8Array | string | AsyncIterable<Uint8Array> | undefined;
  readonly signal?: AbortSignal;
}

/** Its body is cut off after MAX_ANSWER_BYTES. */
export type UpstreamAnswer = CollectedAnswer;

export interface Upstream extends AsyncDisposable {
  /** Any HTTP status is an answer. Throws UpstreamError when there was none. */
  request(request: UpstreamRequest): Promise<UpstreamAnswer>;
}

/** The backend gave no answer: not resolved, not connected, not trusted, timed out, cut off. The message is fit for a log line. */
export class UpstreamError extends Error {
  override readonly name = "UpstreamError";
  /** True if an established connection broke: the backend may have processed the request. */
  readonly wasConnected: boolean;
  constructor(message: string, wasConnected: boolean, options?: ErrorOptions) {
    super(message, options);
    this.wasConnected = wasConnected;
  }
}

/** The backend's answers are small JSON; remote configuration is the largest. */
const MAX_ANSWER_BYTES = 1024 * 1024;
const CA_CHECK_INTERVAL_MS = 10_000;

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
  #retired: Promise<void>[] = [];

  constructor(options: UpstreamOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? (() => performance.now());
    this.#answerTimeoutMs = options.answerTimeoutMs ?? 25_000;
    this.#caCheckedAtMs = this.#nowMs();
    this.#caVersion = caVersion(options.caFile);
    this.#dispatcher = openPool(options);
  }

  async request(request: UpstreamRequest): Promise<UpstreamAnswer> {
    this.#followCaFile();
    try {
      const collector = new AnswerCollector(request.signal, MAX_ANSWER_BYTES);
      const options = {
        origin: this.#options.backendUrl,
        path: request.path,
        method: request.method,
        headers: request.headers,
        // undici takes any async iterable; its types name only streams.
        body: (request.body ?? null) as Uint8Array | Readable | null,
        // A proxy's pools know nothing of these.
        headersTimeout: this.#answerTimeoutMs,
        bodyTimeout: this.#answerTimeoutMs,
      };
      this.#dispatcher.dispatch(options, collector);
      return await collector.answer;
    } catch (cause) {
      throw describeFailure(cause, this.#options.backendUrl, request.signal?.aborted ?? false);
    }
  }

  /** Requests under way finish on the pool that they started on. */
  #followCaFile(): void {
    const { caFile } = this.#options;
    if (caFile === undefined || this.#nowMs() - this.#caCheckedAtMs < CA_CHECK_INTERVAL_MS) return;
    this.#caCheckedAtMs = this.#nowMs();
    const version = caVersion(caFile);
    if (version === undefined || version === this.#caVersion) return;
    const previous = this.#dispatcher;
    this.#dispatcher = openPool(this.#options);
    this.#caVersion = version;
    this.#retired.push(previous.close());
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
    // Asks for the tunnels: one that takes the connection and then says nothing is given up like one that takes none.
    clientFactory: (origin, own) => new Pool(origin, { ...own, headersTimeout: connectTimeout }),
  });
}

/** Made once for all connections: a host has hundreds of authorities. */
function createTrustContext(caFile: string | undefined): SecureContext {
  const own = caFile === undefined ? [] : [readFileSync(caFile, "utf8")];
  return createSecureContext({ ca: [...new Set([...getCACertificates("default"), ...getCACertificates("system"), ...own])] });
}

/** Changes when the file's content does; undefined while it cannot be read, in the middle of a replacement. */
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

function describeFailure(cause: unknown, backendUrl: string, isGivenUp: boolean): UpstreamError {
  const { code, message } = cause as { code?: string; message?: string };
  const text = message || "connection failed";
  // Most of Node's messages name their code, those of undici do not.
  const reason = code && !text.includes(code) ? `${code}: ${text}` : text;
  return new UpstreamError(`no answer from ${backendUrl}: ${isGivenUp ? "given up waiting" : reason}`, BROKEN_CONNECTION.has(code ?? ""), {
    cause,
  });
}

// The answer to one request, taken from undici as it comes in: its `request` makes a stream of each, which for an empty 204 costs more
// than all the rest of it. Invariants: settles once; what comes after that, or beyond the bound, is not kept.

interface CollectedAnswer {
  readonly status: number;
  /** Names in lower case; a repeated header's values are joined with `, `. */
  readonly headers: Readonly<Record<string, string>>;
  /** Cut off at the bound. */
  readonly body: string;
}

type Headers = Record<string, string | string[] | undefined>;

class AnswerCollector implements Dispatcher.DispatchHandler {
  /** Rejects with what undici says, or with the signal's reason. */
  readonly answer: Promise<CollectedAnswer>;
  readonly #settle = Promise.withResolvers<CollectedAnswer>();
  readonly #signal: AbortSignal | undefined;
  readonly #maxBytes: number;
  readonly #aborted = (): void => this.#controller?.abort(this.#signal?.reason as Error);
  readonly #chunks: Buffer[] = [];
  #bytes = 0;
  #status = 0;
  #headers: Headers = {};
  #controller: Dispatcher.DispatchController | undefined;

  constructor(signal: AbortSignal | undefined, maxBytes: number) {
    this.answer = this.#settle.promise;
    this.#signal = signal;
    this.#maxBytes = maxBytes;
    signal?.addEventListener("abort", this.#aborted, { once: true });
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#signal?.aborted) this.#aborted();
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: Headers): void {
    [this.#status, this.#headers] = [status, headers];
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#bytes >= this.#maxBytes) return;
    this.#chunks.push(chunk.subarray(0, this.#maxBytes - this.#bytes));
    this.#bytes += chunk.length;
    if (this.#bytes < this.#maxBytes) return;
    this.onResponseEnd();
    controller.abort(new Error("the answer exceeds 1 MiB"));
  }

  onResponseEnd(): void {
    this.#signal?.removeEventListener("abort", this.#aborted);
    const body = this.#chunks.length === 0 ? "" : Buffer.concat(this.#chunks).toString("utf8");
    this.#settle.resolve({ status: this.#status, headers: flattenHeaders(this.#headers), body });
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#signal?.removeEventListener("abort", this.#aborted);
    this.#settle.reject(error);
  }
}

function flattenHeaders(headers: Headers): Record<string, string> {
  const plain: Record<string, string> = {};
  for (const name in headers) {
    const value = headers[name];
    if (value !== undefined) plain[name] = Array.isArray(value) ? value.join(", ") : value;
  }
  return plain;
}
