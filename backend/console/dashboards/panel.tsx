// Shows one panel of a dashboard: the results of its queries as lines over time, figures, a table or a list. Queries start when the panel
// first becomes visible.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { levelClass } from "../logs/log-histogram.tsx";
import { queryParameters, type LogRow } from "../logs/log-rows.ts";
import { Chart } from "../metrics/chart.tsx";
import { readExemplars } from "../metrics/exemplars.tsx";
import { type LabelledSeries, queryInstant, queryRange, type Series, seriesName } from "../metrics/prometheus.ts";
import { formatValue, type Unit, unitOfQuery } from "../metrics/unit.ts";
import { Status } from "../parts/common.tsx";
import { Table } from "../parts/table.tsx";
import { visible } from "../parts/text.ts";
import { call } from "../state/api.ts";
import { useLoaded } from "../state/loaded.ts";
import { address } from "../state/route.ts";
import { timeText, currentRange, type Range, rangeQuery, span } from "../state/time.ts";
import { whereParameters } from "../traces/search.ts";
import type { ApiResponses } from "../../client/api.ts";
import { type Chosen, fillVariables, seriesLegend, type Panel, type PanelQuery } from "./dashboard.ts";

const HEIGHT_PX = 190;
const MAX_SERIES = 50;
const MAX_ROWS = 50;
const MAX_TRACES = 20;
const POINTS = 120;
const MAX_MESSAGE_CHARACTERS = 300;

type Bucket = ApiResponses["GET /query/logs/histogram"][number];
type HeatmapPoint = ApiResponses["GET /query/traces/heatmap"][number];
type FoundTrace = ApiResponses["GET /query/traces/search"][number];

export interface PanelProps {
  readonly panel: Panel;
  readonly chosen: Chosen;
  /** Identifies a request: range, variables, refreshes. */
  readonly requestKey: string;
}

export function PanelView({ panel, chosen, requestKey }: PanelProps) {
  const element = useRef<HTMLElement>(null);
  const isSeen = useSignal(false);
  useEffect(() => {
    const watcher = new IntersectionObserver((entries) => {
      if (entries.some(({ isIntersecting }) => isIntersecting)) isSeen.value = true;
    });
    if (element.current) watcher.observe(element.current);
    return () => watcher.disconnect();
  }, []);
  const queries = panel.queries.map(({ query, ...rest }) => ({ ...rest, query: fillVariables(query, chosen) }));
  const first = queries[0]?.query ?? "";
  const { from, to } = rangeInAddress();
  const screen = panel.source;
  const target = address(screen, { ...(screen === "traces" ? { attributes: first } : { q: first }), from, to });
  return (
    <figure class="panel" ref={element} style={{ gridColumn: `span ${panel.width}` }} aria-label={visible(panel.title)}>
      <figcaption>
        {panel.kind === "text" ? (
          <bdi>{visible(panel.title)}</bdi>
        ) : (
          <a href={target}>
            <bdi>{visible(panel.title) || "untitled"}</bdi>
          </a>
        )}
      </figcaption>
      {isSeen.value && <Contents panel={panel} queries={queries} requestKey={requestKey} />}
    </figure>
  );
}

function rangeInAddress(): { from: string | undefined; to: string | undefined } {
  const range = currentRange();
  if (range.last) return { from: range.last, to: undefined };
  return { from: new Date(range.fromMs).toISOString(), to: new Date(range.toMs).toISOString() };
}

interface ContentsProps {
  readonly panel: Panel;
  readonly queries: readonly PanelQuery[];
  readonly requestKey: string;
}

function Contents({ panel, queries, requestKey }: ContentsProps) {
  const panelKey = `${requestKey}\n${JSON.stringify([panel.kind, panel.source, queries])}`;
  switch (panel.kind) {
    case "text":
      return <p class="panel-text">{visible(panel.text ?? "")}</p>;
    case "timeseries":
      return <Lines panel={panel} queries={queries} panelKey={panelKey} />;
    case "list":
      return panel.source === "traces" ? (
        <TraceList query={queries[0]?.query ?? ""} requestKey={panelKey} />
      ) : (
        <LogList query={queries[0]?.query ?? ""} requestKey={panelKey} />
      );
    default:
      return <Values panel={panel} queries={queries} panelKey={panelKey} />;
  }
}

interface PanelResultProps {
  readonly panel: Panel;
  readonly queries: readonly PanelQuery[];
  readonly panelKey: string;
}

function unitOfPanel({ unit, source, queries }: Panel): Unit | undefined {
  return unit ?? (source === "metrics" ? unitOfQuery(queries[0]?.query ?? "") : undefined);
}

function Lines({ panel, queries, panelKey }: PanelResultProps) {
  const loaded = useLoaded(panelKey, async (signal) => {
    const range = currentRange();
    const metricQueries = panel.source === "metrics" ? queries.map(({ query }) => query) : [];
    const [exemplars, ...parts] = await Promise.all([
      readExemplars(metricQueries, range, signal),
      ...queries.map(async (query) => await readSeries(panel, query, range, signal)),
    ]);
    return { range, exemplars, series: parts.flat() };
  });
  const { range, exemplars, series = [] } = loaded.value.value ?? {};
  return (
    <Status of={loaded} empty={series.length === 0 && "No data in this time range."}>
      {range && series.length > 0 && (
        <>
          <Chart
            series={series.slice(0, MAX_SERIES)}
            fromS={range.fromMs / 1000}
            toS={range.toMs / 1000}
            heightPx={HEIGHT_PX}
            unit={unitOfPanel(panel)}
            exemplars={exemplars}
          />
          {series.length > MAX_SERIES && (
            <p class="quiet">
              Only the first {MAX_SERIES} of {series.length} series are shown.
            </p>
          )}
        </>
      )}
    </Status>
  );
}

