// A chart of series over time (uPlot). Dragging over it selects that time range; a click on a name in the legend shows only that series; a
// click on a diamond opens the trace of an exemplar.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { timeText, day, timestampText, showRange, utc } from "../state/time.ts";
import { visible } from "../parts/text.ts";
import { go } from "../state/route.ts";
import { type Exemplar, exemplarAddress, exemplarText } from "./exemplars.tsx";
import type { Series } from "./prometheus.ts";
import { formatValue, type Unit } from "./unit.ts";

const COLOURS = 8;
const HEIGHT_PX = 320;
/** Minimum distance between two labels of the time axis: the width of the longest, `11-25 14:03`. */
const LABEL_PX = 90;
const LEGEND_LENGTH = 100;
/** Minimum width of the value axis, which is as wide as its longest label. */
const MIN_AXIS_PX = 70;
const CHARACTER_PX = 7;
/** Size of an exemplar's diamond, and how far from its centre a click may be. */
const [DIAMOND_PX, NEAR_PX] = [4, 9];
/** Steps between labels of bytes, so that these are round in KiB, MiB and GiB. */
const BINARY_STEPS = Array.from({ length: 1024 }, (_, at) => 2 ** at);

export interface ChartProps {
  readonly series: readonly Series[];
  readonly fromS: number;
  readonly toS: number;
  readonly threshold?: number | undefined;
  readonly heightPx?: number;
  readonly unit?: Unit | undefined;
  readonly exemplars?: readonly Exemplar[] | undefined;
  /** The chart's value for one second, such as 1000 if values are milliseconds, because exemplars are in seconds. */
  readonly perSecond?: number;
}

export function Chart({ heightPx = HEIGHT_PX, ...shown }: ChartProps) {
  const { series, fromS, toS, threshold, unit, exemplars } = shown;
  const container = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = container.current;
    if (!element) return undefined;
    const plot = new uPlot({ ...options(element, shown), height: heightPx }, dataOf(series), element);
    const watcher = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: heightPx }));
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      plot.destroy();
    };
  }, [series, fromS, toS, utc.value, threshold, unit, exemplars]);
  return (
    <div class="chart" ref={container} role="img" aria-label={`${series.length} series over time; the table below has their values`} />
  );
}

function options(element: HTMLElement, { series, fromS, toS, threshold, unit, exemplars = [], perSecond = 1 }: ChartProps): uPlot.Options {
  const colour = colourOf(element);
  const marks = exemplars.map((exemplar) => ({ exemplar, value: exemplar.seconds * perSecond }));
  const highest = marks.reduce((max, { value }) => Math.max(max, value), 0);
  const axis = { stroke: colour("--text"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
  return {
    width: element.clientWidth,
    height: HEIGHT_PX,
    // Many series do not fit into a legend; the table below the chart lists all names.
    legend: { show: series.length <= COLOURS, isolate: true },
    tzDate: (ts) => (utc.peek() ? uPlot.tzDate(new Date(ts * 1000), "Etc/UTC") : new Date(ts * 1000)),
    scales: {
      x: { min: fromS, max: toS },
      y: {
        range: (_plot, min, max) => {
          const [low, high] = marks.length > 0 ? [Math.min(min ?? 0, 0), Math.max(max ?? 0, highest)] : [min ?? 0, max ?? 0];
          // uPlot would draw up to 100.
          return low === 0 && high === 0 ? [0, 1] : uPlot.rangeNum(low, high, 0.1, true);
        },
      },
    },
    cursor: { drag: { setScale: false, x: true, y: false } },
    axes: [
      { ...axis, space: LABEL_PX, values: (_plot, splits) => splits.map(timeFormatter(fromS, toS)) },
      {
        ...axis,
        ...((unit === "bytes" || unit === "Bps") && { incrs: BINARY_STEPS }),
        size: (_plot, labels) => Math.max(MIN_AXIS_PX, 20 + CHARACTER_PX * Math.max(0, ...(labels ?? []).map(({ length }) => length))),
        values: (_plot, splits) => splits.map((value) => formatValue(value, unit)),
      },
    ],
    series: [
      { value: (_plot, at) => (at === null ? "–" : timestampText(at * 1000)) },
      ...series.map(({ short }, at) => ({
        label: visible(short.length > LEGEND_LENGTH ? `${short.slice(0, LEGEND_LENGTH)}…` : short),
        value: (_plot: uPlot, value: number | null) => (value === null ? "–" : formatValue(value, unit)),
        stroke: colour(`--colour-${at % COLOURS}`),
        width: 1.5,
        // The line is dashed, so that an equal one below it stays visible.
        ...(isRepeated(series, at) && { dash: [6, 6] }),
        points: { show: false },
        spanGaps: false,
      })),
    ],
    hooks: {
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (width > 3) showRange(plot.posToVal(left, "x") * 1000, plot.posToVal(left + width, "x") * 1000);
        },
      ],
      draw: [
        (plot) => {
          if (threshold !== undefined) drawLine(plot, threshold, colour("--error"));
          for (const mark of marks) drawDiamond(plot, mark, colour("--text"));
        },
      ],
      ready: marks.length > 0 ? [(plot) => openOnClick(plot, marks)] : [],
    },
  };
}

