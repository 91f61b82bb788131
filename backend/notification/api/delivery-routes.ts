// GET /deliveries: what was sent to whom, and what became of it. Invariant: of the own organisation, in pages; nothing of the message itself.
import type { FastifyInstance } from "fastify";
import { type Kysely, sql } from "kysely";
import { addServiceRoute, type ServiceRoute } from "../../alerting/route-parts.ts";
import { callerOf, type Guards } from "../../auth/request-identity.ts";
import { CURSOR_QUERY, cutPage, readCursorTime, PAGE_ROWS, readCursor } from "../../http/list-page.ts";
import { listResponse, OPTIONAL_TIME_SCHEMA, TIME_SCHEMA, UUID_SCHEMA, parseUuid } from "../../http/schemas.ts";
import type { NotificationTables } from "../model/table.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";

interface Query {
  readonly cursor?: string;
  readonly status?: "pending" | "delivered" | "failed";
  readonly channel_id?: string;
}

const STATUS = { type: "string", enum: ["pending", "delivered", "failed"] };
const LIST: ServiceRoute = {
  method: "GET",
  path: "/deliveries",
  who: "viewer",
  summary: "Messages of the last 30 days, newest first, in pages of 500: the header Link names the next one",
  querystring: {
    type: "object",
    properties: { ...CURSOR_QUERY.properties, status: STATUS, channel_id: { ...UUID_SCHEMA, description: "of this channel alone" } },
  },
  response: listResponse({
    id: { ...UUID_SCHEMA, description: "the `webhook-id`, the same over all attempts" },
    channel_id: UUID_SCHEMA,
    rule_ids: { type: "array", items: UUID_SCHEMA },
    status: STATUS,
    attempts: { type: "integer", minimum: 0 },
    http_status: { type: ["integer", "null"] },
    error: { type: ["string", "null"], description: "why the last attempt failed" },
    created_at: TIME_SCHEMA,
    delivered_at: OPTIONAL_TIME_SCHEMA,
  }),
};

export const DELIVERY_REQUESTS = [LIST];

export function registerDeliveryRequests(
  app: FastifyInstance,
  guards: Guards,
  db: Kysely<NotificationTables>,
  pageRows: number = PAGE_ROWS,
): void {
  addServiceRoute<unknown, Query>(app, guards, LIST, async (request, reply) => {
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
  });
}
