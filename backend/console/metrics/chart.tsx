// A chart of series over time (uPlot) with its legend. Dragging over it selects that time range; a name in the legend shows only that series;
// a click on a diamond opens the trace of an exemplar. Invariant: nothing on the page moves while the pointer is over a chart.
import { signal, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import uPlot from "uplot";
import { go, timestampText, utc } from "../state/index.ts";
import { type Exemplar, exemplarAddress, exemplarText } from "./exemplars.tsx";
import { Legend } from "./legend.tsx";
import { exemplarMarks, plotOptions, type PlotProps } from "./plot.ts";
import { alignSeries, changeText, stack } from "./plot-data.ts";
import type { Series } from "./prometheus.ts";
import { colourProperty } from "./series-colour.ts";
import { followPointer, Tooltip } from "./tooltip.ts";
import { formatValue } from "./unit.ts";

const HEIGHT_PX = 280;
/** How far from the centre of a diamond or a marker the pointer may be. */
const NEAR_PX = 9;

/** A canvas keeps its colours, so charts are drawn again when the theme changes. */
const themes = signal(0);
new MutationObserver(() => themes.value++).observe(document.documentElement, { attributeFilter: ["data-scheme"] });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => themes.value++);

export interface ChartProps extends PlotProps {
  /** Undefined: fills its container. */
  readonly heightPx?: number | "fill";
  /** Default: if there is more than one series, or if one is compared with an earlier range. */
  readonly hasLegend?: boolean;
  /** Called with each new plot; returns what to call before it is removed. */
  readonly onPlot?: (plot: uPlot) => () => void;
}

export function Chart({ heightPx = HEIGHT_PX, hasLegend, onPlot, ...shown }: ChartProps) {
  const { series } = shown;
  const container = useRef<HTMLDivElement>(null);
  const current = useRef<uPlot>();
  const isolated = useSignal<ReadonlySet<string>>(new Set());
  const only = isolated.value;
  // Names that are no longer there, for example after another query, isolate nothing.
  const drawn = useMemo(() => {
    const chosen = series.filter((line) => only.has(line.earlierOf ?? line.short));
    return chosen.length > 0 ? chosen : series;
  }, [series, only]);
  const props: PlotProps = { ...shown, series: drawn };
  useEffect(() => {
    const element = container.current;
    if (!element) return undefined;
    const plot = createPlot(element, props);
    current.current = plot;
    const watcher = new ResizeObserver(() => plot.setSize(sizeOf(element)));
    watcher.observe(element);
    const stopFollowing = showValues(plot, element, props);
    const clean = onPlot?.(plot);
    return () => {
      clean?.();
      stopFollowing();
      watcher.disconnect();
      plot.destroy();
      current.current = undefined;
    };
  }, [drawn, utc.value, themes.value, shown.unit, shown.exemplars, shown.markers, JSON.stringify(looks(shown))]);
  const highlight = (line: Series | undefined): void =>
    current.current?.setSeries(line ? drawn.indexOf(line) + 1 : null, { focus: true }, false);
  const isCompared = series.some(({ earlierOf }) => earlierOf !== undefined);
  return (
    <div class={`chart-with-legend ${heightPx === "fill" ? "is-filling" : ""}`}>
      <div
        class="chart"
        ref={container}
        // An image cannot contain the handle of a threshold.
        role={onPlot ? "group" : "img"}
        tabIndex={0}
        style={heightPx === "fill" ? {} : { height: `${heightPx}px` }}
        aria-label={`${series.length} series over time. The arrow keys show their values.`}
      />
      {(hasLegend ?? (series.length > 1 || isCompared)) && (
        <Legend series={series} unit={shown.unit} isolated={only} onIsolate={(names) => (isolated.value = names)} onHighlight={highlight} />
      )}
    </div>
  );
}

function looks({ range: { fromMs, toMs }, min, max, shape, isStacked, thresholds }: PlotProps): unknown {
  return [fromMs, toMs, min, max, shape, isStacked, thresholds];
}

