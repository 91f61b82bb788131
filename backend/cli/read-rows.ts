// The newest rows of a query, printed in the order of their times, and then what arrives where that is asked for. Invariant: no rows are a
// word on stderr, never nothing at all.
import { Option, type Command } from "commander";
import { follow } from "./follow.ts";
import type { Console } from "./output.ts";
import { newest, type Query, rowLimit, sinceStart } from "./query-range.ts";
import { table, type Row } from "./table.ts";

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
  /** What else may be the reason if there is nothing. */
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
