// Defines a service level objective: its fields and their limits, what it counts, and the PromQL that counts good and all events of a window.
// Invariant: only the backend writes the series of counted events, because no key has the host id RECORDED_BY; the events of an earlier
// definition are never used for the present one.
import { hash } from "node:crypto";
import { durationMs } from "../../common/duration.ts";
import { closedSchema, invalidField, nameSchema, TIME_SCHEMA, UUID_SCHEMA } from "../http/schemas.ts";
import { FILTER_SCHEMA, type FilterParameters } from "../query/native/log-filter-parameters.ts";
import { BUCKETS_PER_DOUBLING } from "../storage/traces/span-histogram.ts";
import { MAX_LOG_RULE_FILTERS, MAX_SLO_EXPRESSION_CHARACTERS } from "./alerting-limits.ts";
import { checkFilter } from "./log-condition.ts";
import { checkText, EXCEPT_LINES } from "./rule-text.ts";

const SLO_WINDOWS = ["7d", "28d", "30d", "90d", "month"] as const;
export type SloWindow = (typeof SLO_WINDOWS)[number];

interface Calls {
  readonly service: string;
  readonly operation?: string;
}

/** All events, and either the good or the bad ones. */
type Ratio<T> = { readonly total: T; readonly good?: T; readonly bad?: T };

/** Exactly one of these. */
interface Indicator {
  readonly availability?: Calls;
  readonly latency?: Calls & { readonly below: string };
  readonly promql?: Ratio<string>;
  readonly logs?: Ratio<Readonly<FilterParameters>>;
}

export interface SloBody {
  readonly name: string;
  readonly description: string;
  /** Percent of good events. */
  readonly objective: number;
  readonly window: SloWindow;
  readonly indicator: Indicator;
  /** What a minute without events means: nothing, or one bad event. */
  readonly no_traffic: "ignore" | "bad";
  /** Whether the burn rate rules exist. */
  readonly alerts: boolean;
  /** Added to every alert. */
  readonly labels: Readonly<Record<string, string>>;
}

export interface Slo extends SloBody {
  readonly id: string;
  readonly orgId: string;
  readonly definition: string;
  readonly definedAt: Date;
  readonly createdAt: Date;
  readonly error: string | undefined;
}

const text = (maxLength: number, description: string) => ({ type: "string", minLength: 1, maxLength, description });
const CALLS = { service: text(256, "service.name"), operation: text(256, "name of the span; default: all operations") };
const EXPRESSION = text(
  MAX_SLO_EXPRESSION_CHARACTERS,
  "PromQL that counts events in `[$window]`, such as increase(http_requests_total[$window])",
);
const FILTER = { ...FILTER_SCHEMA, maxProperties: MAX_LOG_RULE_FILTERS, description: "filters as in GET /query/logs" };
const ratioSchema = (item: object, description: string) => ({
  ...closedSchema(["total"], { total: item, good: item, bad: item }),
  minProperties: 2,
  maxProperties: 2,
  description: `${description}; \`good\` or \`bad\`, and \`total\``,
});

const PROPERTIES = {
  name: nameSchema(100),
  description: { type: "string", maxLength: 1000, default: "" },
  objective: { type: "number", exclusiveMinimum: 0, maximum: 99.999, description: "percent of good events, such as 99.9" },
  window: { type: "string", enum: SLO_WINDOWS, default: "30d", description: "rolling days, or the calendar month (UTC)" },
  indicator: {
    ...closedSchema([], {
      availability: { ...closedSchema(["service"], CALLS), description: "calls without an error" },
      latency: {
        ...closedSchema(["service", "below"], { ...CALLS, below: text(50, "such as 300ms; rounded up to a bucket of 2^(n/4) ms") }),
        description: "calls that take at most `below`",
      },
      promql: ratioSchema(EXPRESSION, "events that metrics count"),
      logs: ratioSchema(FILTER, "log records"),
    }),
    minProperties: 1,
    maxProperties: 1,
    description: "what is counted: exactly one of these",
  },
  no_traffic: {
    type: "string",
    enum: ["ignore", "bad"],
    default: "ignore",
    description: "what a minute without events counts as: nothing, or one bad event (not for promql)",
  },
  alerts: { type: "boolean", default: true, description: "whether the burn rates have alert rules; they are recorded in any case" },
  labels: {
    type: "object",
    maxProperties: 10,
    propertyNames: { pattern: "^[a-zA-Z][a-zA-Z0-9_]{0,127}$" },
    additionalProperties: { type: "string", maxLength: 200 },
    default: {},
    description: "added to every alert",
  },
};

export const SLO_BODY_SCHEMA = closedSchema(["name", "objective", "indicator"], PROPERTIES);

