// Sends requests to the Kubernetes API as the pod's service account. Invariants: the token is read again from its file before it can expire,
// and never appears in an error or a log; requests go directly to the API server, never through an outgoing proxy; all requests share one
// connection pool, which is replaced if a connection falls silent.
import { readFile } from "node:fs/promises";
import { pause } from "../../common/loop.ts";
import { type Dispatcher, Pool } from "../http-pool.ts";
import type { V1Lease } from "@kubernetes/client-node/dist/gen/models/V1Lease.js";
import type { V1Secret } from "@kubernetes/client-node/dist/gen/models/V1Secret.js";

/** The API server's address and the agent's credentials. The kubelet projects the files; both change while the agent runs. */
export interface KubernetesAccess {
  /** Scheme, host and port, e.g. `https://10.96.0.1:443`. */
  readonly server: string;
  readonly caFile: string;
  readonly tokenFile: string;
}

/** A response that is not 2xx. `status` is the HTTP status, `reason` the API's reason (`Conflict`, `NotFound`, `Forbidden`, …). */
export class KubernetesError extends Error {
  readonly status: number;
  readonly reason: string;
  constructor(status: number, reason: string, message: string) {
    super(message);
    this.name = "KubernetesError";
    this.status = status;
    this.reason = reason;
  }
}

export interface TransportOptions {
  /** Timeout of a whole request (not of a watch), in milliseconds. */
  timeoutMs?: number;
}

export interface ApiRequest {
  readonly method: string;
  /** Includes the query string. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
}

/** Content of an error response, and of a watch's error event. */
export interface Status {
  code?: number;
  reason?: string;
  message?: string;
}

/** A response has more bytes than the caller accepts. */
export class TooLargeError extends Error {
  override readonly name = "TooLargeError";
}

/** The part before the slash names the writer in `managedFields`. */
const USER_AGENT = "atherops-k8s-otel-agent/0";
/** Token and CA are read again after this time: projected tokens are valid for an hour, and kubelet renews them at 80 % of that. */
const FILES_MAX_AGE_MS = 60_000;

export class Transport implements AsyncDisposable {
  readonly #access: KubernetesAccess;
  readonly #timeoutMs: number;
  #connection: { pool: Pool; ca: string; token: string; readAt: number } | undefined;

  constructor(access: KubernetesAccess, options: TransportOptions = {}) {
    this.#access = access;
    this.#timeoutMs = options.timeoutMs ?? 10_000;
  }

  /** Returns the whole body of a 2xx response. Throws KubernetesError, TooLargeError, or undici's error if there is no response in time. */
  async text(request: ApiRequest, signal: AbortSignal, maxBytes = Number.POSITIVE_INFINITY): Promise<string> {
    const timeout = AbortSignal.timeout(this.#timeoutMs);
    try {
      const answer = await this.#send(request, AbortSignal.any([signal, timeout]), this.#timeoutMs);
      return maxBytes === Number.POSITIVE_INFINITY ? await answer.body.text() : await readLimited(request, answer, maxBytes);
    } catch (error) {
      if (timeout.aborted || isTimeout(error)) await this.#disconnect();
      throw error;
    }
  }

  /** Yields the non-empty lines of a 2xx response as they arrive. Throws like `text`, and after `silenceMs` without a byte. */
  async *lines(request: ApiRequest, silenceMs: number, signal: AbortSignal): AsyncGenerator<string> {
    try {
      const answer = await this.#send(request, signal, silenceMs);
      let rest = "";
      for await (const chunk of answer.body.setEncoding("utf8")) {
        const lines = (rest + String(chunk)).split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) if (line !== "") yield line;
      }
    } catch (error) {
      if (isTimeout(error)) await this.#disconnect();
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#disconnect();
  }

  /** Called after a timeout: if the network path is dead, all pooled connections are dead too. */
  async #disconnect(): Promise<void> {
    const connection = this.#connection;
    this.#connection = undefined;
    await connection?.pool.destroy();
  }

