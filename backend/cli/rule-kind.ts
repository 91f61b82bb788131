// Alert rules as `atherops apply` and `atherops rules` have them. Invariant: a rule in a file has the fields of the API, and its name is
// what makes it the same rule.
import { durationMs } from "../../common/duration.ts";
import { type Fields, isObject } from "./alerting-fields.ts";
import type { Existing, Kind, Thing } from "./alerting-plan.ts";
import type { Client } from "./client.ts";
import type { Row } from "./table.ts";

export const SEVERITIES = ["critical", "warning", "info"];
export const RULES = "/alerting/rules";

export const ruleKind: Kind = {
  section: "rules",
  noun: "rule",
  read: readRule,
  nameOf: ({ name }) => String(name),
  list: existingRules,
  try: async (client, thing) => (await tried(client, thing)).message,
  create: async (client, body) => void (await client.call("POST", RULES, { body })),
  replace: async (client, id, body) => void (await client.call("PUT", rulePath(id), { body })),
  remove: async (client, id) => void (await client.call("DELETE", rulePath(id))),
  same: (field, one, other) => field === "for" && isSameDuration(String(one), String(other)),
};

/** `5m` and `300s` are. */
function isSameDuration(one: string, other: string): boolean {
  const ms = durationMs(one);
  return ms !== undefined && ms === durationMs(other);
}

export function rulePath(id: unknown): string {
  return `${RULES}/${encodeURIComponent(String(id))}`;
}

/** What the backend says of a rule that is not stored; a field that is out of bounds throws Problem. */
export async function tried(client: Client, body: Thing): Promise<{ valid: boolean; message?: string; matching_series?: number }> {
  return await client.call("POST", `${RULES}/validate`, { body });
}

export async function existingRules(client: Client): Promise<Existing[]> {
  const rows = await client.call<Row[]>("GET", RULES);
  return rows.map(({ id, name, severity, expr, logs, for: hold, enabled, labels, annotations }) => ({
    id: String(id),
    name: String(name),
    // Of a rule over log records `expr` says the same as `logs`, for people.
    thing: { name, severity, ...(logs === undefined ? { expr } : { logs }), for: hold, enabled, labels, annotations },
  }));
}

function readRule(fields: Fields): Thing {
  return {
    name: fields.text("name"),
    severity: fields.oneOf("severity", SEVERITIES),
    ...condition(fields),
    for: fields.text("for", "0s"),
    enabled: fields.flag("enabled", true),
    labels: fields.texts("labels"),
    annotations: fields.texts("annotations"),
  };
}

/** Over metrics or over log records. */
function condition(fields: Fields): Thing {
  if (!fields.has("logs")) return { expr: fields.text("expr") };
  if (fields.has("expr")) throw fields.problem("expr", "remove it, or remove logs");
  const logs = fields.any("logs");
  if (!isObject(logs)) throw fields.problem("logs", "must be a mapping of fields, such as `window: 5m`");
  return { logs: { filter: {}, by: [], ...logs } };
}
