// The signing proxy between the collector and the backend. Invariants: it signs only requests to its three routes, addressed to a loopback
// name; it reports success only after the backend's 204; it forwards no header of the client except Content-Encoding. It starts before the
// collector and stops after it; until there is a key, it answers 503. Routes and responses: docs/decisions.md, "The agent's proxy".
import { once } from "node:events";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Logger } from "pino";
import { freeBuffer, createServer } from "../../common/http.ts";
import { isLoopback } from "../../common/ip-networks.ts";
import type { CredentialSource } from "../credentials/credential-store.ts";
import { listenAt } from "../listen.ts";
import { type LineCounts, parseFileRequest, FILES_HEADER } from "../collector/files/file-batch.ts";
import type { StoredBatches } from "../collector/files/stored-batches.ts";
import type { Compression, ListenAddress, Signal } from "../settings.ts";
import type { Upstream } from "../upstream/pool.ts";
import type { RefusedKey } from "../upstream/refused-key.ts";
import { BodyError } from "../../common/otlp-metrics/document.ts";
import { withoutByteOrderMark } from "../../common/content-coding/decoder.ts";
import { compress, contentEncoding, decompress, type Encoding, ReceivedBody, MemoryBudget, Reservation } from "./body.ts";
import { checkPause, forward, NO_KEY_YET, type Post, type SigningClock, type ForwardResult, PROTOBUF_TYPE } from "./forward.ts";
import { decodeRequest } from "../../common/protobuf/decode-request.ts";
import { MetricsConverter } from "../../common/otlp-metrics/converter.ts";
import { FileLines } from "./file-lines.ts";
import { recordsToJson } from "./records-to-json.ts";
import { MAX_BODY_BYTES, MAX_JSON_BODY_BYTES, MAX_PROXY_CONNECTIONS } from "../agent-limits.ts";
import { OldBackend } from "./old-backend.ts";
import { mayAcceptParts, PartSender } from "./part-sender.ts";
import { SignalRecord, type SignalStatus } from "./signal-status.ts";

export interface ProxyOptions {
  /** Port 0: any free port. */
  readonly listen: ListenAddress;
  readonly upstream: Upstream;
  readonly credentials: CredentialSource;
  readonly clock: SigningClock;
  readonly refusedKey?: RefusedKey | undefined;
  readonly compression: Compression;
  /** Lines of files that the backend has; without it, repeated requests are forwarded too. */
  readonly storedBatches?: StoredBatches | undefined;
  readonly log: Logger;
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

/** Routes by their exact request target: a target with a query string, or in encoded or absolute form, does not match. */
const ROUTES: ReadonlyMap<string, Route> = new Map([
  ["/v1/logs", { signal: "logs", path: "/ingest/logs/otlp" }],
  ["/v1/traces", { signal: "traces", path: "/ingest/traces" }],
  ["/v1/metrics", { signal: "metrics", path: "/ingest" }],
]);

/** Smaller bodies are received completely before they are forwarded. */
const SMALL_BODY_BYTES = 64 * 1024;
/** In addition to the request with lines of files as it arrived: its batches, and those that are joined for sending. */
const FILE_REQUEST_COPIES = 2;
/** The collector's timeout is 30 s; an earlier response prevents it from resending a request that is still in progress. */
const ANSWER_WITHIN_MS = 27_000;
/** How long the proxy waits for the result of a request after the sender has disconnected. */
const OUTCOME_WITHIN_MS = 5000;
const DRAIN_MS = 30_000;

/** Resolves once it listens. Throws if `listen` is not loopback or the port is in use. */
export async function startProxy(options: ProxyOptions): Promise<Proxy> {
  const { listen } = options;
  if (!isLoopback(listen.host))
    throw new Error(`the proxy may listen only on loopback, not on ${listen.host}, because it signs every request that reaches it`);
  const proxy = new LoopbackProxy(options);
  await proxy.listen(listen);
  return proxy;
}

class LoopbackProxy implements Proxy {
  readonly #options: ProxyOptions;
  readonly #server: Server;
  readonly #budget: MemoryBudget;
  readonly #converter: MetricsConverter;
  readonly #oldBackend: OldBackend;
  readonly #records: Readonly<Record<Signal, SignalRecord>>;
  readonly #partSender: PartSender;
  readonly #fileLines: FileLines;
  readonly #requests = new Set<Promise<void>>();
  #port = 0;
  /** Resolves when no body is being decompressed. */
  #lastDecompression: Promise<unknown> = Promise.resolve();