  async #send(request: ApiRequest, signal: AbortSignal, silenceMs: number): Promise<Dispatcher.ResponseData> {
    const deadline = performance.now() + this.#timeoutMs;
    let answer = await this.#sendOnce(request, signal, silenceMs);
    if (answer.statusCode === 401) {
      await answer.body.dump();
      this.#expireFiles();
      answer = await this.#sendOnce(request, signal, silenceMs);
    }
    // Retries requests that an overloaded API server did not begin; client-go does the same.
    for (let waitMs = retryWaitMs(answer); waitMs !== undefined && performance.now() + waitMs < deadline; waitMs = retryWaitMs(answer)) {
      await answer.body.dump();
      await pause(waitMs, signal);
      answer = await this.#sendOnce(request, signal, silenceMs);
    }
    if (answer.statusCode >= 300) throw await readError(request, answer);
    return answer;
  }

  async #sendOnce({ method, path, headers, body }: ApiRequest, signal: AbortSignal, silenceMs: number): Promise<Dispatcher.ResponseData> {
    const { pool, token } = await this.#connect();
    return pool.request({
      method,
      path,
      headers: { ...headers, authorization: `Bearer ${token}`, accept: "application/json", "user-agent": USER_AGENT },
      body: body ?? null,
      signal,
      headersTimeout: this.#timeoutMs,
      bodyTimeout: silenceMs,
    });
  }

  async #connect(): Promise<{ pool: Pool; token: string }> {
    const known = this.#connection;
    if (known && performance.now() - known.readAt < FILES_MAX_AGE_MS) return known;
    const [ca, token] = await Promise.all([readFile(this.#access.caFile, "utf8"), readFile(this.#access.tokenFile, "utf8")]);
    const current = this.#connection;
    const currentPool = current?.ca === ca ? current.pool : undefined;
    const connect = { ca, timeout: this.#timeoutMs };
    // Without HTTP/2, because the API server answers a refused token with GOAWAY, which closes the connection for all other requests too.
    const pool = currentPool ?? new Pool(this.#access.server, { connect, allowH2: false, keepAliveTimeout: 30_000 });
    // Closing waits for requests on connections with the old CA; no code depends on when it finishes.
    if (current && !currentPool) void current.pool.close();
    this.#connection = { pool, ca, token: token.trim(), readAt: performance.now() };
    return this.#connection;
  }

  #expireFiles(): void {
    if (this.#connection) this.#connection.readAt = -Infinity;
  }
}

async function readLimited({ path }: ApiRequest, { body }: Dispatcher.ResponseData, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw new TooLargeError(`GET ${path.split("?")[0]} answered more than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

/** True for undici's timeout errors; on a busy machine, its timers may fire before this module's. */
function isTimeout(error: unknown): boolean {
  return ["UND_ERR_HEADERS_TIMEOUT", "UND_ERR_BODY_TIMEOUT"].includes((error as { code?: string }).code ?? "");
}

/** Returns the requested wait before a retry, at least a second, plus up to a quarter at random, so that nodes do not retry together. */
function retryWaitMs({ statusCode, headers }: Dispatcher.ResponseData): number | undefined {
  const seconds = headers["retry-after"];
  if ((statusCode !== 429 && statusCode !== 503) || typeof seconds !== "string" || !/^\d+$/.test(seconds)) return undefined;
  return Math.max(Number(seconds), 1) * 1000 * (1 + Math.random() / 4);
}

async function readError({ method, path }: ApiRequest, answer: Dispatcher.ResponseData): Promise<KubernetesError> {
  const text = await answer.body.text();
  const where = `${method} ${path.split("?")[0]} answered ${answer.statusCode}`;
  try {
    const status = JSON.parse(text) as Status;
    return new KubernetesError(answer.statusCode, status.reason ?? "Unknown", `${where}: ${status.message ?? "no reason given"}`);
  } catch {
    return new KubernetesError(answer.statusCode, "Unknown", `${where} without JSON: check that this is the Kubernetes API`);
  }
}

type Data<T> = T extends Date ? T : T extends object ? { [Field in keyof T]: Data<T[Field]> } : T;

export type Lease = Data<V1Lease>;
export type Secret = Data<V1Secret>;
