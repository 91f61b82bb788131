// Routes in evaluation order: which alerts are sent to which channels. Invariants: the default route is last; users who may only
// read see only the list.
import { useLoaded } from "../state/loaded.ts";
import { address } from "../state/route.ts";
import { Matchers } from "./matchers.tsx";
import { RouteForm } from "./route-form.tsx";
import { RouteTest } from "./route-test.tsx";
import { type Channel, listChannels, NEW_ROUTE, type NotificationRoute, ROUTES, TIME_INTERVALS, type TimeInterval } from "./resources.ts";
import { EditableList, EditLink } from "../parts/editable-list.tsx";
import type { Column } from "../parts/table.tsx";
import { visible } from "../parts/text.ts";
import { call } from "../state/api.ts";

const REFRESH_MS = 10_000;

interface RoutesData {
  readonly routes: readonly NotificationRoute[];
  readonly channels: readonly Channel[];
  /** Names of time intervals. */
  readonly intervals: readonly string[];
}

export function Routes() {
  const loaded = useLoaded("routes", readRoutes, { refreshMs: REFRESH_MS });
  const { routes = [], channels = [], intervals = [] } = loaded.value.value ?? {};
  return (
    <EditableList
      noun="route"
      list={{ view: "routes" }}
      loaded={loaded}
      rows={routes}
      title="Routes in evaluation order"
      columns={columnsFor(channels)}
      status="Each alert is sent to the channels of the first route whose matchers all match."
      note={
        <>
          <MissingChannels routes={routes} channels={channels} />
          <RouteTest channels={channels} />
        </>
      }
      headingOf={(route) => (route.is_default ? "Default route" : `Route ${route.position + 1}`)}
      removal={({ id, is_default: isDefault }) =>
        !isDefault && {
          path: `${ROUTES}/${id}`,
          text: "Its alerts are then sent to the next matching route. This cannot be undone.",
        }
      }
      form={(route, saved) =>
        loaded.value.value && (
          <RouteForm
            route={route ?? NEW_ROUTE}
            others={routes.filter(({ id, is_default: isDefault }) => id !== route?.id && !isDefault)}
            channels={channels}
            intervals={intervals}
            onSaved={saved}
          />
        )
      }
    />
  );
}

function MissingChannels({ routes, channels }: Omit<RoutesData, "intervals">) {
  if (channels.length === 0)
    return (
      <p class="empty">
        A route needs a channel: <a href={address("alerts", { view: "channels" })}>create a channel</a> first.
      </p>
    );
  if (routes.some((route) => route.channel_ids.length > 0)) return null;
  return <p class="empty">No route has a channel, so no one is notified of alerts.</p>;
}

function columnsFor(channels: readonly Channel[]): Column<NotificationRoute>[] {
  const names = new Map(channels.map(({ id, name, enabled }) => [id, enabled ? name : `${name} (disabled)`]));
  return [
    { head: "order", cell: (_route, at) => `${at + 1}.` },
    { head: "matchers", kind: "name", cell: (route) => <RouteMatchers route={route} /> },
    { head: "channels", cell: (route) => <RouteChannels route={route} names={names} /> },
    { head: "grouped by", cell: (route) => groupingText(route.group_by) },
    { head: "waits", cell: (route) => `${route.group_wait}, then ${route.group_interval}` },
    { head: "repeats", cell: (route) => `every ${route.repeat_interval}` },
  ];
}

function RouteChannels({ route, names }: { route: NotificationRoute; names: ReadonlyMap<string, string> }) {
  return (
    <>
      {route.channel_ids.length === 0 && <span class="is-warn">none</span>}
      <bdi>{visible(route.channel_ids.map((id) => names.get(id) ?? id).join(", "))}</bdi>
      {route.continue && <span class="quiet"> then continues</span>}
      {route.mute_time_intervals.length + route.active_time_intervals.length > 0 && <span class="quiet"> at certain times</span>}
    </>
  );
}

function RouteMatchers({ route }: { route: NotificationRoute }) {
  const shown = route.is_default ? "unmatched alerts" : route.matchers.length === 0 ? "all alerts" : <Matchers of={route.matchers} />;
  return <EditLink href={address("alerts", { view: "routes", route: route.id })}>{shown}</EditLink>;
}

function groupingText(labels: readonly string[]): string {
  if (labels.length === 0) return "all alerts in one group";
  return labels.includes("...") ? "all labels" : labels.join(", ");
}

async function readRoutes(signal: AbortSignal): Promise<RoutesData> {
  const [routes, channels, intervals] = await Promise.all([
    call<NotificationRoute[]>(ROUTES, { signal }),
    listChannels(signal),
    call<TimeInterval[]>(TIME_INTERVALS, { signal }),
  ]);
  return { routes, channels, intervals: intervals.map(({ name }) => name) };
}
