// The number of records by time and level. Dragging over it selects that time range; a level in the legend filters by it. On the
// logarithmic scale, a burst does not hide the rest: the height of a bar is the logarithm of its count, divided among its levels.
import { Toggle } from "../parts/controls.tsx";
import type { ApiResponses } from "../../client/api.ts";
import { useSignal } from "@preact/signals";
import { timestampText, showRange } from "../state/time.ts";

export type Bucket = ApiResponses["GET /query/logs/histogram"][number];

export interface HistogramProps {
  readonly buckets: readonly Bucket[];
  /** Undefined: logarithmic if one bar is far taller than the others. */
  readonly scale: "log" | "linear" | undefined;
  readonly onScale: (scale: "log" | "linear") => void;
  readonly isChosen: (level: string) => boolean;
  readonly onLevel: (level: string) => void;
}

/** Order from the bottom of a bar to its top. */
const MOST_SEVERE_FIRST = ["fatal", "critical", "error", "warn", "warning", "info", "debug", "trace"];
const HEIGHT = 100;
/** Every level that occurs must be visible. */
const MIN_HEIGHT = 2;
/** A bar that is this many times as tall as the median is a burst. */
const BURST_RATIO = 30;

export function Histogram({ buckets, scale, onScale, isChosen, onLevel }: HistogramProps) {
  const levels = levelsOf(buckets);
  const totals = buckets.map(({ counts }) => sum(Object.values(counts)));
  const max = Math.max(1, ...totals);
  const shown = scale ?? (max > BURST_RATIO * median(totals.filter((total) => total > 0)) ? "log" : "linear");
  const heightOf = (count: number): number => (shown === "log" ? Math.log1p(count) / Math.log1p(max) : count / max) * HEIGHT;
  return (
    <figure class="histogram">
      <div class="plot">
        <span class="most quiet" aria-hidden="true">
          {max.toLocaleString("en")}
        </span>
        <Bars buckets={buckets} levels={levels} totals={totals} max={max} heightOf={heightOf} />
      </div>
      <figcaption>
        <span>{buckets[0] && timestampText(buckets[0].start)}</span>
        <span class="legend" role="group" aria-label="Levels">
          {levels.map((level) => (
            <button
              type="button"
              key={level}
              class={`small level ${levelClass(level)}`}
              aria-pressed={isChosen(level)}
              title={`Only ${level || "records without a level"}`}
              onClick={() => onLevel(level)}
            >
              {level || "none"} {sum(buckets.map(({ counts }) => counts[level] ?? 0)).toLocaleString("en")}
            </button>
          ))}
          <Toggle class="small" text="log scale" isOn={shown === "log"} onToggle={(isOn) => onScale(isOn ? "log" : "linear")} />
        </span>
        <span>{buckets.length > 0 && timestampText(buckets[buckets.length - 1]?.end ?? 0)}</span>
      </figcaption>
    </figure>
  );
}

interface BarsProps {
  readonly buckets: readonly Bucket[];
  readonly levels: readonly string[];
  readonly totals: readonly number[];
  readonly max: number;
  readonly heightOf: (count: number) => number;
}

function Bars({ buckets, levels, totals, max, heightOf }: BarsProps) {
  const drag = useSignal<{ from: number; to: number } | undefined>(undefined);
  const bucketAt = (event: PointerEvent & { currentTarget: SVGElement }): number => {
    const { left, width } = event.currentTarget.getBoundingClientRect();
    return Math.max(0, Math.min(buckets.length - 1, Math.floor(((event.clientX - left) / width) * buckets.length)));
  };
  const showChosenRange = (): void => {
    const chosen = drag.value;
    drag.value = undefined;
    const [first, last] = chosen ? [Math.min(chosen.from, chosen.to), Math.max(chosen.from, chosen.to)] : [0, 0];
    const [start, end] = [buckets[first]?.start, buckets[last]?.end];
    if (chosen && start && end) showRange(Date.parse(start), Date.parse(end));
  };
  return (
    <svg
      viewBox={`0 0 ${buckets.length} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`${sum(totals)} records, at most ${max} in one of ${buckets.length} intervals`}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        drag.value = { from: bucketAt(event), to: bucketAt(event) };
      }}
      onPointerMove={(event) => drag.value && (drag.value = { ...drag.value, to: bucketAt(event) })}
      onPointerUp={showChosenRange}
      onPointerCancel={() => (drag.value = undefined)}
    >
      {buckets.map((bucket, at) => (
        <Bar key={bucket.start} bucket={bucket} at={at} levels={levels} heightPx={heightOf(totals[at] ?? 0)} total={totals[at] ?? 0} />
      ))}
      {drag.value && (
        <rect
          class="chosen"
          x={Math.min(drag.value.from, drag.value.to)}
          y={0}
          width={Math.abs(drag.value.to - drag.value.from) + 1}
          height={HEIGHT}
        />
      )}
    </svg>
  );
}

interface BarProps {
  readonly bucket: Bucket;
  readonly at: number;
  readonly levels: readonly string[];
  readonly heightPx: number;
  readonly total: number;
}

function Bar({ bucket, at, levels, heightPx, total }: BarProps) {
  let y = HEIGHT;
  const title = `${timestampText(bucket.start)}\n${levels.flatMap((level) => (bucket.counts[level] ? [`${level || "none"} ${bucket.counts[level]}`] : [])).join("\n")}`;
  return (
    <g>
      <title>{title}</title>
      <rect class="behind" x={at} y={0} width={1} height={HEIGHT} />
      {levels.map((level) => {
        const count = bucket.counts[level] ?? 0;
        if (count === 0) return null;
        const height = Math.max(MIN_HEIGHT, (count / total) * heightPx);
        y -= height;
        return <rect key={level} class={`fill ${levelClass(level)}`} x={at + 0.08} y={Math.max(0, y)} width={0.84} height={height} />;
      })}
    </g>
  );
}

function levelsOf(buckets: readonly Bucket[]): string[] {
  return [...new Set(buckets.flatMap(({ counts }) => Object.keys(counts)))].sort((a, b) => rank(a) - rank(b));
}

/** Unknown levels last. */
function rank(level: string): number {
  return (MOST_SEVERE_FIRST.indexOf(level.toLowerCase()) + 99) % 99;
}

/** The colour of a level in any spelling, for example `WARN` and `Warning`. */
export function levelClass(level: string): string {
  const small = level.toLowerCase();
  if (/^(fatal|crit|emerg|alert|panic)/.test(small)) return "is-fatal";
  if (small.startsWith("err")) return "is-error";
  if (small.startsWith("warn")) return "is-warn";
  if (/^(info|notice)/.test(small)) return "is-info";
  return /^(debug|trace)/.test(small) ? "is-debug" : "is-other";
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 1;
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
