// A chart of series over time (uPlot). Dragging over it shows that stretch alone.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { shortNumber } from "../parts/text.ts";
import { clock, day, moment, showRange, utc } from "../state/time.ts";

export interface Series {
  readonly name: string;
  /** What distinguishes it from the other series of a chart. */
  readonly short: string;
  /** Unix seconds → value. */
  readonly points: readonly (readonly [number, number])[];
}

const COLOURS = 8;
const HEIGHT_PX = 320;

export function Chart({
  series,
  fromS,
  toS,
  threshold,
  heightPx = HEIGHT_PX,
}: {
  series: readonly Series[];
  fromS: number;
  toS: number;
  threshold?: number | undefined;
  heightPx?: number;
}) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = place.current;
    if (!element) return undefined;
    const plot = new uPlot({ ...options(element, series, fromS, toS, threshold), height: heightPx }, dataOf(series), element);
    const watcher = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: heightPx }));
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      plot.destroy();
    };
  }, [series, fromS, toS, utc.value, threshold]);
  return <div class="chart" ref={place} role="img" aria-label={`${series.length} series over time; the table below has their values`} />;
}

function options(
  element: HTMLElement,
  series: readonly Series[],
  fromS: number,
  toS: number,
  threshold: number | undefined,
): uPlot.Options {
  const colour = colourOf(element);
  const axis = { stroke: colour("--text"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
  return {
    width: element.clientWidth,
    height: HEIGHT_PX,
    // Many series have no room for a legend each; the table below the chart names all.
    legend: { show: series.length <= COLOURS },
    tzDate: (ts) => (utc.peek() ? uPlot.tzDate(new Date(ts * 1000), "Etc/UTC") : new Date(ts * 1000)),
    scales: { x: { min: fromS, max: toS } },
    cursor: { drag: { setScale: false, x: true, y: false } },
    axes: [
      { ...axis, values: (_plot, splits) => splits.map(timeOf(fromS, toS)) },
      { ...axis, size: 70, values: (_plot, splits) => splits.map(shortNumber) },
    ],
    series: [
      { value: (_plot, at) => (at === null ? "–" : moment(at * 1000)) },
      ...series.map(({ short: label }, at) => ({
        label: label.slice(0, 100),
        stroke: colour(`--colour-${at % COLOURS}`),
        width: 1.5,
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
      draw: threshold === undefined ? [] : [(plot) => drawLine(plot, threshold, colour("--error"))],
    },
  };
}

/** A custom property as a canvas takes it: of this scheme, in numbers. */
function colourOf(element: HTMLElement): (name: string) => string {
  const probe = element.appendChild(document.createElement("i"));
  const found = new Map<string, string>();
  const read = (name: string): string => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  for (const name of ["--text", "--line", "--error", ...Array.from({ length: COLOURS }, (_, at) => `--colour-${at}`)])
    found.set(name, read(name));
  probe.remove();
  return (name) => found.get(name) ?? "gray";
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

/** All on one axis of time; where a series has no point, it has a gap. */
function dataOf(series: readonly Series[]): uPlot.AlignedData {
  const times = [...new Set(series.flatMap(({ points }) => points.map(([at]) => at)))].sort((a, b) => a - b);
  const place = new Map(times.map((at, index) => [at, index]));
  const rows = series.map(({ points }) => {
    const row: (number | null)[] = Array.from({ length: times.length }, () => null);
    for (const [at, value] of points) row[place.get(at) as number] = Number.isFinite(value) ? value : null;
    return row;
  });
  return [times, ...rows];
}

/** Of a point on the axis: the day as well where more than one is shown. */
function timeOf(fromS: number, toS: number): (atS: number) => string {
  return (atS) => {
    const at = new Date(atS * 1000);
    const time = clock(at, { withMs: false });
    if (toS - fromS <= 900) return time;
    return toS - fromS <= 86_400 ? time.slice(0, 5) : `${day(at).slice(5)} ${time.slice(0, 5)}`;
  };
}
