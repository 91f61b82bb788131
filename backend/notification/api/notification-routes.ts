// The HTTP routes of notification, except those for channels: notification routes, silences, inhibition
// rules, time intervals, deliveries, and Alertmanager's API.
import type { Kysely } from "kysely";
import type { ResponseBudget } from "../../http/response-budget.ts";
import { bindHandlers, endpoint, type Route, type RouteDeclaration } from "../../http/route.ts";
import { ALERTMANAGER_ROUTES, createAlertmanagerRoutes } from "./alertmanager-routes.ts";
import { CHANNEL_ROUTES } from "./channel-routes.ts";
import { createNamedSettingRoutes, INHIBIT_RULE_ROUTES, TIME_INTERVAL_ROUTES } from "./named-setting-routes.ts";
import { NamedSettings } from "../routing/named-settings.ts";
import { compileRoutes } from "../routing/plan.ts";
import { RouteStore } from "../routing/route-store.ts";
import { createSilenceRoutes, SILENCE_ROUTES } from "./silence-routes.ts";
import { SilenceStore } from "../routing/silences.ts";
import type { Labels } from "../model/matchers.ts";
import type { NotificationTables } from "../model/notification-tables.ts";
import { MAX_GROUP_LABELS } from "../notification-limits.ts";
import type { FastifyReply, FastifyRequest } from "fastify";
import { TimeSlices } from "../../admission/time-slices.ts";
import { audit } from "../../auth/audit-log.ts";
import { callerOf } from "../../http/request-identity.ts";
import {
  closedSchema,
  listResponse,
  NO_CONTENT,
  OPTIONAL_TIME_SCHEMA,
  optionalSchema,
  parseUuid,
  readId,
  TIME_SCHEMA,
  UUID_SCHEMA,
} from "../../http/schemas.ts";
import { validateRoute, ROUTE_BODY_SCHEMA, ROUTE_SCHEMA, type RouteBody, describeRoute } from "../routing/route-body.ts";
import { CURSOR_QUERY, readPage } from "../../http/list-page.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";

interface Query {
  readonly cursor?: string;
  readonly status?: "pending" | "delivered" | "failed";
  readonly channel_id?: string;
}

const STATUS = { type: "string", enum: ["pending", "delivered", "failed"] };
const DELIVERY_SCHEMA = {
  id: { ...UUID_SCHEMA, description: "the `webhook-id`, the same for all attempts" },
  channel_id: UUID_SCHEMA,
  rule_ids: { type: "array", items: UUID_SCHEMA },
  status: STATUS,
  attempts: { type: "integer", minimum: 0 },
  http_status: { type: ["integer", "null"] },
  error: { type: ["string", "null"], description: "why the last attempt failed" },
  created_at: TIME_SCHEMA,
  delivered_at: OPTIONAL_TIME_SCHEMA,
};
const DELIVERY_ROUTES = {
  list: {
    ...endpoint("GET", "/deliveries", "viewer", "alerting"),
    summary:
      "Messages of the last 30 days, at most the newest 10,000, newest first, in pages of 500; the Link header points to the next page",
    query: optionalSchema({
      ...CURSOR_QUERY.properties,
      status: STATUS,
      channel_id: { ...UUID_SCHEMA, description: "only of this channel" },
    }),
    documented: { response: listResponse(DELIVERY_SCHEMA) },
  },
} as const satisfies Record<string, RouteDeclaration>;

function createDeliveryRoutes(db: Kysely<NotificationTables>, pageRows?: number): Route[] {
  const list = async (request: FastifyRequest<{ Querystring: Query }>, reply: FastifyReply) => {
    const { orgId } = callerOf(request);
    const { status } = request.query;
    const channelId = request.query.channel_id === undefined ? undefined : parseUuid(request.query.channel_id);
    const query = tenantDatabase(db, orgId)
      .selectFrom("deliveries")
      .select(["id", "channel_id", "rule_ids", "status", "attempts", "http_status", "error", "created_at", "delivered_at"])
      .where("org_id", "=", orgId)
      .$if(status !== undefined, (query) => query.where("status", "=", status as "pending"))
      .$if(channelId !== undefined, (query) => query.where("channel_id", "=", channelId ?? ""));
    const parameters = { status, channel_id: channelId };
    return await readPage(request, reply, query, { sortedBy: "created_at", order: "desc", limit: pageRows, parameters });
  };
  return bindHandlers(DELIVERY_ROUTES, { list });
}

