// The routes of the three signals: who may send, how much at once, in which encoding; then the signal's own ingest. Invariant: an
// answer of 204 means stored; nothing of a body is read before its sender is authenticated.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { ApiError } from "../errors.ts";
import { freeBuffer } from "../../common/http.ts";
import type { OwnMetrics, Signal } from "../operations/own-metrics.ts";
import { addRoute } from "../http/route.ts";
import { type Guards, signerOf, type SigningKey } from "../auth/request-identity.ts";
import { readBody, type BodyPace } from "./body.ts";
import { ByteBudget } from "../admission/byte-budget.ts";
import { MAX_BODY_BYTES } from "./limits.ts";
import { Quota, type QuotaLimits } from "./quota.ts";

/** Records stored and, by reason, well-formed records that could not be kept. */
export interface IngestResult {
  readonly accepted: number;
  readonly dropped: Readonly<Record<string, number>>;
  /** Where it may be much more than the body, because every record carries its resource. */
  readonly storedBytes?: number;
  /** Of the organisation now, where they are counted. */
  readonly activeSeries?: number;
}

/**
 * Stores one decompressed body of a signal under the key's identity, or throws ApiError with nothing stored. Once it has resolved,
 * nothing refers to the body any more: its memory is gone.
 */
export type IngestSignal = (key: SigningKey, body: Buffer, context: { receivedAt: Date }) => Promise<IngestResult>;

export interface IngestRoutesOptions {
  readonly guards: Guards;
  readonly metrics: IngestSignal;
  readonly logs: IngestSignal;
  readonly traces: IngestSignal;
  readonly ownMetrics: OwnMetrics;
  /** `settings.ingestMemoryBytes`. */
  readonly memoryBytes: number;
  /** Of now. */
  readonly limitsOf: (orgId: string) => QuotaLimits;
  /** Is told what was stored. */
  readonly usage?: { count(orgId: string, signal: Signal, bytes: number, records: number, activeSeries?: number): void };
  /** True once the process is stopping: new bodies get 503. */
  readonly draining: () => boolean;
  readonly pace?: BodyPace;
}

declare module "fastify" {
  interface FastifyContextConfig {
    /** Which signal an ingest route takes. */
    signal?: Signal;
  }
  interface FastifyRequest {
    /** Of the body of an ingest route, as its head says; 0 where it does not. */
    declaredBytes: number;
  }
}

const RETRY_AFTER_DRAINING_S = 2;

/** Adds POST /ingest, /ingest/traces and /ingest/logs/otlp. */
export function registerIngestRoutes(app: FastifyInstance, options: IngestRoutesOptions): void {
  const handler = new IngestHandler(options);
  options.ownMetrics.gauge("ingest_held_bytes", () => handler.budget.heldBytes);
  options.ownMetrics.gauge("ingest_requests_in_flight", () => handler.inFlight);
  void app.register(async (scope) => {
    scope.decorateRequest("declaredBytes", 0);
    scope.addHook("onRequest", hideBody);
    scope.addHook("onError", async (request, _reply, error) => {
      const { signal } = request.routeOptions.config;
      if (signal) options.ownMetrics.rejected(signal, error instanceof ApiError ? error.code : "internal");
    });
    const add = (url: string, signal: Signal, ingest: IngestSignal, summary: string): void => {
      const body = { description: "compressed with gzip or zstd, or uncompressed", type: signal === "metrics" ? "string" : "object" };
      addRoute(scope, options.guards, {
        method: "POST",
        path: url,
        access: { keys: ["cluster", "host", "direct"] },
        tag: "ingest",
        summary,
        ...(signal === "metrics" && { consumes: ["text/plain"] }),
        bodyIsOptional: true,
        documented: { body, response: { 204: { description: "durable: the engine has acknowledged the data", type: "null" } } },
        errors: ["unsupported_encoding", "over_quota"],
        config: { signal },
        handler: (request, reply) => handler.take(signal, ingest, request, reply),
      });
    };
    add("/ingest", "metrics", options.metrics, "Prometheus exposition text");
    add("/ingest/traces", "traces", options.traces, "OTLP/JSON ExportTraceServiceRequest");
    add("/ingest/logs/otlp", "logs", options.logs, "OTLP/JSON ExportLogsServiceRequest");
  });
}

