// What /openapi.json says of the answers about rules, on the service's own port and under the prefix. Invariant: it only describes.
import { NOTHING, TIME_SCHEMA, UUID_SCHEMA } from "../http/schemas.ts";
import { RULE_BODY_SCHEMA } from "./rule.ts";

const RULE = { ...RULE_BODY_SCHEMA, properties: { id: UUID_SCHEMA, ...RULE_BODY_SCHEMA.properties, created_at: TIME_SCHEMA } };
const count = { type: "integer", minimum: 0 };
const STATUS = {
  type: "object",
  required: ["state", "active_alerts"],
  properties: {
    state: { type: "string", enum: ["firing", "pending", "inactive"] },
    active_alerts: { ...count, description: "instances that fire now" },
    last_eval: { ...TIME_SCHEMA, description: "absent before the first evaluation" },
    error: { type: "string", description: "why the rule cannot be evaluated" },
  },
};
const VERDICT = {
  type: "object",
  required: ["valid"],
  properties: {
    valid: { type: "boolean" },
    matching_series: { ...count, description: "of a valid rule: how many series it matches now" },
    message: { type: "string", description: "of an invalid one: why" },
  },
};
const PERIOD = {
  type: "object",
  required: ["state", "start", "end", "labels"],
  properties: {
    state: { type: "string", enum: ["pending", "firing"] },
    start: TIME_SCHEMA,
    end: TIME_SCHEMA,
    labels: { type: "object", additionalProperties: { type: "string" } },
  },
};

const ANSWERS: Record<string, Record<number, object>> = {
  "GET /rules": { 200: { type: "array", items: RULE } },
  "POST /rules": { 201: RULE },
  "POST /rules/validate": { 200: VERDICT },
  "PUT /rules/:id": { 200: RULE },
  "DELETE /rules/:id": NOTHING,
  "GET /rules/:id/status": { 200: STATUS },
  "GET /rules/:id/history": { 200: { type: "array", items: PERIOD } },
};

/** Status → schema of what an operation such as `GET /rules` answers when all is well. */
export function answerOf(operation: string): Record<number, object> {
  return ANSWERS[operation] ?? {};
}
