// The form of a route. Invariants: the default route has neither matchers nor a position; the backend validates the input.
import { Checkbox, Field, Select } from "../parts/controls.tsx";
import { SavingForm } from "../parts/saving-form.tsx";
import { parseMatchers, formatMatchers, formatVisibleMatcher, splitNames } from "./matcher.ts";
import { MatchersField } from "./matchers.tsx";
import { type Channel, type NewRoute, type NotificationRoute, ROUTES } from "./resources.ts";
import { visible } from "../parts/text.ts";
import { saveResource } from "../state/api.ts";
import { formReader } from "../state/sending.ts";

export interface RouteFormProps {
  /** Without an id: a new route. */
  readonly route: NewRoute & Partial<NotificationRoute>;
  /** In order, without the default route. */
  readonly others: readonly NotificationRoute[];
  readonly channels: readonly Channel[];
  /** Names of time intervals. */
  readonly intervals: readonly string[];
  /** Returns the address of the saved one. */
  readonly onSaved: (route: NotificationRoute) => string;
}

export function RouteForm({ route, others, channels, intervals, onSaved }: RouteFormProps) {
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
        autoComplete="off"
        spellcheck={false}
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
  return <Field label={label} name={name} size={6} required maxLength={50} autoComplete="off" defaultValue={value} />;
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
