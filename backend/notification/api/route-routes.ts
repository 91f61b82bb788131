// The HTTP routes for notification routes: which alerts go to which channels. Invariant: the organisation is that of the session, and every
// change is audited.
import type { FastifyReply, FastifyRequest } from "fastify";
import { audit } from "../../auth/audit-log.ts";
import { callerOf } from "../../auth/request-identity.ts";
import { bindHandlers, type Route, type RouteDeclaration } from "../../http/route.ts";
import { readId, NO_CONTENT } from "../../http/schemas.ts";
import { checkedRoute, ROUTE_BODY_SCHEMA, ROUTE_SCHEMA, type RouteBody, routeObject } from "../routing/route-body.ts";
import type { RouteTable } from "../routing/route-store.ts";

export const NOTIFICATION_ROUTE_ROUTES = {
  list: {
    method: "GET",
    path: "/routes",
    access: "viewer",
    tag: "alerting",
    summary: "All routes in the order in which they are evaluated, the default route last",
    documented: { response: { 200: { type: "array", items: ROUTE_SCHEMA } } },
  },
  create: {
    method: "POST",
    path: "/routes",
    access: "admin",
    tag: "alerting",
    summary: "Creates a route",
    body: ROUTE_BODY_SCHEMA,
    documented: { response: { 201: ROUTE_SCHEMA } },
  },
  replace: {
    method: "PUT",
    path: "/routes/:id",
    access: "admin",
    tag: "alerting",
    summary: "Replaces a route in full; of the default route everything but its matchers",
    body: ROUTE_BODY_SCHEMA,
    documented: { response: { 200: ROUTE_SCHEMA } },
  },
  remove: {
    method: "DELETE",
    path: "/routes/:id",
    access: "admin",
    tag: "alerting",
    summary: "Deletes a route",
    documented: { response: NO_CONTENT },
  },
} as const satisfies Record<string, RouteDeclaration>;

export function createNotificationRouteRoutes(table: RouteTable): Route[] {
  return bindHandlers(NOTIFICATION_ROUTE_ROUTES, {
    list: async (request: FastifyRequest) => (await table.list(callerOf(request).orgId)).map(routeObject),
    create: async (request: FastifyRequest<{ Body: RouteBody }>, reply: FastifyReply) => {
      const route = await table.create(callerOf(request).orgId, checkedRoute(request.body));
      audit(request, "route.create", { route_id: route.id });
      return await reply.code(201).send(routeObject(route));
    },
    replace: async (request: FastifyRequest<{ Body: RouteBody }>) => {
      const route = await table.replace(callerOf(request).orgId, readId(request, "route"), checkedRoute(request.body));
      audit(request, "route.update", { route_id: route.id });
      return routeObject(route);
    },
    remove: async (request: FastifyRequest, reply: FastifyReply) => {
      const id = readId(request, "route");
      await table.delete(callerOf(request).orgId, id);
      audit(request, "route.delete", { route_id: id });
      return await reply.code(204).send();
    },
  });
}
