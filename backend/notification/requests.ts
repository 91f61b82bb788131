// The HTTP requests about notification, put together: routes, silences, deliveries, and Alertmanager's API. Invariant: what is registered is
// what is listed, so that the API's address forwards just that.
import type { FastifyInstance } from "fastify";
import type { Kysely } from "kysely";
import type { ServiceRoute } from "../alerting/route-parts.ts";
import type { Guards } from "../auth/request-identity.ts";
import { ALERTMANAGER_REQUESTS, registerAlertmanagerRequests } from "./alertmanager-requests.ts";
import { DELIVERY_REQUESTS, registerDeliveryRequests } from "./delivery-requests.ts";
import { registerRouteRequests, ROUTE_REQUESTS } from "./route-requests.ts";
import { RouteTable } from "./route-table.ts";
import { registerSilenceRequests, SILENCE_REQUESTS } from "./silence-requests.ts";
import { SilenceTable } from "./silence-table.ts";
import type { NotificationTables } from "./table.ts";

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
