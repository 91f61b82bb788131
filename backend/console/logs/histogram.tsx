// How many records came when, by level. Dragging over it shows that stretch alone.
import { useSignal } from "@preact/signals";
import { moment, showRange } from "../state/time.ts";

export interface Bucket {
  readonly start: string;
  readonly end: string;
  readonly counts: Readonly<Record<string, number>>;
}

/** In the order in which they lie on each other, the gravest at the bottom. */
const GRAVEST_FIRST = ["fatal", "critical", "error", "warn", "warning", "info", "debug", "trace"];
const HEIGHT = 100;

export function Histogram({ buckets }: { buckets: readonly Bucket[] }) {
  const drag = useSignal<{ from: number; to: number } | undefined>(undefined);
  const levels = levelsOf(buckets);
  const totals = buckets.map(({ counts }) => sum(Object.values(counts)));
  const most = Math.max(1, ...totals);
  const bucketAt = (event: PointerEvent & { currentTarget: SVGElement }): number => {
    const { left, width } = event.currentTarget.getBoundingClientRect();
    return Math.max(0, Math.min(buckets.length - 1, Math.floor(((event.clientX - left) / width) * buckets.length)));
  };
  const show = (): void => {
    const chosen = drag.value;
    drag.value = undefined;
    const [first, last] = chosen ? [Math.min(chosen.from, chosen.to), Math.max(chosen.from, chosen.to)] : [0, 0];
    const [start, end] = [buckets[first]?.start, buckets[last]?.end];
    if (chosen && start && end) showRange(Date.parse(start), Date.parse(end));
  };
  return (
    <figure class="histogram">
      <svg
        viewBox={`0 0 ${buckets.length} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${sum(totals)} records, ${most} in the fullest of ${buckets.length} stretches`}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          drag.value = { from: bucketAt(event), to: bucketAt(event) };
        }}
        onPointerMove={(event) => drag.value && (drag.value = { ...drag.value, to: bucketAt(event) })}
        onPointerUp={show}
        onPointerCancel={() => (drag.value = undefined)}
      >
        {buckets.map((bucket, at) => (
          <Bar key={bucket.start} bucket={bucket} at={at} levels={levels} most={most} />
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
      <figcaption>
        <span>{buckets[0] && moment(buckets[0].start)}</span>
        <span class="legend">
          {levels.map((level) => (
            <span key={level} class={`level ${levelClass(level)}`}>
              {level || "none"} {sum(buckets.map(({ counts }) => counts[level] ?? 0)).toLocaleString("en")}
            </span>
          ))}
        </span>
        <span>{buckets.length > 0 && moment(buckets[buckets.length - 1]?.end ?? 0)}</span>
      </figcaption>
    </figure>
  );
}

function Bar({ bucket, at, levels, most }: { bucket: Bucket; at: number; levels: readonly string[]; most: number }) {
  let y = HEIGHT;
  const title = `${moment(bucket.start)}\n${levels.flatMap((level) => (bucket.counts[level] ? [`${level || "none"} ${bucket.counts[level]}`] : [])).join("\n")}`;
  return (
    <g>
      <title>{title}</title>
      <rect class="behind" x={at} y={0} width={1} height={HEIGHT} />
      {levels.map((level) => {
        const height = ((bucket.counts[level] ?? 0) / most) * HEIGHT;
        y -= height;
        return height > 0 ? (
          <rect key={level} class={`fill ${levelClass(level)}`} x={at + 0.08} y={y} width={0.84} height={height} />
        ) : null;
      })}
    </g>
  );
}

function levelsOf(buckets: readonly Bucket[]): string[] {
  return [...new Set(buckets.flatMap(({ counts }) => Object.keys(counts)))].sort((a, b) => rank(a) - rank(b));
}

/** Unknown ones last. */
function rank(level: string): number {
  return (GRAVEST_FIRST.indexOf(level.toLowerCase()) + 99) % 99;
}

/** Its colour: of any spelling, e.g. `WARN` and `Warning`. */
export function levelClass(level: string): string {
  const small = level.toLowerCase();
  if (/^(fatal|crit|emerg|alert|panic)/.test(small)) return "is-fatal";
  if (small.startsWith("err")) return "is-error";
  if (small.startsWith("warn")) return "is-warn";
  if (/^(info|notice)/.test(small)) return "is-info";
  return /^(debug|trace)/.test(small) ? "is-debug" : "is-other";
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
