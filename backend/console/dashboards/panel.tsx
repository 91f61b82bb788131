// Shows one panel of a dashboard: the results of its queries as lines over time, figures, a table or a list. Queries start when the panel
// first becomes visible.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { levelClass, levelProperty } from "../logs/log-histogram.tsx";
import { queryParameters, type LogRow } from "../logs/log-rows.ts";
import { Chart } from "../metrics/chart.tsx";
import type { Marker } from "../metrics/plot-drawing.ts";
import { readExemplars } from "../metrics/exemplars.tsx";
import { type LabelledSeries, LOKI, queryInstant, queryRange, type Series, seriesName } from "../metrics/prometheus.ts";
import { formatValue, type Unit, unitOfQuery } from "../metrics/unit.ts";
import { Status, Table, visible } from "../parts/index.ts";
import { call, useDebounced, useLoaded, address, timeText, currentRange, type Range, rangeQuery, span } from "../state/index.ts";
import { panelParameters, searchOfPanel } from "../traces/search.ts";
import type { ApiResponses } from "../../client/api.ts";
import { isMetricOfLogQl } from "../../client/query-syntax.ts";
import { rowsOf } from "./layout.ts";
import { type Chosen, fillVariables, seriesLegend, type Panel, type PanelQuery } from "./dashboard.ts";

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
  readonly markers?: readonly Marker[] | undefined;
  readonly editing?: { readonly isSelected: boolean; readonly onSelect: () => void; readonly handles: ComponentChildren };
}

export function PanelView({ panel, chosen, requestKey, markers, editing }: PanelProps) {
  const element = useRef<HTMLElement>(null);
  const isSeen = useSignal(false);
  useEffect(() => {
    const watcher = new IntersectionObserver((entries) => {
      if (entries.some(({ isIntersecting }) => isIntersecting)) isSeen.value = true;
    });
    if (element.current) watcher.observe(element.current);
    return () => watcher.disconnect();
  }, []);
  const typed = panel.queries.map(({ query, ...rest }) => ({ ...rest, query: fillVariables(query, chosen) }));
  const typedText = JSON.stringify(typed);
  const settledText = useDebounced(typedText);
  // While queries are typed, they are sent after a pause.
  const queries = useMemo(
    () => JSON.parse(editing ? settledText : typedText) as readonly PanelQuery[],
    [editing ? settledText : typedText],
  );
  // A new panel has no expression yet. An empty query of logs or traces finds all of them.
  const sent = panel.source === "metrics" ? queries.filter(({ query }) => query.trim() !== "") : queries;
  const title = <bdi>{visible(panel.title) || "untitled"}</bdi>;
  return (
    <figure
      class={`panel ${editing?.isSelected ? "is-selected" : ""}`}
      ref={element}
      style={{ gridColumn: `span ${panel.width}`, gridRow: `span ${rowsOf(panel)}` }}
      aria-label={visible(panel.title)}
      onClick={editing?.onSelect}
    >
      <figcaption>
        {editing ? (
          <button type="button" class="plain" aria-pressed={editing.isSelected} aria-label={`Edit ${visible(panel.title) || "untitled"}`}>
            {title}
          </button>
        ) : panel.kind === "text" ? (
          title
        ) : (
          <a href={panelAddress(panel.source, queries[0]?.query ?? "")}>{title}</a>
        )}
        {editing?.handles}
      </figcaption>
      {isSeen.value && (panel.kind === "text" || sent.length > 0) && (
        <Contents
          panel={panel}
          queries={sent}
          requestKey={`${requestKey}\n${JSON.stringify([panel.kind, panel.source, sent])}`}
          markers={markers}
        />
      )}
    </figure>
  );
}

function panelAddress(source: Panel["source"], query: string): string {
  const { from, to } = rangeInAddress();
  return address(source, { ...(source === "traces" ? searchOfPanel(query) : { q: query }), from, to });
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
  readonly markers: readonly Marker[] | undefined;
}

