// Options of the log and trace query routes, and the schemas of a log record and a span in their responses.
import type { TailRouteOptions } from "./log-tail-stream.ts";
import type { ResponseBudget } from "../http/response-budget.ts";
import type { Guards } from "../http/request-identity.ts";
import type { SpanStore } from "../storage/traces/span-store.ts";
import { objectSchema, TIME_SCHEMA } from "../http/schemas.ts";
import type { LogStore } from "../storage/logs/log-store.ts";
import type { JobRunner } from "./sandbox/sandbox.ts";

export interface TraceRouteOptions {
  store: Omit<SpanStore, "insert">;
  answers: ResponseBudget;
  guards: Pick<Guards, "reader">;
  now?: () => Date;
}

/** Accepts both cases; stored ids are in lower case. */
export const TRACE_ID = { type: "string", pattern: "^[0-9a-fA-F]{32}$", description: "32 hex digits, in upper or lower case" } as const;

/** Schema of a span in GET /query/traces. */
export const SPAN_SCHEMA = objectSchema({
  Timestamp: TIME_SCHEMA,
  TraceID: { type: "string" },
  SpanID: { type: "string" },
  ParentSpanID: { type: "string" },
  Service: { type: "string" },
  Operation: { type: "string" },
  DurationMs: { type: "number" },
  StatusCode: { type: "string", enum: ["UNSET", "OK", "ERROR"] },
  Error: { type: "boolean" },
  Attributes: { type: "object", additionalProperties: { type: "string" } },
});

export interface LogRouteOptions extends TailRouteOptions {
  readonly store: Omit<LogStore, "insert">;
  /** Parses and evaluates LogQL with runLokiJob. */
  readonly sandbox: JobRunner;
}

export const LOG_SCHEMA = objectSchema({
  timestamp: TIME_SCHEMA,
  level: { type: "string" },
  source: { type: "string" },
  message: { type: "string" },
  labels: { type: "object", additionalProperties: { type: "string" } },
  host_id: { type: "string" },
  node: { type: "string" },
  trace_id: { type: "string", description: "32 hex digits, or empty" },
  span_id: { type: "string", description: "16 hex digits, or empty" },
  severity_number: { type: "integer", minimum: 0, maximum: 24, description: "of OpenTelemetry; 0: unspecified" },
  scope: { type: "string", description: "name of the instrumentation scope" },
});
