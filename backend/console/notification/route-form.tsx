// The form of a route. Invariants: the default route has neither matchers nor a position; the backend validates the input.
import { Checkbox, Field, Select } from "../parts/controls.tsx";
import { SavingForm } from "../parts/saving-form.tsx";
import { parseMatchers, formatMatchers, formatVisibleMatcher } from "./matcher.ts";
import { MatchersField } from "./matchers.tsx";
import { type Channel, type NewRoute, type NotificationRoute, ROUTES } from "./resources.ts";
import { visible } from "../parts/text.ts";
import { call } from "../state/api.ts";
import { formReader } from "../state/sending.ts";

export interface RouteFormProps {
  /** Without an id: a new route. */
  readonly route: NewRoute & Partial<NotificationRoute>;
  /** In order, without the default route. */
  readonly others: readonly NotificationRoute[];
  readonly channels: readonly Channel[];
  /** Returns the address of the saved one. */
  readonly onSaved: (route: NotificationRoute) => string;
}

export function RouteForm({ route, others, channels, onSaved }: RouteFormProps) {
  const save = async (form: HTMLFormElement): Promise<string> => {
    const body = typedRoute(form, route.is_default);
    return onSaved(
      route.id
        ? await call<NotificationRoute>(`${ROUTES}/${route.id}`, { method: "PUT", body })
        : await call<NotificationRoute>(ROUTES, { method: "POST", body }),
    );
  };
  return (
    <SavingForm label={route.id ? "Save" : "Create"} saved="Saved." save={save} takesFocus={!route.id}>
      {!route.is_default && <MatchersField initial={formatMatchers(route.matchers)} none="every alert" />}
      <fieldset>
        <legend>Channels to notify</legend>
        {channels.length === 0 && <p class="quiet">No channels.</p>}
        {channels.map(({ id, name, enabled }) => (
          <Checkbox
            key={id}
            label={`${visible(name)}${enabled ? "" : " (disabled)"}`}
            name="channel"
            value={id}
            defaultChecked={route.channel_ids.includes(id)}
          />
        ))}
      </fieldset>
      <Field
        label="Group by: alerts with the same values of these labels share a message; ... means all labels"
        name="group_by"
        autoComplete="off"
        spellcheck={false}
        defaultValue={route.group_by.join(", ")}
      />
      <div class="row">
        <Duration name="group_wait" label="Group wait" value={route.group_wait} />
        <Duration name="group_interval" label="Group interval" value={route.group_interval} />
        <Duration name="repeat_interval" label="Repeat interval" value={route.repeat_interval} />
      </div>
      {!route.is_default && <PositionField route={route} others={others} />}
    </SavingForm>
  );
}

function Duration({ name, label, value }: { name: string; label: string; value: string }) {
  return <Field label={label} name={name} size={6} required maxLength={50} autoComplete="off" defaultValue={value} />;
}

function PositionField({ route, others }: Pick<RouteFormProps, "route" | "others">) {
  const names = [
    ...others.map(({ matchers }) => matchers.map(formatVisibleMatcher).join(" ").slice(0, 60) || "all alerts"),
    "the default route",
  ];
  const positions = names.map((name, at) => [String(at), `${at + 1}, before ${name}`] as const);
  return (
    <>
      <Select label="Position" name="position" of={positions} initial={String(Math.min(route.position ?? others.length, others.length))} />
      <Checkbox label="continue with the next routes" name="continue" defaultChecked={route.continue} />
      <IntervalNames name="mute_time_intervals" label="Mute time intervals: nothing is sent in them" names={route.mute_time_intervals} />
      <IntervalNames
        name="active_time_intervals"
        label="Active time intervals: nothing is sent outside"
        names={route.active_time_intervals}
      />
    </>
  );
}

function IntervalNames({ name, label, names }: { name: string; label: string; names: readonly string[] }) {
  return (
    <Field label={`${label} (names, with commas)`} name={name} autoComplete="off" spellcheck={false} defaultValue={names.join(", ")} />
  );
}

/** Throws an Error whose message is shown to the user. */
function typedRoute(form: HTMLFormElement, isDefault: boolean): object {
  const text = formReader(form);
  const intervals = (name: string): string[] => splitNames(text(name), /\s*,\s*/);
  return {
    matchers: isDefault ? [] : parseMatchers(text("matchers")),
    channel_ids: new FormData(form).getAll("channel"),
    group_by: splitNames(text("group_by"), /[\s,]+/),
    group_wait: text("group_wait").trim(),
    group_interval: text("group_interval").trim(),
    repeat_interval: text("repeat_interval").trim(),
    ...(!isDefault && {
      continue: text("continue") !== "",
      position: Number(text("position")),
      mute_time_intervals: intervals("mute_time_intervals"),
      active_time_intervals: intervals("active_time_intervals"),
    }),
  };
}

function splitNames(text: string, separator: RegExp): string[] {
  return text
    .trim()
    .split(separator)
    .filter((name) => name !== "");
}
