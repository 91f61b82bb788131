// The records that a query selects, as entries for its stages. Invariant: they are read page by page in one turn of the organisation, and
// no more of them than the budget's bounds, because each costs this process.
import type { Ask } from "../../engines/clickhouse/client.ts";
import { sql } from "../../engines/clickhouse/sql.ts";
import { askPage } from "../../storage/found-page.ts";
import type { Cursor } from "../../storage/page.ts";
import { type Budget, tooExpensive } from "./budget.ts";
import type { Pushed } from "./conditions.ts";
import type { Entry } from "./entry.ts";
import { EntryMaker, type Row } from "./entry-maker.ts";
import type { LogQuery } from "./syntax.ts";

const PAGE_RECORDS = 5000;
const PAGE_BYTES = 2 * 1024 * 1024;

export interface Span {
  /** Nanoseconds, both inclusive. */
  readonly start: bigint;
  readonly end: bigint;
}

/** What labels and series are asked of. */
export interface Selected {
  readonly span: Span;
  /** Records of any of them; none: all. */
  readonly selectors: readonly LogQuery[];
}

export interface Wanted extends Pick<Pushed, "conditions" | "matching"> {
  readonly span: Span;
  readonly oldestFirst: boolean;
  /** False: what is asked is not about lines. */
  readonly hasLines: boolean;
  /** At most so many are of use. */
  readonly limit?: number | undefined;
}

const FIELDS = sql`toString(toUnixTimestamp64Nano(time)) AS ns, level, source, host_id, node, trace_id, span_id, severity_number, scope_name, labels`;
const SIZES = sql`level, source, message, labels, host_id, node, scope_name`;

/** In the order of time. Throws ApiError as Ask does, and query_too_expensive. */
export async function* records(ask: Ask, orgId: string, wanted: Wanted, budget: Budget): AsyncGenerator<Entry> {
  const { span, oldestFirst, conditions, matching, limit = Number.POSITIVE_INFINITY } = wanted;
  // Not as message: a condition on that would see it instead of what is stored.
  const columns = wanted.hasLines ? sql`${FIELDS}, message AS line` : sql`${FIELDS}, '' AS line`;
  const entries = new EntryMaker();
  const { bounds } = budget;
  let [count, bytes, after]: [number, number, Cursor | undefined] = [0, 0, undefined];
  do {
    const rows = Math.min(PAGE_RECORDS, Math.max(1, limit - count));
    const page = { range: span, limit: rows, after, oldestFirst };
    const found = await askPage(ask, orgId, {
      table: "logs",
      columns,
      sizes: SIZES,
      conditions,
      from: matching.from,
      blockRows: matching.blockRows,
      page,
      maxPageBytes: PAGE_BYTES,
    });
    budget.begin();
    bytes += found.json.length;
    for (const row of JSON.parse(found.json.toString("utf8")) as Row[]) {
      if (budget.isDue) await budget.breathe();
      count += 1;
      yield entries.of(row);
    }
    await budget.breathe();
    if (count > bounds.records || bytes > bounds.bytes)
      throw tooExpensive(`has stages that read more than ${bounds.records} records, or ${bounds.bytes / 1024 / 1024} MiB, one by one`);
    after = found.next;
  } while (after && count < limit);
}