  constructor(options: ProxyOptions) {
    const nowMs = options.nowMs ?? Date.now;
    const record = (signal: Signal) => new SignalRecord(signal, options.log, nowMs);
    this.#options = options;
    this.#budget = new MemoryBudget(options.maxHeldBytes ?? 2 * MAX_BODY_BYTES);
    this.#records = { metrics: record("metrics"), logs: record("logs"), traces: record("traces") };
    this.#partSender = new PartSender((signal, reason, records, why) => this.#records[signal].dropped(reason, records, why));
    this.#fileLines = new FileLines(options.storedBatches, options.log);
    this.#oldBackend = new OldBackend(options.log, nowMs);
    this.#converter = new MetricsConverter((reason, points) => this.#records.metrics.dropped(reason, points));
    this.#server = createServer({ keepAliveTimeout: 120_000, requestTimeout: 60_000 }, (request, response) => {
      const answered = this.#answer(request, response).finally(() => this.#requests.delete(answered));
      this.#requests.add(answered);
    });
    this.#server.maxConnections = MAX_PROXY_CONNECTIONS;
  }

  get port(): number {
    return this.#port;
  }

  async listen(address: ListenAddress): Promise<void> {
    this.#port = await listenAt(this.#server, address, "PROXY_LISTEN");
  }

  status(): ProxyStatus {
    const { metrics, logs, traces } = this.#records;
    return { metrics: metrics.status(), logs: logs.status(), traces: traces.status() };
  }

  /** Never rejects: a request that cannot be answered has lost its connection. */
  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    request.on("error", () => {});
    response.on("error", () => {});
    if (!this.#isFromLocalProgram(request)) {
      return send(response, 403, refusal("forbidden", "the proxy serves only the collector, on a loopback name"));
    }
    const route = request.method === "POST" ? ROUTES.get(request.url ?? "") : undefined;
    if (!route) return send(response, 404, refusal("not_found", "the proxy accepts POST /v1/logs, /v1/traces and /v1/metrics"));
    const abort = new AbortController();
    const timeout = setTimeout(() => abort.abort(), ANSWER_WITHIN_MS);
    // For lines of files, the proxy waits to learn whether the backend stored them, because a restarted collector sends them again in other
    // requests.
    const graceMs = request.headers[FILES_HEADER] === undefined ? 0 : OUTCOME_WITHIN_MS;
    response.once("close", () => response.writableFinished || setTimeout(() => abort.abort(), graceMs).unref());
    try {
      using reservation = new Reservation(this.#budget);
      const result = await this.#forward(request, route, reservation, abort.signal);
      await this.#conclude(response, route, result, reservation.bytes);
    } catch (error) {
      await this.#conclude(response, route, classifyError(error), 0);
    } finally {
      clearTimeout(timeout);
    }
  }

  /** False for a web page in a browser, which can reach loopback by its own host name (DNS rebinding) or with an Origin. */
  #isFromLocalProgram(request: IncomingMessage): boolean {
    const hosts = request.headersDistinct["host"] ?? [];
    const [host = ""] = hosts;
    const separator = host.lastIndexOf(":");
    const hasProxyPort = host.slice(separator + 1) === String(this.#port);
    return hosts.length === 1 && hasProxyPort && isLoopback(host.slice(0, separator)) && request.headers.origin === undefined;
  }

  async #forward(request: IncomingMessage, { signal, path }: Route, reservation: Reservation, abort: AbortSignal): Promise<ForwardResult> {
    const credential = this.#options.credentials.current();
    if (!credential) return NO_KEY_YET;
    const paused = checkPause(this.#options, credential);
    if (paused) return paused;
    const isProtobuf = hasProtobuf(request);
    const encoding = contentEncoding(request);
    const body = new ReceivedBody(request, MAX_BODY_BYTES, reservation);
    if (signal === "metrics" && !isProtobuf) {
      const json = await this.#decompress(await body.takeWhole(), encoding, reservation);
      return this.#sendMetrics(json, path, reservation, abort);
    }
    if (!isProtobuf) return this.#sendWhole(body, encoding, { path, headers: JSON_CONTENT }, abort);
    if (signal === "logs" && request.headers[FILES_HEADER] !== undefined) {
      const lines = await this.#decompress(await body.takeWhole(), encoding, reservation);
      reservation.addCopies(FILE_REQUEST_COPIES * lines.length);
      const counts: LineCounts = { split: 0, holes: 0 };
      const batches = parseFileRequest(lines, counts);
      const result = await this.#fileLines.sendOnce(request, batches, async (part, isSingleBatch) => {
        const answer = await this.#sendRecords({ signal, path }, part, abort);
        return isSingleBatch ? this.#inParts({ signal, path }, part, answer, abort) : answer;
      });
      if (result.kind === "accepted") this.#records.logs.countLines(counts);
      freeBuffer(lines);
      return result;
    }
    const compression = encoding === "identity" ? undefined : encoding;
    const records = async (): Promise<Buffer> => this.#decompress(await body.whole(), encoding, reservation);
    const result = await this.#oldBackend.send(
      async () => this.#sendWhole(body, encoding, { path, headers: PROTOBUF_CONTENT }, abort),
      async () =>
        signal === "metrics"
          ? this.#sendAsText(await records(), path, reservation, abort)
          : this.#sendAsJson({ signal, path }, await records(), abort, compression),
    );
    return mayAcceptParts(result) ? this.#inParts({ signal, path }, await records(), result, abort, compression) : result;
  }

  /** `result` is the result for the whole body. */
  async #inParts(route: Route, body: Buffer, result: ForwardResult, abort: AbortSignal, compression?: Compression): Promise<ForwardResult> {
    if (!mayAcceptParts(result)) return result;
    return this.#partSender.send(route.signal, body, result, (part) => this.#sendRecords(route, part, abort, compression));
  }

  async #sendRecords({ signal, path }: Route, body: Buffer, abort: AbortSignal, compression?: Compression): Promise<ForwardResult> {
    const send = async (): Promise<ForwardResult> => this.#compressAndSend({ path, headers: PROTOBUF_CONTENT, body }, abort, compression);
    if (signal === "metrics") {
      const result = await send();
      // The next attempt begins with the whole body, and then as text.
      return result.kind === "refused" && result.lacksProtobuf ? { kind: "retry", reason: result.message, retryAfterS: 1 } : result;
    }
    return this.#oldBackend.send(send, async () => this.#sendAsJson({ signal, path }, body, abort, compression));
  }

  async #sendAsJson(
    { signal, path }: { readonly signal: "logs" | "traces"; readonly path: string },
    body: Buffer,
    abort: AbortSignal,
    compression?: Compression,
  ): Promise<ForwardResult> {
    let json: Buffer;
    try {
      json = recordsToJson(signal, body);
    } catch (error) {
      // As if the backend had refused it, so that it is split.
      if (error instanceof BodyError && error.kind === "too_large") return classifyError(error);
      throw error;
    }
    return this.#compressAndSend({ path, headers: JSON_CONTENT, body: json }, abort, compression);
  }

  async #sendWhole(body: ReceivedBody, encoding: Encoding, to: Omit<Post, "body">, abort: AbortSignal): Promise<ForwardResult> {
    if (encoding === "identity" && this.#options.compression !== "none") {
      return this.#compressAndSend({ ...to, body: await body.whole() }, abort);
    }
    const { path } = to;
    const headers = encoding === "identity" ? to.headers : { ...to.headers, "content-encoding": encoding };
    if (body.length === undefined || body.length <= SMALL_BODY_BYTES) return this.#post({ path, headers, body: await body.whole() }, abort);
    return this.#post({ path, headers: { ...headers, "content-length": String(body.length) }, body }, abort);
  }

  /** Decompresses one body at a time, so that at most one exceeds the budget: its size is only known afterwards. */
  async #decompress(bytes: Buffer, encoding: Encoding, reservation: Reservation): Promise<Buffer> {
    if (encoding === "identity") return withoutByteOrderMark(bytes);
    const decompression = this.#lastDecompression.then(async () => {
      const json = await decompress(bytes, encoding, MAX_JSON_BODY_BYTES);
      reservation.growTo(json.length);
      return withoutByteOrderMark(json);
    });
    this.#lastDecompression = decompression.catch(() => undefined);
    return decompression;
  }

  /** Sends OTLP/JSON metrics as exposition text. Takes ownership of `json`. */
  async #sendMetrics(json: Buffer, path: string, reservation: Reservation, abort: AbortSignal): Promise<ForwardResult> {
    try {
      return await this.#sendTexts(this.#converter.convert(json, MAX_BODY_BYTES), path, reservation, abort);
    } finally {
      freeBuffer(json);
    }
  }

  /** Sends OTLP/protobuf metrics as exposition text. */
  async #sendAsText(body: Buffer, path: string, reservation: Reservation, abort: AbortSignal): Promise<ForwardResult> {
    const texts = this.#converter.convertDocument(() => decodeRequest("metrics", body), body.length, MAX_BODY_BYTES);
    return await this.#sendTexts(texts, path, reservation, abort);
  }

  /** Sends one or more requests, all of which must succeed; repeated samples are stored once. */
  async #sendTexts(texts: Iterable<Buffer>, path: string, reservation: Reservation, abort: AbortSignal): Promise<ForwardResult> {
    for (const body of texts) {
      reservation.growTo(body.length);
      const post = await this.#compressed({ path, headers: TEXT_CONTENT, body }, this.#options.compression);
      if (post.body !== body) freeBuffer(body);
      const result = await this.#post(post, abort);
      if (result.kind !== "accepted") return result;
    }
    return { kind: "accepted" };
  }

  /** Sends one request, and counts the records that the backend dropped of it. */
  async #post(post: Post, abort: AbortSignal): Promise<ForwardResult> {
    const result = await forward(this.#options, post, abort);
    if (result.kind === "accepted")
      for (const [reason, count] of result.dropped ?? []) this.#records[signalOf(post.path)].dropped(reason, count);
    return result;
  }

  async #compressAndSend(
    post: Post & { body: Uint8Array },
    abort: AbortSignal,
    compression: Compression = this.#options.compression,
  ): Promise<ForwardResult> {
    return this.#post(await this.#compressed(post, compression), abort);
  }

  async #compressed(post: Post & { body: Uint8Array }, compression: Compression): Promise<Post> {
    if (compression === "none") return post;
    const headers = { ...post.headers, "content-encoding": compression };
    return { ...post, headers, body: await compress(post.body, compression) };
  }

  async #conclude(response: ServerResponse, { signal }: Route, result: ForwardResult, bytes: number): Promise<void> {
    // The collector has disconnected and will retry; the request is counted then.
    if (response.destroyed) return;
    const record = this.#records[signal];
    if (result.kind === "accepted") {
      record.accepted(bytes);
      return send(response, 200, "{}");
    }
    if (result.kind === "retry") {
      if (result.isOwnLimit) record.postponed(result.reason);
      else record.retry(result.reason);
      return send(response, 503, refusal("unavailable", result.reason), result.retryAfterS);
    }
    const reason = `${result.code}: ${result.message}`;
    if (result.status === 429) record.retry(reason);
    else record.refused(result.status, reason);
    return send(response, result.status, refusal(result.code, result.message), result.retryAfterS);
  }

  /** Accepts no new connections and waits until each request is answered, at most DRAIN_MS. */
  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    const closeTimer = setTimeout(() => this.#server.closeAllConnections(), DRAIN_MS);
    while (this.#requests.size > 0) await Promise.all(this.#requests);
    clearTimeout(closeTimer);
    this.#server.closeAllConnections();
    await closed;
  }
}

