// Validates a notification route as a user sends it, and formats it for responses. Invariant: an accepted route has matchers that are
// cheap, and times that the dispatcher can keep; whether its channels exist is checked when it is stored.
import { durationWanted, durationWithin, formatDuration } from "../../../common/duration.ts";
import { closedSchema, objectSchema, parseUuid, TIME_SCHEMA, UUID_SCHEMA, invalidField } from "../../http/schemas.ts";
import { MAX_CHANNELS_PER_ROUTE, MAX_GROUP_LABELS, MAX_MATCHERS, MAX_ROUTE_BYTES, MAX_TIME_RANGES } from "../notification-limits.ts";
import { checkMatchers, MATCHER_SCHEMA, type RouteMatcher, toMatcher } from "../model/matchers.ts";

export interface RouteBody {
  readonly matchers: readonly RouteMatcher[];
  readonly channel_ids: readonly string[];
  readonly group_by: readonly string[];
  readonly group_wait: string;
  readonly group_interval: string;
  readonly repeat_interval: string;
  readonly continue: boolean;
  readonly mute_time_intervals: readonly string[];
  readonly active_time_intervals: readonly string[];
  readonly position?: number;
}

/** As stored in the table. */
export interface CheckedRoute {
  readonly matchers: readonly RouteMatcher[];
  readonly channelIds: readonly string[];
  readonly groupBy: readonly string[];
  /** Whole seconds, like the other times. */
  readonly waitMs: number;
  readonly intervalMs: number;
  readonly repeatMs: number;
  readonly continues: boolean;
  /** Names of time intervals, like the next list. */
  readonly muteTimeIntervals: readonly string[];
  readonly activeTimeIntervals: readonly string[];
  /** Index among the routes; undefined: last, or unchanged. */
  readonly position: number | undefined;
}

export interface StoredRoute extends Omit<CheckedRoute, "position"> {
  readonly id: string;
  readonly position: number;
  readonly isDefault: boolean;
  readonly createdAt: Date;
}

const DAY_MS = 86_400_000;
const WAIT = { minMs: 0, maxMs: 3_600_000 };
const INTERVAL = { minMs: 5000, maxMs: DAY_MS };
const REPEAT = { minMs: 60_000, maxMs: 30 * DAY_MS };

const duration = (defaultValue: string, description: string) => ({ type: "string", maxLength: 50, default: defaultValue, description });
const intervalNames = (description: string) => ({
  type: "array",
  maxItems: MAX_TIME_RANGES,
  items: { type: "string", maxLength: 200 },
  default: [],
  description,
});
const PROPERTIES = {
  matchers: {
    type: "array",
    maxItems: MAX_MATCHERS,
    items: MATCHER_SCHEMA,
    description: "an alert's labels must match all of them, as in Alertmanager; none: every alert",
  },
  channel_ids: {
    type: "array",
    maxItems: MAX_CHANNELS_PER_ROUTE,
    items: { type: "string" },
    default: [],
    description: "channels to notify; none: alerts are not sent",
  },
  group_by: {
    type: "array",
    maxItems: MAX_GROUP_LABELS,
    items: { type: "string", maxLength: 128, pattern: "^(?:[a-zA-Z_][a-zA-Z0-9_]*|\\.\\.\\.)$" },
    default: ["alertname"],
    description: "alerts with the same values of these labels are sent in one message; `...`: all labels; none: all alerts of the route",
  },
  group_wait: duration("30s", "how long a message waits for more new or resolved alerts"),
  group_interval: duration("5m", "how long a group waits after a message before changes are sent"),
  repeat_interval: duration("4h", "how long until unchanged alerts are sent again"),
  continue: { type: "boolean", default: false, description: "true: later routes are evaluated too" },
  mute_time_intervals: intervalNames("in these time intervals, nothing is sent"),
  active_time_intervals: intervalNames("if there are any: outside of these time intervals, nothing is sent"),
};

export const ROUTE_BODY_SCHEMA = closedSchema(["matchers"], {
  ...PROPERTIES,
  position: { type: "integer", minimum: 0, description: "position among the routes, from 0; default: the last, or its current position" },
});

export const ROUTE_SCHEMA = objectSchema(["id", "position", "is_default", "created_at", ...Object.keys(PROPERTIES)], {
  id: UUID_SCHEMA,
  position: { type: "integer", minimum: 0 },
  ...PROPERTIES,
  is_default: {
    type: "boolean",
    description: "true for the default route, which takes unmatched alerts; it always exists and is the last one",
  },
  created_at: TIME_SCHEMA,
});

/** Checks what a schema cannot express. Throws ApiError `invalid_field`, which names the field. */
export function validateRoute(body: RouteBody): CheckedRoute {
  checkMatchers(body.matchers.map(toMatcher), { anyAlert: true });
  const bytes = Buffer.byteLength(JSON.stringify(body));
  if (bytes > MAX_ROUTE_BYTES) throw invalidField("route", `has ${bytes} bytes, more than ${MAX_ROUTE_BYTES}`);
  return {
    matchers: body.matchers.map(({ label, op, value }) => ({ label, op, value })),
    channelIds: [...new Set(body.channel_ids.map(readChannelId))],
    groupBy: [...new Set(body.group_by)],
    waitMs: readPeriod("group_wait", body.group_wait, WAIT),
    intervalMs: readPeriod("group_interval", body.group_interval, INTERVAL),
    repeatMs: readPeriod("repeat_interval", body.repeat_interval, REPEAT),
    continues: body.continue,
    muteTimeIntervals: [...new Set(body.mute_time_intervals)],
    activeTimeIntervals: [...new Set(body.active_time_intervals)],
    position: body.position,
  };
}

export function describeRoute(route: StoredRoute): Record<string, unknown> {
  return {
    id: route.id,
    position: route.position,
    matchers: route.matchers,
    channel_ids: route.channelIds,
    group_by: route.groupBy,
    group_wait: formatDuration(route.waitMs),
    group_interval: formatDuration(route.intervalMs),
    repeat_interval: formatDuration(route.repeatMs),
    continue: route.continues,
    mute_time_intervals: route.muteTimeIntervals,
    active_time_intervals: route.activeTimeIntervals,
    is_default: route.isDefault,
    created_at: route.createdAt.toISOString(),
  };
}

function readChannelId(text: string, at: number): string {
  const id = parseUuid(text);
  if (id === undefined) throw invalidField(`channel_ids[${at}]`, "not a channel of this organisation");
  return id;
}

function readPeriod(field: string, text: string, bounds: { readonly minMs: number; readonly maxMs: number }): number {
  const ms = durationWithin(text, bounds);
  if (ms === undefined || ms % 1000 !== 0) throw invalidField(field, `must be ${durationWanted(bounds)}, in whole seconds`);
  return ms;
}
