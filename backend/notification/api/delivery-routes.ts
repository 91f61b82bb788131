// GET /deliveries: the messages that were sent, and whether each was delivered. Invariant: only those of the own organisation, in pages,
// without the content of the message.
import type { FastifyReply, FastifyRequest } from "fastify";
import { type Kysely, sql } from "kysely";
import { callerOf } from "../../auth/request-identity.ts";
import { CURSOR_QUERY, cutPage, readCursorTime, PAGE_ROWS, readCursor } from "../../http/list-page.ts";
import { bindHandlers, type Route, type RouteDeclaration } from "../../http/route.ts";
import { listResponse, OPTIONAL_TIME_SCHEMA, TIME_SCHEMA, UUID_SCHEMA, parseUuid } from "../../http/schemas.ts";
import type { NotificationTables } from "../model/table.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";

interface Query {
  readonly cursor?: string;
  readonly status?: "pending" | "delivered" | "failed";
  readonly channel_id?: string;
}

const STATUS = { type: "string", enum: ["pending", "delivered", "failed"] };
const DELIVERY_SCHEMA = {
  id: { ...UUID_SCHEMA, description: "the `webhook-id`, the same over all attempts" },
  channel_id: UUID_SCHEMA,
  rule_ids: { type: "array", items: UUID_SCHEMA },
  status: STATUS,
  attempts: { type: "integer", minimum: 0 },
  http_status: { type: ["integer", "null"] },
  error: { type: ["string", "null"], description: "why the last attempt failed" },
  created_at: TIME_SCHEMA,
  delivered_at: OPTIONAL_TIME_SCHEMA,
};
export const DELIVERY_ROUTES = {
  list: {
    method: "GET",
    path: "/deliveries",
    access: "viewer",
    tag: "alerting",
    summary: "Messages of the last 30 days, newest first, in pages of 500; the header Link points to the next page",
    query: {
      type: "object",
      properties: { ...CURSOR_QUERY.properties, status: STATUS, channel_id: { ...UUID_SCHEMA, description: "only of this channel" } },
    },
    documented: { response: listResponse(DELIVERY_SCHEMA) },
  },
} as const satisfies Record<string, RouteDeclaration>;

export function createDeliveryRoutes(db: Kysely<NotificationTables>, pageRows: number = PAGE_ROWS): Route[] {
  const list = async (request: FastifyRequest<{ Querystring: Query }>, reply: FastifyReply) => {
    const { orgId } = callerOf(request);
    const { status } = request.query;
    const channelId = request.query.channel_id === undefined ? undefined : parseUuid(request.query.channel_id);
    const [at, id] = readCursor(request, 2) ?? [];
    const rows = await tenantDatabase(db, orgId)
      .selectFrom("deliveries")
      .select(["id", "channel_id", "rule_ids", "status", "attempts", "http_status", "error", "created_at", "delivered_at"])
      .where("org_id", "=", orgId)
      .$if(status !== undefined, (query) => query.where("status", "=", status as "pending"))
      .$if(channelId !== undefined, (query) => query.where("channel_id", "=", channelId ?? ""))
      .$if(at !== undefined && id !== undefined, (query) =>
        query.where(sql<boolean>`(created_at, id) < (${readCursorTime(at ?? "")}, ${id ?? ""})`),
      )
      .orderBy("created_at", "desc")
      .orderBy("id", "desc")
      .limit(pageRows + 1)
      .execute();
    const page = cutPage([request, reply], rows, pageRows, (row) => [row.created_at.toISOString(), row.id], {
      status,
      channel_id: channelId,
    });
    return page.map((row) => ({ ...row, created_at: row.created_at.toISOString(), delivered_at: row.delivered_at?.toISOString() ?? null }));
  };
  return bindHandlers(DELIVERY_ROUTES, { list });
}