async function readSeries(panel: Panel, { query, legend }: PanelQuery, range: Range, signal: AbortSignal): Promise<Series[]> {
  if (panel.source === "logs") return await readLogCounts(query, range, signal);
  if (panel.source === "traces") return await readSpanCounts(query, range, signal);
  const series = await queryRange(query, range, signal);
  return series.map((line) => ({ ...line, short: nameOf(line, legend) }));
}

function nameOf({ labels, short }: LabelledSeries, legend: string | undefined): string {
  return (legend && seriesLegend(legend, labels)) || short;
}

async function readLogCounts(query: string, range: Range, signal: AbortSignal): Promise<Series[]> {
  const parameters = { ...queryParameters(query), ...rangeQuery(range) };
  const buckets = await call<Bucket[]>("/query/logs/histogram", { query: parameters, signal });
  const levels = [...new Set(buckets.flatMap(({ counts }) => Object.keys(counts)))];
  return levels.map((level) => ({
    name: level,
    short: level || "no level",
    points: buckets.map(({ start, counts }) => [Date.parse(start) / 1000, counts[level] ?? 0] as const),
  }));
}

async function readSpanCounts(query: string, range: Range, signal: AbortSignal): Promise<Series[]> {
  const points = await call<HeatmapPoint[]>("/query/traces/heatmap", {
    query: { ...whereParameters(query), ...rangeQuery(range), points: POINTS },
    signal,
  });
  const line = (name: "spans" | "errors"): Series => ({
    name,
    short: name,
    points: points.map((point) => [Date.parse(point.start) / 1000, point[name]] as const),
  });
  return [line("spans"), line("errors")];
}

/** The values at the end of the range. */
function Values({ panel, queries, panelKey }: PanelResultProps) {
  const loaded = useLoaded(panelKey, async (signal) => {
    const atMs = currentRange().toMs;
    const parts = await Promise.all(
      queries.map(async ({ query, legend }) =>
        (await queryInstant(query, atMs, signal)).map(({ labels, value }) => ({
          name: (legend && seriesLegend(legend, labels)) || seriesName(labels),
          value: Number(value),
        })),
      ),
    );
    return parts.flat();
  });
  const rows = (loaded.value.value ?? []).slice(0, MAX_ROWS);
  const unit = unitOfPanel(panel);
  return (
    <Status of={loaded} empty={rows.length === 0 && "No data at the end of this time range."}>
      {panel.kind === "stat" ? (
        <ul class="plain-list stats">
          {rows.map(({ name, value }, at) => (
            <li key={at}>
              <span class="figure">{formatValue(value, unit)}</span> {rows.length > 1 && <bdi class="quiet">{visible(name)}</bdi>}
            </li>
          ))}
        </ul>
      ) : (
        <Table
          title={panel.title}
          rows={rows}
          columns={[
            { head: "series", cell: ({ name }) => name },
            { head: "value", kind: "number", cell: ({ value }) => formatValue(value, unit) },
          ]}
        />
      )}
    </Status>
  );
}

/** The newest records. */
export function LogList({ query, requestKey }: { query: string; requestKey: string }) {
  const loaded = useLoaded(requestKey, async (signal) => {
    const parameters = { ...queryParameters(query), ...rangeQuery(currentRange()), limit: MAX_ROWS };
    return await call<LogRow[]>("/query/logs", { query: parameters, signal });
  });
  const rows = loaded.value.value ?? [];
  return (
    <Status of={loaded} empty={rows.length === 0 && "No records in this time range."}>
      <div class="panel-list" tabIndex={0} role="group" aria-label="Records">
        {rows.map((row, at) => (
          <div class={`line mark ${levelClass(row.level)}`} key={at}>
            <time dateTime={row.timestamp}>{timeText(new Date(row.timestamp))}</time>
            <span class={`level ${levelClass(row.level)}`}>{visible(row.level.slice(0, 8)) || "–"}</span>
            <bdi class="message">{visible(row.message.slice(0, MAX_MESSAGE_CHARACTERS).replace(/\s+/g, " "))}</bdi>
          </div>
        ))}
      </div>
    </Status>
  );
}

/** The slowest traces. */
export function TraceList({ query, requestKey }: { query: string; requestKey: string }) {
  const loaded = useLoaded(requestKey, async (signal) => {
    const parameters = { ...whereParameters(query), ...rangeQuery(currentRange()), order: "duration", limit: MAX_TRACES };
    return await call<FoundTrace[]>("/query/traces/search", { query: parameters, signal });
  });
  const rows = loaded.value.value ?? [];
  return (
    <Status of={loaded} empty={rows.length === 0 && "No traces in this time range."}>
      <ul class="plain-list">
        {rows.map((row) => (
          <li key={row.trace_id}>
            <a href={address("traces", {}, row.trace_id)}>
              <bdi>{visible(row.root_service)}</bdi> <bdi>{visible(row.root_operation)}</bdi>
            </a>{" "}
            {span(row.duration_ms)} {row.errors > 0 && <span class="level is-error">failed</span>}
          </li>
        ))}
      </ul>
    </Status>
  );
}