const sizeOf = (element: HTMLElement) => ({ width: element.clientWidth, height: element.clientHeight });

function createPlot(element: HTMLElement, props: PlotProps): uPlot {
  const aligned = alignSeries(props.series);
  const data = props.isStacked || props.shape === "bars" ? stack(aligned) : (aligned as uPlot.AlignedData);
  return new uPlot(plotOptions(props, colourReader(element), sizeOf(element)), data, element);
}

/** Resolves a custom property to a numeric colour of the current colour scheme, as a canvas requires. */
function colourReader(element: HTMLElement): (property: string) => string {
  const colours = new Map<string, string>();
  return (property) => {
    const known = colours.get(property);
    if (known !== undefined) return known;
    const probe = element.appendChild(document.createElement("i"));
    probe.style.color = `var(${property})`;
    const { color } = getComputedStyle(probe);
    probe.remove();
    colours.set(property, color);
    return color;
  };
}

function showValues(plot: uPlot, element: HTMLElement, props: PlotProps): () => void {
  const tooltip = new Tooltip(element);
  const values = alignSeries(props.series).slice(1) as (number | null)[][];
  let nearestLine = -1;
  (plot.hooks.setSeries ??= []).push((_plot, at) => void (nearestLine = (at ?? 0) - 1));
  const stop = followPointer(plot, element, {
    onLeave: () => tooltip.hide(),
    onMove: () => {
      const { left = -1, top = -1, idx } = plot.cursor;
      if (left < 0 || idx === null || idx === undefined) return tooltip.hide();
      const exemplar = exemplarAt(plot, props, left, top);
      const near = (props.markers ?? []).filter(({ atS }) => Math.abs(plot.valToPos(atS, "x") - left) <= NEAR_PX);
      const notes = [
        ...near.map(({ text, atS }) => `${text}, ${timestampText(atS * 1000)}`),
        ...(exemplar ? [`Click to open ${exemplarText(exemplar)}`] : []),
      ];
      // The library keeps the position, so it is not read from the page at each move.
      const { left: x, top: y } = plot.rect;
      tooltip.show(x + left, y + top, [idx, nearestLine, ...notes].join(), plot.data[0][idx] as number, () => {
        plot.over.style.cursor = exemplar ? "pointer" : "";
        return { rows: rowsAt(props, values, idx, nearestLine), notes };
      });
    },
  });
  const click = ({ offsetX, offsetY }: MouseEvent): void => {
    const exemplar = exemplarAt(plot, props, offsetX, offsetY);
    if (exemplar) go(exemplarAddress(exemplar));
  };
  plot.over.addEventListener("click", click);
  return () => {
    stop();
    tooltip.remove();
  };
}

function rowsAt({ series, unit }: PlotProps, values: readonly (number | null)[][], idx: number, nearestLine: number) {
  const valueOf = (at: number): number | null => values[at]?.[idx] ?? null;
  return series.flatMap((line, at) => {
    const value = valueOf(at);
    if (value === null || line.earlierOf !== undefined) return [];
    const earlier = valueOf(series.findIndex(({ earlierOf }) => earlierOf === line.short));
    const change = earlier === null ? "" : `  (${formatValue(earlier, unit)} ${changeText(value, earlier)})`;
    const colour = `var(${line.colour ?? colourProperty(line.short)})`;
    return [{ name: line.short, value, text: `${formatValue(value, unit)}${change}`, colour, isNearest: at === nearestLine }];
  });
}

function exemplarAt(plot: uPlot, props: PlotProps, x: number, y: number): Exemplar | undefined {
  const distances = exemplarMarks(props).map(({ exemplar, value }) => ({
    exemplar,
    px: Math.hypot(plot.valToPos(exemplar.atS, "x") - x, plot.valToPos(value, "y") - y),
  }));
  return distances.filter(({ px }) => px <= NEAR_PX).toSorted((a, b) => a.px - b.px)[0]?.exemplar;
}
