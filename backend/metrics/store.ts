// Samples in and out of VictoriaMetrics, single node or cluster, embedded or not. Invariant: every write and every query carries the
// tenant as `extra_label=org_id=…`, which the engine puts over whatever the body says and adds to every selector of an expression;
// nothing of a caller's own extra_label or extra_filters ever gets here. Used by metrics ingest, the query routes and alerting.
import { Pool } from "undici";
import { JournalFullError } from "../engines/victoria-metrics/journal.ts";
import { ApiError } from "../errors.ts";

export interface SampleIdentity {
  readonly orgId: string;
  readonly hostId: string;
  readonly node: string;
}

export type QueryEndpoint = "query" | "query_range" | "series" | "labels" | "label_values";

/** The engine's answer as it came: Prometheus' JSON, also for its 4xx. */
export interface QueryAnswer {
  readonly status: number;
  readonly body: Buffer;
  readonly contentType: string;
}

export interface MetricsStore {
  /**
   * Stores exposition text (UTF-8, uncompressed, valid). Lines without a time get `timestampMs`. Throws ApiError
   * `storage_unavailable` if the engine cannot be reached or is overloaded, `unstorable` if it refuses the body.
   */
  write(identity: SampleIdentity, body: Buffer, timestampMs: number): Promise<void>;
  /**
   * Asks one endpoint of the Prometheus API within one tenant. `label` is required for `label_values`. 2xx and 4xx are answers;
   * throws ApiError `storage_unavailable` for everything else, `invalid_parameter` if the answer exceeds 64 MiB.
   */
  query(
    orgId: string,
    endpoint: QueryEndpoint,
    params: URLSearchParams,
    options?: { label?: string; signal?: AbortSignal },
  ): Promise<QueryAnswer>;
  /** Throws when writes or queries could not reach the engine: for readiness. */
  check(): Promise<void>;
}

export interface VictoriaMetricsStoreOptions {
  /** Base of `/api/v1/import/prometheus`, e.g. `http://vm:8428` or `http://vminsert:8480/insert/0/prometheus`. May hold user:password. */
  readonly writeUrl: string;
  /** Base of `/api/v1/query`, e.g. `http://vm:8428` or `http://vmselect:8481/select/0/prometheus`. May hold user:password. */
  readonly queryUrl: string;
  /** Of an embedded engine: written beside every write. */
  readonly journal?: { append(path: string, body: Buffer): Promise<void> };
}

const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
const RETRY_AFTER_S = 2;
const CONNECTIONS = 64;
/** Above the engine's own queue of one minute for inserts. */
const TIMEOUT_MS = 75_000;

export class VictoriaMetricsStore implements MetricsStore, AsyncDisposable {
  readonly #write: Upstream;
  readonly #query: Upstream;
  readonly #journal: VictoriaMetricsStoreOptions["journal"];

  constructor({ writeUrl, queryUrl, journal }: VictoriaMetricsStoreOptions) {
    this.#journal = journal;
    this.#write = new Upstream(writeUrl);
    this.#query = new Upstream(queryUrl);
  }

