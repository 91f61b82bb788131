// The routes of an organisation in the form of Alertmanager's configuration, which its API returns with the status. Invariant: of channels only
// the names are in it.
import { formatDuration } from "../../../common/duration.ts";
import type { RouteMatcher } from "../model/matchers.ts";
import type { StoredRoute } from "../routing/route-body.ts";

/** The receiver of alerts that no channel gets. */
export const NO_RECEIVER = "none";

/** As Alertmanager would be configured: a route there has one receiver, so that one of ours with several becomes as many. */
export function configurationOf(routes: readonly StoredRoute[], channels: ReadonlyMap<string, string>): object {
  const namesOf = ({ channelIds }: StoredRoute): string[] => {
    const names = channelIds.flatMap((id) => channels.get(id) ?? []);
    return names.length === 0 ? [NO_RECEIVER] : names;
  };
  const rest = routes.find(({ isDefault }) => isDefault);
  const special = routes
    .filter(({ isDefault }) => !isDefault)
    .flatMap((route) =>
      namesOf(route).map((receiver, at, all) => ({
        receiver,
        matchers: route.matchers.map(matcherText),
        ...timesOf(route),
        continue: route.continues || at < all.length - 1,
      })),
    );
  // The root takes what no other takes, for one receiver: of several, they are routes below it.
  const others = rest && namesOf(rest).length > 1 ? namesOf(rest).map((receiver) => ({ receiver, ...timesOf(rest), continue: true })) : [];
  return {
    route: { receiver: (rest && namesOf(rest)[0]) ?? NO_RECEIVER, ...(rest && timesOf(rest)), routes: [...special, ...others] },
    receivers: [...channels.values(), NO_RECEIVER].map((name) => ({ name })),
  };
}

function matcherText({ label, op, value }: RouteMatcher): string {
  return `${label}${op}${JSON.stringify(value)}`;
}

function timesOf({ groupBy, waitS, intervalS, repeatS }: StoredRoute): object {
  return {
    group_by: groupBy,
    group_wait: formatDuration(waitS * 1000),
    group_interval: formatDuration(intervalS * 1000),
    repeat_interval: formatDuration(repeatS * 1000),
  };
}
