// A route as the alerting service has it: which alerts go to which channels.
import type { Matcher } from "./matcher.ts";

export const ROUTES = "/alerting/routes";

export interface Route {
  readonly id: string;
  readonly position: number;
  /** None: every alert. */
  readonly matchers: readonly Matcher[];
  readonly channel_ids: readonly string[];
  /** `...`: all labels. */
  readonly group_by: readonly string[];
  readonly group_wait: string;
  readonly group_interval: string;
  readonly repeat_interval: string;
  readonly continue: boolean;
  readonly is_default: boolean;
}

/** As the service fills in what is left out. */
export const NEW_ROUTE: Omit<Route, "id" | "position"> = {
  matchers: [],
  channel_ids: [],
  group_by: ["alertname"],
  group_wait: "30s",
  group_interval: "5m",
  repeat_interval: "4h",
  continue: false,
  is_default: false,
};
