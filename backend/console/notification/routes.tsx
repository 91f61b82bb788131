// Routes in the order of evaluation: which alerts are sent to which channels. Invariants: the default route is last; users who may only
// read see just the list.
import { useSignal } from "@preact/signals";
import { Removal } from "../parts/removal.tsx";
import { Side } from "../parts/side.tsx";
import { useLoaded } from "../state/loaded.ts";
import { address, route as place } from "../state/route.ts";
import { Matchers } from "./matchers.tsx";
import { RouteForm } from "./route-form.tsx";
import { type Channel, channelsNow, NEW_ROUTE, type NewRoute, type NotificationRoute, ROUTES } from "./resources.ts";
import { Status, Table } from "../parts/common.tsx";
import { visible } from "../parts/text.ts";
import { call } from "../state/api.ts";
import { mayWrite } from "../state/session.ts";

const EVERY_MS = 10_000;

interface Shown {
  readonly routes: readonly NotificationRoute[];
  readonly channels: readonly Channel[];
}

export function Routes() {
  const found = useLoaded("routes", routesShown, { everyMs: EVERY_MS });
  const made = useSignal<NotificationRoute | undefined>(undefined);
  const { routes = [], channels = [] } = found.value.value ?? {};
  const id = place.value.query.get("route");
  const chosen = id === "new" ? NEW_ROUTE : [...routes, made.value].find((route) => route?.id === id);
  const isOpen = mayWrite.value && found.value.value !== undefined && chosen !== undefined;
  const saved = (route: NotificationRoute): string => {
    made.value = route;
    found.reload();
    return address("alerts", { view: "routes", route: route.id });
  };
  return (
    <>
      <div class="bar">
        <p role="status">Each alert goes to the channels of the first route whose matchers all match.</p>
        {mayWrite.value && (
          <a class="button primary" href={address("alerts", { view: "routes", route: "new" })}>
            Add a route
          </a>
        )}
      </div>
      <div class={`split ${isOpen ? "with-side" : ""}`}>
        <div>
          <Status of={found} empty={nothing(routes, channels)}>
            {routes.length > 0 && <RouteTable routes={routes} channels={channels} chosen={id} />}
          </Status>
        </div>
        {isOpen && <RouteSide route={chosen} key={id} routes={routes} channels={channels} onSaved={saved} onChanged={found.reload} />}
      </div>
    </>
  );
}

function nothing(routes: readonly NotificationRoute[], channels: readonly Channel[]) {
  if (channels.length === 0)
    return (
      <p>
        A route needs a channel: <a href={address("alerts", { view: "channels" })}>add a channel</a> first.
      </p>
    );
  return routes.every((route) => route.channel_ids.length === 0) && <p>No route has a channel, so no one is notified of alerts.</p>;
}

function RouteTable({ routes, channels, chosen }: Shown & { chosen: string | null }) {
  const names = new Map(channels.map(({ id, name, enabled }) => [id, enabled ? name : `${name} (off)`]));
  return (
    <Table title="Routes, in their order" heads={["order", "matchers", "channels", "grouped by", "waits", "repeats"]}>
      {routes.map((route, at) => (
        <tr key={route.id} class={route.id === chosen ? "is-chosen" : ""}>
          <td>{at + 1}.</td>
          <th scope="row">
            <RouteMatchers route={route} />
          </th>
          <td>
            {route.channel_ids.length === 0 && <span class="is-warn">no one</span>}
            <bdi>{visible(route.channel_ids.map((id) => names.get(id) ?? id).join(", "))}</bdi>
            {route.continue && <span class="quiet"> and on to the next routes</span>}
          </td>
          <td>{togetherBy(route.group_by)}</td>
          <td>
            {route.group_wait}, then {route.group_interval}
          </td>
          <td>every {route.repeat_interval}</td>
        </tr>
      ))}
    </Table>
  );
}

function RouteMatchers({ route }: { route: NotificationRoute }) {
  const words = route.is_default ? (
    "alerts that match no other route"
  ) : route.matchers.length === 0 ? (
    "any labels"
  ) : (
    <Matchers of={route.matchers} />
  );
  return mayWrite.value ? <a href={address("alerts", { view: "routes", route: route.id })}>{words}</a> : <>{words}</>;
}

function togetherBy(labels: readonly string[]): string {
  if (labels.length === 0) return "all alerts together";
  return labels.includes("...") ? "each alert alone" : labels.join(", ");
}

interface RouteSideProps extends Shown {
  readonly route: NewRoute & Partial<NotificationRoute>;
  readonly onSaved: (route: NotificationRoute) => string;
  readonly onChanged: () => void;
}

function RouteSide({ route, routes, channels, onSaved, onChanged }: RouteSideProps) {
  const closed = address("alerts", { view: "routes" });
  const title = route.is_default ? "The default route" : route.id ? `Route ${(route.position ?? 0) + 1}` : "New route";
  return (
    <Side label={route.id ? "Route" : "New route"} title={title} closed={closed}>
      <RouteForm
        route={route}
        others={routes.filter(({ id, is_default: isLast }) => id !== route.id && !isLast)}
        channels={channels}
        onSaved={onSaved}
      />
      {route.id && !route.is_default && (
        <Removal
          label="Remove this route"
          title="Remove this route?"
          path={`${ROUTES}/${route.id}`}
          onRemoved={() => (onChanged(), closed)}
        >
          Its alerts then go to the next route that matches. This cannot be undone.
        </Removal>
      )}
    </Side>
  );
}

async function routesShown(signal: AbortSignal): Promise<Shown> {
  const [routes, channels] = await Promise.all([call<NotificationRoute[]>(ROUTES, { signal }), channelsNow(signal)]);
  return { routes, channels };
}
