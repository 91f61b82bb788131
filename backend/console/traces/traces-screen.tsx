// Search of traces: by service, operation, duration, errors and attributes.
import { Bar, List, Problem, Skeleton, useScreenRange, counted, visible } from "../parts/index.ts";
import { Button, Checkbox, ChoiceField, Field, Toggle } from "../parts/controls.tsx";
import { submitBy, stepKeys, useKeys, address, choose, go, route, PagedRows } from "../state/index.ts";
import { around, currentRange, timestampText, rangeQuery, span } from "../state/time.ts";
import type { ApiResponses } from "../../client/api.ts";
import { useSignal } from "@preact/signals";
import { useLayoutEffect, useState } from "preact/hooks";
import { Facets } from "./analysis.tsx";
import { Differences } from "./differences.tsx";
import { Heatmap } from "./heatmap.tsx";
import { panelQuery, searchParameters } from "./search.ts";
import { AddToDashboard } from "../dashboards/add-to-dashboard.tsx";
import { operationsOf, useServices } from "../services/known-services.ts";
import { SpanGroups } from "./span-groups.tsx";

type FoundTrace = ApiResponses["GET /query/traces/search"][number];

const DURATIONS = [
  ["min", "from"],
  ["max", "to"],
] as const;
const ROW_PX = 44;
const PAGE_ROWS = 100;

export function Traces() {
  const { query } = route.value;
  const { range, refresh, refreshKey } = useScreenRange();
  const isSlowestFirst = query.get("sort") === "slowest";
  const hasFacets = query.get("facets") === "1";
  const hasHeatmap = query.get("heatmap") === "1";
  const hasDifferences = query.get("differences") === "1";
  const hasGroups = query.get("group") === "1";
  const parameters = { ...searchParameters(query), ...rangeQuery(currentRange()) };
  const searched = `${JSON.stringify(searchParameters(query))} ${JSON.stringify(range)}`;
  const analysis = { requestKey: `${searched}${refreshKey}`, parameters };
  const [store] = useState(() => new PagedRows<FoundTrace>("/query/traces/search"));
  const listKey = `${searched} ${isSlowestFirst}`;
  // Its message is enough: the parts below would repeat it.
  const isRefused = store.error.value !== undefined && store.shownSince.value === undefined;
  useLayoutEffect(() => {
    void store.show(listKey, { ...parameters, order: isSlowestFirst ? "duration" : undefined, limit: PAGE_ROWS });
    return () => store.stop();
  }, [listKey, refreshKey]);
  return (
    <section class="screen traces" aria-labelledby="title">
      <Bar title="Traces" onNow={refresh}>
        <Toggle text="Slowest first" isOn={isSlowestFirst} onToggle={(isOn) => choose({ sort: isOn ? "slowest" : "" })} />
        <Toggle text="Facets" isOn={hasFacets} onToggle={(isOn) => choose({ facets: isOn ? "1" : "" })} />
        <Toggle text="Heatmap" isOn={hasHeatmap} onToggle={(isOn) => choose({ heatmap: isOn ? "1" : "" })} />
        <Toggle text="Differences" isOn={hasDifferences} onToggle={(isOn) => choose({ differences: isOn ? "1" : "", group: "" })} />
        <Toggle text="Group by" isOn={hasGroups} onToggle={(isOn) => choose({ group: isOn ? "1" : "", differences: "" })} />
        {!hasGroups && (
          <AddToDashboard panel={{ kind: "timeseries", source: "traces", width: 6, queries: [{ query: panelQuery(query) }] }} />
        )}
      </Bar>
      <SearchForm query={query} />
      <Problem message={store.error.value} retry={refresh} shownSince={store.shownSince.value} />
      {hasHeatmap && !isRefused && <Heatmap {...analysis} />}
      <div class={`split ${hasFacets && !isRefused ? "with-fields" : ""}`}>
        {hasFacets && !isRefused && <Facets {...analysis} />}
        {hasGroups ? (
          <SpanGroups requestKey={analysis.requestKey} />
        ) : hasDifferences ? (
          <Differences {...analysis} />
        ) : (
          <TraceList store={store} />
        )}
      </div>
    </section>
  );
}

