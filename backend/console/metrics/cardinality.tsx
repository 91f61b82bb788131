// Shows which metrics have the most series, and the number of active series next to its limit.
import { Status } from "../parts/common.tsx";
import { call } from "../state/api.ts";
import { useLoaded } from "../state/loaded.ts";
import { Instants } from "./series-chart.tsx";
import { queryInstant } from "./prometheus.ts";

const CARDINALITY = 'topk(30, count by (__name__) ({__name__!=""}))';

export function Cardinality() {
  const found = useLoaded("cardinality", async (signal) => await queryInstant(CARDINALITY, Date.now(), signal));
  return (
    <>
      <ActiveSeries />
      <p class="quiet">The metrics with the most series of this organisation, now.</p>
      <Instants found={found} nothing="There are no series." heads={["metric", "series"]} />
    </>
  );
}

/** The number of active series next to its limit; the backend counts them only if there is a limit. */
function ActiveSeries() {
  const found = useLoaded("active series", async (signal) => {
    const limits = await call<{ active_series: number }>("/api/limits", { signal });
    const used = await call<{ active_series: number | null }[]>("/api/usage", { query: [["days", "1"]], signal });
    return { limit: limits.active_series, most: Math.max(0, ...used.map(({ active_series: series }) => series ?? 0)) };
  });
  const { limit, most = 0 } = found.value.value ?? {};
  return (
    <Status of={found}>
      {limit === 0 && <p class="quiet">There is no limit of active series.</p>}
      {limit !== undefined && limit > 0 && (
        <p>
          <label class="gauge">
            {most.toLocaleString("en")} active series at most today, of {limit.toLocaleString("en")} that the organisation may have
            <meter min={0} max={limit} high={limit * 0.8} optimum={0} value={most} />
          </label>
        </p>
      )}
    </Status>
  );
}
