// Routes in evaluation order: which alerts are sent to which channels. Invariants: the default route is last; users who may only
// read see only the list.
import { useSignal } from "@preact/signals";
import { RemoveButton } from "../parts/removal.tsx";
import { Side, Split } from "../parts/side.tsx";
import { useLoaded } from "../state/loaded.ts";
import { address, route as currentRoute } from "../state/route.ts";
import { Matchers } from "./matchers.tsx";
import { RouteForm } from "./route-form.tsx";
import { type Channel, listChannels, NEW_ROUTE, type NewRoute, type NotificationRoute, ROUTES } from "./resources.ts";
import { CreateLink } from "../parts/controls.tsx";
import { Status } from "../parts/common.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { visible } from "../parts/text.ts";
import { call } from "../state/api.ts";
import { mayWrite } from "../state/session.ts";

const REFRESH_MS = 10_000;

interface RoutesData {
  readonly routes: readonly NotificationRoute[];
  readonly channels: readonly Channel[];
}

export function Routes() {
  const loaded = useLoaded("routes", readRoutes, { refreshMs: REFRESH_MS });
  const created = useSignal<NotificationRoute | undefined>(undefined);
  const { routes = [], channels = [] } = loaded.value.value ?? {};
  const id = currentRoute.value.query.get("route");
  const chosen = id === "new" ? NEW_ROUTE : [...routes, created.value].find((route) => route?.id === id);
  const isOpen = mayWrite.value && loaded.value.value !== undefined && chosen !== undefined;
  const saved = (route: NotificationRoute): string => {
    created.value = route;
    loaded.reload();
    return address("alerts", { view: "routes", route: route.id });
  };
  return (
    <>
      <div class="bar">
        <p role="status">Each alert is sent to the channels of the first route whose matchers all match.</p>
        <CreateLink href={address("alerts", { view: "routes", route: "new" })} text="Create route" />
      </div>
      <Split
        side={isOpen && <RouteSide route={chosen} key={id} routes={routes} channels={channels} onSaved={saved} onChanged={loaded.reload} />}
      >
        <Status of={loaded}>
          <Table title="Routes in evaluation order" rows={routes} columns={columnsFor(channels)} isChosen={(route) => route.id === id} />
          <MissingChannels routes={routes} channels={channels} />
        </Status>
      </Split>
    </>
  );
}

function MissingChannels({ routes, channels }: RoutesData) {
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
  return mayWrite.value ? <a href={address("alerts", { view: "routes", route: route.id })}>{shown}</a> : <>{shown}</>;
}

function groupingText(labels: readonly string[]): string {
  if (labels.length === 0) return "all alerts in one group";
  return labels.includes("...") ? "all labels" : labels.join(", ");
}

interface RouteSideProps extends RoutesData {
  readonly route: NewRoute & Partial<NotificationRoute>;
  readonly onSaved: (route: NotificationRoute) => string;
  readonly onChanged: () => void;
}

function RouteSide({ route, routes, channels, onSaved, onChanged }: RouteSideProps) {
  const listHref = address("alerts", { view: "routes" });
  const title = route.is_default ? "Default route" : route.id ? `Route ${(route.position ?? 0) + 1}` : "New route";
  return (
    <Side label={route.id ? "Route" : "New route"} title={title} onClose={listHref}>
      <RouteForm
        route={route}
        others={routes.filter(({ id, is_default: isDefault }) => id !== route.id && !isDefault)}
        channels={channels}
        onSaved={onSaved}
      />
      {route.id && !route.is_default && (
        <RemoveButton label="Remove route" path={`${ROUTES}/${route.id}`} onRemoved={() => (onChanged(), listHref)}>
          Its alerts are then sent to the next matching route. This cannot be undone.
        </RemoveButton>
      )}
    </Side>
  );
}

async function readRoutes(signal: AbortSignal): Promise<RoutesData> {
  const [routes, channels] = await Promise.all([call<NotificationRoute[]>(ROUTES, { signal }), listChannels(signal)]);
  return { routes, channels };
}
