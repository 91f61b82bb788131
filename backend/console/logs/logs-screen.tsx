// The log explorer: a query, counts over time, fields with their values, the records, and a single record. All choices are in the address:
// query, range, columns, scale, refresh and the record.
import { Bar, Problem, ButtonLink, Button, Toggle, Download, useScreenRange } from "../parts/index.ts";
import { useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { AddToDashboard } from "../dashboards/add-to-dashboard.tsx";
import { call, pagesOf, stepKeys, useKeys, useLoaded, address, choose, route, mayWrite, currentRange, rangeQuery } from "../state/index.ts";
import type { Query } from "../state/index.ts";
import { Fields, Refusal } from "./fields.tsx";
import { Histogram, type Bucket } from "./log-histogram.tsx";
import { Patterns } from "./patterns.tsx";
import { isLogQl, isMetricOfLogQl } from "../../client/query-syntax.ts";
import { hasTerm, type Term, addCondition, removeTerm, addTerm } from "./query-line.ts";
import { QueryField } from "./query-field.tsx";
import { Record } from "./record.tsx";
import { findRecord, recordAddress } from "./record-address.ts";
import { type LogRow, LogRows, queryParameters, queryProblem } from "./log-rows.ts";
import { LogTable } from "./log-table.tsx";
import { LogGroups } from "./log-groups.tsx";
import { LogQlChart } from "../metrics/series-chart.tsx";

const MAX_DOWNLOADED = 10_000;
const MAX_COLUMNS = 6;

export function Logs() {
  const { query } = route.value;
  const line = query.get("q") ?? "";
  const isMetric = isMetricOfLogQl(line);
  const isLive = query.get("live") === "1" && !isMetric;
  const rows = useRef<LogRows>();
  rows.current ??= new LogRows();
  const store = rows.current;
  const parameters = queryParameters(line);
  const { range, refresh, refreshKey } = useScreenRange((again) => void (isLive || store.busy.peek() || again()));
  const key = JSON.stringify([line, range, isLive]);
  const requestKey = `${key}${refreshKey}`;
  useLayoutEffect(() => {
    if (!isMetric) void (isLive ? store.tail(parameters) : store.show(key, { ...parameters, ...rangeQuery(currentRange()), limit: 500 }));
    return () => store.stop();
  }, [requestKey]);
  const hasFields = (query.get("fields") ?? (matchMedia("(min-width: 1000px)").matches ? "1" : "0")) === "1";
  const view = isLive ? undefined : (query.get("view") ?? undefined);
  return (
    <section class="screen logs" aria-labelledby="title">
      <Bar title="Logs" onNow={refresh}>
        {!isMetric && (
          <>
            <Views isLive={isLive} hasFields={hasFields} view={view} />
            <Download name="logs" read={async () => await readDownload(parameters)} />
            {mayWrite.value && line !== "" && !isLogQl(line) && (
              <ButtonLink href={address("alerts", { rule: "new", logs: line })} text="Create alert rule" />
            )}
          </>
        )}
        {view !== "group" && <AddToDashboard panel={{ kind: "timeseries", source: "logs", width: 6, queries: [{ query: line }] }} />}
      </Bar>
      <QueryField
        line={line}
        problem={isMetric ? undefined : queryProblem(store.error.value)}
        onLine={(q) => (q === line ? refresh() : choose({ q: q || undefined, record: undefined }))}
      />
      {isMetric ? (
        <LogQlChart line={line} requestKey={requestKey} />
      ) : (
        <Records store={store} line={line} requestKey={requestKey} isLive={isLive} hasFields={hasFields} view={view} refresh={refresh} />
      )}
    </section>
  );
}

interface RecordsProps extends ViewsProps {
  readonly store: LogRows;
  readonly line: string;
  readonly requestKey: string;
  readonly refresh: () => void;
}

function Records({ store, line, requestKey, isLive, hasFields, view, refresh }: RecordsProps) {
  const parameters = queryParameters(line);
  const isRefused = store.error.value !== undefined && store.shownSince.value === undefined;
  // Stages of LogQL change records; any other query finds them as they are stored.
  const [chosen, setChosen] = useChosenRecord(store, isLogQl(line) ? parameters : {});
  // Next to a record, which has all its fields, the messages need the room.
  const hasRoom = !chosen || matchMedia("(min-width: 1600px)").matches;
  const areFieldsShown = hasFields && !isLive && !isRefused && hasRoom;
  const filter = (term: Term): void => choose({ q: addTerm(line, term), record: undefined });
  const columns = route.value.query.getAll("column").slice(0, MAX_COLUMNS);
  const setColumns = (column: readonly string[]): void => choose({ column: column.slice(0, MAX_COLUMNS) });
  const toggleColumn = (name: string): void =>
    setColumns(columns.includes(name) ? columns.filter((other) => other !== name) : [...columns, name]);
  return (
    <>
      {queryProblem(store.error.value) === undefined && (
        <Problem message={store.error.value} retry={refresh} shownSince={store.shownSince.value} />
      )}
      {isLive ? <Tail store={store} /> : !isRefused && <Counts requestKey={requestKey} parameters={parameters} line={line} />}
      <div class={`split ${chosen ? "with-side" : ""} ${areFieldsShown ? "with-fields" : ""}`}>
        {areFieldsShown && (
          <Fields requestKey={requestKey} parameters={parameters} columns={columns} onTerm={filter} onColumn={toggleColumn} />
        )}
        {view === "group" ? (
          <LogGroups line={line} parameters={parameters} requestKey={requestKey} />
        ) : view === "patterns" && !isRefused ? (
          <Patterns
            requestKey={requestKey}
            parameters={parameters}
            onCondition={(condition) => choose({ q: addCondition(line, condition), view: undefined, record: undefined })}
          />
        ) : (
          <LogTable store={store} chosen={chosen} columns={columns} onChoose={setChosen} onColumns={setColumns} />
        )}
        {chosen && <Record row={chosen} onFilter={filter} onClose={() => setChosen(undefined)} />}
      </div>
    </>
  );
}

interface ViewsProps {
  readonly isLive: boolean;
  readonly hasFields: boolean;
  readonly view: string | undefined;
}

function Views({ isLive, hasFields, view }: ViewsProps) {
  return (
    <>
      <Toggle text="Live tail" isOn={isLive} onToggle={(isOn) => choose({ live: isOn ? "1" : "", record: undefined })} />
      <Toggle text="Fields" isOn={hasFields} onToggle={(isOn) => choose({ fields: isOn ? "1" : "0" })} />
      <Toggle text="Patterns" isOn={view === "patterns"} onToggle={(isOn) => choose({ view: isOn ? "patterns" : "", live: undefined })} />
      <Toggle text="Group by" isOn={view === "group"} onToggle={(isOn) => choose({ view: isOn ? "group" : "", live: undefined })} />
    </>
  );
}

/** The record in the address: one of the rows, or read by its time. */
function useChosenRecord(store: LogRows, parameters: Query): [LogRow | undefined, (row: LogRow | undefined) => void] {
  const wanted = route.value.query.get("record") ?? undefined;
  const last = useSignal<LogRow | undefined>(undefined);
  const isKnown = wanted !== undefined && last.value !== undefined && recordAddress(last.value) === wanted;
  const loaded = useLoaded(wanted === undefined || isKnown ? undefined : wanted, async (signal) => {
    const row = store.rows.peek().find((other) => recordAddress(other) === wanted) ?? (await findRecord(wanted ?? "", parameters, signal));
    last.value = row;
    return { row };
  });
  void loaded.value.value;
  const setChosen = (row: LogRow | undefined): void => {
    last.value = row;
    choose({ record: row && recordAddress(row) }, { replace: true });
  };
  const chosen = wanted === undefined ? undefined : last.value;
  useKeys(() => {
    const steps = stepKeys({
      count: () => (store.isStale.peek() ? 0 : store.rows.peek().length),
      at: () => store.rows.peek().indexOf(last.peek() as LogRow),
      choose: (at) => setChosen(store.rows.peek()[at]),
    });
    return { ...steps, Escape: () => setChosen(undefined) };
  }, []);
  return [chosen, setChosen];
}

function Counts({ requestKey, parameters, line }: { requestKey: string; parameters: Query; line: string }) {
  const scale = route.value.query.get("scale");
  const loaded = useLoaded(requestKey, async (signal) => {
    const query = { ...parameters, ...rangeQuery(currentRange()) };
    return await call<Bucket[]>("/query/logs/histogram", { query, signal });
  });
  return (
    <>
      <Refusal of={loaded} />
      <div class="histogram-place">
        {loaded.value.value && (
          <Histogram
            buckets={loaded.value.value}
            scale={scale === "log" || scale === "linear" ? scale : undefined}
            onScale={(chosen) => choose({ scale: chosen })}
            isChosen={(name) => hasTerm(line, level(name))}
            onLevel={(name) => choose({ q: hasTerm(line, level(name)) ? removeTerm(line, level(name)) : addTerm(line, level(name)) })}
          />
        )}
      </div>
    </>
  );
}

const level = (value: string): Term => ({ not: false, name: "level", value });

function Tail({ store }: { store: LogRows }) {
  const isPaused = store.paused.value;
  return (
    <p class="tail">
      <Button aria-pressed={isPaused} onClick={() => store.pause(!isPaused)} text={isPaused ? "Resume" : "Pause"} />
      <span class="quiet" role="status">
        {isPaused
          ? `paused, ${store.waitingCount.value.toLocaleString("en")} new`
          : `${store.rows.value.length.toLocaleString("en")} received`}
      </span>
    </p>
  );
}

/** The newest records of the query and range, whether or not they are shown. */
async function readDownload(parameters: Query): Promise<Readonly<globalThis.Record<string, unknown>>[]> {
  const query = { ...parameters, ...rangeQuery(currentRange()), limit: 500 };
  const rows: LogRow[] = [];
  for await (const { body } of pagesOf<LogRow>("/query/logs", { query })) {
    rows.push(...body);
    if (rows.length >= MAX_DOWNLOADED) break;
  }
  return rows.map((row) => ({ ...row }));
}
