// Shows the records just before and just after a record, of its stream or of its whole host; more are loaded on demand.
import { useSignal } from "@preact/signals";
import { useLoaded, timeText, day, pagesOf } from "../state/index.ts";
import { levelClass } from "./log-histogram.tsx";
import { rowsBeyond, neighbourFilters, SCOPES, type Scope, type Side, sideRange } from "./neighbours.ts";
import type { LogRow } from "./log-rows.ts";
import { Problem, Button, Select, visible } from "../parts/index.ts";

const FIRST_ROWS = 5;
const GROWTH_FACTOR = 4;
/** Users who need more can list that time range. */
const MAX_ROWS = 1000;
const PAGE_ROWS = 500;
/** If more records than this have the same time, some are not shown. */
const MAX_PAGES = 8;
/** How far to search; farther if there is nothing nearby. */
const REACHES = [
  [3_600_000, "an hour"],
  [86_400_000, "a day"],
  [2_592_000_000, "30 days"],
] as const;
const MAX_LINE_CHARACTERS = 400;

export function Context({ row }: { row: LogRow }) {
  const scope = useSignal<Scope>("stream");
  return (
    <section class="context" aria-labelledby="context">
      <header>
        <h3 id="context">Before and after</h3>
        <Select aria-label="Stream or host" value={scope.value} onChoose={(chosen) => (scope.value = chosen)} of={SCOPES} />
      </header>
      <NeighbourRows row={row} side="before" scope={scope.value} key={`before ${scope.value}`} />
      <Line row={row} isChosen />
      <NeighbourRows row={row} side="after" scope={scope.value} key={`after ${scope.value}`} />
    </section>
  );
}

function NeighbourRows({ row, side, scope }: { row: LogRow; side: Side; scope: Scope }) {
  const wanted = useSignal(FIRST_ROWS);
  const reach = useSignal(0);
  const [spanMs, spanText] = REACHES[reach.value] ?? REACHES[0];
  const farther = REACHES[reach.value + 1];
  const loaded = useLoaded(
    `${wanted.value} ${spanMs}`,
    async (signal) => await readNeighbours(row, side, scope, wanted.peek(), spanMs, signal),
  );
  const { rows = [], hasMore = false } = loaded.value.value ?? {};
  const isBusy = loaded.busy.value;
  const more = (
    <div class="more">
      <Problem message={loaded.error.value} retry={loaded.reload} />
      {!loaded.value.value && isBusy && <span class="quiet">Loading …</span>}
      {loaded.value.value && rows.length === 0 && (
        <span class="quiet">
          No records in {spanText} {side} this one.
        </span>
      )}
      {hasMore && wanted.value < MAX_ROWS && (
        <Button class="small" disabled={isBusy} onClick={() => (wanted.value *= GROWTH_FACTOR)} text={`More ${side}`} />
      )}
      {loaded.value.value && !hasMore && farther && (
        <Button class="small" disabled={isBusy} onClick={() => void reach.value++} text={`Search ${farther[1]} ${side}`} />
      )}
    </div>
  );
  const lines = rows.map((other, at) => <Line key={at} row={other} />);
  return side === "before" ? (
    <>
      {more}
      {lines.toReversed()}
    </>
  ) : (
    <>
      {lines}
      {more}
    </>
  );
}

function Line({ row, isChosen = false }: { row: LogRow; isChosen?: boolean }) {
  const at = new Date(row.timestamp);
  return (
    <div class={`neighbour ${isChosen ? "is-chosen" : ""}`} aria-current={isChosen ? "true" : undefined}>
      <time dateTime={row.timestamp} class={`level ${levelClass(row.level)}`} title={`${day(at)} ${row.timestamp} ${row.level}`}>
        {timeText(at)}
      </time>{" "}
      <bdi dir="ltr">{visible(row.message.slice(0, MAX_LINE_CHARACTERS))}</bdi>
    </div>
  );
}

async function readNeighbours(
  row: LogRow,
  side: Side,
  scope: Scope,
  wanted: number,
  spanMs: number,
  signal: AbortSignal,
): Promise<{ rows: readonly LogRow[]; hasMore: boolean }> {
  const limit = Math.min(wanted + 2, PAGE_ROWS);
  const query = { ...neighbourFilters(row, scope), ...sideRange(row, side, spanMs), limit };
  const all: LogRow[] = [];
  let [rows, hasNext]: [readonly LogRow[], boolean] = [[], false];
  for await (const { body, next } of pagesOf<LogRow>("/query/logs", { query, signal }, MAX_PAGES)) {
    all.push(...body);
    [rows, hasNext] = [rowsBeyond(row, all, side) ?? [], next !== undefined];
    if (rows.length >= wanted) break;
  }
  return { rows: rows.slice(0, wanted), hasMore: rows.length > wanted || hasNext };
}
