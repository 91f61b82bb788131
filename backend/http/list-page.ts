// Reads and links pages of lists: organisations, clusters, hosts, read tokens, audit entries. Invariant: a page has a limited number of
// rows, and the next one begins exactly after its last row, whatever was added or removed in the meantime. A Link header (RFC 8288) points
// to the next page.
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
export function readCursorTime(text: string): Date {
  const time = new Date(text);
  // The database does not accept other years, so no cursor of ours has them.
  if (!/^[12]\d{3}-/.test(text) || Number.isNaN(time.getTime())) throw invalidCursor();
  return time;
}

function invalidCursor(): ApiError {
  return new ApiError("invalid_parameter", 'cursor: invalid; take it from the Link header with rel="next"');
}

/** Query parameters that the link to the next page repeats. */
export type RepeatedParameters = Readonly<Record<string, string | undefined>>;

/**
 * Sets the Link header to the page after the row with this key: the value that orders the list, the row's id, and any further values that
 * order it.
 */
export function linkNext(
  request: FastifyRequest,
  reply: FastifyReply,
  lastKey: readonly string[],
  repeated: RepeatedParameters = {},
): void {
  const [path = ""] = request.url.split("?", 1);
  const cursor = Buffer.from(JSON.stringify(lastKey)).toString("base64url");
  const others = Object.entries(repeated).flatMap(([name, value]) =>
    value === undefined ? [] : [`&${name}=${encodeURIComponent(value)}`],
  );
  void reply.header("link", `<${path}?cursor=${cursor}${others.join("")}>; rel="next"`);
}

/** The first `limit` of `rows`. The query reads one row more; if that exists, the Link header points to the next page. */
export function cutPage<T>(
  [request, reply]: [FastifyRequest, FastifyReply],
  rows: readonly T[],
  limit: number,
  keyOf: (row: T) => readonly string[],
  repeated?: RepeatedParameters,
): readonly T[] {
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  if (rows.length > limit && last) linkNext(request, reply, keyOf(last), repeated);
  return page;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
