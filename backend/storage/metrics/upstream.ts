// Sends requests to VictoriaMetrics at one address, single node or cluster. Invariants: a request is sent once more if its keep-alive
// connection turns out to be closed; a response takes at most MAX_METRIC_ANSWER_BYTES of memory.
import { loginOf, statusOf } from "../../engines/engine-http.ts";
import { Pool } from "../../engines/http-pool.ts";
import { ApiError } from "../../errors.ts";
import { MAX_METRIC_ANSWER_BYTES, MAX_PARSED_ANSWER_BYTES } from "../storage-limits.ts";

/** The engine's unchanged response: Prometheus' JSON, also for 4xx. */
export interface QueryAnswer {
  readonly status: number;
  /** The body in the chunks that were received, so that a large one need not be copied. */
  readonly pieces: readonly Buffer[];
  /** For callers that parse it, on the shared event loop: throws ApiError query_too_expensive above MAX_PARSED_ANSWER_BYTES. */
  readonly body: Buffer;
}

const PROBE_TIMEOUT_MS = 1000;
export const DENY_PARTIAL = ["deny_partial_response", "1"] as const;
/** A series that does not exist: every node of a cluster has to respond, but none has data to read. */
const PROBED_SERIES = "atherops_readiness_probe";

export const RETRY_AFTER_S = 2;
const CONNECTIONS = 64;
/**
 * Longer than the engine keeps samples only in memory, so that each connection notices when the engine ends; shorter than the engine's own
 * limit of a minute.
 */
const KEEP_ALIVE_MS = 30_000;
const CHECK_TIMEOUT_MS = 5000;

/** One base URL with its keep-alive connections. */
export class Upstream {
  readonly #pool: Pool;
  readonly #origin: string;
  readonly #basePath: string;
  readonly #headers: Readonly<Record<string, string>>;
  #isClosed = false;

  /** `onLost` is called if the engine broke a connection or did not respond in time. */
  constructor(url: string, timeoutMs: number, onLost?: () => void) {
    const login = loginOf(url);
    const { origin, pathname } = new URL(login.url);
    this.#origin = origin;
    this.#basePath = pathname.replace(/\/+$/, "");
    this.#headers = login.headers;
    this.#pool = new Pool(origin, {
      connections: CONNECTIONS,
      headersTimeout: timeoutMs,
      bodyTimeout: timeoutMs,
      connectTimeout: 5000,
      keepAliveTimeout: KEEP_ALIVE_MS,
    });
    this.#pool.on("disconnect", (_origin, _targets, error: unknown) => {
      const isClosedHere = this.#isClosed || (error as { code?: string }).code === "UND_ERR_INFO";
      if (!isClosedHere) onLost?.();
    });
  }

  /** Requests may be repeated safely: queries, and samples with fixed times. */
  async post(path: string, body: Buffer | string, headers: Record<string, string>): Promise<QueryAnswer> {
    const send = () => this.#send(this.#basePath + path, body, headers);
    try {
      return await send().catch((error: unknown) => {
        if (!isStaleConnection(error)) throw error;
        return send();
      });
    } catch (error) {
      throw error instanceof ApiError ? error : unavailable(error);
    }
  }

  async check(): Promise<void> {
    const status = await statusOf(`${this.#origin}/health`, { headers: this.#headers, timeoutMs: CHECK_TIMEOUT_MS });
    if (status !== 200) throw new Error(`/health answered ${status}`);
  }

  /** Throws if a query would be refused because a node of a cluster is missing. Other failures are left to `check`. */
  async checkComplete(): Promise<void> {
    const query = new URLSearchParams({ query: PROBED_SERIES, [DENY_PARTIAL[0]]: DENY_PARTIAL[1] });
    const path = `${this.#basePath}/api/v1/query?${query.toString()}`;
    const signal = AbortSignal.timeout(PROBE_TIMEOUT_MS);
    // Safe to ignore: a busy engine responds late, which does not make it incomplete.
    const answer = await this.#pool.request({ method: "GET", path, headers: this.#headers, signal }).catch(() => undefined);
    const text = await answer?.body.text().catch(() => "");
    if (answer && isPartial(answer.statusCode, text ?? "")) throw new Error(`the metrics cluster is incomplete: ${text?.slice(0, 500)}`);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#pool.close();
  }

  /** Closes the connections and aborts running requests. */
  async destroy(): Promise<void> {
    this.#isClosed = true;
    await this.#pool.destroy();
  }

  async #send(path: string, body: Buffer | string, headers: Record<string, string>): Promise<QueryAnswer> {
    const answer = await this.#pool.request({ method: "POST", path, body, headers: { ...this.#headers, ...headers } });
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of answer.body as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > MAX_METRIC_ANSWER_BYTES)
        throw new ApiError("invalid_parameter", "the answer exceeds 64 MiB: ask for less time or fewer series");
      chunks.push(chunk);
    }
    return {
      status: answer.statusCode,
      pieces: chunks,
      get body() {
        if (bytes > MAX_PARSED_ANSWER_BYTES)
          throw new ApiError("query_too_expensive", "the metrics of the answer exceed 16 MiB: ask for less time or fewer series");
        return Buffer.concat(chunks);
      },
    };
  }
}

/** The engine closed a keep-alive connection just when it was used again. */
function isStaleConnection(error: unknown): boolean {
  const code = (error as { code?: string }).code;
  return code === "UND_ERR_SOCKET" || code === "ECONNRESET" || code === "EPIPE";
}

/** vmselect names the node that does not respond. An overloaded vmselect also returns 503, but with another message. */
export function isPartial(status: number, text: string): boolean {
  return status === 503 && text.includes("vmstorage");
}

export function unavailable(cause: unknown): ApiError {
  return new ApiError("storage_unavailable", "the metrics store cannot be reached; send it again later", {
    cause,
    retryAfterS: RETRY_AFTER_S,
  });
}
