// A live tail over a query that pages newest first: asks again and again for the last moments and prints what was not printed yet.
// Invariant: a row that arrives late is printed while it is younger than OVERLAP_MS; equal rows are printed as often as they are stored;
// nothing is printed twice.
import { pause } from "../../common/loop.ts";
import type { CallOptions, Client } from "./client.ts";
import type { Row } from "./table.ts";

const POLL_MS = 1_000;
/** Rows are looked for this far back: senders batch and clocks differ. */
const OVERLAP_MS = 30_000;
const MAX_PAGES = 40;

export interface FollowOptions {
  client: Client;
  path: string;
  /** The row's field that holds its time, RFC 3339. */
  time: string;
  filters: CallOptions["query"];
  /** Rows that were printed already. */
  seen: readonly Row[];
  /** Where the query began that found them, RFC 3339; undefined: long before. */
  start?: string | undefined;
  print(rows: readonly Row[], first: boolean): void;
  signal: AbortSignal | undefined;
  now?: () => number;
  pollMs?: number;
}

/** Runs until the signal aborts. Throws what the client throws, e.g. when the session has ended. */
export async function follow(options: FollowOptions): Promise<void> {
  const { signal, time, now = Date.now, pollMs = POLL_MS } = options;
  const newest = options.seen.map((row) => String(row[time])).reduce((latest, at) => (at > latest ? at : latest), beginning(options));
  let rows = await recent(options, now());
  // Of what is there already, only what came between the first query and this one is news; what is older was not asked for.
  const missed = unprinted(rows, countsOf(options.seen)).filter((row) => String(row[time]) > newest);
  options.print(missed.toReversed(), false);
  for (;;) {
    await pause(pollMs, signal);
    if (signal?.aborted) return;
    const printed = countsOf(rows);
    rows = await recent(options, now()).catch((error: unknown) => {
      if (signal?.aborted) return rows;
      throw error;
    });
    options.print(unprinted(rows, printed).toReversed(), false);
  }
}

/** In the format of the rows' times, without the `Z`, so that it sorts before all of its millisecond. */
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
function unprinted(rows: readonly Row[], printed: ReadonlyMap<string, number>): Row[] {
  const left = new Map(printed);
  return rows.filter((row) => {
    const text = JSON.stringify(row);
    const before = left.get(text) ?? 0;
    if (before > 0) left.set(text, before - 1);
    return before === 0;
  });
}
