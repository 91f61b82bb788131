// The requests for routes: which alerts go to which channels. Invariant: the organisation is that of the session; every change is audited.
import type { FastifyInstance } from "fastify";
import { addServiceRoute, type ServiceRoute } from "../../alerting/route-parts.ts";
import { audit } from "../../auth/audit-log.ts";
import { callerOf, type Guards } from "../../auth/request-identity.ts";
import { readId, NO_CONTENT } from "../../http/schemas.ts";
import { checkedRoute, ROUTE_BODY_SCHEMA, ROUTE_SCHEMA, type RouteBody, routeObject } from "../routing/route-body.ts";
import type { RouteTable } from "../routing/route-store.ts";

const LIST: ServiceRoute = {
  method: "GET",
  path: "/routes",
  who: "viewer",
  summary: "All routes in the order in which they are asked, the default one last",
  response: { 200: { type: "array", items: ROUTE_SCHEMA } },
};
const CREATE: ServiceRoute = {
  method: "POST",
  path: "/routes",
  who: "admin",
  summary: "Creates a route",
  body: ROUTE_BODY_SCHEMA,
  response: { 201: ROUTE_SCHEMA },
};
const REPLACE: ServiceRoute = {
  method: "PUT",
  path: "/routes/:id",
  who: "admin",
  summary: "Replaces a route in full; of the default one everything but its matchers",
  body: ROUTE_BODY_SCHEMA,
  response: { 200: ROUTE_SCHEMA },
};
const REMOVE: ServiceRoute = { method: "DELETE", path: "/routes/:id", who: "admin", summary: "Deletes a route", response: NO_CONTENT };

export const ROUTE_REQUESTS = [LIST, CREATE, REPLACE, REMOVE];

export function registerRouteRequests(app: FastifyInstance, guards: Guards, table: RouteTable): void {
  addServiceRoute(app, guards, LIST, async (request) => (await table.list(callerOf(request).orgId)).map(routeObject));
  addServiceRoute<RouteBody>(app, guards, CREATE, async (request, reply) => {
    const route = await table.create(callerOf(request).orgId, checkedRoute(request.body));
    audit(request, "route.create", { route_id: route.id });
    return await reply.code(201).send(routeObject(route));
  });
  addServiceRoute<RouteBody>(app, guards, REPLACE, async (request) => {
    const route = await table.replace(callerOf(request).orgId, readId(request, "route"), checkedRoute(request.body));
    audit(request, "route.update", { route_id: route.id });
    return routeObject(route);
  });
  addServiceRoute(app, guards, REMOVE, async (request, reply) => {
    const id = readId(request, "route");
    await table.delete(callerOf(request).orgId, id);
    audit(request, "route.delete", { route_id: id });
    return await reply.code(204).send();
  });
}
