// The log explorer: a query, counts over time, fields with their values, the records, and a single record. All choices are in the address:
// query, range, columns, scale, refresh and the record.
import { type Signal, useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Problem } from "../parts/common.tsx";
import { Download } from "../parts/download.tsx";
import { lazy } from "../parts/screens.tsx";
import { TimePicker, useRefresh } from "../parts/time-picker.tsx";
import { call, page } from "../state/api.ts";
import { stepKeys, useKeys } from "../state/keys.ts";
import { useLoaded } from "../state/loaded.ts";
import { address, choose, route } from "../state/route.ts";
import { currentRange, rangeQuery } from "../state/time.ts";
import { Fields, Refusal } from "./fields.tsx";
import { Histogram, type Bucket } from "./histogram.tsx";
import { Patterns } from "./patterns.tsx";
import { isLogQl, isMetricOfLogQl } from "../../client/query-syntax.ts";
import { hasTerm, type Term, withCondition, withoutTerm, withTerm } from "./query-line.ts";
import { QueryField } from "./query-field.tsx";
import { Record } from "./record.tsx";
import { findRecord, recordAddress } from "./record-address.ts";
import { type LogRow, LogRows, type Question, questionOf, queryProblem } from "./rows.ts";
import { LogTable } from "./table.tsx";

/** Loaded on demand, because it needs the chart library. */
const LogQlChart = lazy(async () => (await import("../metrics/series-chart.tsx")).LogQlChart);
const MOST_DOWNLOADED = 10_000;
const MOST_COLUMNS = 6;

export function Logs() {
  const { query } = route.value;
  const line = query.get("q") ?? "";
  const isMetric = isMetricOfLogQl(line);
  const isLive = query.get("live") === "1" && !isMetric;
  const again = useSignal(0);
  const rows = useRef<LogRows>();
  rows.current ??= new LogRows();
  const store = rows.current;
  const question = questionOf(line);
  const key = JSON.stringify([line, query.get("from"), query.get("to"), isLive]);
  const asked = `${key} ${again.value}`;
  useLayoutEffect(() => {
    if (!isMetric) void (isLive ? store.tail(question) : store.show(key, question, rangeQuery(currentRange())));
    return () => store.stop();
  }, [asked]);
  useRefresh(() => void (isLive || store.busy.peek() || again.value++));
  const hasFields = (query.get("fields") ?? (matchMedia("(min-width: 1000px)").matches ? "1" : "0")) === "1";
  const hasPatterns = query.get("view") === "patterns" && !isLive;
  return (
    <section class="screen logs" aria-labelledby="title">
      <div class="bar">
        <h1 id="title">Logs</h1>
        <QueryField
          line={line}
          problem={isMetric ? undefined : queryProblem(store.error.value)}
          range={() => rangeQuery(currentRange())}
          onLine={(q) => (q === line ? again.value++ : choose({ q: q || undefined, record: undefined }))}
        />
        <TimePicker onNow={() => again.value++} />
        {!isMetric && (
          <>
            <Views isLive={isLive} hasFields={hasFields} hasPatterns={hasPatterns} />
            <Download name="logs" read={async () => await readDownload(question)} />
            {line !== "" && !isLogQl(line) && <a href={address("alerts", { rule: "new", logs: line })}>alert on this</a>}
          </>
        )}
      </div>
      {isMetric ? (
        <LogQlChart line={line} asked={asked} />
      ) : (
        <Records store={store} line={line} asked={asked} isLive={isLive} hasFields={hasFields} hasPatterns={hasPatterns} again={again} />
      )}
    </section>
  );
}

interface RecordsProps extends ViewsProps {
  readonly store: LogRows;
  readonly line: string;
  readonly asked: string;
  readonly again: Signal<number>;
}