const PROTOBUF_CONTENT = { "content-type": PROTOBUF_TYPE };
const JSON_CONTENT = { "content-type": "application/json" };
const TEXT_CONTENT = { "content-type": "text/plain; version=0.0.4; charset=utf-8" };

function signalOf(path: string): Signal {
  return [...ROUTES.values()].find((route) => route.path === path)?.signal as Signal;
}

function hasProtobuf({ headers }: IncomingMessage): boolean {
  return headers["content-type"]?.startsWith(PROTOBUF_TYPE) ?? false;
}

/** Returns the result of a request that the proxy could not send to the backend. */
function classifyError(error: unknown): ForwardResult {
  const message = error instanceof Error ? error.message : String(error);
  const kind = error instanceof BodyError ? error.kind : undefined;
  if (kind === "too_large") return { kind: "refused", status: 413, code: "body_too_large", message };
  if (kind === "malformed") return { kind: "refused", status: 400, code: "malformed_body", message };
  return kind === "no_room"
    ? { kind: "retry", reason: message, retryAfterS: 1, isOwnLimit: true }
    : { kind: "retry", reason: message, retryAfterS: 5 };
}

function refusal(code: string, message: string): string {
  return JSON.stringify({ error: code, message });
}

/** With these statuses, the connection is closed without reading the rest of the body; otherwise, Node.js reads it. */
const CLOSING_STATUSES = [403, 404, 413];

/** Resolves once the response is passed to the operating system, or the client has disconnected. */
function send(response: ServerResponse, status: number, body: string, retryAfterS?: number): Promise<void> {
  const headers: Record<string, string | number> = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
  if (retryAfterS !== undefined) headers["retry-after"] = retryAfterS;
  if (CLOSING_STATUSES.includes(status) && !response.req.complete) headers["connection"] = "close";
  const { promise, resolve } = Promise.withResolvers<void>();
  response.once("close", resolve).once("finish", resolve);
  response.writeHead(status, headers).end(body);
  return promise;
}
