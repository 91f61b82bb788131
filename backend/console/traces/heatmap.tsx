// The durations of the matching spans over time: time from left to right, duration from bottom to top on a logarithmic scale, darker cells
// have more spans; failed spans are marked below. Dragging selects times and durations.
import type { ApiResponses } from "../../client/api.ts";
import { PlotFrame, type Point, type Tip } from "../metrics/plot-frame.tsx";
import { durationTicks } from "../metrics/ticks.ts";
import { Status } from "../parts/common.tsx";
import { call, useLoaded, choose, span } from "../state/index.ts";
import type { AnalysisProps } from "./analysis.tsx";

type HeatmapPoint = ApiResponses["GET /query/traces/heatmap"][number];

const POINTS = 60;
const [WIDTH, HEIGHT, ERRORS] = [600, 120, 8];
const HEIGHT_PX = 150;

export function Heatmap({ requestKey, parameters }: AnalysisProps) {
  const loaded = useLoaded(requestKey, async (signal) => {
    return await call<HeatmapPoint[]>("/query/traces/heatmap", { query: { ...parameters, points: POINTS }, signal });
  });
  const points = loaded.value.value ?? [];
  const isEmpty = points.every(({ buckets }) => buckets.length === 0);
  return (
    <Status of={loaded} empty={isEmpty && "No spans in this time range."}>
      <figure class="heatmap card" aria-label="Durations over time">
        <figcaption>
          <h2>Durations over time</h2>
        </figcaption>
        <Cells points={points} />
      </figure>
    </Status>
  );
}

/** Bucket n ends at 2^(n/4) ms. */
const indexOf = (ms: number): number => Math.round(Math.log2(ms) * 4);
const limitOf = (index: number): number => 2 ** (index / 4);
/** The errors take the lowest part of the picture. */
const ERROR_SHARE = ERRORS / (HEIGHT + ERRORS);

/** The value axis: durations from bucket `lowest` (exclusive) to bucket `highest`. */
interface Scale {
  readonly lowest: number;
  readonly highest: number;
}

function scaleOf(points: readonly HeatmapPoint[]): Scale {
  const indexes = points.flatMap(({ buckets }) => buckets.map(({ max_ms: ms }) => indexOf(ms)));
  return { lowest: indexes.reduce((a, b) => Math.min(a, b)) - 1, highest: indexes.reduce((a, b) => Math.max(a, b)) };
}

/** The index of the bucket limit at a share of the height, with a fraction. */
function levelAt(y: number, { lowest, highest }: Scale): number {
  return lowest + (Math.max(0, y - ERROR_SHARE) / (1 - ERROR_SHARE)) * (highest - lowest);
}

function shareOf(ms: number, { lowest, highest }: Scale): number {
  return ERROR_SHARE + ((Math.log2(ms) * 4 - lowest) / (highest - lowest)) * (1 - ERROR_SHARE);
}

function Cells({ points }: { points: readonly HeatmapPoint[] }) {
  const scale = scaleOf(points);
  const [low, high] = [limitOf(scale.lowest), limitOf(scale.highest)];
  const pointAt = ({ x }: Point): HeatmapPoint | undefined => points[Math.min(points.length - 1, Math.floor(x * points.length))];
  const select = (from: Point, to: Point): void => {
    const [first, last] = [pointAt(from), pointAt(to)];
    if (!first || !last) return;
    // A click selects all durations of its time.
    const durations = from !== to && {
      min: from.y <= ERROR_SHARE ? undefined : durationText(limitOf(levelAt(from.y, scale))),
      max: durationText(limitOf(levelAt(to.y, scale))),
    };
    choose({ from: first.start, to: last.end, ...durations });
  };
  return (
    <PlotFrame
      label={`Durations of spans over time, from ${span(low)} to ${span(high)}`}
      heightPx={HEIGHT_PX}
      viewBox={`0 0 ${WIDTH} ${HEIGHT + ERRORS}`}
      fromMs={Date.parse(points[0]?.start ?? "")}
      toMs={Date.parse(points.at(-1)?.end ?? "")}
      ticks={durationTicks(low, high).map((ms) => ({ at: shareOf(ms, scale), text: span(ms) }))}
      selectsValues
      tipAt={(at) => tipOf(pointAt(at), Math.floor(levelAt(at.y, scale)) + 1)}
      onBrush={select}
    >
      <Columns points={points} scale={scale} />
    </PlotFrame>
  );
}

/** `index`: of the bucket at the pointer. */
function tipOf(point: HeatmapPoint | undefined, index: number): Tip | undefined {
  if (!point) return undefined;
  const count = point.buckets.find(({ max_ms: ms }) => indexOf(ms) === index)?.count ?? 0;
  const cell = { name: `${span(limitOf(index - 1))} to ${span(limitOf(index))}`, value: 2, colour: "var(--accent)", isNearest: false };
  const failed = { name: "with an error", value: 1, colour: "var(--error)", isNearest: false };
  return {
    atMs: Date.parse(point.start),
    rows: [
      { ...cell, text: count.toLocaleString("en") },
      { ...failed, text: point.errors.toLocaleString("en") },
    ],
    notes: [`of ${point.spans.toLocaleString("en")} spans`],
  };
}

function Columns({ points, scale: { lowest, highest } }: { points: readonly HeatmapPoint[]; scale: Scale }) {
  const max = Math.max(1, ...points.flatMap(({ buckets }) => buckets.map(({ count }) => count)));
  const mostErrors = Math.max(1, ...points.map(({ errors }) => errors));
  const [width, height] = [WIDTH / points.length, HEIGHT / (highest - lowest)];
  return (
    <>
      {points.map((point, at) => (
        <g key={point.start}>
          {point.buckets.map(({ max_ms: ms, count }) => (
            <rect
              key={ms}
              class="cell"
              x={at * width}
              y={HEIGHT - (indexOf(ms) - lowest) * height}
              width={width}
              height={height}
              fill-opacity={0.15 + 0.85 * (Math.log1p(count) / Math.log1p(max))}
            />
          ))}
          {point.errors > 0 && (
            <rect
              class="is-error"
              x={at * width}
              y={HEIGHT + 2}
              width={width}
              height={ERRORS - 2}
              fill-opacity={0.3 + 0.7 * (point.errors / mostErrors)}
            />
          )}
        </g>
      ))}
    </>
  );
}

/** As the fields of the search take it. */
function durationText(ms: number): string {
  return String(Number(ms.toPrecision(3)));
}
