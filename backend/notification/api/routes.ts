// The HTTP routes of notification, except those for channels: notification routes, silences, deliveries, and Alertmanager's API.
import type { Kysely } from "kysely";
import type { ResponseBudget } from "../../http/response-budget.ts";
import type { Route, RouteDeclaration } from "../../http/route.ts";
import { ALERTMANAGER_ROUTES, createAlertmanagerRoutes } from "./alertmanager-routes.ts";
import { CHANNEL_ROUTES } from "./channel-routes.ts";
import { createDeliveryRoutes, DELIVERY_ROUTES } from "./delivery-routes.ts";
import { createNotificationRouteRoutes, NOTIFICATION_ROUTE_ROUTES } from "./route-routes.ts";
import { RouteTable } from "../routing/route-store.ts";
import { createSilenceRoutes, SILENCE_ROUTES } from "./silence-routes.ts";
import { SilenceTable } from "../routing/silence-store.ts";
import type { NotificationTables } from "../model/table.ts";

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
  DELIVERY_ROUTES,
  ALERTMANAGER_ROUTES,
  CHANNEL_ROUTES,
].flatMap((routes) => Object.values<RouteDeclaration>(routes));

export function createNotificationRoutes({ db, responses, nowMs = Date.now, pageRows }: NotificationRoutesOptions): Route[] {
  const routes = new RouteTable(db, nowMs);
  const silences = new SilenceTable(db, nowMs);
  return [
    ...createNotificationRouteRoutes(routes),
    ...createSilenceRoutes(silences, nowMs),
    ...createDeliveryRoutes(db, pageRows),
    ...createAlertmanagerRoutes({ db, routes, silences, nowMs, responses }),
  ];
}
