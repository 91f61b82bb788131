// Options of the chart library (uPlot) for a chart of this console: axes, lines, bars, and what is drawn over them.
import uPlot from "uplot";
import { axisTime, type Range, showRange, utc } from "../state/time.ts";
import { type AxisProps, isWhole, tickSteps, valueRange } from "./axis.ts";
import { type Exemplar } from "./exemplars.tsx";
import { drawDiamond, drawMarkers, drawThreshold, type Marker } from "./plot-drawing.ts";
import type { Series } from "./prometheus.ts";
import { colourProperty } from "./series-colour.ts";
import { formatValue, type Unit } from "./unit.ts";

/** How series are drawn: `stepped` for states, `bars` for counts of intervals. */
export type Shape = "lines" | "stepped" | "bars";

export interface PlotProps {
  readonly series: readonly Series[];
  readonly range: Pick<Range, "fromMs" | "toMs">;
  readonly unit?: Unit | undefined;
  readonly min?: number | undefined;
  readonly max?: number | undefined;
  /** Default: `stepped` for whole numbers. */
  readonly shape?: Shape | undefined;
  readonly isStacked?: boolean | undefined;
  readonly thresholds?: readonly { value: number; severity?: "info" | "warning" | "critical" | undefined }[] | undefined;
  readonly markers?: readonly Marker[] | undefined;
  readonly exemplars?: readonly Exemplar[] | undefined;
}

const SYNC_KEY = "page";
/** Minimum distance between two labels of the time axis: the width of the longest, `11-25 14:03`. */
const LABEL_PX = 90;
const MIN_AXIS_PX = 44;
const CHARACTER_PX = 6.6;
const FONT = "11px system-ui, sans-serif";
/** How near the pointer must be to a line to highlight it. */
const NEAR_LINE_PX = 24;
const FADED = 0.25;
/** The pointer is at the same time in all charts of a page. */
const SYNC: uPlot.Cursor.Sync = {
  key: SYNC_KEY,
  setSeries: false,
  scales: ["x", null],
  filters: { pub: (type) => type === "mousemove" || type === "mouseleave" },
};

/** `read`: the value of a custom property as a colour. */
export function plotOptions(props: PlotProps, read: (property: string) => string, size: { width: number; height: number }): uPlot.Options {
  const { series, range, unit, thresholds = [], markers = [] } = props;
  const timeText = axisTime(range.fromMs, range.toMs);
  const axis: AxisProps = { ...props, unit, isWhole: isWhole(valuesIn(series), unit) };
  const steps = tickSteps(axis);
  const look = { stroke: read("--quiet"), font: FONT, ticks: { show: false }, gap: 8 };
  return {
    ...size,
    // On the right is half of the last time, which would be cut off.
    padding: [markers.length > 0 ? 20 : 8, 20, 0, 0],
    legend: { show: false },
    tzDate: (ts) => (utc.peek() ? uPlot.tzDate(new Date(ts * 1000), "Etc/UTC") : new Date(ts * 1000)),
    scales: {
      x: { min: range.fromMs / 1000, max: range.toMs / 1000 },
      y: { range: (_plot, low, high) => shownRange(low, high, axis, props) },
    },
    focus: { alpha: FADED },
    cursor: {
      y: false,
      drag: { setScale: false, x: true, y: false },
      focus: { prox: series.length > 1 ? NEAR_LINE_PX : -1 },
      bind: { dblclick: () => null },
      sync: SYNC,
    },
    axes: [
      {
        ...look,
        grid: { show: false },
        size: 27,
        space: LABEL_PX,
        values: (_plot, splits) => splits.map((atS) => timeText(atS * 1000)),
      },
      {
        ...look,
        grid: { stroke: read("--line"), width: 1 },
        gap: 6,
        space: 34,
        ...(steps && { incrs: steps }),
        size: (_plot, labels) => Math.max(MIN_AXIS_PX, 14 + CHARACTER_PX * Math.max(0, ...(labels ?? []).map(({ length }) => length))),
        values: (_plot, splits) => splits.map((value) => formatValue(value, unit)),
      },
    ],
    ...lines(props, read, axis),
    hooks: {
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (width > 3) showRange(plot.posToVal(left, "x") * 1000, plot.posToVal(left + width, "x") * 1000);
        },
      ],
      draw: [
        (plot) => {
          for (const { value, severity = "critical" } of thresholds) drawThreshold(plot, value, read(THRESHOLD_COLOURS[severity]));
          drawMarkers(plot, markers, read);
          for (const mark of exemplarMarks(props)) drawDiamond(plot, mark.exemplar.atS, mark.value, read("--text"));
        },
      ],
    },
  };
}

const THRESHOLD_COLOURS = { info: "--accent", warning: "--warn", critical: "--error" } as const;

/** The range includes all thresholds and exemplars, unless the reader chose the ends. */
function shownRange(low: number | null, high: number | null, axis: AxisProps, props: PlotProps): [number, number] {
  const also = [...(props.thresholds ?? []).map(({ value }) => value), ...exemplarMarks(props).map(({ value }) => value)];
  // A stack begins at zero.
  const least = props.isStacked || props.shape === "bars" ? Math.min(0, low ?? 0) : (low ?? 0);
  return valueRange(Math.min(least, ...also), Math.max(high ?? 0, ...also), axis);
}

/** Exemplars are in seconds. */
export function exemplarMarks({ exemplars = [], unit }: PlotProps): { readonly exemplar: Exemplar; readonly value: number }[] {
  return exemplars.map((exemplar) => ({ exemplar, value: exemplar.seconds * (unit === "ms" ? 1000 : 1) }));
}

function* valuesIn(series: readonly Series[]): Iterable<number> {
  for (const { points } of series) for (const [, value] of points) yield value;
}

function lines(
  { series, shape, isStacked = false }: PlotProps,
  read: (property: string) => string,
  axis: AxisProps,
): Pick<uPlot.Options, "series" | "bands"> {
  const drawn = shape ?? (axis.isWhole ? "stepped" : "lines");
  const paths = pathsOf(drawn);
  const hasFewPoints = series.every(({ points }) => points.length < 3);
  const all = series.map((line): uPlot.Series => {
    const stroke = read(line.earlierOf === undefined ? (line.colour ?? colourProperty(line.short)) : "--quiet");
    return {
      stroke,
      width: drawn === "bars" ? 0 : line.earlierOf === undefined ? 1.5 : 1,
      ...(paths && { paths }),
      ...(line.earlierOf !== undefined && { dash: [4, 4] }),
      ...((drawn === "bars" || isStacked) && { fill: drawn === "bars" ? stroke : translucent(stroke) }),
      points: { show: hasFewPoints },
      spanGaps: false,
    };
  });
  // In a stack, the area of a series ends where the next one begins.
  const bands = isStacked && drawn !== "bars" ? series.slice(1).map((_, at): uPlot.Band => ({ series: [at + 1, at + 2] })) : [];
  return { series: [{}, ...all], bands };
}

function pathsOf(shape: Shape): uPlot.Series.PathBuilder | undefined {
  if (shape === "stepped") return uPlot.paths.stepped?.({ align: 1 });
  return shape === "bars" ? uPlot.paths.bars?.({ size: [0.85, 60], align: 1 }) : undefined;
}

function translucent(colour: string): string {
  return colour.replace(/^rgb\((.*)\)$/, "rgba($1, 0.25)");
}
