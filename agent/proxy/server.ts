// The loopback proxy between collector and backend. Invariants: it signs nothing but its three routes, asked for on its own loopback
// name; it answers success only after the backend's 204; nothing of the caller's headers but Content-Encoding travels on. Started by
// main.ts after enrolment and before the collector, stopped after the collector. Routes and answers: decisions.md, "The proxy".
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Logger } from "pino";
import type { CredentialSource } from "../credentials/store.ts";
import type { Compression, ListenAddress, Signal } from "../settings.ts";
import { isLoopback, type Upstream } from "../upstream.ts";
import { BodyError, compress, contentEncoding, decompress, MemoryBudget, readBody, Reservation } from "./body.ts";
import { forward, type ForwardParts, type SigningClock, type Verdict } from "./forward.ts";
import { MetricsConverter } from "./exposition.ts";
import { SignalRecord, type SignalStatus } from "./signal-status.ts";

export interface ProxyOptions {
  /** Port 0 takes a free one. */
  readonly listen: ListenAddress;
  readonly upstream: Upstream;
  readonly credentials: CredentialSource;
  readonly clock: SigningClock;
  readonly compression: Compression;
  readonly log: Logger;
  readonly observe?: ForwardParts["observe"];
  readonly maxHeldBytes?: number;
  readonly nowMs?: () => number;
}

export interface Proxy extends AsyncDisposable {
  readonly port: number;
  status(): ProxyStatus;
}

export type ProxyStatus = Readonly<Record<Signal, SignalStatus>>;

interface Route {
  readonly signal: Signal;
  readonly path: string;
}

const ROUTES: Readonly<Record<string, Route>> = {
  "/v1/logs": { signal: "logs", path: "/ingest/logs/otlp" },
  "/v1/traces": { signal: "traces", path: "/ingest/traces" },
  "/v1/metrics": { signal: "metrics", path: "/ingest" },
};

/** The backend's limit (interface.md, "Limits"). */
const MAX_BODY_BYTES = 32 * 1024 * 1024;
/** The collector gives up after 30 s and sends again: be faster, so that it does not send what is still on its way. */
const ANSWER_WITHIN_MS = 27_000;
const DRAIN_MS = 30_000;

/** Resolves once it listens. Throws when `listen` is not loopback or the port is taken. */
export async function startProxy(options: ProxyOptions): Promise<Proxy> {
  const { listen } = options;
  if (!isLoopback(listen.host))
    throw new Error(`the proxy listens on loopback only, not on ${listen.host}: whoever reaches it is signed for`);
  const proxy = new LoopbackProxy(options);
  await proxy.listen(listen);
  return proxy;
}

class LoopbackProxy implements Proxy {
  readonly #options: ProxyOptions;
  readonly #server: Server;
  readonly #budget: MemoryBudget;
  readonly #converter: MetricsConverter;
  readonly #records: Readonly<Record<Signal, SignalRecord>>;
  readonly #underWay = new Set<Promise<void>>();
  #port = 0;

