// Routes in evaluation order: which alerts are sent to which channels. Invariants: the default route is last; users who may only
// read see only the list.
import { useLoaded, address, call, saveResource, formReader } from "../state/index.ts";
import { Matchers, MatchersField } from "./matchers.tsx";
import { RouteTest } from "./route-test.tsx";
import { listChannels, NEW_ROUTE, ROUTES, TIME_INTERVALS } from "./resources.ts";
import type { Channel, NotificationRoute, TimeInterval, NewRoute } from "./resources.ts";
import { EditableList, EditLink, type Column, visible, Checkbox, Field, Select, SavingForm } from "../parts/index.ts";
import { parseMatchers, formatMatchers, formatVisibleMatcher, splitNames } from "./matcher.ts";

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
  return <EditLink href={address("alerts", { view: "routes", route: route.id })} text={shown} />;
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

interface RouteFormProps {
  /** Without an id: a new route. */
  readonly route: NewRoute & Partial<NotificationRoute>;
  /** In order, without the default route. */
  readonly others: readonly NotificationRoute[];
  readonly channels: readonly Channel[];
  readonly intervals: readonly string[];
  readonly onSaved: (route: NotificationRoute) => string;
}

/** Invariants: the default route has neither matchers nor a position; the backend validates the input. */
function RouteForm({ route, others, channels, intervals, onSaved }: RouteFormProps) {
  const save = async (form: HTMLFormElement): Promise<string> => {
    const body = typedRoute(form, route.is_default);
    return onSaved(await saveResource(ROUTES, route.id, body));
  };
  return (
    <SavingForm label={route.id ? "Save" : "Create"} saved="Saved." save={save} takesFocus={!route.id}>
      {!route.is_default && <MatchersField initial={formatMatchers(route.matchers)} none="every alert" />}
      <Chosen
        legend="Channels to notify"
        name="channel"
        none="No channels."
        of={channels.map(({ id, name, enabled }) => [id, `${name}${enabled ? "" : " (disabled)"}`])}
        chosen={route.channel_ids}
      />
      <Field
        label="Group by: alerts with the same values of these labels share a message; ... means all labels"
        name="group_by"
        defaultValue={route.group_by.join(", ")}
      />
      <div class="row">
        <Duration name="group_wait" label="Group wait" value={route.group_wait} />
        <Duration name="group_interval" label="Group interval" value={route.group_interval} />
        <Duration name="repeat_interval" label="Repeat interval" value={route.repeat_interval} />
      </div>
      {!route.is_default && <PositionField route={route} others={others} intervals={intervals} />}
    </SavingForm>
  );
}

function Duration({ name, label, value }: { name: string; label: string; value: string }) {
  return <Field label={label} name={name} size={6} required maxLength={50} defaultValue={value} />;
}

function PositionField({ route, others, intervals }: Pick<RouteFormProps, "route" | "others" | "intervals">) {
  const named = intervals.map((name) => [name, name] as const);
  const names = [
    ...others.map(({ matchers }) => matchers.map(formatVisibleMatcher).join(" ").slice(0, 60) || "all alerts"),
    "the default route",
  ];
  const positions = names.map((name, at) => [String(at), `${at + 1}, before ${name}`] as const);
  return (
    <>
      <Select label="Position" name="position" of={positions} initial={String(Math.min(route.position ?? others.length, others.length))} />
      <Checkbox label="continue with the next routes" name="continue" defaultChecked={route.continue} />
      <Chosen legend="Nothing is sent in" name="mute_time_intervals" none={NO_INTERVALS} of={named} chosen={route.mute_time_intervals} />
      <Chosen
        legend="Nothing is sent outside of"
        name="active_time_intervals"
        none={NO_INTERVALS}
        of={named}
        chosen={route.active_time_intervals}
      />
    </>
  );
}

const NO_INTERVALS = "No time intervals.";

interface ChosenProps {
  readonly legend: string;
  readonly name: string;
  readonly none: string;
  readonly of: readonly (readonly [value: string, label: string])[];
  readonly chosen: readonly string[];
}

function Chosen({ legend, name, none, of, chosen }: ChosenProps) {
  return (
    <fieldset>
      <legend>{legend}</legend>
      {of.length === 0 && <p class="quiet">{none}</p>}
      {of.map(([value, label]) => (
        <Checkbox key={value} label={visible(label)} name={name} value={value} defaultChecked={chosen.includes(value)} />
      ))}
    </fieldset>
  );
}

/** Throws an Error whose message is shown to the user. */
function typedRoute(form: HTMLFormElement, isDefault: boolean): object {
  const text = formReader(form);
  const all = (name: string): FormDataEntryValue[] => new FormData(form).getAll(name);
  return {
    matchers: isDefault ? [] : parseMatchers(text("matchers")),
    channel_ids: all("channel"),
    group_by: splitNames(text("group_by")),
    group_wait: text("group_wait").trim(),
    group_interval: text("group_interval").trim(),
    repeat_interval: text("repeat_interval").trim(),
    ...(!isDefault && {
      continue: text("continue") !== "",
      position: Number(text("position")),
      mute_time_intervals: all("mute_time_intervals"),
      active_time_intervals: all("active_time_intervals"),
    }),
  };
}
