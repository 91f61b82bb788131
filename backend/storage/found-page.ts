// Reads one page of a tenant's rows as JSON. Invariants: a page is limited in rows and bytes, and has at least one row if any row matches;
// it takes no more memory than the engine's result, because rows are passed on as the engine wrote them, never parsed.
import type { Ask, ClickHouse } from "../engines/clickhouse/clickhouse-client.ts";
import { and, commaList, Sql, sql } from "../engines/clickhouse/sql.ts";
import { TooLargeError } from "../errors.ts";
import type { QueryOptions } from "../admission/query-queue.ts";
import { MAX_LIMIT, MAX_PAGE_BYTES } from "./storage-limits.ts";
import { type Cursor, type PageResult, type Page, pageConditions, nanoseconds } from "./page.ts";

/** If rows are so large that a page is cut by bytes, their positions and sizes are read first; the second statement lists them. */
const MAX_LARGE_ROWS = MAX_LIMIT;

/** Describes the page to read. `columns` are returned; `sizes` are the columns that can be large. */
export interface Selection {
  readonly table: "logs" | "spans";
  readonly columns: Sql;
  readonly sizes: Sql;
  readonly conditions: readonly Sql[];
  /** The FROM clause if the conditions cost much per row; unset: the table itself. */
  readonly from?: Sql;
  /** See `blockRows` of Ask (engines/clickhouse/clickhouse-client.ts); set together with `from`. */
  readonly blockRows?: number | undefined;
  /** The first minute of the page's range may fill the page (see mayBeDense in logs/minute-counts.ts). */
  readonly isDense?: boolean;
}

interface PageQuery extends Selection {
  readonly page: Page;
  readonly maxPageBytes?: number;
}

/** Returns rows in the order of the page. Throws ApiError as ClickHouse.read does. */
export function queryPage(
  clickhouse: ClickHouse,
  orgId: string,
  { options, ...query }: PageQuery & { readonly options: QueryOptions },
): Promise<PageResult> {
  return clickhouse.read(orgId, options, (ask) => readPageRows(ask, orgId, query));
}

/**
 * The same within a running query. If the first minute may fill the page, it is read first: for a longer range the engine reads the ends of
 * many parts, which takes half as long again for 2 million rows in 8 parts.
 */
export async function readPageRows(ask: Ask, orgId: string, query: PageQuery): Promise<PageResult> {
  const firstMinute = query.isDense ? firstMinuteOf(query.page) : undefined;
  const found = firstMinute && (await readRange(ask, orgId, { ...query, page: { ...query.page, range: firstMinute } }));
  return found?.next ? found : await readRange(ask, orgId, query);
}

const MINUTE_NS = 60_000_000_000n;
const MINUTES_WORTH_IT = 10n;

/** Undefined if the range is unbounded or shorter than ten minutes. */
function firstMinuteOf({ range: { start, end }, after, oldestFirst }: Page, nowMs = Date.now()): Page["range"] | undefined {
  if (start === undefined || end === undefined || end - start < MINUTES_WORTH_IT * MINUTE_NS) return undefined;
  if (oldestFirst) return { start, end: earliest(end, (after?.time ?? start) + MINUTE_NS) };
  return { start: earliest(end, after?.time ?? end, BigInt(nowMs) * 1_000_000n) - MINUTE_NS, end };
}

function earliest(...times: bigint[]): bigint {
  return times.reduce((a, b) => (a < b ? a : b));
}

async function readRange(ask: Ask, orgId: string, { page, maxPageBytes = MAX_PAGE_BYTES, ...selection }: PageQuery): Promise<PageResult> {
  const where = and([sql`org_id = ${orgId}`, ...pageConditions(page), ...selection.conditions]);
  const ordered = { ...selection, order: page.oldestFirst ? sql`ASC` : sql`DESC` };
  try {
    return toPage(await ask(selectRows(ordered, where, page.limit + 1), maxPageBytes, selection.blockRows), page.limit, maxPageBytes);
  } catch (error) {
    if (!(error instanceof TooLargeError)) throw error;
    return readLargeRows(ask, ordered, where, { orgId, limit: Math.min(page.limit, MAX_LARGE_ROWS), maxPageBytes });
  }
}

interface OrderedSelection extends Selection {
  readonly order: Sql;
}

