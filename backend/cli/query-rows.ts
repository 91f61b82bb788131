// Prints the rows of query commands: converts options to query parameters, reads the requested number of rows over several pages, sorts
// them by time, and runs a live tail that polls for the latest rows. Invariants: an invalid option is reported by name before any request;
// an empty result is reported on stderr. In a tail, a late row is printed while it is younger than OVERLAP_MS, equal rows are printed as
// often as they are stored, and no row is printed twice.
import { type Command, Option } from "commander";
import type { Console } from "./output.ts";
import { type Row, table } from "./text-table.ts";
import { pause } from "../../common/loop.ts";
import type { Client } from "./api-client.ts";
import { durationWithin } from "../../common/duration.ts";
import { WrongUsage } from "./cli-error.ts";

/** The backend's maximum for one page. */
const PAGE_ROWS = 500;

export type Query = Record<string, string | string[] | undefined>;

/** The first `limit` rows of a query, over as many pages as needed. */
export async function readRows(console: Console, path: string, query: Query, limit: number): Promise<Row[]> {
  return await console.client().rows(path, { ...query, limit: String(Math.min(limit, PAGE_ROWS)) }, limit);
}

/** `option`: the name of the parameter; with dashes, that of the option. */
export function labelFilters(pairs: readonly string[], option: "label" | "not_label" = "label"): Query {
  const query: Record<string, string[]> = {};
  for (const pair of pairs) {
    const parts = splitPair(pair);
    if (!parts) throw new WrongUsage(`--${option.replace("_", "-")} ${pair}: write it as key=value, or "a=b"=value for the key a=b`);
    (query[`${option}.${parts[0]}`] ??= []).push(parts[1]);
  }
  return query;
}

/** `key=value` or `"a=b"=value`; undefined for other text. */
export function splitPair(pair: string): readonly [key: string, value: string] | undefined {
  const [, quoted, plain, value] = /^(?:"((?:[^"\\]|\\.)*)"|([^=]+))=(.*)$/s.exec(pair) ?? [];
  const key = quoted?.replaceAll(/\\(["\\])/g, "$1") ?? plain;
  return key === undefined || value === undefined ? undefined : [key, value];
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

export interface TimeOptions {
  since?: string;
  start?: string;
  end?: string;
}

export interface RowOptions extends TimeOptions {
  limit: string;
  follow?: boolean;
}

export function addTimeOptions(command: Command): Command {
  return command
    .addOption(new Option("--since <duration>", "how far back, such as 15m, 24h, 7d (default 1h)").conflicts(["start"]))
    .option("--start <time>", "RFC 3339, instead of --since")
    .option("--end <time>", "RFC 3339 (default now)");
}

export function timeRange({ since, start, end }: TimeOptions): { start: string | undefined; end: string | undefined } {
  return { start: start ?? sinceStart(since), end };
}

export function addRowOptions(command: Command): Command {
  return addTimeOptions(command)
    .addOption(new Option("--limit <rows>", "how many of the newest rows").default("100", "100"))
    .addOption(new Option("--follow", "then print new rows as they arrive, until Ctrl-C").conflicts(["end"]));
}

export const NOTHING_FOUND = "nothing in this time range; use --since 24h to look further back";

export interface RowQuery {
  readonly path: string;
  /** The field of a row with its time, RFC 3339. */
  readonly time: string;
  readonly filters: Query;
  readonly line?: (row: Row) => string;
  readonly columns?: readonly string[];
  /** Another possible reason for an empty result. */
  readonly hint?: () => Promise<string | undefined> | string | undefined;
}

export async function printQuery(console: Console, rowQuery: RowQuery, options: RowOptions): Promise<void> {
  const { path, filters, hint } = rowQuery;
  const range = timeRange(options);
  const client = console.client();
  const rows = await readRows(console, path, { ...filters, ...range }, rowLimit(options.limit));
  const print = (newRows: readonly Row[], isFirst: boolean): void => printRows(console, rowQuery, newRows, isFirst);
  print(rows.toReversed(), true);
  const text = rows.length === 0 ? await hint?.() : undefined;
  if (text !== undefined) console.note(text);
  if (options.follow) await follow({ ...rowQuery, client, printed: rows, start: range.start, print, signal: console.world.signal });
}

function printRows(console: Console, { line, columns = [] }: RowQuery, rows: readonly Row[], isFirst: boolean): void {
  const { stdout } = console.world;
  if (console.json) console.lines(rows);
  else if (line) for (const row of rows) stdout.write(`${line(row)}\n`);
  else if (rows.length > 0) stdout.write(`${isFirst ? table(rows, columns) : table(rows, columns).split("\n").slice(1).join("\n")}\n`);
  if (isFirst && rows.length === 0) console.note(NOTHING_FOUND);
}

const POLL_MS = 1_000;
/** Polls read this far back, because senders batch and clocks differ. */
const OVERLAP_MS = 30_000;
const MAX_PAGES = 40;

export interface FollowOptions extends Pick<RowQuery, "path" | "time" | "filters"> {
  client: Client;
  /** Rows that have already been printed. */
  printed: readonly Row[];
  /** Start of the query that found them, RFC 3339; undefined: long ago. */
  start?: string | undefined;
  print(rows: readonly Row[], isFirst: boolean): void;
  signal: AbortSignal | undefined;
  now?: () => number;
  pollMs?: number;
}

/** Runs until the signal aborts. Throws errors of the client, e.g. when the session has ended. */
export async function follow(options: FollowOptions): Promise<void> {
  const { signal, time, now = Date.now, pollMs = POLL_MS } = options;
  const newest = options.printed.map((row) => String(row[time])).reduce((latest, at) => (at > latest ? at : latest), startTime(options));
  let rows = await readRecent(options, now());
  // Prints only rows that arrived between the first query and this one; older rows were not requested.
  const missed = selectUnprinted(rows, countRows(options.printed)).filter((row) => String(row[time]) > newest);
  options.print(missed.toReversed(), false);
  for (;;) {
    await pause(pollMs, signal);
    if (signal?.aborted) return;
    const printed = countRows(rows);
    rows = await readRecent(options, now()).catch((error: unknown) => {
      if (signal?.aborted) return rows;
      throw error;
    });
    options.print(selectUnprinted(rows, printed).toReversed(), false);
  }
}

/** In the format of the rows' times, but without the `Z`, so that it sorts before all times of its millisecond. */
function startTime({ start }: FollowOptions): string {
  const ms = Date.parse(start ?? "");
  return Number.isNaN(ms) ? "" : new Date(ms).toISOString().slice(0, -1);
}

async function readRecent({ client, path, filters }: FollowOptions, nowMs: number): Promise<Row[]> {
  const start = new Date(nowMs - OVERLAP_MS).toISOString();
  return await client.rows(path, { ...filters, start, limit: String(PAGE_ROWS) }, MAX_PAGES * PAGE_ROWS);
}

function countRows(rows: readonly Row[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const row of rows) counts.set(JSON.stringify(row), (counts.get(JSON.stringify(row)) ?? 0) + 1);
  return counts;
}

/** The rows of a window beyond those that were printed, newest first. */
function selectUnprinted(rows: readonly Row[], printed: ReadonlyMap<string, number>): Row[] {
  const remaining = new Map(printed);
  return rows.filter((row) => {
    const text = JSON.stringify(row);
    const before = remaining.get(text) ?? 0;
    if (before > 0) remaining.set(text, before - 1);
    return before === 0;
  });
}
