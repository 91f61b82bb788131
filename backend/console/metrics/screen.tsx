// Metrics: a question in PromQL, as a chart or a table; and which metrics take the most series.
import { useSignal } from "@preact/signals";
import { Download } from "../parts/download.tsx";
import { TimePicker, useRefresh } from "../parts/time-picker.tsx";
import { useLoaded, type Loaded } from "../state/loaded.ts";
import { address, choose, route } from "../state/route.ts";
import { currentRange } from "../state/time.ts";
import { Chart, colourClass, type Series } from "./chart.tsx";
import { queryInstant, queryRange, seriesName, type Instant } from "./prometheus.ts";
import { PromqlField } from "./promql-field.tsx";
import { formatValue, type Unit, unitOfQuery } from "./unit.ts";
import { Problem, Status, Table } from "../parts/common.tsx";
import { visible } from "../parts/text.ts";
import { call } from "../state/api.ts";

const MOST_DRAWN = 50;
const MOST_ROWS = 1000;
const EXAMPLES = [
  ["memory by state", "sum by (state) (system_memory_usage_bytes)"],
  ["processor load", "system_cpu_load_average_1m"],
  ["network, bytes a second", "sum by (direction) (rate(system_network_io_bytes_total[5m]))"],
] as const;
const CARDINALITY = 'topk(30, count by (__name__) ({__name__!=""}))';

export function Metrics() {
  const { query } = route.value;
  const asked = query.get("q") ?? "";
  const view = query.get("view") ?? "chart";
  const again = useSignal(0);
  useRefresh(() => again.value++);
  const question = asked && `${asked}\n${query}\n${again.value}`;
  return (
    <section class="screen metrics" aria-labelledby="title">
      <div class="bar">
        <h1 id="title">Metrics</h1>
        <PromqlField label="PromQL" value={asked} onEnter={(q) => (q === asked ? again.value++ : choose({ q }))} />
        <TimePicker onNow={() => again.value++} />
        <div role="group" aria-label="Shown as" class="tabs">
          {["chart", "table", "cardinality"].map((name) => (
            <button
              type="button"
              key={name}
              aria-pressed={view === name}
              onClick={() => choose({ view: name === "chart" ? undefined : name })}
            >
              {name}
            </button>
          ))}
        </div>
        {asked && (
          <>
            <Download name="metrics" read={async () => await downloaded(asked)} />
            <a href={address("alerts", { rule: "new", expr: asked })}>alert on this</a>
          </>
        )}
      </div>
      {view === "cardinality" ? <Cardinality /> : <Asked query={asked} question={question} view={view} />}
    </section>
  );
}

/** One row for each point of each series. */
async function downloaded(query: string): Promise<Readonly<Record<string, unknown>>[]> {
  const series = await queryRange(query, currentRange(), new AbortController().signal);
  return series.flatMap(({ name, points }) =>
    points.map(([at, value]) => ({ series: name, time: new Date(at * 1000).toISOString(), value })),
  );
}

function Asked({ query, question, view }: { query: string; question: string; view: string }) {
  if (!question)
    return (
      <div class="empty">
        <p>Ask in PromQL; Enter sends. For example:</p>
        <ul>
          {EXAMPLES.map(([name, example]) => (
            <li key={name}>
              <a href={address("metrics", { q: example })}>{name}</a> <code>{example}</code>
            </li>
          ))}
        </ul>
      </div>
    );
  return view === "table" ? <Now query={query} question={question} /> : <Graph query={query} question={question} />;
}

function Graph({ query, question }: { query: string; question: string }) {
  const found = useLoaded(question, async (signal) => {
    const range = currentRange();
    return { range, series: await queryRange(query, range, signal) };
  });
  const { range, series } = found.value.value ?? {};
  const unit = unitOfQuery(query);
  return (
    <Status of={found} empty={series?.length === 0 && "No series match in this range."}>
      {range && series && series.length > 0 && (
        <>
          <Chart series={series.slice(0, MOST_DRAWN)} fromS={range.fromMs / 1000} toS={range.toMs / 1000} unit={unit} />
          {series.length > MOST_DRAWN && (
            <p class="quiet">
              The first {MOST_DRAWN} of {series.length} series are drawn; <code>topk(10, …)</code> chooses.
            </p>
          )}
          <Last series={series} unit={unit} />
        </>
      )}
    </Status>
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

function Now({ query, question }: { query: string; question: string }) {
  const found = useLoaded(question, async (signal) => await queryInstant(query, currentRange().toMs, signal));
  return <Instants found={found} nothing="No series match at this moment." />;
}

function Cardinality() {
  const found = useLoaded("cardinality", async (signal) => await queryInstant(CARDINALITY, Date.now(), signal));
  return (
    <>
      <ActiveSeries />
      <p class="quiet">The metrics with the most series of this organisation, now.</p>
      <Instants found={found} nothing="There are no series." />
    </>
  );
}

/** The active series next to their limit. The backend counts them only if there is a limit. */
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

function Instants({ found, nothing }: { found: Loaded<Instant[]>; nothing: string }) {
  const rows = found.value.value ?? [];
  return (
    <Status of={found} empty={rows.length === 0 && nothing}>
      {rows.length > 0 && (
        <Table title="Series and their values" heads={["series", "value"]}>
          {rows.slice(0, MOST_ROWS).map(({ labels, value }) => (
            <tr key={seriesName(labels)}>
              <td>
                <a href={address("metrics", { q: seriesName(labels) })}>
                  <bdi>{visible(seriesName(labels))}</bdi>
                </a>
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
