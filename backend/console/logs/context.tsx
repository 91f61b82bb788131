// Shows the records just before and just after a record, of its stream or of its whole host; more are loaded on demand.
import { useSignal } from "@preact/signals";
import { type Loaded, useLoaded } from "../state/loaded.ts";
import { clock, day } from "../state/time.ts";
import { levelClass } from "./histogram.tsx";
import { behind, filtersOf, SCOPES, type Scope, type Side, stretchOf } from "./neighbours.ts";
import type { LogRow } from "./rows.ts";
import { Options, Problem } from "../parts/common.tsx";
import { visible } from "../parts/text.ts";
import { page } from "../state/api.ts";

const FIRST_ROWS = 5;
const MORE_TIMES = 4;
/** Users who need more can list that time range. */
const MOST_ROWS = 1000;
const PAGE_ROWS = 500;
/** If more records than this have the same time, some are not shown. */
const MOST_PAGES = 8;
/** How far to search; farther if there is nothing nearby. */
const REACHES = [
  [3_600_000, "an hour"],
  [86_400_000, "a day"],
  [2_592_000_000, "30 days"],
] as const;
/** Characters shown per line. */
const SHOWN = 400;

interface Neighbours {
  readonly rows: readonly LogRow[];
  readonly hasMore: boolean;
}

export function Context({ row }: { row: LogRow }) {
  const scope = useSignal<Scope>("stream");
  return (
    <section class="context" aria-labelledby="context">
      <header>
        <h3 id="context">Before and after</h3>
        <select
          aria-label="Neighbours"
          value={scope.value}
          onChange={(event) => (scope.value = event.currentTarget.value === "host" ? "host" : "stream")}
        >
          <Options of={SCOPES} />
        </select>
      </header>
      <SideOf row={row} side="before" scope={scope.value} key={`before ${scope.value}`} />
      <Line row={row} isChosen />
      <SideOf row={row} side="after" scope={scope.value} key={`after ${scope.value}`} />
    </section>
  );
}

function SideOf({ row, side, scope }: { row: LogRow; side: Side; scope: Scope }) {
  const wanted = useSignal(FIRST_ROWS);
  const reach = useSignal(0);
  const [spanMs, spanWords] = REACHES[reach.value] ?? REACHES[0];
  const farther = REACHES[reach.value + 1];
  const found = useLoaded(
    `${wanted.value} ${spanMs}`,
    async (signal) => await neighboursOf(row, side, scope, wanted.peek(), spanMs, signal),
  );
  const { rows = [], hasMore = false } = found.value.value ?? {};
  const more = (
    <More
      side={side}
      found={found}
      onMore={hasMore && wanted.value < MOST_ROWS ? () => (wanted.value *= MORE_TIMES) : undefined}
      nothing={rows.length === 0 ? `none in ${spanWords} ${side} it` : undefined}
      farther={hasMore ? undefined : farther?.[1]}
      onFarther={() => void reach.value++}
    />
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

interface MoreProps {
  readonly side: Side;
  readonly found: Loaded<Neighbours>;
  readonly onMore: (() => void) | undefined;
  readonly nothing: string | undefined;
  /** The next longer distance to search, if there is one. */
  readonly farther: string | undefined;
  readonly onFarther: () => void;
}

function More({ side, found, onMore, nothing, farther, onFarther }: MoreProps) {
  return (
    <div class="more">
      <Problem words={found.error.value} retry={found.reload} />
      {found.value.value === undefined && found.busy.value && <span class="quiet">Loading …</span>}
      {found.value.value && nothing && <span class="quiet">{nothing}</span>}
      {onMore && (
        <button type="button" class="small" disabled={found.busy.value} onClick={onMore}>
          More {side}
        </button>
      )}
      {found.value.value && farther && (
        <button type="button" class="small" disabled={found.busy.value} onClick={onFarther}>
          Look {farther} {side}
        </button>
      )}
    </div>
  );
}

function Line({ row, isChosen = false }: { row: LogRow; isChosen?: boolean }) {
  const at = new Date(row.timestamp);
  return (
    <div class={`neighbour ${isChosen ? "is-chosen" : ""}`} aria-current={isChosen ? "true" : undefined}>
      <time dateTime={row.timestamp} class={`level ${levelClass(row.level)}`} title={`${day(at)} ${row.timestamp} ${row.level}`}>
        {clock(at)}
      </time>{" "}
      <bdi dir="ltr">{visible(row.message.slice(0, SHOWN))}</bdi>
    </div>
  );
}

/** Nearest first. */
async function neighboursOf(
  row: LogRow,
  side: Side,
  scope: Scope,
  wanted: number,
  spanMs: number,
  signal: AbortSignal,
): Promise<Neighbours> {
  const query: [string, string][] = [
    ...filtersOf(row, scope),
    ...stretchOf(row, side, spanMs),
    ["limit", String(Math.min(wanted + 2, PAGE_ROWS))],
  ];
  const all: LogRow[] = [];
  let answer = await page<LogRow[]>("/query/logs", { query, signal });
  for (let pages = 1; ; pages++) {
    all.push(...answer.body);
    const rows = behind(row, all, side) ?? [];
    const isEnough = rows.length >= wanted || !answer.next || pages === MOST_PAGES;
    if (isEnough) return { rows: rows.slice(0, wanted), hasMore: rows.length > wanted || answer.next !== undefined };
    answer = await page<LogRow[]>(answer.next ?? "", { signal });
  }
}
