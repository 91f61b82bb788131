// Loads undici's connection pools without the rest of undici, and collects the responses of requests. Invariant: undici's index is not
// loaded, because it also loads fetch, WebSocket, caches and mocks, some 4 MB of memory on every node. The folder `lib` is not part of
// undici's public interface (undici-lib.d.ts declares the types of its files), so package.json pins the exact version, and pool.test.ts
// tests the pools in a process that loads no other code, unbundled and bundled.
import connect from "undici/lib/api/api-connect.js";
import request from "undici/lib/api/api-request.js";
import Agent from "undici/lib/dispatcher/agent.js";
import Dispatcher from "undici/lib/dispatcher/dispatcher.js";
import Pool from "undici/lib/dispatcher/pool.js";
import ProxyAgent from "undici/lib/dispatcher/proxy-agent.js";

export { Agent, type Dispatcher, Pool, ProxyAgent };

// undici's index does the same for its whole API. `connect` opens the tunnel through a proxy.
Object.assign(Dispatcher.prototype, { request, connect });

export interface UpstreamAnswer {
  readonly status: number;
  /** Lower-case names; values of a repeated header are joined with `, `. */
  readonly headers: Readonly<Record<string, string>>;
  /** Truncated after `maxBytes`. */
  readonly body: string;
}

type Headers = Record<string, string | string[] | undefined>;

/**
 * Collects the response to one request. undici's `request` would create a stream, which is expensive for an empty 204. Invariants: the
 * promise settles once; data that arrives later or exceeds the limit is discarded.
 */
export class AnswerCollector implements Dispatcher.DispatchHandler {
  /** Rejects with undici's error, or with the signal's reason. */
  readonly answer: Promise<UpstreamAnswer>;
  readonly #settle = Promise.withResolvers<UpstreamAnswer>();
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
