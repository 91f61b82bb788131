// Time intervals, which routes name: outside of its active ones, and in its mute ones, a route sends nothing.
import { useSignal } from "@preact/signals";
import { Button, Field, EditableList, EditLink, SavingForm, type Column, counted } from "../parts/index.ts";
import { call, saveResource, useLoaded, address, formReader } from "../state/index.ts";
import { splitNames } from "./matcher.ts";
import { type TimeInterval, TIME_INTERVALS } from "./resources.ts";

type Times = TimeInterval["time_intervals"][number];

const LISTS = [
  ["weekdays", "Weekdays", "monday:friday"],
  ["days_of_month", "Days of the month", "1:5, -1"],
  ["months", "Months", "january:march"],
  ["years", "Years", "2026:2028"],
] as const;

const COLUMNS: readonly Column<TimeInterval>[] = [
  {
    head: "time interval",
    kind: "name",
    order: ({ name }) => name,
    cell: ({ id, name }) => <EditLink href={address("alerts", { view: "intervals", time_interval: id })} text={name} />,
  },
  { head: "contains", cell: ({ time_intervals: all }) => all.map(timesText).join("; ") },
];

export function TimeIntervals() {
  const loaded = useLoaded("intervals", async (signal) => await call<TimeInterval[]>(TIME_INTERVALS, { signal }));
  const intervals = loaded.value.value ?? [];
  return (
    <EditableList
      noun="time interval"
      list={{ view: "intervals" }}
      loaded={loaded}
      rows={intervals}
      title="Time intervals"
      columns={COLUMNS}
      status={counted(intervals.length, "time interval")}
      empty={intervals.length === 0 && "No time intervals. Create one, such as the nights, and name it in a route that must not send then."}
      headingOf={({ name }) => name}
      removal={({ id }) => ({ path: `${TIME_INTERVALS}/${id}`, text: "A time interval that a route names is not removed." })}
      form={(interval, saved) => <IntervalForm interval={interval} onSaved={saved} />}
    />
  );
}

function IntervalForm({ interval, onSaved }: { interval: TimeInterval | undefined; onSaved: (interval: TimeInterval) => string }) {
  const parts = useSignal<readonly Times[]>(interval?.time_intervals.map(statedTimes) ?? [{}]);
  const save = async (form: HTMLFormElement): Promise<string> => {
    const text = formReader(form);
    const times = parts.peek().map((_, at) => typedTimes((name) => text(`${at}.${name}`)));
    const stated = times.filter((part) => Object.keys(part).length > 0);
    return onSaved(await saveResource(TIME_INTERVALS, interval?.id, { name: text("name"), time_intervals: stated }));
  };
  return (
    <SavingForm label={interval ? "Save" : "Create"} saved="Saved." save={save} takesFocus={!interval}>
      <Field label="Name" name="name" required maxLength={200} defaultValue={interval?.name} />
      <p class="quiet">An empty field contains every time. Separate several values by commas. Write a range as in the examples.</p>
      {parts.value.map((part, at) => (
        <fieldset key={at}>
          <legend>{at === 0 ? "Times" : "or"}</legend>
          <TimesField name={`${at}.times`} label="From-to" placeholder="09:00-17:00" value={timeRanges(part)} />
          {LISTS.map(([name, label, placeholder]) => (
            <TimesField key={name} name={`${at}.${name}`} label={label} placeholder={placeholder} value={part[name]?.join(", ")} />
          ))}
          <TimesField name={`${at}.location`} label="Time zone" placeholder="UTC" value={part.location} />
        </fieldset>
      ))}
      <Button class="small" onClick={() => (parts.value = [...parts.value, {}])} text="Add other times" />
    </SavingForm>
  );
}

function TimesField({ value, ...field }: { name: string; label: string; placeholder: string; value: string | undefined }) {
  return <Field {...field} defaultValue={value} />;
}

function timeRanges(part: Times): string | undefined {
  return part.times?.map(({ start_time: start, end_time: end }) => `${start}-${end}`).join(", ");
}

function typedTimes(text: (name: string) => string): Times {
  const times = splitNames(text("times")).map((range) => {
    const [start_time = "", end_time = ""] = range.split("-");
    return { start_time, end_time };
  });
  const lists = LISTS.flatMap(([name]) => (text(name).trim() === "" ? [] : [[name, splitNames(text(name))]]));
  const location = text("location").trim();
  return { ...(times.length > 0 && { times }), ...Object.fromEntries(lists), ...(location !== "" && { location }) };
}

/** One without fields contains every time, and a form without any is not sent. */
function statedTimes(part: Times): Times {
  return Object.keys(part).length > 0 ? part : { times: [{ start_time: "00:00", end_time: "24:00" }] };
}

function timesText(part: Times): string {
  const lists = LISTS.map(([name]) => part[name]?.join(", "));
  return [timeRanges(part), ...lists, part.location].filter(Boolean).join(" ") || "always";
}
