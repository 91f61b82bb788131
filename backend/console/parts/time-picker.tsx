// The time range of a screen: typed (`30m`, `yesterday`, `14:00 to 15:00`) or chosen; buttons for the previous, next and wider range;
// manual or automatic refresh; and a link with absolute times.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { address, choose, route } from "../state/route.ts";
import { currentRange, RELATIVE_RANGES, timestampText, showRange, utc, zoom } from "../state/time.ts";
import { durationMs, typedRange } from "../state/typed-range.ts";
import { Copy } from "./common.tsx";
import { Button, Select } from "./controls.tsx";

const REFRESHES = ["5s", "10s", "30s", "1m", "5m"] as const;

export function TimePicker({ defaultRange = "1h", onNow }: { defaultRange?: string; onNow?: () => void }) {
  // Subscribes to the address, because a new address may contain a new range.
  const { query } = route.value;
  const range = currentRange(defaultRange);
  const spanMs = range.toMs - range.fromMs;
  return (
    <div class="time" role="group" aria-label="Time range">
      <Button title="Earlier" aria-label="Earlier" onClick={() => showRange(range.fromMs - spanMs, range.fromMs)} text="‹" />
      <TypedRange shown={range.last ? `last ${range.last}` : `${timestampText(range.fromMs)} to ${timestampText(range.toMs)}`} />
      <Button
        title="Later"
        aria-label="Later"
        disabled={range.last !== undefined}
        onClick={() =>
          range.toMs + spanMs < Date.now() ? showRange(range.toMs, range.toMs + spanMs) : choose({ from: lastOf(spanMs), to: undefined })
        }
        text="›"
      />
      <Button title="Zoom out" aria-label="Zoom out" onClick={() => zoom(range, 2)} text="−" />
      <CopyLink fromMs={range.fromMs} toMs={range.toMs} />
      {onNow && (
        <>
          <Button title="Refresh" aria-label="Refresh" onClick={onNow} text="⟳" />
          <Select
            aria-label="Refresh every"
            value={query.get("refresh") ?? ""}
            onChoose={(refresh) => choose({ refresh }, { replace: true })}
            of={[["", "off"], ...REFRESHES]}
          />
        </>
      )}
    </div>
  );
}

/** A duration in the form that the address accepts, in whole seconds. */
function lastOf(spanMs: number): string {
  return `${Math.max(1, Math.min(999_999, Math.round(spanMs / 1000)))}s`;
}

function TypedRange({ shown }: { shown: string }) {
  const problem = useSignal<string | undefined>(undefined);
  const take = (field: HTMLInputElement): void => {
    const text = field.value.trim();
    if (text === shown || text === "") return void (field.value = shown);
    const typed = typedRange(text, Date.now(), utc.peek());
    problem.value = typed ? undefined : `Invalid time range. Examples: 30m, yesterday, 14:00 to 15:00, 2026-11-25 14:00`;
    if (typed) choose(typed);
  };
  return (
    <>
      <input
        // A new range creates a new field, which discards the typed text.
        key={shown}
        class="typed-time"
        list="time-ranges"
        aria-label="Time range"
        aria-invalid={problem.value !== undefined}
        defaultValue={shown}
        spellcheck={false}
        autoComplete="off"
        onFocus={(event) => event.currentTarget.select()}
        onChange={(event) => take(event.currentTarget)}
        onKeyDown={(event) => event.key === "Enter" && take(event.currentTarget)}
      />
      <datalist id="time-ranges">
        {RELATIVE_RANGES.map((last) => (
          <option value={`last ${last}`} key={last} />
        ))}
        <option value="today" />
        <option value="yesterday" />
      </datalist>
      {problem.value && (
        <p class="problem" role="alert">
          {problem.value}
        </p>
      )}
    </>
  );
}

/** Copies the address of this screen with absolute times, so that it shows the same data tomorrow. */
function CopyLink({ fromMs, toMs }: { fromMs: number; toMs: number }) {
  const { screen, id, query } = route.value;
  const absolute = { from: new Date(fromMs).toISOString(), to: new Date(toMs).toISOString(), refresh: undefined, live: undefined };
  const lists = { column: query.getAll("column") };
  const target = address(screen, { ...Object.fromEntries(query), ...lists, ...absolute }, id);
  return <Copy text={`${location.origin}${location.pathname}${target}`} label="Copy link" />;
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