/**
 * Hides the body from Fastify, which would otherwise look for a parser. The body is read from the raw request, and its content type is
 * ignored, so a malformed one must not be an error.
 */
function hideBody(request: FastifyRequest, _reply: FastifyReply, done: () => void): void {
  const headers: Record<string, unknown> = request.raw.headers;
  request.declaredBytes = Number(headers["content-length"] ?? 0);
  for (const name of ["content-type", "content-length", "transfer-encoding"]) headers[name] = undefined;
  done();
}

class IngestHandler {
  readonly budget: ByteBudget;
  readonly #quota: Quota;
  readonly #options: IngestRoutesOptions;
  inFlight = 0;

  constructor(options: IngestRoutesOptions) {
    this.#options = options;
    this.budget = new ByteBudget(options.memoryBytes, MAX_BODY_BYTES);
    this.#quota = new Quota(options.limitsOf);
  }

  async take(signal: Signal, ingest: IngestSignal, request: FastifyRequest, reply: FastifyReply): Promise<void> {
    this.inFlight += 1;
    try {
      await this.#store(signal, ingest, request);
      void reply.code(204).send();
    } finally {
      this.inFlight -= 1;
    }
  }

  async #store(signal: Signal, ingest: IngestSignal, request: FastifyRequest): Promise<void> {
    const key = signerOf(request);
    if (this.#options.draining()) {
      throw new ApiError("unavailable", "this replica is stopping; send it again", { retryAfterS: RETRY_AFTER_DRAINING_S });
    }
    this.#quota.admit(key.orgId);
    const receivedAt = new Date();
    using reservation = this.budget.open(key.orgId);
    let start: Buffer | undefined;
    try {
      const { raw, declaredBytes, headers } = request;
      const body = await readBody({ request: raw, declaredBytes, encoding: headers["content-encoding"] }, reservation, this.#options.pace);
      if (body.length === 0) return;
      const bytes = body.length;
      // A copy: the ingest may hand the body's memory to another thread.
      start = Buffer.from(body.subarray(0, 512));
      const result = await ingest(key, body, { receivedAt });
      // Not after a failure: a write may still be under way.
      freeBuffer(body);
      const cost = Math.max(bytes, result.storedBytes ?? 0);
      this.#quota.charge(key.orgId, cost, this.#count(signal, result));
      if (result.accepted > 0) this.#options.usage?.count(key.orgId, signal, cost, result.accepted, result.activeSeries);
    } catch (error) {
      // What is refused for its content has cost its reading; what is to come again is charged then.
      if (error instanceof ApiError && error.status < 500) this.#quota.charge(key.orgId, reservation.peakBytes, 0);
      throw start && isBinary(start) ? namingBinary(error) : error;
    }
  }

  /** The records of the body, kept or dropped. */
  #count(signal: Signal, { accepted, dropped }: IngestResult): number {
    const { ownMetrics } = this.#options;
    ownMetrics.accepted(signal, accepted);
    for (const [reason, count] of Object.entries(dropped)) ownMetrics.dropped(signal, reason, count);
    return Object.values(dropped).reduce((sum, count) => sum + count, accepted);
  }
}

/** The error of a refused body that looks like protobuf says so too; its first bad line or byte stays named, because text may look so. */
function namingBinary(error: unknown): unknown {
  if (!(error instanceof ApiError) || error.status !== 400) return error;
  return new ApiError(
    "invalid_payload",
    `${error.message}; it begins like protobuf or another binary format, which is not taken here: send OTLP/JSON (logs, traces) or Prometheus exposition text (metrics)`,
    { cause: error },
  );
}

/** Control characters at the start, which neither JSON nor exposition text has there. */
function isBinary(start: Buffer): boolean {
  return start.some((byte) => byte < 9 || (byte > 13 && byte < 32));
}
