// Charts a metric query of LogQL from the field for log queries, such as sum by (level) (rate({service_name="shop"}[5m])), whose results are
// series instead of records.
import { SeriesChart } from "../metrics/series-chart.tsx";
import { LOKI, queryRange } from "../metrics/prometheus.ts";
import { Status } from "../parts/common.tsx";
import { useLoaded } from "../state/loaded.ts";
import { currentRange } from "../state/time.ts";

/** `asked`: the key of the request. */
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
