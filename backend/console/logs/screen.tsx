// Logs: a question, when its answers came, the lines themselves, and one line whole.
import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { TimePicker } from "../parts/time-picker.tsx";
import { stepKeys, useKeys } from "../state/keys.ts";
import { useLoaded } from "../state/loaded.ts";
import { choose, route } from "../state/route.ts";
import { currentRange, rangeQuery } from "../state/time.ts";
import { Histogram, type Bucket } from "./histogram.tsx";
import { filtersOf, withTerm, type Filters, type Term } from "./query-line.ts";
import { QueryField } from "./query-field.tsx";
import { type LogRow, LogRows } from "./rows.ts";
import { LogTable } from "./table.tsx";
import { Record } from "./record.tsx";
import { Problem } from "../parts/common.tsx";
import { call } from "../state/api.ts";

const BUCKETS = "80";

export function Logs() {
  const { query } = route.value;
  const line = query.get("q") ?? "";
  const isLive = query.get("live") === "1";
  const [filters, wrong] = useMemo(() => read(line), [line]);
  const again = useSignal(0);
  const rows = useRef<LogRows>();
  rows.current ??= new LogRows();
  const store = rows.current;
  const chosen = useSignal<LogRow | undefined>(undefined);
  const question = wrong ? undefined : JSON.stringify([line, query.get("from"), query.get("to"), isLive, again.value]);
  useEffect(() => {
    if (question === undefined) return undefined;
    chosen.value = undefined;
    void (isLive ? store.tail(filters) : store.show(filters, rangeQuery(currentRange())));
    return () => store.stop();
  }, [question]);
  useKeys(() => {
    const steps = stepKeys({
      count: () => store.rows.peek().length,
      at: () => store.rows.peek().indexOf(chosen.peek() as LogRow),
      choose: (at) => (chosen.value = store.rows.peek()[at]),
    });
    return { ...steps, Escape: () => (chosen.value = undefined) };
  }, []);
  const filter = (term: Term): void => choose({ q: withTerm(line, term) });
  const row = chosen.value;
  return (
    <section class="screen logs" aria-labelledby="title">
      <div class="bar">
        <h1 id="title">Logs</h1>
        <QueryField
          line={line}
          range={() => rangeQuery(currentRange())}
          onLine={(q) => (q === line ? again.value++ : choose({ q: q || undefined }))}
        />
        <TimePicker onNow={() => again.value++} />
        <button type="button" aria-pressed={isLive} onClick={() => choose({ live: isLive ? undefined : "1" })}>
          Live tail
        </button>
      </div>
      <Problem words={wrong ?? store.error.value} />
      {isLive ? <Tail store={store} /> : question !== undefined && <Counts question={question} filters={filters} />}
      <div class={`split ${row ? "with-side" : ""}`}>
        <LogTable store={store} chosen={chosen} />
        {row && <Record row={row} onFilter={filter} onClose={() => (chosen.value = undefined)} />}
      </div>
    </section>
  );
}

function Counts({ question, filters }: { question: string; filters: Filters }) {
  const found = useLoaded(question, async (signal) => {
    const asked = [...filters, ...rangeQuery(currentRange()), ["buckets", BUCKETS] as const];
    return await call<Bucket[]>("/query/logs/histogram", { query: asked, signal });
  });
  return (
    <>
      <Problem words={found.error.value} retry={found.reload} />
      <div class="histogram-place">{found.value.value && <Histogram buckets={found.value.value} />}</div>
    </>
  );
}

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

function read(line: string): [Filters, string | undefined] {
  try {
    return [filtersOf(line), undefined];
  } catch (error) {
    return [[], (error as Error).message];
  }
}
