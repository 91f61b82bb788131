// A list of any length with rows of equal height: only visible rows are in the document. Invariants: drawing depends only on the scroll
// position, so half a million rows scroll like ten; the row that is chosen by keyboard is always visible.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

/** Rows that are drawn beyond the visible ones, on either side. */
const OVERSCAN_ROWS = 12;
/** Rows are added and removed in steps of this size, so that most frames while scrolling draw nothing new. */
const STEP_ROWS = 8;
/** Browsers draw nothing below about 16 million pixels. */
const MAX_HEIGHT_PX = 15_000_000;

export interface ListProps {
  readonly label: string;
  readonly count: number;
  readonly rowPx: number;
  readonly row: (at: number) => ComponentChildren;
  readonly at?: number | undefined;
  /** Identity of the chosen row, if rows can move: the list scrolls only when it changes. Default: `at`. */
  readonly chosen?: unknown;
  /** The rows belong to an earlier query: they are dimmed and cannot be clicked until the new result replaces them. */
  readonly isStale?: boolean;
  /** Called near the end of the list, to load more. */
  readonly onEnd?: () => void;
  readonly class?: string;
}

export function List({ label, count, rowPx, row, at, chosen = at, isStale = false, onEnd, class: name = "" }: ListProps) {
  const box = useRef<HTMLDivElement>(null);
  const visibleRows = useSignal({ first: 0, end: 40 });
  const measure = ({ scrollTop, clientHeight }: HTMLElement): void => {
    const first = Math.floor(scrollTop / rowPx / STEP_ROWS) * STEP_ROWS;
    const end = Math.ceil((scrollTop + clientHeight) / rowPx / STEP_ROWS) * STEP_ROWS;
    if (first !== visibleRows.peek().first || end !== visibleRows.peek().end) visibleRows.value = { first, end };
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
  const first = Math.max(0, visibleRows.value.first - OVERSCAN_ROWS);
  const end = Math.min(count, visibleRows.value.end + OVERSCAN_ROWS);
  // Through a ref: an effect retains what it refers to until it runs again, and the callbacks of a list refer to all rows.
  const latest = useRef(onEnd);
  latest.current = onEnd;
  useEffect(() => {
    if (count > 0 && end >= count - OVERSCAN_ROWS) latest.current?.();
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
      <div class="list-space" role="presentation" style={{ height: `${Math.min(count * rowPx, MAX_HEIGHT_PX)}px` }}>
        <Rows first={first} end={end} rowPx={rowPx} row={row} />
      </div>
    </div>
  );
}

function Rows({ first, end, rowPx, row }: Pick<ListProps, "rowPx" | "row"> & { first: number; end: number }) {
  const indexes = Array.from({ length: Math.max(0, end - first) }, (_, index) => first + index);
  return (
    <>
      {indexes.map((index) => (
        <div class="list-row" role="presentation" key={index} style={{ top: `${index * rowPx}px`, height: `${rowPx}px` }}>
          {row(index)}
        </div>
      ))}
    </>
  );
}
