// Metrics: questions in PromQL, typed or built, as a chart or a table; and which metrics have the most series.
import { Bar, Download, useScreenRange, Status, Button, Tabs } from "../parts/index.ts";
import { AddToDashboard } from "../dashboards/add-to-dashboard.tsx";
import { useLoaded, address, choose, route, currentRange, type Range, call, mayWrite } from "../state/index.ts";
import { readExemplars } from "./exemplars.tsx";
import { queryInstant, queryRange, type Series } from "./prometheus.ts";
import { InstantTable, LoadedChart } from "./series-chart.tsx";
import { unitOfQuery } from "./unit.ts";
import { useSignal } from "@preact/signals";
import { Builder, useMetadata } from "./builder-fields.tsx";
import { PromqlField } from "./promql-field.tsx";

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
            <Download name="metrics" read={async () => await readDownload(expressions)} />
            <AddToDashboard
              panel={{ kind: "timeseries", source: "metrics", width: 6, queries: expressions.map((text) => ({ query: text })) }}
            />
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
  return <LoadedChart of={loaded} />;
}

function Now({ queries, requestKey }: ResultsProps) {
  const loaded = useLoaded(requestKey, async (signal) => {
    const atMs = currentRange().toMs;
    return (await ofEach(queries, async (query) => await queryInstant(query, atMs, signal))).flat();
  });
  return <InstantTable of={loaded} empty="No series match at this time." />;
}

const CARDINALITY = 'topk(30, count by (__name__) ({__name__!=""}))';

function Cardinality() {
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

/** Names of the queries of a chart, which has at most as many queries as there are letters. */
const LETTERS = "ABCDEFGH";

interface QueriesProps {
  readonly queries: readonly string[];
  readonly hasBuilder: boolean;
  /** All of them, without empty ones. */
  readonly onQueries: (queries: readonly string[]) => void;
  readonly onBuilt: (queries: readonly string[]) => void;
}

function Queries({ queries, hasBuilder, onQueries, onBuilt }: QueriesProps) {
  const isAdding = useSignal(false);
  const isBuilderShown = hasBuilder || queries.length === 0;
  const metadata = useMetadata(isBuilderShown);
  const shown = queries.length === 0 || isAdding.value ? [...queries, ""] : queries;
  const changed = (at: number, text: string): string[] => {
    isAdding.value = false;
    return shown.toSpliced(at, 1, text.trim()).filter(Boolean);
  };
  return (
    <div class="queries">
      {shown.map((query, at) => {
        const name = shown.length > 1 ? ` ${LETTERS[at]}` : "";
        return (
          <div key={at} role="group" aria-label={`Query${name}`}>
            <div class="bar">
              {name && <strong>{LETTERS[at]}</strong>}
              <PromqlField label={`PromQL${name}`} value={query} onEnter={(text) => onQueries(changed(at, text))} />
              {mayWrite.value && query !== "" && <a href={address("alerts", { rule: "new", expr: query })}>Create alert rule</a>}
              {name && <Button class="plain" aria-label={`Remove query${name}`} onClick={() => onQueries(changed(at, ""))} text="✕" />}
            </div>
            {isBuilderShown && <Builder query={query} metadata={metadata} onBuilt={(text) => onBuilt(changed(at, text))} />}
          </div>
        );
      })}
      {queries.length > 0 && !isAdding.value && queries.length < LETTERS.length && (
        <Button class="small" onClick={() => (isAdding.value = true)} text="Add query" />
      )}
    </div>
  );
}
