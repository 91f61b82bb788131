// A list of any length with rows of one height: only those that are seen are in the document. Invariant: what is drawn depends on the place
// alone, so half a million rows scroll as ten do; the row that is chosen by keys is always in sight.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

/** Beyond what is seen, on either side. */
const MORE_ROWS = 12;
/** Rows come and go by so many: while a list is scrolled, most frames then have nothing to draw anew. */
const STEP_ROWS = 8;
/** Browsers draw nothing below some 16 million pixels. */
const TALLEST_PX = 15_000_000;

export interface ListProps {
  readonly label: string;
  readonly count: number;
  readonly rowPx: number;
  readonly row: (at: number) => ComponentChildren;
  /** The chosen row. */
  readonly at?: number | undefined;
  /** What it is, where rows move: only another one is brought into sight. `at` without it. */
  readonly chosen?: unknown;
  /** The rows answer an earlier question: they are dimmed and cannot be clicked until the answer to the new one replaces them. */
  readonly isStale?: boolean;
  /** The end is near: there may be more to load. */
  readonly onEnd?: () => void;
  readonly class?: string;
}

export function List({ label, count, rowPx, row, at, chosen = at, isStale = false, onEnd, class: name = "" }: ListProps) {
  const box = useRef<HTMLDivElement>(null);
  const seen = useSignal({ first: 0, end: 40 });
  const measure = ({ scrollTop, clientHeight }: HTMLElement): void => {
    const first = Math.floor(scrollTop / rowPx / STEP_ROWS) * STEP_ROWS;
    const end = Math.ceil((scrollTop + clientHeight) / rowPx / STEP_ROWS) * STEP_ROWS;
    if (first !== seen.peek().first || end !== seen.peek().end) seen.value = { first, end };
  };
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const watcher = new ResizeObserver(() => measure(element));
    watcher.observe(element);
    measure(element);
    return () => watcher.disconnect();
  }, []);
  useEffect(() => {
    const element = box.current;
    if (!element || at === undefined || at < 0) return;
    const topPx = at * rowPx;
    if (topPx < element.scrollTop) element.scrollTop = topPx;
    else if (topPx + rowPx > element.scrollTop + element.clientHeight) element.scrollTop = topPx + rowPx - element.clientHeight;
  }, [chosen]);
  const first = Math.max(0, seen.value.first - MORE_ROWS);
  const end = Math.min(count, seen.value.end + MORE_ROWS);
  // An effect keeps what it sees until it runs again, and what draws a row sees all rows.
  const latest = useRef(onEnd);
  latest.current = onEnd;
  useEffect(() => {
    if (count > 0 && end >= count - MORE_ROWS) latest.current?.();
  }, [end, count]);
  return (
    <div
      class={`list ${name}`}
      ref={box}
      role="grid"
      aria-label={label}
      aria-rowcount={count}
      aria-busy={isStale}
      tabIndex={0}
      onScroll={(event) => measure(event.currentTarget)}
    >
      <div class="list-space" role="presentation" style={{ height: `${Math.min(count * rowPx, TALLEST_PX)}px` }}>
        <Rows first={first} end={end} rowPx={rowPx} row={row} />
      </div>
    </div>
  );
}

function Rows({ first, end, rowPx, row }: Pick<ListProps, "rowPx" | "row"> & { first: number; end: number }) {
  const places = Array.from({ length: Math.max(0, end - first) }, (_, index) => first + index);
  return (
    <>
      {places.map((index) => (
        <div class="list-row" role="presentation" key={index} style={{ top: `${index * rowPx}px`, height: `${rowPx}px` }}>
          {row(index)}
        </div>
      ))}
    </>
  );
}
