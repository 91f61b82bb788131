// One page of a tenant's rows as the JSON that is answered. Invariant: a page is cut by rows and by bytes, has at least one row if there
// is any, and its memory stays that of the engine's own result: rows are handed on as the engine wrote them, never parsed.
import type { Ask, ClickHouse } from "../engines/clickhouse/client.ts";
import { and, Sql, sql } from "../engines/clickhouse/sql.ts";
import { TooLargeError } from "../errors.ts";
import type { QueryOptions } from "../admission/query-queue.ts";
import { MAX_LIMIT, MAX_PAGE_BYTES } from "./limits.ts";
import { type Cursor, type Found, type Page, pageConditions, nanoseconds } from "./page.ts";

/** Rows are large where a page is cut by bytes: as many are looked for, and named in the statement that reads them. */
const MAX_LARGE_ROWS = MAX_LIMIT;

/** What is read: `columns` as they are answered, `sizes` the columns whose bytes are large. */
export interface Selection {
  readonly table: "logs" | "spans";
  readonly columns: Sql;
  readonly sizes: Sql;
  readonly conditions: readonly Sql[];
  /** How the table is read where the conditions cost much for each row, for FROM; unset: as itself. */
  readonly from?: Sql;
  /** Set there, as of Ask. */
  readonly blockRows?: number | undefined;
  /** The conditions select a good part of all rows: the first minute of the page's range is likely to have enough of them. */
  readonly isDense?: boolean;
}

interface Wanted extends Selection {
  readonly page: Page;
  readonly maxPageBytes?: number;
}

/** In the order of the page. Throws ApiError as ClickHouse.read does. */
export function foundPage(
  clickhouse: ClickHouse,
  orgId: string,
  { options, ...wanted }: Wanted & { readonly options: QueryOptions },
): Promise<Found> {
  return clickhouse.read(orgId, options, (ask) => askPage(ask, orgId, wanted));
}

/**
 * The same within a turn. A minute is asked for first where it is likely to be enough: of a longer range the engine reads the ends of many
 * parts, which takes half as long again for 2 million rows in 8 parts.
 */
export async function askPage(ask: Ask, orgId: string, wanted: Wanted): Promise<Found> {
  const firstMinute = wanted.isDense ? firstMinuteOf(wanted.page) : undefined;
  const found = firstMinute && (await askRange(ask, orgId, { ...wanted, page: { ...wanted.page, range: firstMinute } }));
  return found?.next ? found : await askRange(ask, orgId, wanted);
}

const MINUTE_NS = 60_000_000_000n;
const MINUTES_WORTH_IT = 10n;

/** Undefined: the range is unbounded or short. */
function firstMinuteOf({ range: { start, end }, after, oldestFirst }: Page, nowMs = Date.now()): Page["range"] | undefined {
  if (start === undefined || end === undefined || end - start < MINUTES_WORTH_IT * MINUTE_NS) return undefined;
  if (oldestFirst) return { start, end: least(end, (after?.time ?? start) + MINUTE_NS) };
  return { start: least(end, after?.time ?? end, BigInt(nowMs) * 1_000_000n) - MINUTE_NS, end };
}

function least(...times: bigint[]): bigint {
  return times.reduce((one, other) => (one < other ? one : other));
}

async function askRange(ask: Ask, orgId: string, { page, maxPageBytes = MAX_PAGE_BYTES, ...selection }: Wanted): Promise<Found> {
  const where = and([sql`org_id = ${orgId}`, ...pageConditions(page), ...selection.conditions]);
  const ordered = { ...selection, order: page.oldestFirst ? sql`ASC` : sql`DESC` };
  try {
    return toPage(await ask(selectRows(ordered, where, page.limit + 1), maxPageBytes, selection.blockRows), page.limit, maxPageBytes);
  } catch (error) {
    if (!(error instanceof TooLargeError)) throw error;
    return readLargeRows(ask, ordered, where, { orgId, limit: Math.min(page.limit, MAX_LARGE_ROWS), maxPageBytes });
  }
}

