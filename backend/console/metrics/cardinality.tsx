// Shows which metrics have the most series, and the number of active series next to its limit.
import { Status } from "../parts/common.tsx";
import { call } from "../state/api.ts";
import { useLoaded } from "../state/loaded.ts";
import { InstantTable } from "./series-chart.tsx";
import { queryInstant } from "./prometheus.ts";

const CARDINALITY = 'topk(30, count by (__name__) ({__name__!=""}))';

export function Cardinality() {
  const loaded = useLoaded("cardinality", async (signal) => await queryInstant(CARDINALITY, Date.now(), signal));
  return (
    <>
      <ActiveSeries />
      <p class="quiet">Metrics of your organisation with the most series in the last few minutes.</p>
      <InstantTable of={loaded} empty="No series." heads={["metric", "series"]} />
    </>
  );
}

/** The number of active series next to its limit; the backend counts them only if there is a limit. */
function ActiveSeries() {
  const loaded = useLoaded("active series", async (signal) => {
    const limits = await call<{ active_series: number }>("/api/limits", { signal });
    const usage = await call<{ active_series: number | null }[]>("/api/usage", { query: { days: 1 }, signal });
    return { limit: limits.active_series, max: Math.max(0, ...usage.map(({ active_series: series }) => series ?? 0)) };
  });
  const { limit, max = 0 } = loaded.value.value ?? {};
  return (
    <Status of={loaded}>
      {limit === 0 && <p class="quiet">The number of active series is not limited.</p>}
      {limit !== undefined && limit > 0 && (
        <p>
          <label class="gauge">
            Peak active series today: {max.toLocaleString("en")} of {limit.toLocaleString("en")} allowed
            <meter min={0} max={limit} high={limit * 0.8} optimum={0} value={max} />
          </label>
        </p>
      )}
    </Status>
  );
}