  async write(identity: SampleIdentity, body: Buffer, timestampMs: number): Promise<void> {
    const params = new URLSearchParams({ timestamp: String(timestampMs) });
    // The engine skips an extra label without a value, and the sender's own label would stand.
    for (const [name, value] of forcedLabels(identity)) params.append("extra_label", `${name}=${value}`);
    const path = `/api/v1/import/prometheus?${params.toString()}`;
    const [answer] = await Promise.all([this.#write.post(path, body, { "content-type": "text/plain" }), this.#keep(path, body)]);
    if (answer.status < 300) return;
    const cause = new Error(`victoria-metrics answered ${answer.status}: ${answer.body.toString("utf8", 0, 500)}`);
    if (answer.status === 400)
      throw new ApiError("unstorable", "the metrics store refuses this body; sending it again will not help", { cause });
    throw unavailable(cause);
  }

  async #keep(path: string, body: Buffer): Promise<void> {
    await this.#journal?.append(path, body).catch((cause: unknown) => {
      const isFull = cause instanceof JournalFullError;
      throw isFull
        ? new ApiError("unavailable", "the metrics store is behind; send it again later", { cause, retryAfterS: 10 })
        : unavailable(cause);
    });
  }

  async query(
    orgId: string,
    endpoint: QueryEndpoint,
    params: URLSearchParams,
    options: { label?: string; signal?: AbortSignal } = {},
  ): Promise<QueryAnswer> {
    if (orgId === "") throw new Error("a query without a tenant");
    const foreign = /^extra_/;
    const scoped = new URLSearchParams([...params].filter(([name]) => !foreign.test(name)));
    scoped.append("extra_label", `org_id=${orgId}`);
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    const answer = await this.#query.post(pathOf(endpoint, options.label), scoped.toString(), headers, options.signal);
    if (answer.status >= 500 || answer.status === 429 || (answer.status >= 300 && answer.status < 400)) {
      throw unavailable(new Error(`victoria-metrics answered ${answer.status}: ${answer.body.toString("utf8", 0, 500)}`));
    }
    return answer;
  }

  async check(): Promise<void> {
    await Promise.all([this.#write.check(), this.#query.check()]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#write.close(), this.#query.close()]);
  }
}

function forcedLabels({ orgId, hostId, node }: SampleIdentity): [name: string, value: string][] {
  if (orgId === "" || hostId === "") throw new Error("a write without org_id or host_id");
  return [
    ["org_id", orgId],
    ["host_id", hostId],
    ["node", node || hostId],
  ];
}

function pathOf(endpoint: QueryEndpoint, label: string | undefined): string {
  if (endpoint !== "label_values") return `/api/v1/${endpoint}`;
  if (!label) throw new Error("label_values needs a label");
  return `/api/v1/label/${encodeURIComponent(label)}/values`;
}

function unavailable(cause: unknown): ApiError {
  return new ApiError("storage_unavailable", "the metrics store cannot be reached; send it again later", {
    cause,
    retryAfterS: RETRY_AFTER_S,
  });
}

/** One base URL with its keep-alive connections. */
class Upstream {
  readonly #pool: Pool;
  readonly #basePath: string;
  readonly #headers: Record<string, string>;

  constructor(url: string) {
    const { origin, pathname, username, password } = new URL(url);
    this.#pool = new Pool(origin, { connections: CONNECTIONS, headersTimeout: TIMEOUT_MS, bodyTimeout: TIMEOUT_MS, connectTimeout: 5000 });
    this.#basePath = pathname.replace(/\/+$/, "");
    const user = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
    this.#headers = username || password ? { authorization: `Basic ${Buffer.from(user).toString("base64")}` } : {};
  }

  /** Everything posted here may be repeated safely: queries, and samples whose times are fixed. */
  async post(path: string, body: Buffer | string, headers: Record<string, string>, signal?: AbortSignal): Promise<QueryAnswer> {
    try {
      return await this.#send("POST", this.#basePath + path, body, headers, signal);
    } catch (error) {
      if (error instanceof ApiError || signal?.aborted) throw error;
      if (!isStaleConnection(error)) throw unavailable(error);
    }
    try {
      return await this.#send("POST", this.#basePath + path, body, headers, signal);
    } catch (error) {
      if (error instanceof ApiError || signal?.aborted) throw error;
      throw unavailable(error);
    }
  }

  async check(): Promise<void> {
    const { status } = await this.#send("GET", "/health", undefined, {}, AbortSignal.timeout(5000));
    if (status !== 200) throw new Error(`/health answered ${status}`);
  }

  async close(): Promise<void> {
    await this.#pool.close();
  }

  async #send(
    method: "GET" | "POST",
    path: string,
    body: Buffer | string | undefined,
    headers: Record<string, string>,
    signal: AbortSignal | undefined,
  ): Promise<QueryAnswer> {
    const answer = await this.#pool.request({ method, path, body, headers: { ...this.#headers, ...headers }, signal });
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of answer.body as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > MAX_ANSWER_BYTES) throw new ApiError("invalid_parameter", "the answer exceeds 64 MiB: ask for less time or fewer series");
      chunks.push(chunk);
    }
    const type = answer.headers["content-type"];
    return {
      status: answer.statusCode,
      body: chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks),
      contentType: typeof type === "string" ? type : "application/json",
    };
  }
}

/** The engine closed a kept connection in the moment it was used again. */
function isStaleConnection(error: unknown): boolean {
  const code = (error as { code?: string }).code;
  return code === "UND_ERR_SOCKET" || code === "ECONNRESET" || code === "EPIPE";
}
