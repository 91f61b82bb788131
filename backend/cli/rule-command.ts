// Alert rules as `atherops apply` and `atherops rules` exchange them with the API, and the options of a rule over log records: `--logs '>
// 20 in 5m' --where source=shop --by level`. Invariants: a rule in a file has the fields of the API and is identified by its name; an
// option that is not given leaves its field unchanged; the backend validates the rule.
import { type Fields, isObject, isSameDuration } from "./alerting-fields.ts";
import { type Existing, type Kind, type Resource, storedAt } from "./alerting-file.ts";
import type { Client } from "./api-client.ts";
import { collect } from "./named-resources.ts";
import type { Row } from "./text-table.ts";
import type { Command } from "commander";
import { WrongUsage } from "./cli-error.ts";

export const SEVERITIES = ["critical", "warning", "info"];
export const RULES = "/alerting/rules";

export const ruleKind: Kind = {
  section: "rules",
  noun: "rule",
  read: readRule,
  nameOf: ({ name }) => String(name),
  list: listRules,
  validate: async (client, resource) => (await validateRule(client, resource)).message,
  ...storedAt(RULES),
  isSame: (field, existing, desired) => field === "for" && isSameDuration(existing, desired),
};

/** Asks the backend to validate a rule without storing it. Throws Problem if a field is invalid. */
export async function validateRule(
  client: Client,
  body: Resource,
): Promise<{ valid: boolean; message?: string; matching_series?: number }> {
  return await client.call("POST", `${RULES}/validate`, { body });
}

async function listRules(client: Client): Promise<Existing[]> {
  const rows = await client.call<Row[]>("GET", RULES);
  return rows.map(({ id, name, severity, expr, logs, for: duration, enabled, labels, annotations, slo_id: sloId }) => ({
    id: String(id),
    name: String(name),
    isGenerated: sloId !== undefined,
    // For a log rule, `expr` only repeats `logs` as text.
    resource: { name, severity, ...(logs === undefined ? { expr } : { logs }), for: duration, enabled, labels, annotations },
  }));
}

function readRule(fields: Fields): Resource {
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

function condition(fields: Fields): Resource {
  if (!fields.has("logs")) return { expr: fields.text("expr") };
  if (fields.has("expr")) throw fields.problem("expr", "remove it, or remove logs");
  const logs = fields.any("logs");
  if (!isObject(logs)) throw fields.problem("logs", "must be a mapping of fields, such as `window: 5m`");
  return { logs: { filter: {}, by: [], ...logs } };
}

export interface LogConditionOptions {
  logs?: string;
  where?: string[];
  by?: string[];
}

const COMPARISON = /^\s*(>=|<=|==|!=|>|<)\s*(\d+)\s+in\s+(\S+)\s*$/;

export function withLogOptions(command: Command): Command {
  return command
    .option("--logs <comparison>", "instead of --expr: the number of log records, such as '> 20 in 5m'")
    .option("--where <filter=value>", "which records: a filter of /query/logs, such as source=shop or label.team=a; repeatable", collect)
    .option("--by <field>", "count separately by the values of a field: source, level, host_id, node or label.<key>; repeatable", collect);
}

/** Undefined if none of these options was used. `current`: the condition to change. */
export function parseLogCondition({ logs, where, by }: LogConditionOptions, current?: unknown): Record<string, unknown> | undefined {
  if (logs === undefined && where === undefined && by === undefined) return undefined;
  const existing = isObject(current) ? current : undefined;
  if (logs === undefined && !existing)
    throw new WrongUsage("--logs: is missing, but --where or --by is given: add a comparison such as '> 20 in 5m'");
  const [, operator, threshold, window] = COMPARISON.exec(logs ?? "") ?? [];
  if (logs !== undefined && operator === undefined) throw new WrongUsage(`--logs ${logs}: write it as '> 20 in 5m'`);
  // An empty value removes an existing condition; if there was none, it probably comes from an unset shell variable and is ignored.
  const isKept = (text: string): boolean => !existing || text !== "";
  return {
    filter: {},
    by: [],
    ...existing,
    ...(where && { filter: filterOf(where.filter(isKept)) }),
    ...(by && { by: by.filter(isKept) }),
    ...(operator !== undefined && { window, operator, threshold: Number(threshold) }),
  };
}

function filterOf(where: readonly string[]): Record<string, string | string[]> {
  const filter = new Map<string, string[]>();
  for (const pair of where) {
    const at = pair.indexOf("=");
    if (at < 1) throw new WrongUsage(`--where ${pair}: write it as filter=value`);
    const name = pair.slice(0, at);
    filter.set(name, [...(filter.get(name) ?? []), pair.slice(at + 1)]);
  }
  return Object.fromEntries([...filter].map(([name, values]) => [name, values.length === 1 ? (values[0] ?? "") : values]));
}