function SearchForm({ query }: { query: URLSearchParams }) {
  const services = useServices();
  const service = query.get("service") ?? "";
  const known = services.value.value ?? [];
  return (
    <form
      data-unguarded
      class="search"
      // Other parameters of the address, such as the order, keep what is typed.
      key={JSON.stringify(searchParameters(query))}
      onSubmit={submitBy((form) => {
        const typed = Object.fromEntries(new FormData(form)) as Record<string, string>;
        choose({ ...typed, error: typed["error"] });
      })}
    >
      <ChoiceField label="service" name="service" size={16} initial={service} choices={known.map((one) => one.service)} />
      <ChoiceField
        label="operation"
        name="operation"
        size={16}
        initial={query.get("operation") ?? ""}
        choices={operationsOf(known, service)}
      />
      {DURATIONS.map(([name, label]) => (
        <Field
          key={name}
          label={label}
          name={name}
          inputMode="numeric"
          size={5}
          placeholder="ms"
          pattern="\d+(\.\d+)?"
          defaultValue={query.get(name) ?? ""}
        />
      ))}
      <Field
        label="attributes"
        name="attributes"
        type="text"
        data-query
        size={22}
        placeholder="http.response.status_code>=500"
        defaultValue={query.get("attributes") ?? ""}
      />
      <Checkbox label="errors" name="error" value="true" defaultChecked={query.get("error") === "true"} />
      <Button type="submit" class="primary" text="Search" />
    </form>
  );
}

function TraceList({ store }: { store: PagedRows<FoundTrace> }) {
  const at = useSignal(-1);
  const rows = store.rows.value;
  const isStale = store.isStale.value;
  useKeys(() => {
    const current = isStale ? [] : rows;
    const steps = stepKeys({ count: () => current.length, at: () => at.peek(), choose: (next) => (at.value = next) });
    const open = (trace: FoundTrace | undefined): void => trace && go(addressOf(trace));
    return { ...steps, Enter: () => open(current[at.peek()]) };
  }, [rows, isStale]);
  if (rows.length === 0 && store.busy.value) return <Skeleton lines={12} />;
  if (rows.length === 0)
    return store.error.value ? null : <div class="empty">No traces. Choose a longer time range, or remove conditions.</div>;
  const longest = Math.max(...rows.map(({ duration_ms: ms }) => ms));
  return (
    <List
      label="Traces"
      count={rows.length}
      rowPx={ROW_PX}
      at={at.value}
      isStale={isStale}
      onEnd={() => void store.more()}
      row={(index) => rows[index] && <TraceRow trace={rows[index]} longest={longest} isChosen={at.value === index} />}
    />
  );
}

function TraceRow({ trace, longest, isChosen }: { trace: FoundTrace; longest: number; isChosen: boolean }) {
  return (
    <div class={`line trace-line ${isChosen ? "is-chosen" : ""}`} role="row" aria-selected={isChosen}>
      <div role="gridcell" class="trace-name">
        <a href={addressOf(trace)}>
          <strong>
            <bdi>{visible(trace.root_service)}</bdi>
          </strong>{" "}
          <bdi>{visible(trace.root_operation)}</bdi>
        </a>
        <span class="quiet">
          {timestampText(trace.start)} · {counted(trace.spans, "span")} · <bdi>{visible(trace.services.slice(0, 6).join(", "))}</bdi>
        </span>
      </div>
      <div role="gridcell">{trace.errors > 0 && <span class="level is-error">{counted(trace.errors, "error")}</span>}</div>
      <div role="gridcell" class="duration">
        <span>{span(trace.duration_ms)}</span>
        <meter min={0} max={longest} value={trace.duration_ms} aria-label="duration relative to the longest" />
      </div>
    </div>
  );
}

function addressOf({ trace_id: id, start, duration_ms: ms }: FoundTrace): string {
  return address("traces", around(Date.parse(start), ms), id);
}