function Records({ store, line, asked, isLive, hasFields, hasPatterns, again }: RecordsProps) {
  const question = questionOf(line);
  // Stages of LogQL change records; any other query finds them as they are stored.
  const [chosen, setChosen] = useChosen(store, isLogQl(line) ? question : []);
  const filter = (term: Term): void => choose({ q: withTerm(line, term), record: undefined });
  const columns = route.value.query.getAll("column").slice(0, MOST_COLUMNS);
  const toggleColumn = (name: string): void =>
    choose({ column: columns.includes(name) ? columns.filter((other) => other !== name) : [...columns, name].slice(0, MOST_COLUMNS) });
  return (
    <>
      {queryProblem(store.error.value) === undefined && <Problem words={store.error.value} retry={() => again.value++} />}
      {isLive ? <Tail store={store} /> : !store.error.value && <Counts asked={asked} question={question} line={line} />}
      <div class={`split ${chosen ? "with-side" : ""} ${hasFields && !isLive ? "with-fields" : ""}`}>
        {hasFields && !isLive && !store.error.value && (
          <Fields asked={asked} question={question} columns={columns} onTerm={filter} onColumn={toggleColumn} />
        )}
        {hasPatterns ? (
          <Patterns
            asked={asked}
            question={question}
            onCondition={(condition) => choose({ q: withCondition(line, condition), view: undefined, record: undefined })}
          />
        ) : (
          <LogTable store={store} chosen={chosen} columns={columns} onChoose={setChosen} onColumn={toggleColumn} />
        )}
        {chosen && <Record row={chosen} onFilter={filter} onClose={() => setChosen(undefined)} />}
      </div>
    </>
  );
}

interface ViewsProps {
  readonly isLive: boolean;
  readonly hasFields: boolean;
  readonly hasPatterns: boolean;
}

function Views({ isLive, hasFields, hasPatterns }: ViewsProps) {
  return (
    <>
      <button type="button" aria-pressed={isLive} onClick={() => choose({ live: isLive ? undefined : "1", record: undefined })}>
        Live tail
      </button>
      <button type="button" aria-pressed={hasFields} onClick={() => choose({ fields: hasFields ? "0" : "1" })}>
        Fields
      </button>
      <button
        type="button"
        aria-pressed={hasPatterns}
        onClick={() => choose({ view: hasPatterns ? undefined : "patterns", live: undefined })}
      >
        Patterns
      </button>
    </>
  );
}

/** The record in the address: one of the rows, or read by its time. */
function useChosen(store: LogRows, question: Question): [LogRow | undefined, (row: LogRow | undefined) => void] {
  const wanted = route.value.query.get("record") ?? undefined;
  const last = useSignal<LogRow | undefined>(undefined);
  const isKnown = wanted !== undefined && last.value !== undefined && recordAddress(last.value) === wanted;
  const found = useLoaded(wanted === undefined || isKnown ? undefined : wanted, async (signal) => {
    const row = store.rows.peek().find((other) => recordAddress(other) === wanted) ?? (await findRecord(wanted ?? "", question, signal));
    last.value = row;
    return { row };
  });
  void found.value.value;
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

function Counts({ asked, question, line }: { asked: string; question: Question; line: string }) {
  const scale = route.value.query.get("scale");
  const found = useLoaded(asked, async (signal) => {
    const query = [...question, ...rangeQuery(currentRange())];
    return await call<Bucket[]>("/query/logs/histogram", { query, signal });
  });
  return (
    <>
      <Refusal of={found} />
      <div class="histogram-place">
        {found.value.value && (
          <Histogram
            buckets={found.value.value}
            scale={scale === "log" || scale === "linear" ? scale : undefined}
            onScale={(chosen) => choose({ scale: chosen })}
            isChosen={(name) => hasTerm(line, level(name))}
            onLevel={(name) => choose({ q: hasTerm(line, level(name)) ? withoutTerm(line, level(name)) : withTerm(line, level(name)) })}
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
      <button type="button" aria-pressed={isPaused} onClick={() => store.pause(!isPaused)}>
        {isPaused ? "Go on" : "Pause"}
      </button>
      <span class="quiet" role="status">
        {isPaused
          ? `paused, ${store.held.value.toLocaleString("en")} new`
          : `${store.rows.value.length.toLocaleString("en")} since it began`}
      </span>
    </p>
  );
}

/** The newest records of the query and range, whether or not they are shown. */
async function readDownload(question: Question): Promise<Readonly<globalThis.Record<string, unknown>>[]> {
  const query = [...question, ...rangeQuery(currentRange()), ["limit", "500"] as const];
  let answer = await page<LogRow[]>("/query/logs", { query });
  const rows = [...answer.body];
  while (answer.next && rows.length < MOST_DOWNLOADED) {
    answer = await page<LogRow[]>(answer.next);
    rows.push(...answer.body);
  }
  return rows.map((row) => ({ ...row }));
}