interface Ordered extends Selection {
  readonly order: Sql;
}

function selectRows({ table, from = new Sql(table), columns, order }: Ordered, where: Sql, limit: number): Sql {
  return sql`SELECT toUnixTimestamp64Nano(time) AS time_ns, id, ${columns} FROM ${from}
    WHERE ${where} ORDER BY ${new Sql(table)}.time ${order}, id ${order} LIMIT ${limit}`;
}

interface Position {
  readonly time_ns: string;
  readonly id: string;
  readonly bytes: string;
}

/** Asks where the rows are and how large, then for as many as fit. */
async function readLargeRows(
  ask: Ask,
  selection: Ordered,
  where: Sql,
  { orgId, limit, maxPageBytes }: { orgId: string; limit: number; maxPageBytes: number },
): Promise<Found> {
  const text = await ask(
    sql`SELECT toUnixTimestamp64Nano(time) AS time_ns, id, byteSize(${selection.sizes}) AS bytes FROM ${selection.from ?? new Sql(selection.table)}
        WHERE ${where} ORDER BY time ${selection.order}, id ${selection.order} LIMIT ${limit + 1}`,
    undefined,
    selection.blockRows,
  );
  const positions = text
    .toString("latin1")
    .split("\n", limit + 1)
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Position);
  let bytes = 0;
  let count = 0;
  while (count < Math.min(limit, positions.length) && bytes < maxPageBytes) bytes += Number(positions[count++]?.bytes);
  // The row that passes the limit waits for the next page, unless it is alone.
  if (bytes > maxPageBytes && count > 1) count -= 1;
  const chosen = positions.slice(0, count);
  if (chosen.length === 0) return toPage(Buffer.alloc(0), limit, maxPageBytes);
  const tuples = chosen.map(({ time_ns, id }) => sql`(${nanoseconds(BigInt(time_ns))}, ${BigInt(id)})`.text).join(", ");
  const exactly = and([sql`org_id = ${orgId}`, sql`(time, id) IN (${new Sql(tuples)})`]);
  const { from: _, ...rows } = selection;
  const page = toPage(await ask(selectRows(rows, exactly, count)), count, maxPageBytes);
  const last = chosen.at(-1) as Position;
  const more = positions.length > count ? { time: BigInt(last.time_ns), id: BigInt(last.id) } : undefined;
  return { json: page.json, next: page.next ?? more };
}

const COMMA = 0x2c;
const LINE_END = 0x0a;
const OPEN = 0x7b;
const [OPEN_ARRAY, CLOSE_ARRAY] = [0x5b, 0x5d];
const POSITION = /^\{"time_ns":"(\d+)","id":"(\d+)",/;
const POSITION_MAX_BYTES = 80;

/** Lines of JSON as one array; they are written over. */
export function arrayOfLines(lines: Buffer): Buffer {
  if (lines.length === 0) return Buffer.from("[]");
  // Within JSON a line end is always escaped.
  for (let at = lines.indexOf(LINE_END); at !== -1; at = lines.indexOf(LINE_END, at)) lines[at] = COMMA;
  lines[lines.length - 1] = CLOSE_ARRAY;
  return Buffer.concat([Buffer.from("["), lines]);
}

/** `lines` holds one more row than `limit` when there is a next page; it is written over. */
export function toPage(lines: Buffer, limit: number, maxBytes: number): Found {
  if (lines.length === 0) return { json: Buffer.from("[]"), next: undefined, isEmpty: true };
  let [from, to, rows] = [0, 0, 0];
  let last: Cursor | undefined;
  while (from < lines.length && rows < limit && (rows === 0 || to < maxBytes)) {
    const [prefix, time, id] = POSITION.exec(lines.toString("latin1", from, from + POSITION_MAX_BYTES)) ?? [];
    if (prefix === undefined || time === undefined || id === undefined) throw new Error("the engine answered something other than rows");
    const end = lines.indexOf(LINE_END, from);
    const lineEnd = end === -1 ? lines.length : end;
    // What is written is always behind what is read: the position is left out of each row.
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
