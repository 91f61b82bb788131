// Metrics: questions in PromQL, typed or built, as a chart or a table; and which metrics have the most series.
import { Bar } from "../parts/layout.tsx";
import { AddToDashboard } from "../dashboards/add-to-dashboard.tsx";
import { Download } from "../parts/download.tsx";
import { useScreenRange } from "../parts/time-picker.tsx";
import { useLoaded } from "../state/loaded.ts";
import { address, choose, route } from "../state/route.ts";
import { currentRange, type Range } from "../state/time.ts";
import { Cardinality } from "./cardinality.tsx";
import { readExemplars } from "./exemplars.tsx";
import { queryInstant, queryRange, type Series } from "./prometheus.ts";
import { LETTERS, Queries } from "./queries.tsx";
import { InstantTable, SeriesChart } from "./series-chart.tsx";
import { unitOfQuery } from "./unit.ts";
import { Status } from "../parts/common.tsx";
import { Button, Tabs } from "../parts/controls.tsx";

const EXAMPLES = [
  ["memory by state", "sum by (state) (system_memory_usage_bytes)"],
  ["CPU load", "system_cpu_load_average_1m"],
  ["network, bytes per second", "sum by (direction) (rate(system_network_io_bytes_total[5m]))"],
] as const;

export function Metrics() {
  const { query } = route.value;
  const expressions = query.getAll("q").slice(0, LETTERS.length);
  const view = query.get("view") ?? "chart";
  const hasBuilder = query.get("builder") === "1";
  const { refresh, refreshKey } = useScreenRange();
  const requestKey = `${query}\n${refreshKey}`;
  return (
    <section class="screen metrics" aria-labelledby="title">
      <Bar title="Metrics" onNow={refresh}>
        <Tabs
          label="Shown as"
          tabs={["chart", "table", "cardinality"]}
          chosen={view}
          onChoose={(name) => choose({ view: name === "chart" ? undefined : name })}
        />
        {expressions.length > 0 && (
          <>
            <Button aria-pressed={hasBuilder} onClick={() => choose({ builder: hasBuilder ? undefined : "1" })} text="Builder" />
            <AddToDashboard
              panel={{ kind: "timeseries", source: "metrics", width: 6, queries: expressions.map((text) => ({ query: text })) }}
            />
            <Download name="metrics" read={async () => await readDownload(expressions)} />
          </>
        )}
      </Bar>
      {view !== "cardinality" && (
        <Queries
          queries={expressions}
          hasBuilder={hasBuilder}
          onQueries={(q) => (q.join("\n") === expressions.join("\n") ? refresh() : choose({ q }))}
          onBuilt={(q) => choose({ q, builder: "1" })}
        />
      )}
      {view === "cardinality" ? <Cardinality /> : <Results queries={expressions} requestKey={requestKey} view={view} />}
    </section>
  );
}

/** One row for each point of each series. */
async function readDownload(queries: readonly string[]): Promise<Readonly<Record<string, unknown>>[]> {
  const series = await readAll(queries, currentRange(), new AbortController().signal);
  return series.flatMap(({ name, points }) =>
    points.map(([at, value]) => ({ series: name, time: new Date(at * 1000).toISOString(), value })),
  );
}

/** The series of several queries have the letters of their queries in their names. */
async function readAll(queries: readonly string[], range: Range, signal: AbortSignal): Promise<Series[]> {
  const parts = await ofEach(queries, async (query) => await queryRange(query, range, signal));
  return parts.flatMap((part, at) =>
    part.map(({ name, short, points }) => ({ name: withLetter(queries, at, name), short: withLetter(queries, at, short), points })),
  );
}

function withLetter(queries: readonly string[], at: number, text: string): string {
  return queries.length === 1 ? text : `${LETTERS[at]}: ${text}`;
}

/** Throws an Error that names the query, if there are several. */
async function ofEach<T>(queries: readonly string[], ask: (query: string) => Promise<T>): Promise<T[]> {
  const named = async (query: string, at: number): Promise<T> =>
    await ask(query).catch((error: Error) => {
      throw new Error(withLetter(queries, at, error.message), { cause: error });
    });
  return await Promise.all(queries.map(named));
}

interface ResultsProps {
  readonly queries: readonly string[];
  readonly requestKey: string;
}

function Results({ queries, requestKey, view }: ResultsProps & { readonly view: string }) {
  if (queries.length === 0)
    return (
      <div class="empty">
        <p>Choose a metric, or enter a PromQL expression and press Enter. For example:</p>
        <ul class="plain-list">
          {EXAMPLES.map(([name, example]) => (
            <li key={name}>
              <a href={address("metrics", { q: example })}>{name}</a> <code>{example}</code>
            </li>
          ))}
        </ul>
      </div>
    );
  return view === "table" ? <Now queries={queries} requestKey={requestKey} /> : <Graph queries={queries} requestKey={requestKey} />;
}

function Graph({ queries, requestKey }: ResultsProps) {
  const loaded = useLoaded(requestKey, async (signal) => {
    const range = currentRange();
    const [series, exemplars] = await Promise.all([readAll(queries, range, signal), readExemplars(queries, range, signal)]);
    const units = new Set(queries.map(unitOfQuery));
    return { range, series, exemplars, unit: units.size === 1 ? [...units][0] : undefined };
  });
  const { range, series, exemplars, unit } = loaded.value.value ?? {};
  return (
    <Status of={loaded} empty={series?.length === 0 && "No series match in this time range."}>
      {range && series && <SeriesChart series={series} range={range} unit={unit} exemplars={exemplars} />}
    </Status>
  );
}

function Now({ queries, requestKey }: ResultsProps) {
  const loaded = useLoaded(requestKey, async (signal) => {
    const atMs = currentRange().toMs;
    return (await ofEach(queries, async (query) => await queryInstant(query, atMs, signal))).flat();
  });
  return <InstantTable of={loaded} empty="No series match at this time." />;
}
