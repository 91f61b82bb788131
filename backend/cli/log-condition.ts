// A rule over log records as it is typed: `--logs '> 20 in 5m' --where source=shop --by level`. Invariant: what is not given stays as it
// was; the backend validates it.
import type { Command } from "commander";
import { isObject } from "./alerting-fields.ts";
import { WrongUsage } from "./cli-error.ts";

export interface LogConditionOptions {
  logs?: string;
  where?: string[];
  by?: string[];
}

const COMPARISON = /^\s*(>=|<=|==|!=|>|<)\s*(\d+)\s+in\s+(\S+)\s*$/;

export function withLogOptions(command: Command): Command {
  return command
    .option("--logs <comparison>", "instead of --expr: the number of log records, such as '> 20 in 5m'")
    .option("--where <filter=value>", "which records: a filter of /query/logs, such as source=shop or label.team=a; repeatable", several)
    .option("--by <field>", "count separately by the values of a field: source, level, host_id, node or label.<key>; repeatable", several);
}

/** Undefined: nothing of it was given. `former`: the condition that is changed. */
export function logsGiven({ logs, where, by }: LogConditionOptions, former?: unknown): Record<string, unknown> | undefined {
  if (logs === undefined && where === undefined && by === undefined) return undefined;
  const known = isObject(former) ? former : undefined;
  if (logs === undefined && !known)
    throw new WrongUsage("--logs: is missing, but --where or --by is given: add a comparison such as '> 20 in 5m'");
  const [, operator, threshold, window] = COMPARISON.exec(logs ?? "") ?? [];
  if (logs !== undefined && operator === undefined) throw new WrongUsage(`--logs ${logs}: write it as '> 20 in 5m'`);
  // An empty one takes away what was there. Where nothing was, it is a variable of a shell that was not set.
  const isGiven = (text: string): boolean => !known || text !== "";
  return {
    filter: {},
    by: [],
    ...known,
    ...(where && { filter: filterOf(where.filter(isGiven)) }),
    ...(by && { by: by.filter(isGiven) }),
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

function several(value: string, all: string[] = []): string[] {
  return [...all, value];
}
