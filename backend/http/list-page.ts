// Pages of lists of organisations, clusters, hosts, read tokens and audit entries. Invariant: a page is bounded in rows; the next one begins exactly after the last row of the
// one before, whatever was added or removed meanwhile, and is named by a Link header (RFC 8288) like those of the queries.
import type { FastifyReply, FastifyRequest } from "fastify";
import { ApiError } from "../errors.ts";

export const PAGE_ROWS = 500;

export const CURSOR_QUERY = {
  type: "object",
  properties: { cursor: { type: "string", maxLength: 4000, description: 'opaque; from the Link header with rel="next"' } },
} as const;

export interface CursorQuery {
  Querystring: { cursor?: string };
}

/** The texts that `linkNext` was given; undefined for the first page. Throws `invalid_parameter`. */
export function readCursor(request: FastifyRequest<CursorQuery>, length: number): string[] | undefined {
  const { cursor } = request.query;
  if (cursor === undefined) return undefined;
  const texts = parsed(Buffer.from(cursor, "base64url").toString("utf8"));
  const fits = Array.isArray(texts) && texts.length === length && texts.every((text) => typeof text === "string" && !text.includes("\0"));
  // The second is an id in all lists.
  if (fits && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(texts[1])) return texts;
  throw notOurs();
}

/** The moment that a cursor names. Throws `invalid_parameter`. */
export function momentIn(text: string): Date {
  const at = new Date(text);
  // Years that a database does not take are nobody's either.
  if (!/^[12]\d{3}-/.test(text) || Number.isNaN(at.getTime())) throw notOurs();
  return at;
}

function notOurs(): ApiError {
  return new ApiError("invalid_parameter", 'cursor: not one of ours; take it from the Link header with rel="next"');
}

/** Parameters that the next page needs as well. */
export type Kept = Readonly<Record<string, string | undefined>>;

/** Says where the next page is: after the row of which these are name, id and what else orders it. */
export function linkNext(request: FastifyRequest, reply: FastifyReply, after: readonly string[], kept: Kept = {}): void {
  const [path = ""] = request.url.split("?", 1);
  const cursor = Buffer.from(JSON.stringify(after)).toString("base64url");
  const others = Object.entries(kept).flatMap(([name, value]) => (value === undefined ? [] : [`&${name}=${encodeURIComponent(value)}`]));
  void reply.header("link", `<${path}?cursor=${cursor}${others.join("")}>; rel="next"`);
}

/** At most `most` of these rows, of which one more was asked for: where it came, the next page is named, after `keyOf` of the last row. */
export function cutPage<T>(
  [request, reply]: [FastifyRequest, FastifyReply],
  rows: readonly T[],
  most: number,
  keyOf: (row: T) => readonly string[],
  kept?: Kept,
): readonly T[] {
  const page = rows.slice(0, most);
  const last = page.at(-1);
  if (rows.length > most && last) linkNext(request, reply, keyOf(last), kept);
  return page;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
