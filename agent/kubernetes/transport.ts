// The way to the Kubernetes API, as the pod's service account: connections, the token, time-outs, refusals. Invariants: the token is read
// from its file again before it can expire, and never appears in an error or a log; requests go straight to the API server, through no
// outgoing proxy; all of them share one pool of connections, which is left when one of them falls silent.
import { readFile } from "node:fs/promises";
import { pause } from "../../common/loop.ts";
import { type Dispatcher, Pool } from "../http-pool.ts";
import type { V1Lease } from "@kubernetes/client-node/dist/gen/models/V1Lease.js";
import type { V1Secret } from "@kubernetes/client-node/dist/gen/models/V1Secret.js";

/** Where the API server is and who the agent is. Files as kubelet projects them; both change while the agent runs. */
export interface KubernetesAccess {
  /** Scheme, host and port, e.g. `https://10.96.0.1:443`. */
  readonly server: string;
  readonly caFile: string;
  readonly tokenFile: string;
}

/** An answer that is not 2xx. `status` is the HTTP status, `reason` the API's own word (`Conflict`, `NotFound`, `Forbidden`, …). */
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
  /** Whole time one request may take (not a watch), milliseconds. */
  timeoutMs?: number;
  /** Names the writer in `managedFields`: the part before the slash. */
  userAgent?: string;
}

export interface ApiRequest {
  readonly method: string;
  /** With the query string. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
}

/** What a watch's error event and a refusal carry. */
export interface Status {
  code?: number;
  reason?: string;
  message?: string;
}

/** A response has more bytes than its caller reads. */
export class TooLargeError extends Error {
  override readonly name = "TooLargeError";
}

/** Token and CA are read again after this long: projected tokens live an hour, kubelet renews them at 80 % of that. */
const FILES_MAX_AGE_MS = 60_000;

export class Transport implements AsyncDisposable {
  readonly #access: KubernetesAccess;
  readonly #timeoutMs: number;
  readonly #userAgent: string;
  #connection: { pool: Pool; ca: string; token: string; readAt: number } | undefined;

  constructor(access: KubernetesAccess, options: TransportOptions = {}) {
    this.#access = access;
    this.#timeoutMs = options.timeoutMs ?? 10_000;
    this.#userAgent = options.userAgent ?? "atherops-k8s-otel-agent/0";
  }

  /** The whole body of a 2xx. Throws KubernetesError, TooLargeError, or undici's error when there is no answer in time. */
  async text(request: ApiRequest, signal: AbortSignal, maxBytes = Number.POSITIVE_INFINITY): Promise<string> {
    const timeout = AbortSignal.timeout(this.#timeoutMs);
    try {
      const answer = await this.#send(request, AbortSignal.any([signal, timeout]), this.#timeoutMs);
      return maxBytes === Number.POSITIVE_INFINITY ? await answer.body.text() : await boundedText(request, answer, maxBytes);
    } catch (error) {
      if (timeout.aborted || isSilence(error)) await this.#disconnect();
      throw error;
    }
  }

  /** The lines of a 2xx as they come, without empty ones. Throws as `text` does, also after `silenceMs` without a byte. */
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
      if (isSilence(error)) await this.#disconnect();
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#disconnect();
  }

  /** After silence: a way that has died without a word takes its kept connections, and the watch on one of them, with it. */
  async #disconnect(): Promise<void> {
    const connection = this.#connection;
    this.#connection = undefined;
    await connection?.pool.destroy();
  }

  async #send(request: ApiRequest, signal: AbortSignal, silenceMs: number): Promise<Dispatcher.ResponseData> {
    const deadline = performance.now() + this.#timeoutMs;
    let answer = await this.#once(request, signal, silenceMs);
    if (answer.statusCode === 401) {
      await answer.body.dump();
      this.#expireFiles();
      answer = await this.#once(request, signal, silenceMs);
    }
    // What an overloaded API server has not begun; client-go does the same.
    for (let waitMs = askedWaitMs(answer); waitMs !== undefined && performance.now() + waitMs < deadline; waitMs = askedWaitMs(answer)) {
      await answer.body.dump();
      await pause(waitMs, signal);
      answer = await this.#once(request, signal, silenceMs);
    }
    if (answer.statusCode >= 300) throw await refusal(request, answer);
    return answer;
  }

  async #once({ method, path, headers, body }: ApiRequest, signal: AbortSignal, silenceMs: number): Promise<Dispatcher.ResponseData> {
    const { pool, token } = await this.#connect();
    return pool.request({
      method,
      path,
      headers: { ...headers, authorization: `Bearer ${token}`, accept: "application/json", "user-agent": this.#userAgent },
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
    const keep = current?.ca === ca ? current.pool : undefined;
    const connect = { ca, timeout: this.#timeoutMs };
    // Not HTTP/2: there the API server answers a token that it refuses by ending the connection under all other requests (GOAWAY).
    const pool = keep ?? new Pool(this.#access.server, { connect, allowH2: false, keepAliveTimeout: 30_000 });
    // Closing waits for requests that still run on the connections of the old CA; nothing depends on when that is.
    if (current && !keep) void current.pool.close();
    this.#connection = { pool, ca, token: token.trim(), readAt: performance.now() };
    return this.#connection;
  }

  #expireFiles(): void {
    if (this.#connection) this.#connection.readAt = -Infinity;
  }
}

async function boundedText({ path }: ApiRequest, { body }: Dispatcher.ResponseData, maxBytes: number): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of body as AsyncIterable<Buffer>) {
    bytes += piece.length;
    if (bytes > maxBytes) throw new TooLargeError(`GET ${path.split("?")[0]} answered more than ${maxBytes} bytes`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString();
}

/** undici's own word for a connection on which nothing comes: its timers may be quicker than ours on a busy machine. */
function isSilence(error: unknown): boolean {
  return ["UND_ERR_HEADERS_TIMEOUT", "UND_ERR_BODY_TIMEOUT"].includes((error as { code?: string }).code ?? "");
}

/** How long to wait before asking again, a second at least; a quarter more at random, so that a thousand nodes do not come back together. */
function askedWaitMs({ statusCode, headers }: Dispatcher.ResponseData): number | undefined {
  const asked = headers["retry-after"];
  if ((statusCode !== 429 && statusCode !== 503) || typeof asked !== "string" || !/^\d+$/.test(asked)) return undefined;
  return Math.max(Number(asked), 1) * 1000 * (1 + Math.random() / 4);
}

async function refusal({ method, path }: ApiRequest, answer: Dispatcher.ResponseData): Promise<KubernetesError> {
  const text = await answer.body.text();
  const where = `${method} ${path.split("?")[0]} answered ${answer.statusCode}`;
  try {
    const status = JSON.parse(text) as Status;
    return new KubernetesError(answer.statusCode, status.reason ?? "Unknown", `${where}: ${status.message ?? "no reason given"}`);
  } catch {
    return new KubernetesError(answer.statusCode, "Unknown", `${where}, not in JSON: is this the Kubernetes API?`);
  }
}

type Data<T> = T extends Date ? T : T extends object ? { [Field in keyof T]: Data<T[Field]> } : T;

export type Lease = Data<V1Lease>;
export type Secret = Data<V1Secret>;
