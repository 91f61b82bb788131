// Formats of Alertmanager's API, for its routes: list parameters, errors as amtool and Grafana print them, and the routing tree as an
// Alertmanager configuration.
import type { FastifyReply, FastifyRequest } from "fastify";
import { ApiError } from "../../errors.ts";
import { checkMatchers, compileMatchers, type Matcher, readMatcher, type RouteMatcher } from "../model/matchers.ts";
import { parametersOf } from "../../http/query-string.ts";
import type { RouteDeclaration } from "../../http/route.ts";
import { formatDuration } from "../../../common/duration.ts";
import type { readNamedSettings } from "../routing/named-settings.ts";
import type { StoredRoute } from "../routing/route-body.ts";

/** Parses the repeatable parameter `filter`. Throws ApiError invalid_parameter. */
export function readFilters(request: FastifyRequest): Matcher[] {
  const matchers = parametersOf(request).getAll("filter").map(readFilter);
  checkParameter("filter", () => checkMatchers(matchers, { anyAlert: true }));
  return matchers;
}

/** Parses `receiver`: a regular expression for the whole name of a receiver. */
export function readReceiver(request: FastifyRequest): (name: string) => boolean {
  const value = parametersOf(request).get("receiver");
  if (!value) return () => true;
  const matchers = [{ name: "receiver", value, isRegex: true, isEqual: true }];
  checkParameter("receiver", () => checkMatchers(matchers, { anyAlert: true }));
  const matches = compileMatchers(matchers);
  return (receiver) => matches({ receiver });
}

/** Parses booleans like Go; true if the parameter is missing. */
export function readFlag(request: FastifyRequest, name: string): boolean {
  const value = parametersOf(request).get(name) ?? "true";
  if (!/^(?:true|false|[01tf])$/i.test(value)) throw new ApiError("invalid_parameter", `${name}: must be true or false`);
  return /^[1t]/i.test(value);
}

function readFilter(text: string): Matcher {
  const matcher = readMatcher(text);
  if (!matcher)
    throw new ApiError("invalid_parameter", 'filter: must be a matcher such as alertname="Down" or severity=~"critical|warning"');
  return matcher;
}

function checkParameter(name: string, check: () => void): void {
  try {
    check();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    throw new ApiError("invalid_parameter", `${name}: ${error.message}`, { cause: error });
  }
}

const STATUSES = [400, 404, 500];
const TEXT = { type: "string", description: "only the message, if the request has exactly `Accept: application/json`, as amtool sends it" };

export const ALERTMANAGER_ERRORS: RouteDeclaration["otherErrors"] = {
  schemas: Object.fromEntries(STATUSES.map((status) => [status, TEXT])),
  onSend: toAlertmanagerError,
};

async function toAlertmanagerError(request: FastifyRequest, reply: FastifyReply, payload: unknown): Promise<unknown> {
  const isExactJson = request.headers.accept?.trim().toLowerCase() === "application/json";
  if (!isExactJson || !STATUSES.includes(reply.statusCode) || typeof payload !== "string") return payload;
  const { message } = JSON.parse(payload) as { message: string };
  return JSON.stringify(message);
}

/** The receiver of alerts that are not sent to any channel. */
export const NO_RECEIVER = "none";

/** The routes as an Alertmanager configuration: a route there has one receiver, so a route with several channels becomes several routes. */
export function toAlertmanagerConfig(
  routes: readonly StoredRoute[],
  channels: ReadonlyMap<string, string>,
  { inhibitRules, timeIntervals }: Awaited<ReturnType<typeof readNamedSettings>>,
): object {
  const namesOf = ({ channelIds }: StoredRoute): string[] => {
    const names = channelIds.flatMap((id) => channels.get(id) ?? []);
    return names.length === 0 ? [NO_RECEIVER] : names;
  };
  const defaultRoute = routes.find(({ isDefault }) => isDefault);
  const childRoutes = routes
    .filter(({ isDefault }) => !isDefault)
    .flatMap((route) =>
      namesOf(route).map((receiver, at, all) => ({
        receiver,
        matchers: route.matchers.map(matcherText),
        ...describeTimes(route),
        continue: route.continues || at < all.length - 1,
      })),
    );
  // The root handles alerts that no other route matches, but has only one receiver: if there are several, they become routes below it.
  const defaultChildRoutes =
    defaultRoute && namesOf(defaultRoute).length > 1
      ? namesOf(defaultRoute).map((receiver) => ({ receiver, ...describeTimes(defaultRoute), continue: true }))
      : [];
  return {
    route: {
      receiver: (defaultRoute && namesOf(defaultRoute)[0]) ?? NO_RECEIVER,
      ...(defaultRoute && describeTimes(defaultRoute)),
      routes: [...childRoutes, ...defaultChildRoutes],
    },
    receivers: [...channels.values(), NO_RECEIVER].map((name) => ({ name })),
    ...(inhibitRules.length > 0 && {
      inhibit_rules: inhibitRules.map(({ source_matchers: source, target_matchers: target, equal }) => ({
        source_matchers: source.map(matcherText),
        target_matchers: target.map(matcherText),
        equal,
      })),
    }),
    ...(timeIntervals.size > 0 && { time_intervals: [...timeIntervals].map(([name, body]) => ({ name, ...body })) }),
  };
}

function matcherText({ label, op, value }: RouteMatcher): string {
  return `${label}${op}${JSON.stringify(value)}`;
}

function describeTimes({ groupBy, waitMs, intervalMs, repeatMs, muteTimeIntervals, activeTimeIntervals }: StoredRoute): object {
  return {
    group_by: groupBy,
    group_wait: formatDuration(waitMs),
    group_interval: formatDuration(intervalMs),
    repeat_interval: formatDuration(repeatMs),
    ...(muteTimeIntervals.length > 0 && { mute_time_intervals: muteTimeIntervals }),
    ...(activeTimeIntervals.length > 0 && { active_time_intervals: activeTimeIntervals }),
  };
}