/** The colour of a series, service or other item of a list. */
export function listColour(at: number): string {
  return `var(--colour-${at % COLOURS})`;
}

/** Whether an earlier series has the same values; not checked for many series, because single lines are then not readable. */
function isRepeated(series: readonly Series[], at: number): boolean {
  if (series.length > COLOURS) return false;
  return series.slice(0, at).some(({ points }) => valuesOf(points) === valuesOf(series[at]?.points));
}

function valuesOf(points: Series["points"] = []): string {
  return points.map(([, value]) => value).join();
}

/** Resolves a custom property to a numeric colour of the current colour scheme, as a canvas requires. */
function colourOf(element: HTMLElement): (name: string) => string {
  const probe = element.appendChild(document.createElement("i"));
  const colours = new Map<string, string>();
  const read = (name: string): string => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  for (const name of ["--text", "--line", "--error", ...Array.from({ length: COLOURS }, (_, at) => `--colour-${at}`)])
    colours.set(name, read(name));
  probe.remove();
  return (name) => colours.get(name) ?? "gray";
}

function drawLine(plot: uPlot, value: number, colour: string): void {
  const { ctx, bbox } = plot;
  const y = plot.valToPos(value, "y", true);
  if (y < bbox.top || y > bbox.top + bbox.height) return;
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.setLineDash([6, 4]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.restore();
}

interface Mark {
  readonly exemplar: Exemplar;
  readonly value: number;
}

function drawDiamond(plot: uPlot, { exemplar, value }: Mark, colour: string): void {
  const { ctx } = plot;
  const [x, y, size] = [plot.valToPos(exemplar.atS, "x", true), plot.valToPos(value, "y", true), DIAMOND_PX * devicePixelRatio];
  ctx.save();
  ctx.fillStyle = colour;
  ctx.translate(x, y);
  ctx.rotate(Math.PI / 4);
  ctx.fillRect(-size / 2, -size / 2, size, size);
  ctx.restore();
}

function openOnClick(plot: uPlot, marks: readonly Mark[]): void {
  const nearest = ({ offsetX, offsetY }: MouseEvent): Exemplar | undefined => {
    const distances = marks.map(({ exemplar, value }) => ({
      exemplar,
      px: Math.hypot(plot.valToPos(exemplar.atS, "x") - offsetX, plot.valToPos(value, "y") - offsetY),
    }));
    return distances.filter(({ px }) => px <= NEAR_PX).toSorted((a, b) => a.px - b.px)[0]?.exemplar;
  };
  plot.over.addEventListener("mousemove", (event) => {
    const exemplar = nearest(event);
    plot.over.style.cursor = exemplar ? "pointer" : "";
    plot.over.title = exemplar ? exemplarText(exemplar) : "";
  });
  plot.over.addEventListener("click", (event) => {
    const exemplar = nearest(event);
    if (exemplar) go(exemplarAddress(exemplar));
  });
}

/** Draws all series on one time axis, with a gap for each missing point. */
function dataOf(series: readonly Series[]): uPlot.AlignedData {
  const times = [...new Set(series.flatMap(({ points }) => points.map(([at]) => at)))].sort((a, b) => a - b);
  const indexByTime = new Map(times.map((at, index) => [at, index]));
  const rows = series.map(({ points }) => {
    const row: (number | null)[] = Array.from({ length: times.length }, () => null);
    for (const [at, value] of points) row[indexByTime.get(at) as number] = Number.isFinite(value) ? value : null;
    return row;
  });
  return [times, ...rows];
}

/** Formats times of the axis, with the day if the range has more than one. */
function timeFormatter(fromS: number, toS: number): (atS: number) => string {
  return (atS) => {
    const at = new Date(atS * 1000);
    const time = timeText(at, { withMs: false });
    if (toS - fromS <= 900) return time;
    return toS - fromS <= 86_400 ? time.slice(0, 5) : `${day(at).slice(5)} ${time.slice(0, 5)}`;
  };
}
