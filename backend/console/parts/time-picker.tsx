// The time range and the refresh of a screen, at the end of its bar: buttons for the previous and the next range, and a panel with both ends,
// presets, recent ranges and the time zone; and a link with absolute times.
import { signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { changedAddress, choose, route } from "../state/route.ts";
import { refreshPart } from "../state/loaded.ts";
import { currentRange, fieldMs, forField, RELATIVE_RANGES, showRange, timestampText, utc, zoneName, zoom } from "../state/time.ts";
import type { AddressRange, Range } from "../state/time.ts";
import { submitBy, formReader } from "../state/sending.ts";
import { readStored, store } from "../state/stored.ts";
import { durationMs, typedRange } from "../state/typed-range.ts";
import { Copy, Problem } from "./common.tsx";
import { Button, Field, IconButton, Select, Tabs } from "./controls.tsx";
import { Icon } from "./icons.tsx";
import { Popover } from "./popover.tsx";

const REFRESHES = ["5s", "10s", "30s", "1m", "5m"] as const;
const UNITS: Readonly<Record<string, string>> = { s: "second", m: "minute", h: "hour", d: "day", w: "week" };

export function TimePicker({ onNow }: { onNow?: () => void }) {
  // Subscribes to the address, because a new address may contain a new range.
  const { query } = route.value;
  const range = currentRange();
  const spanMs = range.toMs - range.fromMs;
  const later = (): void =>
    range.toMs + spanMs < Date.now() ? showRange(range.toMs, range.toMs + spanMs) : choose({ from: lastOf(spanMs), to: undefined });
  return (
    <div class="time" role="group" aria-label="Time range and refresh">
      <IconButton icon="left" label="Earlier" title="Earlier" onClick={() => showRange(range.fromMs - spanMs, range.fromMs)} />
      <Popover
        label="Choose a time range"
        title="Time range"
        class="range"
        panelClass="range-panel"
        button={
          <>
            <Icon name="clock" />
            {rangeText(range)} <span class="faint">{zoneName()}</span>
          </>
        }
      >
        {(close) => <RangePanel range={range} onClose={close} />}
      </Popover>
      <IconButton icon="right" label="Later" title="Later" disabled={range.last !== undefined} onClick={later} />
      {onNow && (
        <>
          <IconButton icon="refresh" label="Refresh" title="Refresh" onClick={onNow} />
          <Select
            aria-label="Refresh every"
            value={query.get("refresh") ?? ""}
            onChoose={(refresh) => choose({ refresh }, { replace: true })}
            of={[["", "off"], ...REFRESHES]}
          />
        </>
      )}
      <CopyLink fromMs={range.fromMs} toMs={range.toMs} />
    </div>
  );
}

/** A duration in the form that the address accepts, in whole seconds. */
function lastOf(spanMs: number): string {
  return `${Math.max(1, Math.min(999_999, Math.round(spanMs / 1000)))}s`;
}

/** `Last 6 hours`, or both ends: `2026-11-22 14:03 to 15:03`. */
function rangeText({ fromMs, toMs, last }: Range): string {
  const [, count, unit = ""] = /^(\d+)([a-z])$/.exec(last ?? "") ?? [];
  if (count !== undefined) return `Last ${count} ${UNITS[unit] ?? unit}${count === "1" ? "" : "s"}`;
  const [from, to] = [fromMs, toMs].map((ms) => timestampText(ms).replace(/(?::00)?Z?$/, ""));
  return from?.slice(0, 10) === to?.slice(0, 10) ? `${from} to ${to?.slice(11)}` : `${from} to ${to}`;
}

const RECENT = "atherops.ranges";
const MAX_RECENT = 5;

/** The last ranges that this user typed or chose, as `from` and `to` of an address. */
const recent = signal((readStored(RECENT) as readonly { readonly from: string; readonly to?: string | undefined }[] | undefined) ?? []);

function chooseRange(chosen: { from: string; to?: string | undefined }): void {
  const others = recent.peek().filter(({ from, to }) => from !== chosen.from || to !== chosen.to);
  recent.value = [chosen, ...others].slice(0, MAX_RECENT);
  store(RECENT, recent.peek());
  choose({ from: chosen.from, to: chosen.to });
}

function RangePanel({ range, onClose }: { range: Range; onClose: () => void }) {
  const take = (chosen: { from: string; to?: string | undefined }): void => {
    chooseRange(chosen);
    onClose();
  };
  return (
    <>
      <div class="menu">
        {RELATIVE_RANGES.map((last) => (
          <Button
            key={last}
            class="small"
            aria-pressed={range.last === last}
            onClick={() => take({ from: last })}
            text={rangeText({ ...range, last })}
          />
        ))}
      </div>
      <div class="stack">
        <TypedRange onRange={take} />
        <Ends range={range} onRange={take} key={String(utc.value)} />
        <ZoneTabs />
        {recent.value.length > 0 && (
          <div class="menu">
            <h3>Recent</h3>
            {recent.value.map((chosen) => (
              <Button
                key={`${chosen.from} ${chosen.to}`}
                class="small"
                onClick={() => take(chosen)}
                text={rangeText({
                  fromMs: Date.parse(chosen.from),
                  toMs: chosen.to ? Date.parse(chosen.to) : Date.now(),
                  last: durationMs(chosen.from) === undefined ? undefined : chosen.from,
                })}
              />
            ))}
          </div>
        )}
        <Button class="small" title="Twice as long, around the same middle" onClick={() => zoom(range, 2)} text="Zoom out" />
      </div>
    </>
  );
}

export function ZoneTabs() {
  return (
    <Tabs
      label="Time zone"
      tabs={[
        ["local", zoneName(false)],
        ["utc", "UTC"],
      ]}
      chosen={utc.value ? "utc" : "local"}
      onChoose={(zone) => (utc.value = zone === "utc")}
    />
  );
}

function TypedRange({ onRange }: { onRange: (range: { from: string; to: string | undefined }) => void }) {
  const problem = useSignal<string | undefined>(undefined);
  const take = (form: HTMLFormElement): void => {
    const typed = typedRange(formReader(form)("range"), Date.now(), utc.peek());
    problem.value = typed ? undefined : "Invalid time range. Examples: 30m, yesterday, 14:00 to 15:00, 2026-11-25 14:00";
    if (typed) onRange(typed);
  };
  return (
    <form data-unguarded onSubmit={submitBy(take)}>
      <Field
        label="Time range"
        name="range"
        data-first
        placeholder="30m, yesterday, 14:00 to 15:00"
        aria-invalid={problem.value !== undefined}
      />
      <Problem message={problem.value} />
    </form>
  );
}

function Ends({ range, onRange }: { range: Range; onRange: (range: { from: string; to: string }) => void }) {
  const problem = useSignal<string | undefined>(undefined);
  const take = (form: HTMLFormElement): void => {
    const [fromMs = 0, toMs = 0] = ["from", "to"].map((name) => fieldMs(formReader(form)(name)));
    problem.value = fromMs < toMs ? undefined : "The range must begin before it ends.";
    if (fromMs < toMs) onRange({ from: new Date(fromMs).toISOString(), to: new Date(toMs).toISOString() });
  };
  return (
    <form data-unguarded class="stack" onSubmit={submitBy(take)}>
      <Field label="From" name="from" type="datetime-local" step={1} required defaultValue={forField(range.fromMs)} />
      <Field label="To" name="to" type="datetime-local" step={1} required defaultValue={forField(range.toMs)} />
      <Problem message={problem.value} />
      <Button type="submit" class="primary" text="Show this range" />
    </form>
  );
}

/** Copies the address of this screen with absolute times, so that it shows the same data tomorrow. */
function CopyLink({ fromMs, toMs }: { fromMs: number; toMs: number }) {
  const absolute = { from: new Date(fromMs).toISOString(), to: new Date(toMs).toISOString(), refresh: undefined, live: undefined };
  const target = changedAddress(route.value, absolute);
  return <Copy text={`${location.origin}${location.pathname}${target}`} label="Copy link" icon="link" />;
}

/** The time range in the address. `rangeKey` identifies requests for it; `refresh`, and the timer in the address, change its `refreshKey`. */
export function useScreenRange(onTimer?: (refresh: () => void) => void) {
  const refreshes = useSignal(0);
  const refresh = (): void => void refreshes.value++;
  useRefresh(() => (onTimer ? onTimer(refresh) : refresh()));
  const { query } = route.value;
  const range: AddressRange = { from: query.get("from") ?? undefined, to: query.get("to") ?? undefined };
  const refreshKey = refreshPart(refreshes.value);
  return { range, refresh, refreshKey, rangeKey: `${range.from} ${range.to}${refreshKey}` };
}

/** Calls back at the interval in the address, while the page is visible. */
export function useRefresh(onRefresh: () => void): void {
  const every = durationMs(route.value.query.get("refresh") ?? "");
  const latest = useRef(onRefresh);
  latest.current = onRefresh;
  useEffect(() => {
    if (every === undefined || every < 1000) return undefined;
    const timer = setInterval(() => void (document.hidden || latest.current()), every);
    return () => clearInterval(timer);
  }, [every]);
}