/** Fields in responses; the schema of `indicator` is that of bodies, and large. */
export const SLO_PROPERTIES = {
  id: UUID_SCHEMA,
  ...PROPERTIES,
  indicator: { type: "object", additionalProperties: true, description: "as in the body" },
  created_at: TIME_SCHEMA,
};
export const SLO_SCHEMA = closedSchema(SLO_PROPERTIES);

/** Labels of the generated rules and series. */
const RESERVED = /^(?:slo|slo_id|burn_rate|window|short_window|severity|alert.*|org_id|rule_id|vm_.*|host_id|node)$/;

/** Checks what the schema cannot express. Throws ApiError `invalid_field`, which names the field. */
export function checkSlo(body: SloBody): void {
  checkText("description", body.description, EXCEPT_LINES);
  if (body.name.includes("{{")) throw invalidField("name", "must not contain {{: it becomes a label of alerts, and labels are plain text");
  for (const [name, value] of Object.entries(body.labels)) {
    if (RESERVED.test(name)) throw invalidField(`labels.${name}`, "the server sets this label: choose another name");
    checkText(`labels.${name}`, value);
    if (value.includes("{{")) throw invalidField(`labels.${name}`, "labels are plain text");
  }
  const { availability, latency, promql, logs } = body.indicator;
  for (const calls of [availability, latency])
    for (const [name, value] of Object.entries(calls ?? {})) checkText(`indicator.${name}`, value as string);
  if (latency) lastBucketOf(latency.below);
  for (const filter of Object.values(logs ?? {})) checkFilter(filter);
  for (const [name, expression] of Object.entries(promql ?? {})) {
    checkText(`indicator.promql.${name}`, expression, EXCEPT_LINES);
    if (!expression.includes("[$window]"))
      throw invalidField(`indicator.promql.${name}`, "must have the range [$window], such as increase(requests_total[$window])");
  }
  if (promql && body.no_traffic === "bad") throw invalidField("no_traffic", "bad is not possible for promql: add the events to `total`");
}

/** The bucket of durations that ends at or above `below`. Throws ApiError `invalid_field`. */
export function lastBucketOf(below: string): number {
  const ms = durationMs(below);
  if (ms === undefined || ms < 1 || ms > 3_600_000) throw invalidField("indicator.latency.below", "must be 1ms to 1h, such as 300ms");
  return Math.ceil(Math.log2(ms) * BUCKETS_PER_DOUBLING);
}

/** Identifies what is counted; a changed objective, window or label does not change it. */
export function definitionOf({ indicator, no_traffic }: Pick<SloBody, "indicator" | "no_traffic">): string {
  const sorted = (value: unknown): unknown =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.entries(value)
          .toSorted(([a], [b]) => (a < b ? -1 : 1))
          .map(([name, part]) => [name, sorted(part)])
      : value;
  return hash("sha256", JSON.stringify(sorted({ indicator, no_traffic })), "hex").slice(0, 16);
}

/** The share of events that may be bad. */
export function budgetOf({ objective }: Pick<SloBody, "objective">): number {
  return Number(((100 - objective) / 100).toPrecision(12));
}

/** Replaces the host id in series of counted events. */
export const RECORDED_BY = "slo";
export const EVENTS = "slo:minute_events";

/** PromQL for the number of good and of all events in a window such as `1h`; neither has labels. */
export function eventQueries({ id, definition, indicator: { promql } }: Pick<Slo, "id" | "definition" | "indicator">, window: string) {
  if (!promql) {
    const count = (event: string) =>
      `sum(sum_over_time(${EVENTS}{host_id="${RECORDED_BY}",slo_id="${id}",definition="${definition}",event="${event}"}[${window}]))`;
    return { good: count("good"), total: count("total") };
  }
  // A comment at the end of the expression must not hide the parenthesis.
  const sum = (expression = "") => `sum(${expression.replaceAll("[$window]", `[${window}]`)}\n)`;
  const total = sum(promql.total);
  return { good: promql.good === undefined ? `(${total} - (${sum(promql.bad)} default 0))` : sum(promql.good), total };
}

/** PromQL for the burn rate of a window: the share of bad events, in budgets. Without events it is 0. */
export function burnRateQuery(slo: Pick<Slo, "id" | "definition" | "indicator" | "objective">, window: string): string {
  const { good, total } = eventQueries(slo, window);
  return `(clamp_min(1 - (${good} default 0) / (${total} default 0), 0) default 0) / ${budgetOf(slo)}`;
}

export function sloObject({ id, name, description, objective, window, indicator, no_traffic, alerts, labels, createdAt }: Slo) {
  return { id, name, description, objective, window, indicator, no_traffic, alerts, labels, created_at: createdAt.toISOString() };
}
