// Defines the ingest routes of the three signals, whose requests are signed: who may send, and in which encoding. All protocols share their
// handler. Invariants: a 204 means that the engine has the data, or the backend's journal on disk; no body is read before its sender is
// authenticated.
import { DROPPED_RECORDS_HEADER, formatDroppedRecords } from "../../common/protocol/dropped-records.ts";
import type { IngestTokens } from "../auth/ingest-tokens/ingest-tokens.ts";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { ApiError } from "../errors.ts";
import type { OwnMetrics, Signal } from "../operations/own-metrics.ts";
import { addRoute, endpoint, type Route } from "../http/route.ts";
import { type Guards, signerOf } from "../http/request-identity.ts";
import {
  type BodyEncoding,
  IngestHandler,
  type IngestHandlerOptions,
  type IngestResult,
  type IngestSignal,
  isExemplarReason,
} from "./ingest-handler.ts";

export interface IngestRoutesOptions extends IngestHandlerOptions {
  readonly guards: Guards;
  /** Exposition text, and OTLP in protobuf. */
  readonly metrics: IngestSignal;
  readonly logs: IngestSignal;
  readonly traces: IngestSignal;
}

declare module "fastify" {
  interface FastifyContextConfig {
    /** The signal of an ingest route. */
    signal?: Signal;
  }
  interface FastifyRequest {
    /** Declared length of the body of an ingest route; 0 if there is none. */
    declaredBytes: number;
    /** Content-Type of an ingest route; "" if there is none. */
    declaredType: string;
  }
}

/** Adds POST /ingest, /ingest/traces and /ingest/logs/otlp. Returns the handler for the routes of other protocols. */
export function registerIngestRoutes(app: FastifyInstance, options: IngestRoutesOptions): IngestHandler {
  const handler = new IngestHandler(options);
  void app.register(async (scope) => {
    prepareIngestScope(scope, options.ownMetrics);
    const add = (url: string, signal: Signal, ingest: IngestSignal, summary: string): void => {
      const body = { description: "compressed with gzip or zstd, or uncompressed", type: signal === "metrics" ? "string" : "object" };
      addRoute(scope, options.guards, {
        ...endpoint("POST", url, { keys: ["cluster", "host", "direct"] }, "ingest"),
        summary,
        consumes: [signal === "metrics" ? "text/plain" : CONTENT_TYPES.json, CONTENT_TYPES.protobuf],
        bodyIsOptional: true,
        documented: { body, response: { 204: { description: STORED, type: "null" } } },
        errors: ["unsupported_encoding", "over_quota"],
        config: { signal },
        handler: async (request, reply) => {
          const encoding = contentTypeOf(request).type === CONTENT_TYPES.protobuf ? protobufOrText : undefined;
          const read = handler.readRequest(request);
          try {
            const readsLines = signal === "logs";
            const { dropped } = await handler.handle({ sender: signerOf(request), signal, ingest, encoding, readsLines, read });
            if (encoding) reportDropped(reply, dropped);
          } catch (error) {
            // Distinguishes a body that is invalid from a release of the backend that does not accept protobuf.
            if (encoding) void reply.header("accept-post", CONTENT_TYPES.protobuf);
            throw error;
          }
          return await reply.code(204).send();
        },
      });
    };
    add("/ingest", "metrics", options.metrics, "Prometheus exposition text, or OTLP/protobuf ExportMetricsServiceRequest");
    add("/ingest/traces", "traces", options.traces, "OTLP ExportTraceServiceRequest, JSON or protobuf");
    add("/ingest/logs/otlp", "logs", options.logs, "OTLP ExportLogsServiceRequest, JSON or protobuf");
  });
  return handler;
}

/** Exemplars are not reported, because senders can do nothing about their limits. */
function reportDropped(reply: FastifyReply, dropped: IngestResult["dropped"]): void {
  const records = Object.entries(dropped).filter(([reason]) => !isExemplarReason(reason));
  if (records.length > 0) void reply.header(DROPPED_RECORDS_HEADER, formatDroppedRecords(Object.fromEntries(records)));
}

/** The first byte of every OTLP request in protobuf that has a record: field 1, a message. */
const FIRST_FIELD = 0x0a;

/** Any content type may be sent with JSON and with text, by the contract; neither begins with a line feed in practice. */
function protobufOrText(body: Buffer): BodyEncoding | undefined {
  return body[0] === FIRST_FIELD ? "protobuf" : undefined;
}

export interface TokenRouteOptions {
  readonly handler: IngestHandler;
  readonly ingestTokens: Pick<IngestTokens, "access">;
}

/** Adds routes that accept ingest tokens. Each route declares its `access`. */
export function registerTokenRoutes(app: FastifyInstance, ownMetrics: OwnMetrics, routes: readonly Route[]): void {
  void app.register(async (scope) => {
    prepareIngestScope(scope, ownMetrics);
    for (const route of routes) addRoute(scope, {}, route);
  });
}

/**
 * Prepares a scope for routes with `config.signal`, whose bodies are read by `IngestHandler.readRequest`; counts each failed request
 * of such a route by its error code.
 */
function prepareIngestScope(scope: FastifyInstance, ownMetrics: OwnMetrics): void {
  scope.decorateRequest("declaredBytes", 0);
  scope.decorateRequest("declaredType", "");
  scope.addHook("onRequest", hideBody);
  scope.addHook("onError", async (request, _reply, error) => {
    const { signal } = request.routeOptions.config;
    if (signal) ownMetrics.rejected(signal, error instanceof ApiError ? error.code : "internal");
  });
}

/** Description of a successful response. */
export const STORED = "the data is stored, with embedded engines on disk: docs/from-one-to-many.md, What a 204 means";
export const CONTENT_TYPES = { json: "application/json", protobuf: "application/x-protobuf" } as const;

/** The media type in lower case ("" without a header), and the parameters after the first semicolon. */
export function contentTypeOf({ declaredType }: FastifyRequest): { readonly type: string; readonly parameters: string } {
  const end = declaredType.indexOf(";");
  const type = end < 0 ? declaredType : declaredType.slice(0, end);
  return { type: type.trim().toLowerCase(), parameters: end < 0 ? "" : declaredType.slice(end + 1) };
}

/** http/app.ts deletes the parsed header of an empty body, whose response still needs its type. */
function findRawType({ raw: { rawHeaders } }: FastifyRequest): string {
  const at = rawHeaders.findIndex((name, index) => index % 2 === 0 && name.toLowerCase() === "content-type");
  return at < 0 ? "" : (rawHeaders[at + 1] ?? "");
}

/**
 * Hides the body from Fastify, which would otherwise look for a parser. The body is read from the raw request and its content type is
 * ignored, so a malformed content type must not cause an error.
 */
function hideBody(request: FastifyRequest, _reply: FastifyReply, done: () => void): void {
  const headers: Record<string, unknown> = request.raw.headers;
  request.declaredBytes = Number(headers["content-length"] ?? 0);
  request.declaredType = request.raw.headers["content-type"] ?? findRawType(request);
  for (const name of ["content-type", "content-length", "transfer-encoding"]) headers[name] = undefined;
  done();
}
