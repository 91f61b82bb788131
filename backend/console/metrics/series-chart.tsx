// Shows the results of queries: series as a chart, and values at one moment as a table.
import { NameLink, Problem, Status, Table } from "../parts/index.ts";
import { type Loaded, useLoaded, address, currentRange, type Range } from "../state/index.ts";
import { Chart } from "./chart.tsx";
import { type Exemplar, ExemplarList } from "./exemplars.tsx";
import type { Shape } from "./plot.ts";
import { type Instant, LOKI, queryRange, type Series, seriesName } from "./prometheus.ts";
import type { Unit } from "./unit.ts";

const MAX_DRAWN = 50;
const MAX_ROWS = 1000;

export interface SeriesChartProps {
  readonly series: readonly Series[];
  readonly range: Range;
  readonly unit?: Unit | undefined;
  readonly shape?: Shape | undefined;
  readonly exemplars?: readonly Exemplar[] | undefined;
}

export function SeriesChart({ series, range, unit, shape, exemplars = NONE }: SeriesChartProps) {
  return (
    <div class="card">
      <Chart
        series={series.length > MAX_DRAWN ? series.slice(0, MAX_DRAWN) : series}
        range={range}
        unit={unit}
        shape={shape}
        exemplars={exemplars}
        hasLegend
      />
      {series.length > MAX_DRAWN && (
        <p class="quiet">
          Only the first {MAX_DRAWN} of {series.length} series are drawn. Use <code>topk(10, …)</code> to select series.
        </p>
      )}
      <ExemplarList exemplars={exemplars} />
    </div>
  );
}

const NONE: readonly Exemplar[] = [];

/**
 * The results of a metric query of LogQL, such as sum by (level) (rate({service_name="shop"}[5m])). `requestKey`: another key sends another
 * request.
 */
export function LogQlChart({ line, requestKey }: { line: string; requestKey: string }) {
  const loaded = useLoaded(requestKey, async (signal) => {
    const range = currentRange();
    return { range, series: await queryRange(line, range, signal, LOKI) };
  });
  return <LoadedChart of={loaded} />;
}

export function LoadedChart({ of }: { of: Loaded<SeriesChartProps> }) {
  const shown = of.value.value;
  return (
    <Status of={of} empty={shown?.series.length === 0 && "No series match in this time range."}>
      {shown && <SeriesChart {...shown} />}
    </Status>
  );
}

interface InstantTableProps {
  readonly of: Loaded<Instant[]>;
  readonly empty: string;
  readonly heads?: readonly [name: string, value: string];
}

export function InstantTable({ of, empty, heads: [name, value] = ["series", "value"] }: InstantTableProps) {
  const rows = of.value.value ?? [];
  return (
    <Status of={of} empty={rows.length === 0 && empty}>
      <Table
        title="Series and their values"
        rows={rows.slice(0, MAX_ROWS)}
        columns={[
          { head: name, cell: ({ labels }) => <NameLink href={address("metrics", { q: seriesName(labels) })} text={seriesName(labels)} /> },
          { head: value, kind: "number", cell: (row) => row.value },
        ]}
      />
      {rows.length > MAX_ROWS && <Problem message={`Only the first ${MAX_ROWS} of ${rows.length} rows are shown.`} />}
    </Status>
  );
}
