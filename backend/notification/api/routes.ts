// The HTTP requests about notification, put together: routes, silences, deliveries, and Alertmanager's API. Invariant: what is registered is
// what is listed, so that the API's address forwards just that.
import type { FastifyInstance } from "fastify";
import type { Kysely } from "kysely";
import type { ServiceRoute } from "../../alerting/route-parts.ts";
import type { Guards } from "../../auth/request-identity.ts";
import { ALERTMANAGER_REQUESTS, registerAlertmanagerRequests } from "./alertmanager-routes.ts";
import { DELIVERY_REQUESTS, registerDeliveryRequests } from "./delivery-routes.ts";
import { registerRouteRequests, ROUTE_REQUESTS } from "./route-routes.ts";
import { RouteTable } from "../routing/route-store.ts";
import { registerSilenceRequests, SILENCE_REQUESTS } from "./silence-routes.ts";
import { SilenceTable } from "../routing/silence-store.ts";
import type { NotificationTables } from "../model/table.ts";

export interface NotificationRequestsOptions {
  readonly db: Kysely<NotificationTables>;
  readonly guards: Guards;
  readonly nowMs?: () => number;
  readonly pageRows?: number;
}

export const NOTIFICATION_REQUESTS: readonly ServiceRoute[] = [
  ...ROUTE_REQUESTS,
  ...SILENCE_REQUESTS,
  ...DELIVERY_REQUESTS,
  ...ALERTMANAGER_REQUESTS,
];

export function registerNotificationRequests(app: FastifyInstance, options: NotificationRequestsOptions): void {
  const { db, guards, nowMs = Date.now, pageRows } = options;
  const routes = new RouteTable(db, nowMs);
  const silences = new SilenceTable(db, nowMs);
  registerRouteRequests(app, guards, routes);
  registerSilenceRequests(app, guards, silences, nowMs);
  registerDeliveryRequests(app, guards, db, pageRows);
  registerAlertmanagerRequests(app, guards, { db, routes, silences, nowMs });
}
