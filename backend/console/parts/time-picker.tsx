// The stretch of time of a screen: one of the usual durations, or from and to.
import { useSignal } from "@preact/signals";
import { choose, route } from "../state/route.ts";
import { currentRange, fieldMs, forField, LASTS, moment, showRange, zoom } from "../state/time.ts";

export function TimePicker({ standard = "1h", onNow }: { standard?: string; onNow?: () => void }) {
  const isOwn = useSignal(false);
  // Read for its own sake: another address is another range.
  void route.value;
  const range = currentRange(standard);
  return (
    <div class="time" role="group" aria-label="Time range">
      <select
        aria-label="Time range"
        value={range.last ?? "own"}
        onChange={(event) => {
          const { value } = event.currentTarget;
          isOwn.value = value === "own";
          if (value !== "own") choose({ from: value, to: undefined });
        }}
      >
        {LASTS.map((last) => (
          <option value={last} key={last}>
            last {last}
          </option>
        ))}
        {range.last && !(LASTS as readonly string[]).includes(range.last) ? <option value={range.last}>last {range.last}</option> : null}
        <option value="own">{range.last ? "from … to …" : `${moment(range.fromMs)} – ${moment(range.toMs)}`}</option>
      </select>
      {(isOwn.value || !range.last) && <OwnRange fromMs={range.fromMs} toMs={range.toMs} />}
      <button type="button" title="Zoom out" aria-label="Zoom out" onClick={() => zoom(range, 2)}>
        −
      </button>
      {onNow && (
        <button type="button" title="Ask again" aria-label="Refresh" onClick={onNow}>
          ⟳
        </button>
      )}
    </div>
  );
}

function OwnRange({ fromMs, toMs }: { fromMs: number; toMs: number }) {
  return (
    <>
      <Moment label="From" ms={fromMs} onMs={(ms) => showRange(ms, Math.max(toMs, ms + 1000))} />
      <Moment label="To" ms={toMs} onMs={(ms) => showRange(Math.min(fromMs, ms - 1000), ms)} />
    </>
  );
}

function Moment({ label, ms, onMs }: { label: string; ms: number; onMs: (ms: number) => void }) {
  return (
    <input
      type="datetime-local"
      step="1"
      aria-label={label}
      value={forField(ms)}
      onChange={(event) => {
        const chosen = fieldMs(event.currentTarget.value);
        if (chosen !== undefined) onMs(chosen);
      }}
    />
  );
}
