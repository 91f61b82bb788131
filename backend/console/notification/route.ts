// A route as the alerting service has it: which alerts go to which channels.
import type { ApiResponses } from "../../client/api.ts";

export const ROUTES = "/alerting/routes";

export type Route = ApiResponses["GET /alerting/routes"][number];
export type NewRoute = Omit<Route, "id" | "position" | "created_at">;

/** As the service fills in what is left out. */
export const NEW_ROUTE: NewRoute = {
  matchers: [],
  channel_ids: [],
  group_by: ["alertname"],
  group_wait: "30s",
  group_interval: "5m",
  repeat_interval: "4h",
  continue: false,
  is_default: false,
};
