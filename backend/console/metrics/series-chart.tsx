// Shows the results of queries: series as a chart, with their last, minimum and maximum values below it, and values at one moment as a
// table.
import { NameLink, Problem, Status, Table } from "../parts/common.tsx";
import { visible } from "../parts/text.ts";
import { type Loaded, useLoaded } from "../state/loaded.ts";
import { address } from "../state/route.ts";
import { currentRange, type Range } from "../state/time.ts";
import { Chart, colourClass } from "./chart.tsx";
import { type Exemplar, ExemplarList } from "./exemplars.tsx";
import { type Instant, LOKI, queryRange, type Series, seriesName } from "./prometheus.ts";
import { formatValue, type Unit } from "./unit.ts";

const MOST_DRAWN = 50;
const MOST_ROWS = 1000;

export interface SeriesChartProps {
  readonly series: readonly Series[];
  readonly range: Range;
  readonly unit?: Unit | undefined;
  readonly exemplars?: readonly Exemplar[] | undefined;
}

export function SeriesChart({ series, range, unit, exemplars = [] }: SeriesChartProps) {
  return (
    <>
      <Chart series={series.slice(0, MOST_DRAWN)} fromS={range.fromMs / 1000} toS={range.toMs / 1000} unit={unit} exemplars={exemplars} />
      {series.length > MOST_DRAWN && (
        <p class="quiet">
          The first {MOST_DRAWN} of {series.length} series are drawn; use <code>topk(10, …)</code> to choose.
        </p>
      )}
      <ExemplarList exemplars={exemplars} />
      <Last series={series} unit={unit} />
    </>
  );
}

function Last({ series, unit }: { series: readonly Series[]; unit: Unit | undefined }) {
  return (
    <Table title="Series and their last values" heads={["series", "last", "min", "max"]}>
      {series.slice(0, MOST_ROWS).map(({ name, points }, at) => {
        const values = points.map(([, value]) => value).filter(Number.isFinite);
        return (
          <tr key={name}>
            <td>
              {at < MOST_DRAWN && <span class={`swatch ${colourClass(at)}`} />} <bdi>{visible(name)}</bdi>
            </td>
            <td class="number">{formatValue(values.at(-1) ?? Number.NaN, unit)}</td>
            <td class="number">
              {formatValue(
                values.reduce((a, b) => Math.min(a, b), Infinity),
                unit,
              )}
            </td>
            <td class="number">
              {formatValue(
                values.reduce((a, b) => Math.max(a, b), -Infinity),
                unit,
              )}
            </td>
          </tr>
        );
      })}
    </Table>
  );
}

/** The results of a metric query of LogQL, such as sum by (level) (rate({service_name="shop"}[5m])). `asked`: the key of the request. */
export function LogQlChart({ line, asked }: { line: string; asked: string }) {
  const found = useLoaded(asked, async (signal) => {
    const range = currentRange();
    return { range, series: await queryRange(line, range, signal, LOKI) };
  });
  const { range, series } = found.value.value ?? {};
  return (
    <Status of={found} empty={series?.length === 0 && "No series match in this range."}>
      {range && series && series.length > 0 && <SeriesChart series={series} range={range} />}
    </Status>
  );
}

/** Values of series at one moment, as a table. */
export function Instants({ found, nothing, heads = ["series", "value"] }: { found: Loaded<Instant[]>; nothing: string; heads?: string[] }) {
  const rows = found.value.value ?? [];
  return (
    <Status of={found} empty={rows.length === 0 && nothing}>
      {rows.length > 0 && (
        <Table title="Series and their values" heads={heads}>
          {rows.slice(0, MOST_ROWS).map(({ labels, value }, at) => (
            <tr key={at}>
              <td>
                <NameLink href={address("metrics", { q: seriesName(labels) })} text={seriesName(labels)} />
              </td>
              <td class="number">{value}</td>
            </tr>
          ))}
        </Table>
      )}
      {rows.length > MOST_ROWS && <Problem words={`The first ${MOST_ROWS} of ${rows.length} rows are shown.`} />}
    </Status>
  );
}
