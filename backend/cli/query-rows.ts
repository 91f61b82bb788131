// Prints the rows of query commands: converts options to query parameters, reads the requested number of rows over several pages, sorts
// them by time, and runs a live tail that polls for the latest rows. Invariants: an invalid option is reported by name before any request;
// an empty result is reported on stderr. In a tail, a late row is printed while it is younger than OVERLAP_MS, equal rows are printed as
// often as they are stored, and no row is printed twice.
import { type Command, Option } from "commander";
import type { Console } from "./output.ts";
import { type Row, table } from "./table.ts";
import { pause } from "../../common/loop.ts";
import type { CallOptions, Client } from "./client.ts";
import { durationWithin } from "../../common/duration.ts";
import { WrongUsage } from "./cli-error.ts";

/** The backend's own maximum for one page. */
const PAGE_ROWS = 500;

export type Query = Record<string, string | string[] | undefined>;

/** The first `limit` rows of a result, over as many pages as needed. */
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

/** `option`: the name of the parameter; with dashes, that of the option. */
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

export interface RangeOptions {
  since?: string;
  start?: string;
  end?: string;
  limit: string;
  follow?: boolean;
}

export function withRange(command: Command): Command {
  return command
    .addOption(new Option("--since <duration>", "how far back, such as 15m, 24h, 7d (default 1h)").conflicts(["start"]))
    .option("--start <time>", "RFC 3339, instead of --since")
    .option("--end <time>", "RFC 3339 (default now)")
    .addOption(new Option("--limit <rows>", "how many of the newest").default("100", "100"))
    .addOption(new Option("--follow", "then print what arrives, until Ctrl-C").conflicts(["end"]));
}

export interface Shape {
  path: string;
  /** The field that holds the time. */
  time: string;
  line?: (row: Row) => string;
  columns?: readonly string[];
  /** Another possible reason for an empty result. */
  empty?: () => Promise<string | undefined> | string | undefined;
}

export async function read(console: Console, shape: Shape, filters: Query, options: RangeOptions): Promise<void> {
  const query = { ...filters, start: options.start ?? sinceStart(options.since), end: options.end };
  const client = console.client();
  const rows = await newest(console, shape.path, query, rowLimit(options.limit));
  const print = (some: readonly Row[], first: boolean) => printRows(console, shape, some, first);
  print(rows.toReversed(), true);
  const hint = rows.length === 0 ? await shape.empty?.() : undefined;
  if (hint !== undefined) console.note(hint);
  if (options.follow)
    await follow({
      client,
      path: shape.path,
      time: shape.time,
      filters,
      seen: rows,
      start: query.start,
      print,
      signal: console.world.signal,
    });
}

function printRows(console: Console, { line, columns = [] }: Shape, rows: readonly Row[], first: boolean): void {
  const { stdout } = console.world;
  if (console.json) console.lines(rows);
  else if (line) for (const row of rows) stdout.write(`${line(row)}\n`);
  else if (rows.length > 0) stdout.write(`${first ? table(rows, columns) : table(rows, columns).split("\n").slice(1).join("\n")}\n`);
  if (first && rows.length === 0) console.note("nothing in this range; --since 24h looks further back");
}

const POLL_MS = 1_000;
/** Polls look this far back, because senders batch and clocks differ. */
const OVERLAP_MS = 30_000;
const MAX_PAGES = 40;

export interface FollowOptions {
  client: Client;
  path: string;
  /** The field of a row with its time, RFC 3339. */
  time: string;
  filters: CallOptions["query"];
  /** Rows that have already been printed. */
  seen: readonly Row[];
  /** Start of the query that found them, RFC 3339; undefined: long ago. */
  start?: string | undefined;
  print(rows: readonly Row[], first: boolean): void;
  signal: AbortSignal | undefined;
  now?: () => number;
  pollMs?: number;
}

/** Runs until the signal aborts. Throws errors of the client, e.g. when the session has ended. */
export async function follow(options: FollowOptions): Promise<void> {
  const { signal, time, now = Date.now, pollMs = POLL_MS } = options;
  const newest = options.seen.map((row) => String(row[time])).reduce((latest, at) => (at > latest ? at : latest), beginning(options));
  let rows = await recent(options, now());
  // Prints only rows that arrived between the first query and this one; older rows were not requested.
  const missed = selectUnprinted(rows, countsOf(options.seen)).filter((row) => String(row[time]) > newest);
  options.print(missed.toReversed(), false);
  for (;;) {
    await pause(pollMs, signal);
    if (signal?.aborted) return;
    const printed = countsOf(rows);
    rows = await recent(options, now()).catch((error: unknown) => {
      if (signal?.aborted) return rows;
      throw error;
    });
    options.print(selectUnprinted(rows, printed).toReversed(), false);
  }
}

/** In the format of the rows' times, but without the `Z`, so that it sorts before all times of its millisecond. */
function beginning({ start }: FollowOptions): string {
  const ms = Date.parse(start ?? "");
  return Number.isNaN(ms) ? "" : new Date(ms).toISOString().slice(0, -1);
}

async function recent({ client, path, filters }: FollowOptions, nowMs: number): Promise<Row[]> {
  const start = new Date(nowMs - OVERLAP_MS).toISOString();
  let page = await client.page(path, { ...filters, start, limit: "500" });
  const rows = [...page.rows];
  for (let pages = 1; page.next && pages < MAX_PAGES; pages++) {
    page = await client.page(page.next);
    rows.push(...page.rows);
  }
  return rows;
}

function countsOf(rows: readonly Row[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const row of rows) counts.set(JSON.stringify(row), (counts.get(JSON.stringify(row)) ?? 0) + 1);
  return counts;
}

/** The rows of a window beyond those that were printed, newest first. */
function selectUnprinted(rows: readonly Row[], printed: ReadonlyMap<string, number>): Row[] {
  const left = new Map(printed);
  return rows.filter((row) => {
    const text = JSON.stringify(row);
    const before = left.get(text) ?? 0;
    if (before > 0) left.set(text, before - 1);
    return before === 0;
  });
}