function Contents(props: ContentsProps) {
  const { panel, queries, requestKey } = props;
  const query = queries[0]?.query ?? "";
  switch (panel.kind) {
    case "text":
      return (
        <p class="panel-text" tabIndex={0}>
          {visible(panel.text ?? "")}
        </p>
      );
    case "timeseries":
      return <Lines {...props} />;
    case "list":
      return panel.source === "traces" ? (
        <TraceList query={query} requestKey={requestKey} />
      ) : (
        <LogList query={query} requestKey={requestKey} />
      );
    default:
      return <Values {...props} />;
  }
}

function unitOfPanel({ unit, source, queries }: Panel): Unit | undefined {
  return unit ?? (source === "metrics" ? unitOfQuery(queries[0]?.query ?? "") : undefined);
}

function Lines({ panel, queries, requestKey, markers }: ContentsProps) {
  const loaded = useLoaded(requestKey, async (signal) => {
    const range = currentRange();
    const metricQueries = panel.source === "metrics" ? queries.map(({ query }) => query) : [];
    const [exemplars, ...parts] = await Promise.all([
      readExemplars(metricQueries, range, signal),
      ...queries.map(async (query) => await readSeries(panel, query, range, signal)),
    ]);
    const all = parts.flat();
    return { range, exemplars, series: all.slice(0, MAX_SERIES), count: all.length };
  });
  const { range, exemplars, series = [], count = 0 } = loaded.value.value ?? {};
  return (
    <Status of={loaded} empty={series.length === 0 && "No data in this time range."}>
      {range && series.length > 0 && (
        <>
          <Chart
            series={series}
            range={range}
            heightPx="fill"
            unit={unitOfPanel(panel)}
            min={panel.min}
            max={panel.max}
            isStacked={panel.stacked}
            thresholds={panel.thresholds}
            shape={isCounted(panel, queries) ? "bars" : undefined}
            exemplars={exemplars}
            markers={markers}
          />
          {count > MAX_SERIES && (
            <p class="quiet">
              Only the first {MAX_SERIES} of {count} series are shown.
            </p>
          )}
        </>
      )}
    </Status>
  );
}

/** Whether its series are counts of intervals. */
function isCounted({ source }: Panel, queries: readonly PanelQuery[]): boolean {
  return source === "traces" || (source === "logs" && !queries.some(({ query }) => isMetricOfLogQl(query)));
}

async function readSeries(panel: Panel, { query, legend }: PanelQuery, range: Range, signal: AbortSignal): Promise<Series[]> {
  if (panel.source === "logs")
    return isMetricOfLogQl(query) ? await queryRange(query, range, signal, LOKI) : await readLogCounts(query, range, signal);
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
    colour: levelProperty(level),
    points: buckets.map(({ start, counts }) => [Date.parse(start) / 1000, counts[level] ?? 0] as const),
  }));
}

async function readSpanCounts(query: string, range: Range, signal: AbortSignal): Promise<Series[]> {
  const points = await call<HeatmapPoint[]>("/query/traces/heatmap", {
    query: { ...panelParameters(query), ...rangeQuery(range), points: POINTS },
    signal,
  });
  const line = (name: "spans" | "errors"): Series => ({
    name,
    short: name === "spans" ? "without an error" : name,
    points: points.map((point) => [Date.parse(point.start) / 1000, name === "spans" ? point.spans - point.errors : point.errors] as const),
    ...(name === "errors" && { colour: "--error" }),
  });
  return [line("spans"), line("errors")];
}

function Values({ panel, queries, requestKey }: ContentsProps) {
  const loaded = useLoaded(requestKey, async (signal) => {
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
        <ul class="plain-list stats" tabIndex={0}>
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

export function TraceList({ query, requestKey }: { query: string; requestKey: string }) {
  const loaded = useLoaded(requestKey, async (signal) => {
    const parameters = { ...panelParameters(query), ...rangeQuery(currentRange()), order: "duration", limit: MAX_TRACES };
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
