// What /openapi.json says of the answers about rules, on the service's own port and under the prefix. Invariant: it only describes.
import { NO_CONTENT, objectSchema, TIME_SCHEMA, UUID_SCHEMA } from "../http/schemas.ts";
import { RULE_BODY_SCHEMA } from "./rule.ts";

const RULE = {
  type: "object",
  additionalProperties: false,
  required: ["name", "severity", "expr"],
  properties: { id: UUID_SCHEMA, ...RULE_BODY_SCHEMA.properties, created_at: TIME_SCHEMA },
};
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

const texts = { type: "object", additionalProperties: { type: "string" } };
const number = { type: "number" };
const ALERT = objectSchema({
  labels: texts,
  annotations: texts,
  state: { type: "string", enum: ["pending", "firing"] },
  activeAt: TIME_SCHEMA,
  value: { type: "string" },
});
const LIVE_RULE = {
  type: "object",
  required: ["state", "name", "query", "duration", "labels", "annotations", "alerts", "health", "evaluationTime", "lastEvaluation", "type"],
  properties: {
    state: STATUS.properties.state,
    name: { type: "string" },
    query: { type: "string" },
    duration: { ...number, description: "`for` in seconds" },
    labels: texts,
    annotations: texts,
    alerts: { type: "array", items: ALERT },
    health: { type: "string", enum: ["ok", "err", "unknown"], description: "unknown: not evaluated yet" },
    lastError: { type: "string" },
    evaluationTime: { ...number, description: "seconds" },
    lastEvaluation: { ...TIME_SCHEMA, description: "year 1: not evaluated yet" },
    type: { const: "alerting" },
  },
  additionalProperties: true,
};
const GROUP = {
  ...objectSchema({
    name: { const: "rules" },
    file: { const: "atherops" },
    interval: { ...number, description: "seconds between evaluations" },
    rules: { type: "array", items: LIVE_RULE },
    evaluationTime: number,
    lastEvaluation: TIME_SCHEMA,
  }),
  additionalProperties: true,
};

/** An answer in the form of Prometheus. */
function succeeded(data: Record<string, object>): object {
  return {
    type: "object",
    required: ["status", "data"],
    properties: {
      status: { const: "success" },
      data: objectSchema(data),
      warnings: { type: "array", items: { type: "string" }, description: "what is left out" },
    },
  };
}

const ANSWERS: Record<string, Record<number, object>> = {
  "GET /rules": { 200: { type: "array", items: RULE } },
  "POST /rules": { 201: RULE },
  "POST /rules/validate": { 200: VERDICT },
  "PUT /rules/:id": { 200: RULE },
  "DELETE /rules/:id": NO_CONTENT,
  "GET /rules/:id/status": { 200: STATUS },
  "GET /rules/:id/history": { 200: { type: "array", items: PERIOD } },
  "GET /prometheus/api/v1/rules": { 200: succeeded({ groups: { type: "array", items: GROUP } }) },
  "GET /prometheus/api/v1/alerts": { 200: succeeded({ alerts: { type: "array", items: ALERT } }) },
};

/** Status → schema of what an operation such as `GET /rules` answers when all is well. */
export function answerOf(operation: string): Record<number, object> {
  return ANSWERS[operation] ?? {};
}