const NOTIFICATION_ROUTE_ROUTES = {
  list: {
    ...endpoint("GET", "/routes", "viewer", "alerting"),
    summary: "All routes in the order in which they are evaluated, the default route last",
    documented: { response: { 200: { type: "array", items: ROUTE_SCHEMA } } },
  },
  create: {
    ...endpoint("POST", "/routes", "admin", "alerting"),
    summary: "Create a route",
    body: ROUTE_BODY_SCHEMA,
    documented: { response: { 201: ROUTE_SCHEMA } },
  },
  test: {
    ...endpoint("POST", "/routes/test", "viewer", "alerting"),
    summary: "The routes that an alert with these labels would take, in order",
    body: closedSchema({
      labels: { type: "object", maxProperties: MAX_GROUP_LABELS * 2, additionalProperties: { type: "string", maxLength: 1000 } },
    }),
    documented: { response: { 200: { type: "array", items: ROUTE_SCHEMA } } },
  },
  replace: {
    ...endpoint("PUT", "/routes/:id", "admin", "alerting"),
    summary: "Replace a whole route; the default route has no matchers and no time intervals, and does not continue",
    body: ROUTE_BODY_SCHEMA,
    documented: { response: { 200: ROUTE_SCHEMA } },
  },
  remove: { ...endpoint("DELETE", "/routes/:id", "admin", "alerting"), summary: "Delete a route", documented: { response: NO_CONTENT } },
} as const satisfies Record<string, RouteDeclaration>;

function createNotificationRouteRoutes(table: RouteStore): Route[] {
  return bindHandlers(NOTIFICATION_ROUTE_ROUTES, {
    list: async (request: FastifyRequest) => (await table.list(callerOf(request).orgId)).map(describeRoute),
    create: async (request: FastifyRequest<{ Body: RouteBody }>, reply: FastifyReply) => {
      const route = await table.create(callerOf(request).orgId, validateRoute(request.body));
      audit(request, "route.create", { route_id: route.id });
      return await reply.code(201).send(describeRoute(route));
    },
    test: async (request: FastifyRequest<{ Body: { readonly labels: Labels } }>) => {
      const findRoutes = await compileRoutes(await table.list(callerOf(request).orgId), new TimeSlices());
      return findRoutes(request.body.labels).map(describeRoute);
    },
    replace: async (request: FastifyRequest<{ Body: RouteBody }>) => {
      const route = await table.replace(callerOf(request).orgId, readId(request, "route"), validateRoute(request.body));
      audit(request, "route.update", { route_id: route.id });
      return describeRoute(route);
    },
    remove: async (request: FastifyRequest, reply: FastifyReply) => {
      const id = readId(request, "route");
      await table.delete(callerOf(request).orgId, id);
      audit(request, "route.delete", { route_id: id });
      return await reply.code(204).send();
    },
  });
}

export interface NotificationRoutesOptions {
  readonly db: Kysely<NotificationTables>;
  readonly responses: ResponseBudget;
  readonly nowMs?: () => number;
  readonly pageRows?: number;
}

/** All routes of notification, for backend/alerting/remote.ts. */
export const NOTIFICATION_DECLARATIONS: readonly RouteDeclaration[] = [
  NOTIFICATION_ROUTE_ROUTES,
  SILENCE_ROUTES,
  INHIBIT_RULE_ROUTES,
  TIME_INTERVAL_ROUTES,
  DELIVERY_ROUTES,
  ALERTMANAGER_ROUTES,
  CHANNEL_ROUTES,
].flatMap((routes) => Object.values<RouteDeclaration>(routes));

export function createNotificationRoutes({ db, responses, nowMs = Date.now, pageRows }: NotificationRoutesOptions): Route[] {
  const routes = new RouteStore(db, nowMs);
  const silences = new SilenceStore(db, nowMs);
  return [
    ...createNotificationRouteRoutes(routes),
    ...createSilenceRoutes(silences, nowMs),
    ...createNamedSettingRoutes("inhibit_rule", new NamedSettings(db, "inhibit_rule", nowMs)),
    ...createNamedSettingRoutes("time_interval", new NamedSettings(db, "time_interval", nowMs)),
    ...createDeliveryRoutes(db, pageRows),
    ...createAlertmanagerRoutes({ db, routes, silences, nowMs, responses }),
  ];
}
