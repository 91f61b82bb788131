// What the routes of logs have in common: what they are given, and how a record is described.
import type { Guards } from "../../auth/request-identity.ts";
import type { ResponseBudget } from "../../http/response-budget.ts";
import type { LogStore } from "../../storage/logs/store.ts";
import type { TailTimes } from "./log-tail-stream.ts";
import { objectSchema } from "../../http/schemas.ts";

export interface LogRouteOptions {
  store: Omit<LogStore, "insert">;
  answers: ResponseBudget;
  guards: Pick<Guards, "reader">;
  now?: () => Date;
  /** Bounds of tails that are not those of production. */
  tails?: Partial<TailTimes> & { perOrg?: number; inAll?: number };
}

/** Schema of a record in a response. */
export const LOG_SCHEMA = objectSchema({
  timestamp: { type: "string", format: "date-time" },
  level: { type: "string" },
  source: { type: "string" },
  message: { type: "string" },
  labels: { type: "object", additionalProperties: { type: "string" } },
  host_id: { type: "string" },
  node: { type: "string" },
  trace_id: { type: "string", description: "32 hex digits, or empty" },
  span_id: { type: "string", description: "16 hex digits, or empty" },
  severity_number: { type: "integer", minimum: 0, maximum: 24, description: "of OpenTelemetry; 0: not said" },
  scope: { type: "string", description: "name of the instrumentation scope" },
});
