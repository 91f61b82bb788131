// Defines the fields and limits of an alert rule, and validates the body that a user sends. Invariants: accepted text has no control
// characters and no lone surrogates; labels that the server sets cannot be set; templates can only print. Whether the engines accept the
// rule is checked in rule-check.ts.
import { durationMs } from "../../common/duration.ts";
import { closedSchema, TIME_SCHEMA, UUID_SCHEMA, invalidField } from "../http/schemas.ts";
import { rawAnnotations, REVISION_ANNOTATION } from "./alert-annotations.ts";
import { checkText, EXCEPT_LINES, estimatePrintedBytes, findTemplateProblem } from "./rule-text.ts";
import { MAX_ALERT_BYTES, MAX_FOR_MS, MAX_RULE_BYTES } from "./alerting-limits.ts";
import { alertLabel, checkLogs, expressionOf, isLogExpression, LOG_CONDITION_SCHEMA, type LogCondition } from "./log-condition.ts";

export const SEVERITIES = ["critical", "warning", "info"] as const;
export type Severity = (typeof SEVERITIES)[number];

/** The fields of a rule that a user sets, as sent. */
export interface RuleBody {
  readonly name: string;
  readonly severity: Severity;
  /** For a rule over log records: its condition as text. */
  readonly expr: string;
  /** Log rules only: the condition for the counted records. */
  readonly logs?: LogCondition;
  /** A Prometheus duration as the user wrote it, e.g. `5m`. */
  readonly for: string;
  readonly enabled: boolean;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** A rule as clients send it: `expr` may be missing if `logs` is set. */
export type SentRule = Omit<RuleBody, "expr"> & { readonly expr?: string };

/** A rule that passed `validateRule`. Only such rules are stored or passed to an evaluator; nothing in them is parsed again. */
export interface CheckedRule extends RuleBody {
  /** `for` in milliseconds. */
  readonly forMs: number;
}

export interface Rule extends CheckedRule {
  readonly id: string;
  readonly orgId: string;
  readonly createdAt: Date;
  /** The revision of the organisation's rules that last changed this one. */
  readonly revision: number;
  /** Why the evaluator rejects it; such a rule is withheld from the evaluator. */
  readonly refused: string | undefined;
  /** The service level objective that the rule is generated for; such a rule cannot be changed on its own. */
  readonly sloId?: string | undefined;
  /** Why the records of a log rule are not counted, or not in time. */
  readonly uncounted?: string | undefined;
}

/** Labels that the server or the evaluator sets. */
const RESERVED_LABELS = new Set([
  "alertgroup",
  "alertname",
  "alertstate",
  "org_id",
  "rule_id",
  "severity",
  "vm_account_id",
  "vm_project_id",
]);
const LABEL_NAME = "^[a-zA-Z_][a-zA-Z0-9_]{0,127}$";

const textMap = (maxLength: number) => ({
  type: "object",
  maxProperties: 20,
  propertyNames: {
    pattern: LABEL_NAME,
    description: "a name has at most 128 letters, digits and underscores, and does not begin with a digit",
  },
  additionalProperties: { type: "string", maxLength },
  default: {},
});

const BODY_PROPERTIES = {
  name: { type: "string", minLength: 1, maxLength: 200, description: "unique in the organisation" },
  severity: { type: "string", enum: SEVERITIES },
  expr: {
    type: "string",
    minLength: 1,
    maxLength: 10_000,
    description:
      "PromQL or MetricsQL: a comparison without `bool`; comparisons combined with `and`, `or` or `unless`; an aggregation over these; or absent(…)",
  },
  logs: LOG_CONDITION_SCHEMA,
  for: { type: "string", maxLength: 50, default: "0s", description: "how long the expression must be true, e.g. 5m" },
  enabled: { type: "boolean", default: true },
  labels: { ...textMap(1000), description: "added to every alert" },
  annotations: {
    ...textMap(4000),
    description: "message text, which may contain values, e.g. {{ $value | humanize }} or {{ $labels.instance }}",
  },
};

/** A rule is over metrics or over log records. */
const CONDITION = { anyOf: [{ required: ["expr"] }, { required: ["logs"] }] };

export const RULE_BODY_SCHEMA = { ...closedSchema(["name", "severity"], BODY_PROPERTIES), ...CONDITION };

export const RULE_SCHEMA = closedSchema(["id", "name", "severity", "expr", "for", "enabled", "labels", "annotations", "created_at"], {
  id: UUID_SCHEMA,
  ...BODY_PROPERTIES,
  slo_id: { ...UUID_SCHEMA, description: "only for a rule that is generated for a service level objective, which cannot be changed" },
  created_at: TIME_SCHEMA,
});

/** JSON schema of a body of validate: only the condition is required. */
export const DRAFT_SCHEMA = {
  ...closedSchema([], {
    ...BODY_PROPERTIES,
    name: { ...BODY_PROPERTIES.name, default: "draft" },
    severity: { ...BODY_PROPERTIES.severity, default: "info" },
  }),
  ...CONDITION,
};

/** Checks what a schema cannot express. Throws ApiError `invalid_field`, which names the field. */
export function validateRule(sent: SentRule): CheckedRule {
  const body: RuleBody = { ...sent, expr: expressionIn(sent) };
  checkText("name", body.name);
  checkText("expr", body.expr, EXCEPT_LINES);
  const forMs = readForMs(body.for);
  for (const [name, text] of Object.entries(body.labels)) checkLabel(name, text);
  for (const [name, text] of Object.entries(body.annotations)) checkAnnotation(name, text);
  const bytes = bytesOf(body);
  if (bytes > MAX_RULE_BYTES)
    throw invalidField("rule", `its text has ${bytes} bytes, more than ${MAX_RULE_BYTES}: shorten the annotations`);
  if (alertBytes(body) > MAX_ALERT_BYTES)
    throw invalidField("annotations", `templates may print more than ${MAX_ALERT_BYTES} bytes per alert: print or escape less`);
  return { ...body, forMs };
}

/** The `expr` of a log rule is derived from `logs`; a client may send it back. */
function expressionIn({ expr = "", logs, labels }: SentRule): string {
  if (!logs) {
    if (isLogExpression(expr)) throw invalidField("expr", "is the text of a log rule: send its `logs` instead");
    return expr;
  }
  checkLogs(logs);
  for (const name of logs.by.map(alertLabel)) {
    if (!new RegExp(LABEL_NAME).test(name) || isReserved(name) || Object.hasOwn(labels, name))
      throw invalidField("logs.by", `its label ${name} cannot be used: it is too long, or already set`);
  }
  const derived = expressionOf(logs);
  if (expr !== "" && expr !== derived) throw invalidField("expr", "must not be set together with `logs`, from which it is derived");
  return derived;
}

function isReserved(label: string): boolean {
  return RESERVED_LABELS.has(label) || label.startsWith("__");
}

/** How long a rule's expression must be true. Throws ApiError `invalid_field`: an invalid value must never mean "fire at once". */
export function readForMs(text: string): number {
  const ms = durationMs(text);
  if (ms === undefined) throw invalidField("for", "must be a Prometheus duration such as 30s, 5m or 1h30m");
  if (ms > MAX_FOR_MS) throw invalidField("for", "must be at most 366d");
  return ms;
}

/** Estimated memory of one alert of the rule in the evaluator: its labels, and its annotations with the output of their templates. */
export function alertBytes(body: RuleBody): number {
  const exprBytes = Buffer.byteLength(body.expr);
  const annotations = { ...body.annotations, ...rawAnnotations(body.annotations) };
  const printed = Object.values(annotations).reduce((sum, text) => sum + estimatePrintedBytes(text, exprBytes), 0);
  return 1024 + bytesOf({ ...body, annotations }) + printed;
}

/** UTF-8 bytes of all text in a rule that the user wrote. */
export function bytesOf({ name, expr, logs, labels, annotations }: RuleBody): number {
  const texts = [name, expr, logs ? JSON.stringify(logs) : "", ...Object.entries(labels).flat(), ...Object.entries(annotations).flat()];
  return texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
}

function checkLabel(name: string, text: string): void {
  const field = `labels.${name}`;
  if (isReserved(name)) throw invalidField(field, "the server sets this label: choose another name");
  checkText(field, text);
  if (text.includes("{{"))
    throw invalidField(field, "labels are plain text, because a changing label would start a new alert; use annotations");
}

function checkAnnotation(name: string, text: string): void {
  const field = `annotations.${name}`;
  if (name === REVISION_ANNOTATION || name.startsWith("__"))
    throw invalidField(field, "the server sets this annotation: choose another name");
  checkText(field, text, EXCEPT_LINES);
  const reason = findTemplateProblem(text);
  if (reason !== undefined) throw invalidField(field, reason);
}

/** The rule object of the contract, with additional fields `labels`, `annotations`, and `logs` for log rules. */
export function ruleObject(rule: Rule): Record<string, unknown> {
  const { id, name, severity, expr, for: duration, enabled, labels, annotations, createdAt } = rule;
  const { since: _since, ...logs } = rule.logs ?? {};
  return {
    id,
    name,
    severity,
    expr,
    ...(rule.logs && { logs }),
    for: duration,
    enabled,
    labels,
    annotations,
    ...(rule.sloId !== undefined && { slo_id: rule.sloId }),
    created_at: createdAt.toISOString(),
  };
}
