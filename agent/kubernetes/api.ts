// The few calls of the Kubernetes API that the agent makes: get, put, merge-patch, post, delete and watch of JSON objects, as the pod's
// service account. Invariant: the token is read from its file again before it can expire, and never appears in an error or a log.
//
// Why not @kubernetes/client-node: measured on Node 24.21, resident memory over undici and type stripping (86 MB) is +48 MB for the
// whole package, +25 MB for the three deep API classes and its watch (every API class pulls in the models of all), +1 MB for this
// file; a node pays it for ever. Its watch also stops for good on any error but a timeout, and hides that it did.
import { readFile } from "node:fs/promises";
import { type Dispatcher, Pool } from "../http-pool.ts";

/** Where the API server is and who the agent is. Files as kubelet projects them; both change while the agent runs. */
export interface KubernetesAccess {
  /** Scheme, host and port, e.g. `https://10.96.0.1:443`. */
  readonly server: string;
  readonly caFile: string;
  readonly tokenFile: string;
}

export interface ObjectMeta {
  name?: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  annotations?: Record<string, string>;
  labels?: Record<string, string>;
}

export interface KubernetesObject {
  apiVersion?: string;
  kind?: string;
  metadata: ObjectMeta;
}

export interface WatchEvent<T> {
  type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK";
  object: T;
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

export interface KubernetesApiOptions {
  /** Whole time one request may take (not a watch), milliseconds. */
  timeoutMs?: number;
  /** Names the writer in `managedFields`: the part before the slash. */
  userAgent?: string;
}

/** Token and CA are read again after this long: projected tokens live an hour, kubelet renews them at 80 % of that. */
const FILES_MAX_AGE_MS = 60_000;

export class KubernetesApi implements AsyncDisposable {
  readonly #access: KubernetesAccess;
  readonly #timeoutMs: number;
  readonly #userAgent: string;
  #connection: { pool: Pool; ca: string; token: string; readAt: number } | undefined;

  constructor(access: KubernetesAccess, options: KubernetesApiOptions = {}) {
    this.#access = access;
    this.#timeoutMs = options.timeoutMs ?? 10_000;
    this.#userAgent = options.userAgent ?? "atherops-k8s-otel-agent/0";
  }

  get<T>(path: string, signal: AbortSignal): Promise<T> {
    return this.#json<T>("GET", path, undefined, signal);
  }

  /** Replaces the object; with `metadata.resourceVersion` in the body the API refuses (409) when it has changed since. */
  put<T>(path: string, body: T, signal: AbortSignal): Promise<T> {
    return this.#json<T>("PUT", path, { type: "application/json", body }, signal);
  }

  post<T>(path: string, body: unknown, signal: AbortSignal): Promise<T> {
    return this.#json<T>("POST", path, { type: "application/json", body }, signal);
  }

  async delete(path: string, signal: AbortSignal): Promise<void> {
    await this.#json("DELETE", path, undefined, signal);
  }

  /** RFC 7386 merge patch: no precondition, the last writer wins. */
  mergePatch<T>(path: string, body: unknown, signal: AbortSignal): Promise<T> {
    return this.#json<T>("PATCH", path, { type: "application/merge-patch+json", body }, signal);
  }

  /**
   * Events of a collection path, starting with the present state (a synthetic ADDED per object). Ends when the server ends it
   * (`timeoutSeconds`); throws KubernetesError, or undici's error when the connection breaks or stays silent for `silenceMs`.
   */
  async *watch<T>(path: string, query: Record<string, string>, silenceMs: number, signal: AbortSignal): AsyncGenerator<WatchEvent<T>> {
    const parameters = new URLSearchParams({ ...query, watch: "true", allowWatchBookmarks: "true" });
    try {
      const answer = await this.#send("GET", `${path}?${parameters.toString()}`, undefined, signal, silenceMs);
      let rest = "";
      for await (const chunk of answer.body.setEncoding("utf8")) {
        const lines = (rest + String(chunk)).split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) if (line !== "") yield watchEvent<T>(line);
      }
    } catch (error) {
      if (isSilence(error)) await this.#disconnect();
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#disconnect();
  }

  async #json<T>(method: Dispatcher.HttpMethod, path: string, content: Content | undefined, signal: AbortSignal): Promise<T> {
    const timeout = AbortSignal.timeout(this.#timeoutMs);
    try {
      const answer = await this.#send(method, path, content, AbortSignal.any([signal, timeout]), this.#timeoutMs);
      return (await answer.body.json()) as T;
    } catch (error) {
      if (timeout.aborted || isSilence(error)) await this.#disconnect();
      throw error;
    }
  }

  /** After silence: a way that has died without a word takes its kept connections, and the watch on one of them, with it. */
  async #disconnect(): Promise<void> {
    const connection = this.#connection;
    this.#connection = undefined;
    await connection?.pool.destroy();
  }

  async #send(method: Dispatcher.HttpMethod, path: string, content: Content | undefined, signal: AbortSignal, silenceMs: number) {
    let answer = await this.#once(method, path, content, signal, silenceMs);
    if (answer.statusCode === 401) {
      await answer.body.dump();
      this.#expireFiles();
      answer = await this.#once(method, path, content, signal, silenceMs);
    }
    if (answer.statusCode >= 300) throw await refusal(method, path, answer);
    return answer;
  }

  async #once(method: Dispatcher.HttpMethod, path: string, content: Content | undefined, signal: AbortSignal, silenceMs: number) {
    const { pool, token } = await this.#connect();
    return pool.request({
      method,
      path,
      headers: {
        authorization: `Bearer ${token}`,
        accept: "application/json",
        "user-agent": this.#userAgent,
        ...(content && { "content-type": content.type }),
      },
      body: content ? JSON.stringify(content.body) : null,
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

/** `watch` on one object by name: RBAC with `resourceNames` grants it only with this field selector. */
export function namedObject(name: string): Record<string, string> {
  return { fieldSelector: `metadata.name=${name}` };
}

/** undici's own word for a connection on which nothing comes: its timers may be quicker than ours on a busy machine. */
function isSilence(error: unknown): boolean {
  return ["UND_ERR_HEADERS_TIMEOUT", "UND_ERR_BODY_TIMEOUT"].includes((error as { code?: string }).code ?? "");
}

interface Content {
  type: string;
  body: unknown;
}

interface Status {
  code?: number;
  reason?: string;
  message?: string;
}

function watchEvent<T>(line: string): WatchEvent<T> {
  const event = JSON.parse(line) as WatchEvent<T> | { type: "ERROR"; object: Status };
  if (event.type !== "ERROR") return event;
  const { code = 500, reason = "Unknown", message = "the watch ended with an error" } = event.object;
  throw new KubernetesError(code, reason, message);
}

async function refusal(method: string, path: string, answer: Dispatcher.ResponseData): Promise<KubernetesError> {
  const text = await answer.body.text();
  const where = `${method} ${path.split("?")[0]} answered ${answer.statusCode}`;
  try {
    const status = JSON.parse(text) as Status;
    return new KubernetesError(answer.statusCode, status.reason ?? "Unknown", `${where}: ${status.message ?? "no reason given"}`);
  } catch {
    return new KubernetesError(answer.statusCode, "Unknown", `${where}, not in JSON: is this the Kubernetes API?`);
  }
}