function selectRows({ table, from = new Sql(table), columns, order }: OrderedSelection, where: Sql, limit: number): Sql {
  return sql`SELECT toUnixTimestamp64Nano(time) AS time_ns, id, ${columns} FROM ${from}
    WHERE ${where} ORDER BY ${new Sql(table)}.time ${order}, id ${order} LIMIT ${limit}`;
}

interface Position {
  readonly time_ns: string;
  readonly id: string;
  readonly bytes: string;
}

/** Reads the positions and sizes of the rows first, then as many rows as fit. */
async function readLargeRows(
  ask: Ask,
  selection: OrderedSelection,
  where: Sql,
  { orgId, limit, maxPageBytes }: { orgId: string; limit: number; maxPageBytes: number },
): Promise<PageResult> {
  const lines = await ask(
    sql`SELECT toUnixTimestamp64Nano(time) AS time_ns, id, byteSize(${selection.sizes}) AS bytes FROM ${selection.from ?? new Sql(selection.table)}
        WHERE ${where} ORDER BY time ${selection.order}, id ${selection.order} LIMIT ${limit + 1}`,
    undefined,
    selection.blockRows,
  );
  const positions = parseLines<Position>(lines);
  let bytes = 0;
  let count = 0;
  while (count < Math.min(limit, positions.length) && bytes < maxPageBytes) bytes += Number(positions[count++]?.bytes);
  // The row that exceeds the limit belongs to the next page, unless it is the only one.
  if (bytes > maxPageBytes && count > 1) count -= 1;
  const chosen = positions.slice(0, count);
  if (chosen.length === 0) return toPage(Buffer.alloc(0), limit, maxPageBytes);
  const tuples = chosen.map(({ time_ns, id }) => sql`(${nanoseconds(BigInt(time_ns))}, ${BigInt(id)})`);
  const atPositions = and([sql`org_id = ${orgId}`, sql`(time, id) IN (${commaList(tuples)})`]);
  const { from: _, ...rows } = selection;
  const page = toPage(await ask(selectRows(rows, atPositions, count)), count, maxPageBytes);
  const last = chosen.at(-1) as Position;
  const more = positions.length > count ? { time: BigInt(last.time_ns), id: BigInt(last.id) } : undefined;
  return { json: page.json, next: page.next ?? more };
}

const [COMMA, LINE_END, OPEN] = [0x2c, 0x0a, 0x7b];
const [OPEN_ARRAY, CLOSE_ARRAY] = [0x5b, 0x5d];
const POSITION = /^\{"time_ns":"(\d+)","id":"(\d+)",/;
const POSITION_MAX_BYTES = 80;

export function parseLines<Row>(lines: Buffer): Row[] {
  return lines
    .toString("utf8")
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Row);
}

/** Turns lines of JSON into one array, in place. */
export function arrayOfLines(lines: Buffer): Buffer {
  if (lines.length === 0) return Buffer.from("[]");
  // Within JSON a line end is always escaped.
  for (let at = lines.indexOf(LINE_END); at !== -1; at = lines.indexOf(LINE_END, at)) lines[at] = COMMA;
  lines[lines.length - 1] = CLOSE_ARRAY;
  return Buffer.concat([Buffer.from("["), lines]);
}

/** Turns lines into a page, in place. If there is a next page, `lines` has one row more than `limit`. */
function toPage(lines: Buffer, limit: number, maxBytes: number): PageResult {
  if (lines.length === 0) return { json: Buffer.from("[]"), next: undefined, isEmpty: true };
  let [from, to, rows] = [0, 0, 0];
  let last: Cursor | undefined;
  while (from < lines.length && rows < limit && (rows === 0 || to < maxBytes)) {
    const [prefix, time, id] = POSITION.exec(lines.toString("latin1", from, from + POSITION_MAX_BYTES)) ?? [];
    if (prefix === undefined || time === undefined || id === undefined) throw new Error("the engine answered something other than rows");
    const end = lines.indexOf(LINE_END, from);
    const lineEnd = end === -1 ? lines.length : end;
    // Writing never overtakes reading, because the position is removed from each row.
    lines[to] = rows === 0 ? OPEN_ARRAY : COMMA;
    lines[to + 1] = OPEN;
    lines.copyWithin(to + 2, from + prefix.length, lineEnd);
    to += 2 + lineEnd - from - prefix.length;
    last = { time: BigInt(time), id: BigInt(id) };
    from = lineEnd + 1;
    rows += 1;
  }
  lines[to] = CLOSE_ARRAY;
  return { json: lines.subarray(0, to + 1), next: from < lines.length ? last : undefined };
}