  constructor(options: ProxyOptions) {
    const nowMs = options.nowMs ?? Date.now;
    const record = (signal: Signal) => new SignalRecord(signal, options.log, nowMs);
    this.#options = options;
    this.#budget = new MemoryBudget(options.maxHeldBytes ?? 2 * MAX_BODY_BYTES);
    this.#converter = new MetricsConverter();
    this.#records = { metrics: record("metrics"), logs: record("logs"), traces: record("traces") };
    this.#server = createServer({ keepAliveTimeout: 120_000, requestTimeout: 60_000 }, (request, response) => {
      const answered = this.#answer(request, response).finally(() => this.#underWay.delete(answered));
      this.#underWay.add(answered);
    });
  }

  get port(): number {
    return this.#port;
  }

  async listen({ host, port }: ListenAddress): Promise<void> {
    this.#server.listen(port, host.replace(/^\[(.*)\]$/, "$1"));
    await once(this.#server, "listening");
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  status(): ProxyStatus {
    const { metrics, logs, traces } = this.#records;
    return { metrics: metrics.status(), logs: logs.status(), traces: traces.status() };
  }

  /** Never rejects: what cannot be answered has lost its connection. */
  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    request.on("error", () => {});
    response.on("error", () => {});
    if (!this.#isForUs(request))
      return send(response, 403, refusal("forbidden", "the proxy answers the collector on its loopback name only"));
    const route = request.method === "POST" ? ROUTES[request.url ?? ""] : undefined;
    if (!route) return send(response, 404, refusal("not_found", "the proxy takes POST /v1/logs, /v1/traces and /v1/metrics"));
    const gone = new AbortController();
    response.once("close", () => gone.abort());
    try {
      using reservation = new Reservation(this.#budget);
      const signal = AbortSignal.any([gone.signal, AbortSignal.timeout(ANSWER_WITHIN_MS)]);
      this.#conclude(response, route, await this.#take(request, route, reservation, signal));
    } catch (error) {
      if (!gone.signal.aborted) this.#conclude(response, route, failure(error));
    }
  }

  /** A page in a browser can reach loopback too, under a name of its own (DNS rebinding) or with an Origin. */
  #isForUs(request: IncomingMessage): boolean {
    const hosts = request.headersDistinct["host"] ?? [];
    const [host = ""] = hosts;
    const separator = host.lastIndexOf(":");
    const isOurPort = host.slice(separator + 1) === String(this.#port);
    return hosts.length === 1 && isOurPort && isLoopback(host.slice(0, separator)) && request.headers.origin === undefined;
  }

  async #take(request: IncomingMessage, route: Route, reservation: Reservation, signal: AbortSignal): Promise<Outcome> {
    if (!this.#options.credentials.current())
      return { verdict: await forward(this.#options, { ...route, headers: {}, body: EMPTY }, signal), bytes: 0 };
    if (request.headers["content-type"]?.startsWith("application/x-protobuf"))
      throw new BodyError("unsupported_encoding", "a protobuf body: set the exporter's encoding to json");
    const encoding = contentEncoding(request);
    const body = await readBody(request, MAX_BODY_BYTES, reservation);
    if (route.signal === "metrics") return this.#sendMetrics(await decompress(body, encoding, 2 * MAX_BODY_BYTES), reservation, signal);
    const json = { "content-type": "application/json" };
    if (encoding !== "identity")
      return {
        verdict: await forward(this.#options, { path: route.path, headers: { ...json, "content-encoding": encoding }, body }, signal),
        bytes: body.length,
      };
    return { verdict: await this.#post(route.path, json, body, signal), bytes: body.length };
  }

  /** All posts must succeed; sent again after a failure, the samples are the same and stored once. */
  async #sendMetrics(body: Buffer, reservation: Reservation, signal: AbortSignal): Promise<Outcome> {
    const texts = this.#converter.convert(body.toString("utf8"), MAX_BODY_BYTES);
    let bytes = 0;
    for (const text of texts) bytes += text.length;
    reservation.growTo(bytes);
    for (const text of texts) {
      const verdict = await this.#post("/ingest", { "content-type": "text/plain; version=0.0.4; charset=utf-8" }, text, signal);
      if (verdict.kind !== "accepted") return { verdict, bytes };
    }
    return { verdict: { kind: "accepted" }, bytes };
  }

  async #post(path: string, headers: Record<string, string>, body: Uint8Array, signal: AbortSignal): Promise<Verdict> {
    const { compression } = this.#options;
    const encoded = await compress(body, compression);
    const encoding: Record<string, string> = encoded === body ? {} : { "content-encoding": compression };
    return forward(this.#options, { path, headers: { ...headers, ...encoding }, body: encoded }, signal);
  }

  #conclude(response: ServerResponse, route: Route, { verdict, bytes }: Outcome): void {
    const record = this.#records[route.signal];
    if (verdict.kind === "accepted") {
      record.accepted(bytes);
      return send(response, 200, "{}");
    }
    if (verdict.kind === "retry") {
      record.retry(verdict.reason);
      return send(response, 503, refusal("unavailable", verdict.reason), verdict.retryAfterS);
    }
    const reason = `${verdict.code}: ${verdict.message}`;
    if (verdict.status === 429) record.retry(reason);
    else record.refused(verdict.status, reason);
    send(response, verdict.status, refusal(verdict.code, verdict.message), verdict.retryAfterS);
  }

  /** Takes no new requests and waits for those under way; what is not answered after DRAIN_MS is cut off. */
  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    const cut = setTimeout(() => this.#server.closeAllConnections(), DRAIN_MS);
    await Promise.allSettled(this.#underWay);
    this.#server.closeIdleConnections();
    await closed;
    clearTimeout(cut);
  }
}

interface Outcome {
  readonly verdict: Verdict;
  /** Size of what was sent, before compression. */
  readonly bytes: number;
}

const EMPTY = new Uint8Array(0);

function failure(error: unknown): Outcome {
  const message = error instanceof Error ? error.message : String(error);
  const kind = error instanceof BodyError ? error.kind : undefined;
  if (kind === "too_large") return { verdict: { kind: "refused", status: 413, code: "body_too_large", message }, bytes: 0 };
  if (kind === "malformed") return { verdict: { kind: "refused", status: 400, code: "malformed_body", message }, bytes: 0 };
  return { verdict: { kind: "retry", reason: message, retryAfterS: kind === "no_room" ? 1 : 5 }, bytes: 0 };
}

function refusal(code: string, message: string): string {
  return JSON.stringify({ error: code, message });
}

/** An answer before the body was read ends the connection: the rest of it is not waited for. */
function send(response: ServerResponse, status: number, body: string, retryAfterS?: number): void {
  if (response.headersSent || response.destroyed) return;
  const headers: Record<string, string | number> = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
  if (retryAfterS !== undefined) headers["retry-after"] = retryAfterS;
  if (!response.req.complete) headers["connection"] = "close";
  response.writeHead(status, headers).end(body);
}
