// What the commands that query have in common: options as the parameters of a query, and as many rows as are wanted over its pages.
// Invariant: an option that cannot be understood is a sentence that names it, before anything is asked.
import { durationWithin } from "../../common/duration.ts";
import { WrongUsage } from "./cli-error.ts";
import type { Console } from "./output.ts";
import type { Row } from "./table.ts";

/** The backend's own maximum for one page. */
const PAGE_ROWS = 500;

export type Query = Record<string, string | string[] | undefined>;

/** The first `limit` rows of an answer, over as many pages as it takes. */
export async function newest(console: Console, path: string, query: Query, limit: number): Promise<Row[]> {
  const client = console.client();
  const rows: Row[] = [];
  let page = await client.page(path, { ...query, limit: String(Math.min(limit, PAGE_ROWS)) });
  rows.push(...page.rows);
  while (page.next && rows.length < limit) {
    page = await client.page(page.next);
    rows.push(...page.rows);
  }
  return rows.slice(0, limit);
}

/** `option`: the parameter, and with dashes the option that they come from. */
export function labels(pairs: readonly string[], option: "label" | "not_label" = "label"): Query {
  const query: Record<string, string[]> = {};
  for (const pair of pairs) {
    const [, key, value] = /^([^=]+)=(.*)$/s.exec(pair) ?? [];
    if (key === undefined || value === undefined) throw new WrongUsage(`--${option.replace("_", "-")} ${pair}: write it as key=value`);
    (query[`${option}.${key}`] ??= []).push(value);
  }
  return query;
}

export function sinceStart(since: string | undefined): string | undefined {
  if (since === undefined) return undefined;
  const nowMs = Date.now();
  const ms = durationWithin(since, { maxMs: nowMs });
  if (ms === undefined) throw new WrongUsage(`--since ${since}: write it as 15m, 24h or 7d`);
  return new Date(nowMs - ms).toISOString();
}

export function rowLimit(text: string): number {
  const limit = Number(text);
  if (!Number.isSafeInteger(limit) || limit < 1) throw new WrongUsage(`--limit ${text}: must be a whole number of at least 1`);
  return limit;
}
