// What the routes of traces have in common: what they are given, and pieces of their schemas.
import type { ResponseBudget } from "../http/response-budget.ts";
import type { Guards } from "../auth/request-identity.ts";
import type { SpanStore } from "../storage/traces/store.ts";
import { objectSchema } from "../http/schemas.ts";

export interface TraceRouteOptions {
  store: Omit<SpanStore, "insert">;
  answers: ResponseBudget;
  guards: Pick<Guards, "reader">;
  now?: () => Date;
}

/** Accepts both cases; stored ids are in lower case. */
export const TRACE_ID = { type: "string", pattern: "^[0-9a-fA-F]{32}$", description: "32 hex digits of any case" } as const;

/** Schema of a span in GET /query/traces. */
export const SPAN_SCHEMA = objectSchema({
  Timestamp: { type: "string", format: "date-time" },
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
