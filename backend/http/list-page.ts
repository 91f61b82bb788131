// Pages of lists. Invariant: a page has a limited number of rows, and the next one begins exactly after its last row, whatever was added or
// removed in the meantime. A Link header (RFC 8288) points to the next page.
import { type SelectQueryBuilder, sql } from "kysely";
import type { FastifyReply, FastifyRequest } from "fastify";
import { ApiError } from "../errors.ts";
import { optionalSchema } from "./schemas.ts";

export const PAGE_ROWS = 500;

export const CURSOR_QUERY = optionalSchema({
  cursor: { type: "string", maxLength: 4000, description: 'opaque; from the Link header with rel="next"' },
});

export interface CursorQuery {
  Querystring: { cursor?: string };
}

/** The texts that were passed to `linkNext`; undefined for the first page. Throws `invalid_parameter`. */
export function readCursor(request: FastifyRequest<CursorQuery>, length: number): string[] | undefined {
  const { cursor } = request.query;
  if (cursor === undefined) return undefined;
  const texts = parseJson(Buffer.from(cursor, "base64url").toString("utf8"));
  const fits = Array.isArray(texts) && texts.length === length && texts.every((text) => typeof text === "string" && !text.includes("\0"));
  // The second text is an id in every list.
  if (fits && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(texts[1])) return texts;
  throw invalidCursor();
}

/** Parses the time in a cursor. Throws `invalid_parameter`. */
function readCursorTime(text: string): Date {
  const time = new Date(text);
  // The database does not accept other years, so no cursor of ours has them.
  if (!/^[12]\d{3}-/.test(text) || Number.isNaN(time.getTime())) throw invalidCursor();
  return time;
}

function invalidCursor(): ApiError {
  return new ApiError("invalid_parameter", 'cursor: invalid; take it from the Link header with rel="next"');
}

/** Points the Link header to the page after the row with this key. `parameters`: query parameters that the link repeats. */
export function linkNext(
  request: FastifyRequest,
  reply: FastifyReply,
  lastKey: readonly string[],
  parameters: PageOptions["parameters"] = {},
): void {
  const [path = ""] = request.url.split("?", 1);
  const query = new URLSearchParams({ cursor: Buffer.from(JSON.stringify(lastKey)).toString("base64url") });
  for (const [name, value] of Object.entries(parameters)) if (value !== undefined) query.set(name, value);
  void reply.header("link", `<${path}?${query.toString()}>; rel="next"`);
}

export interface PageOptions {
  /** The column that sorts the list, of texts or times; rows with the same value are sorted by `id`. */
  readonly sortedBy: string;
  readonly order?: "asc" | "desc";
  readonly limit?: number | undefined;
  /** Query parameters that the link to the next page repeats. */
  readonly parameters?: Readonly<Record<string, string | undefined>>;
}

/** Executes `query` for the page that the request's cursor names, and sets the Link header if there is a next page. */
export async function readPage<Tables, Table extends keyof Tables, Row>(
  request: FastifyRequest<CursorQuery>,
  reply: FastifyReply,
  query: SelectQueryBuilder<Tables, Table, Row>,
  { sortedBy, order = "asc", limit = PAGE_ROWS, parameters }: PageOptions,
): Promise<Row[]> {
  const [column, id] = [sql.ref(sortedBy), sql.ref("id")];
  const [value = "", lastId] = readCursor(request, 2) ?? [];
  let remaining = query;
  if (lastId !== undefined) {
    const last = sortedBy === "at" || sortedBy.endsWith("_at") ? readCursorTime(value) : value;
    remaining = query.where(sql<boolean>`(${column}, ${id}) ${order === "asc" ? sql`>` : sql`<`} (${last}, ${lastId})`);
  }
  const rows = await remaining
    .orderBy(column, order)
    .orderBy(id, order)
    .limit(limit + 1)
    .execute();
  const page = rows.slice(0, limit);
  const end = page.at(-1) as Readonly<Record<string, unknown>> | undefined;
  if (end && rows.length > limit) {
    const endValue = end[sortedBy];
    linkNext(request, reply, [endValue instanceof Date ? endValue.toISOString() : String(endValue), String(end["id"])], parameters);
  }
  return page;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
