// The number of records by time and level. Dragging over it selects that time range; a level in the legend filters by it. On the
// logarithmic scale, a burst does not hide the rest: the height of a bar is the logarithm of its count, divided among its levels.
import type { ApiResponses } from "../../client/api.ts";
import { PlotFrame, type Point, type Tip } from "../metrics/plot-frame.tsx";
import { countTicks } from "../metrics/ticks.ts";
import { Toggle, shortNumber, Button } from "../parts/index.ts";
import { showRange } from "../state/time.ts";

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
const [WIDTH, HEIGHT] = [1000, 100];
/** Every level that occurs must be visible. */
const MIN_HEIGHT = 2;
/** A bar that is this many times as tall as the median is a burst. */
const BURST_RATIO = 30;

const HEIGHT_PX = 76;

export function Histogram({ buckets, scale, onScale, isChosen, onLevel }: HistogramProps) {
  const levels = levelsOf(buckets);
  const totals = buckets.map(({ counts }) => sum(Object.values(counts)));
  const max = Math.max(1, ...totals);
  const shown = scale ?? (max > BURST_RATIO * median(totals.filter((total) => total > 0)) ? "log" : "linear");
  const shareOf = (count: number): number => (shown === "log" ? Math.log1p(count) / Math.log1p(max) : count / max);
  return (
    <figure class="histogram">
      <Bars buckets={buckets} levels={levels} totals={totals} shareOf={shareOf} ticks={countTicks(max, shown === "log")} />
      <figcaption>
        <span class="legend" role="group" aria-label="Levels">
          {levels.map((level) => (
            <Button
              key={level}
              class={`small level ${levelClass(level)}`}
              aria-pressed={isChosen(level)}
              title={`Only ${level || "records without a level"}`}
              onClick={() => onLevel(level)}
              text={`${level || "none"} ${sum(buckets.map(({ counts }) => counts[level] ?? 0)).toLocaleString("en")}`}
            />
          ))}
        </span>
        <Toggle class="small" text="log scale" isOn={shown === "log"} onToggle={(isOn) => onScale(isOn ? "log" : "linear")} />
      </figcaption>
    </figure>
  );
}

interface BarsProps {
  readonly buckets: readonly Bucket[];
  readonly levels: readonly string[];
  readonly totals: readonly number[];
  readonly shareOf: (count: number) => number;
  readonly ticks: readonly number[];
}

function Bars({ buckets, levels, totals, shareOf, ticks }: BarsProps) {
  const [fromMs, toMs] = [Date.parse(buckets[0]?.start ?? ""), Date.parse(buckets.at(-1)?.end ?? "")];
  // The first and the last interval may be shorter.
  const atShare = (at: string | undefined): number => ((Date.parse(at ?? "") - fromMs) / (toMs - fromMs)) * WIDTH;
  const bucketAt = ({ x }: Point): Bucket | undefined => buckets.find(({ end }) => atShare(end) >= x * WIDTH) ?? buckets.at(-1);
  const tipAt = (point: Point): Tip | undefined => {
    const bucket = bucketAt(point);
    if (!bucket) return undefined;
    const rows = levels.map((level) => ({
      name: level || "none",
      value: bucket.counts[level] ?? 0,
      text: (bucket.counts[level] ?? 0).toLocaleString("en"),
      colour: `var(${levelProperty(level)})`,
      isNearest: false,
    }));
    const total = sum(rows.map(({ value }) => value));
    return {
      atMs: Date.parse(bucket.start),
      rows: rows.filter(({ value }) => value > 0),
      notes: [`${total.toLocaleString("en")} records`],
    };
  };
  return (
    <PlotFrame
      label={`${sum(totals)} records, at most ${Math.max(1, ...totals)} in one of ${buckets.length} intervals`}
      heightPx={HEIGHT_PX}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      fromMs={fromMs}
      toMs={toMs}
      ticks={ticks.map((count) => ({ at: shareOf(count), text: shortNumber(count) }))}
      tipAt={tipAt}
      onBrush={(from, to) => {
        const [first, last] = [bucketAt(from), bucketAt(to)];
        if (first && last) showRange(Date.parse(first.start), Date.parse(last.end));
      }}
    >
      {buckets.map((bucket, at) => (
        <Bar
          key={bucket.start}
          bucket={bucket}
          levels={levels}
          left={atShare(bucket.start)}
          width={atShare(bucket.end) - atShare(bucket.start)}
          height={shareOf(totals[at] ?? 0) * HEIGHT}
          total={totals[at] ?? 0}
        />
      ))}
    </PlotFrame>
  );
}

interface BarProps {
  readonly bucket: Bucket;
  readonly levels: readonly string[];
  readonly left: number;
  readonly width: number;
  readonly height: number;
  readonly total: number;
}

function Bar({ bucket, levels, left, width, height, total }: BarProps) {
  let y = HEIGHT;
  return (
    <g>
      {levels.map((level) => {
        const count = bucket.counts[level] ?? 0;
        if (count === 0) return null;
        const part = Math.max(MIN_HEIGHT, (count / total) * height);
        y -= part;
        return (
          <rect
            key={level}
            class={`fill ${levelClass(level)}`}
            x={left + width * 0.06}
            y={Math.max(0, y)}
            width={width * 0.88}
            height={part}
          />
        );
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

export function levelProperty(level: string): string {
  const name = levelClass(level).slice("is-".length);
  return { fatal: "--error", error: "--error", warn: "--warn", info: "--accent" }[name] ?? "--quiet";
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 1;
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
