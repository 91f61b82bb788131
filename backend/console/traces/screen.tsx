// Search of traces: by service, operation, duration, errors and attributes.
import { submitBy } from "../state/sending.ts";
import type { ApiResponses } from "../../client/api.ts";
import { useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { List } from "../parts/list.tsx";
import { TimePicker, useRefresh } from "../parts/time-picker.tsx";
import { stepKeys, useKeys } from "../state/keys.ts";
import { useLoaded, whileLoading } from "../state/loaded.ts";
import { address, choose, go, route } from "../state/route.ts";
import { searchParameters } from "./search.ts";
import { around, currentRange, moment, rangeQuery, span } from "../state/time.ts";
import { Problem } from "../parts/common.tsx";
import { lazy } from "../parts/screens.tsx";
import { counted, visible } from "../parts/text.ts";
import { call, type Page, page, wordsOf } from "../state/api.ts";

const Facets = lazy(async () => (await import("./analysis.tsx")).Facets);
const Heatmap = lazy(async () => (await import("./analysis.tsx")).Heatmap);
const Differences = lazy(async () => (await import("./analysis.tsx")).Differences);

type Service = ApiResponses["GET /query/services"][number];

type Found = ApiResponses["GET /query/traces/search"][number];

const ROW_PX = 44;
const PAGE_ROWS = 100;

export function Traces() {
  const { query } = route.value;
  const again = useSignal(0);
  useRefresh(() => again.value++);
  const isSlowestFirst = query.get("sort") === "slowest";
  const [hasFacets, hasDifferences] = [query.get("facets") === "1", query.get("differences") === "1"];
  const parameters = [...searchParameters(query), ...rangeQuery(currentRange())];
  const searched = `${JSON.stringify(searchParameters(query))} ${query.get("from")} ${query.get("to")}`;
  const analysis = { question: `${searched} ${again.value}`, parameters };
  const pages = useFoundTraces(`${searched} ${isSlowestFirst}`, again.value, query, isSlowestFirst);
  return (
    <section class="screen traces" aria-labelledby="title">
      <div class="bar">
        <h1 id="title">Traces</h1>
        <SearchForm query={query} />
        <TimePicker onNow={() => again.value++} />
        <button type="button" aria-pressed={isSlowestFirst} onClick={() => choose({ sort: isSlowestFirst ? undefined : "slowest" })}>
          Slowest first
        </button>
        <Toggle name="facets" label="Facets" isOn={hasFacets} />
        <Toggle name="heatmap" label="Heatmap" isOn={query.get("heatmap") === "1"} />
        <Toggle name="differences" label="Differences" isOn={hasDifferences} />
      </div>
      <Problem words={pages.error} retry={() => again.value++} />
      {query.get("heatmap") === "1" && <Heatmap {...analysis} />}
      <div class={`split ${hasFacets ? "with-fields" : ""}`}>
        {hasFacets && <Facets {...analysis} />}
        {hasDifferences ? <Differences {...analysis} /> : <FoundTraces {...pages} />}
      </div>
    </section>
  );
}

function Toggle({ name, label, isOn }: { name: string; label: string; isOn: boolean }) {
  return (
    <button type="button" aria-pressed={isOn} onClick={() => choose({ [name]: isOn ? undefined : "1" })}>
      {label}
    </button>
  );
}

function SearchForm({ query }: { query: URLSearchParams }) {
  const services = useLoaded("services", async (signal) => await call<Service[]>("/query/services", { signal }));
  const service = query.get("service") ?? "";
  const operations = services.value.value?.find((known) => known.service === service)?.operations ?? [];
  return (
    <form
      class="filters"
      key={String(query)}
      onSubmit={submitBy((form) => {
        const typed = Object.fromEntries(new FormData(form)) as Record<string, string>;
        choose({ ...typed, error: typed["error"] });
      })}
    >
      <Choice name="service" value={service} names={(services.value.value ?? []).map((known) => known.service)} />
      <Choice name="operation" value={query.get("operation") ?? ""} names={operations.map(({ operation }) => operation)} />
      <Durations query={query} />
      <label>
        attributes
        <input
          name="attributes"
          type="text"
          data-query
          size={22}
          placeholder="http.response.status_code>=500"
          defaultValue={query.get("attributes") ?? ""}
        />
      </label>
      <label class="check">
        <input name="error" type="checkbox" value="true" defaultChecked={query.get("error") === "true"} /> errors
      </label>
      <button type="submit" class="primary">
        Search
      </button>
      <Problem words={services.error.value} retry={services.reload} />
    </form>
  );
}

function Durations({ query }: { query: URLSearchParams }) {
  return (
    <>
      <label>
        from
        <input
          name="min"
          type="text"
          inputMode="numeric"
          size={5}
          placeholder="ms"
          pattern="\d+(\.\d+)?"
          defaultValue={query.get("min") ?? ""}
        />
      </label>
      <label>
        to
        <input
          name="max"
          type="text"
          inputMode="numeric"
          size={5}
          placeholder="ms"
          pattern="\d+(\.\d+)?"
          defaultValue={query.get("max") ?? ""}
        />
      </label>
    </>
  );
}

/** A known name or any other, because rollups only contain a thousand services. */
function Choice({ name, value, names }: { name: string; value: string; names: readonly string[] }) {
  return (
    <label>
      {name}
      <input name={name} type="text" size={16} list={`${name}s`} defaultValue={value} autoComplete="off" />
      <datalist id={`${name}s`}>
        {names.map((known) => (
          <option value={known} key={known} />
        ))}
      </datalist>
    </label>
  );
}

interface FoundPages {
  readonly rows: readonly Found[] | undefined;
  readonly error: string | undefined;
  readonly isBusy: boolean;
  /** True if the rows belong to an earlier search. */
  readonly isStale: boolean;
  readonly more: () => void;
}

function useFoundTraces(question: string, again: number, query: URLSearchParams, isSlowestFirst: boolean): FoundPages {
  const rows = useSignal<readonly Found[] | undefined>(undefined);
  const error = useSignal<string | undefined>(undefined);
  const next = useSignal<string | undefined>(undefined);
  const isBusy = useSignal(false);
  const answered = useSignal(question);
  const current = useRef(new AbortController().signal);
  const load = async (ask: (signal: AbortSignal) => Promise<Page<Found[]>>, before: readonly Found[]): Promise<void> => {
    const abort = current.current;
    isBusy.value = true;
    try {
      const found = await whileLoading(ask(abort));
      if (abort.aborted) return;
      answered.value = question;
      rows.value = [...before, ...found.body];
      next.value = found.next;
      error.value = undefined;
    } catch (failure) {
      if (abort.aborted) return;
      rows.value = before.length > 0 ? before : undefined;
      error.value = wordsOf(failure);
    } finally {
      if (!abort.aborted) isBusy.value = false;
    }
  };
  useLayoutEffect(() => {
    const abort = new AbortController();
    current.current = abort.signal;
    const limit = ["limit", String(PAGE_ROWS)] as const;
    const ask = async (signal: AbortSignal): Promise<Page<Found[]>> => {
      const order: [string, string][] = isSlowestFirst ? [["order", "duration"]] : [];
      const asked = [...searchParameters(query), ...order, ...rangeQuery(currentRange()), limit];
      return await page<Found[]>("/query/traces/search", { query: asked, signal });
    };
    void load(ask, []);
    return () => abort.abort();
  }, [question, again]);
  const more = (): void => {
    const at = next.peek();
    if (at && !isBusy.peek()) void load(async (signal) => await page<Found[]>(at, { signal }), rows.peek() ?? []);
  };
  return { rows: rows.value, error: error.value, isBusy: isBusy.value, isStale: answered.value !== question, more };
}

function FoundTraces({ rows, isBusy, isStale, more }: FoundPages) {
  const at = useSignal(-1);
  useKeys(() => {
    const current = isStale ? [] : (rows ?? []);
    const steps = stepKeys({ count: () => current.length, at: () => at.peek(), choose: (next) => (at.value = next) });
    const open = (found: Found | undefined): void => found && go(addressOf(found));
    return { ...steps, Enter: () => open(current[at.peek()]) };
  }, [rows, isStale]);
  if (!rows) return isBusy ? <p class="quiet">Loading …</p> : null;
  if (rows.length === 0) return <div class="empty">No traces. A longer time range or fewer conditions may find some.</div>;
  const longest = Math.max(...rows.map(({ duration_ms: ms }) => ms));
  return (
    <List
      label="Traces"
      count={rows.length}
      rowPx={ROW_PX}
      at={at.value}
      isStale={isStale}
      onEnd={more}
      row={(index) => rows[index] && <FoundTrace found={rows[index]} longest={longest} isChosen={at.value === index} />}
    />
  );
}

function FoundTrace({ found, longest, isChosen }: { found: Found; longest: number; isChosen: boolean }) {
  return (
    <div class={`line trace-line ${isChosen ? "is-chosen" : ""}`} role="row" aria-selected={isChosen}>
      <div role="gridcell" class="trace-name">
        <a href={addressOf(found)}>
          <strong>
            <bdi>{visible(found.root_service)}</bdi>
          </strong>{" "}
          <bdi>{visible(found.root_operation)}</bdi>
        </a>
        <span class="quiet">
          {moment(found.start)} · {counted(found.spans, "span")} · <bdi>{visible(found.services.slice(0, 6).join(", "))}</bdi>
        </span>
      </div>
      <div role="gridcell">{found.errors > 0 && <span class="level is-error">{counted(found.errors, "error")}</span>}</div>
      <div role="gridcell" class="duration">
        <span>{span(found.duration_ms)}</span>
        <meter min={0} max={longest} value={found.duration_ms} aria-label="duration relative to the longest" />
      </div>
    </div>
  );
}

function addressOf({ trace_id: id, start, duration_ms: ms }: Found): string {
  return address("traces", around(Date.parse(start), ms), id);
}
