// The charts of a service: rate, errors and latency, with the values of an earlier range or another service to compare them with, and the
// versions that were deployed.
import { useMemo } from "preact/hooks";
import { Chart } from "../metrics/chart.tsx";
import type { Exemplar } from "../metrics/exemplars.tsx";
import type { Marker } from "../metrics/plot-drawing.ts";
import { changeText, figuresOf } from "../metrics/plot-data.ts";
import type { Series } from "../metrics/prometheus.ts";
import { formatValue, type Unit } from "../metrics/unit.ts";
import type { Range } from "../state/time.ts";
import type { Point } from "./service.ts";

const HEIGHT_PX = 180;

type Line = readonly [name: string, of: (point: Point) => number | null, colour?: string];
const RATE: readonly Line[] = [["rate", ({ rate }) => rate]];
const ERRORS: readonly Line[] = [["errors", ({ error_ratio: ratio }) => ratio, "--error"]];
/** Colours of their names would be two similar greens. */
const LATENCY: readonly Line[] = [
  ["p50", ({ p50_ms: ms }) => ms, "--colour-4"],
  ["p95", ({ p95_ms: ms }) => ms, "--colour-1"],
  ["p99", ({ p99_ms: ms }) => ms, "--colour-2"],
];

interface ServiceChartsProps {
  readonly points: readonly Point[];
  readonly compared: { readonly name: string; readonly points: readonly Point[] } | undefined;
  readonly range: Range;
  readonly exemplars: readonly Exemplar[];
  readonly markers: readonly Marker[] | undefined;
}

export function ServiceCharts({ exemplars, markers, ...shown }: ServiceChartsProps) {
  return (
    <div class="charts">
      <Figure title="Calls" unit="reqps" lines={RATE} shown={shown} markers={markers} />
      <Figure title="Errors" unit="percentunit" lines={ERRORS} shown={shown} markers={markers} meanOf={errorShare} />
      <Figure title="Latency" unit="ms" lines={LATENCY} shown={shown} markers={markers} exemplars={exemplars} />
    </div>
  );
}

interface FigureProps {
  readonly title: string;
  readonly unit: Unit;
  readonly lines: readonly Line[];
  readonly shown: Pick<ServiceChartsProps, "points" | "compared" | "range">;
  readonly markers: readonly Marker[] | undefined;
  readonly exemplars?: readonly Exemplar[];
  /** Default: the mean of the points. */
  readonly meanOf?: (points: readonly Point[]) => number;
}

/** The share of all calls, as the list of services has it: points with few calls count less than others. */
function errorShare(points: readonly Point[]): number {
  const calls = points.reduce((sum, { rate }) => sum + rate, 0);
  return points.reduce((sum, { rate, error_ratio: ratio }) => sum + rate * (ratio ?? 0), 0) / calls;
}

function Figure({ title, unit, lines, shown, markers, exemplars, meanOf }: FigureProps) {
  const { points, compared, range } = shown;
  const series = useMemo(
    () => [...seriesOf(lines, points), ...seriesOf(lines, compared?.points ?? [], compared?.name)],
    [points, compared],
  );
  // The headline of latency is the p95.
  const headline = series[Math.min(1, lines.length - 1)];
  const earlier = series.find(({ earlierOf }) => earlierOf === headline?.short);
  const meanIn = (line: Series | undefined, of: readonly Point[] = []): number =>
    meanOf?.(of) ?? (line ? figuresOf(line).mean : Number.NaN);
  const mean = meanIn(headline, points);
  return (
    <figure class="card" aria-label={title}>
      <figcaption>
        <h2>{title}</h2>
        <span class="figure">{formatValue(mean, unit)}</span>{" "}
        <span class="quiet">
          mean{lines.length > 1 && ` ${headline?.short}`}
          {earlier && (
            <>
              , <strong>{changeText(mean, meanIn(earlier, compared?.points))}</strong> against <bdi>{compared?.name}</bdi>
            </>
          )}
        </span>
      </figcaption>
      {/* A plot of one line is as high as that of latency with its longer legend. */}
      <Chart
        series={series}
        range={range}
        heightPx={lines.length > 1 ? HEIGHT_PX : "fill"}
        unit={unit}
        exemplars={exemplars}
        markers={markers}
      />
    </figure>
  );
}

/** `comparedName`: the lines are what the others are compared with. */
function seriesOf(lines: readonly Line[], points: readonly Point[], comparedName?: string): Series[] {
  if (points.length === 0) return [];
  return lines.map(([name, of, colour]) => ({
    name: comparedName === undefined ? name : `${name}, ${comparedName}`,
    short: comparedName === undefined ? name : `${name}, ${comparedName}`,
    points: points.map((point) => [Date.parse(point.start) / 1000, of(point) ?? Number.NaN] as const),
    ...(colour !== undefined && { colour }),
    ...(comparedName !== undefined && { earlierOf: name }),
  }));
}
