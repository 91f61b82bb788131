// A list of any length with rows of one height: only those that are seen are in the document. Invariant: what is drawn depends on the place
// alone, so a million rows scroll as ten do; the row that is chosen by keys is always in sight.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

/** Beyond what is seen, on either side. */
const MORE_ROWS = 12;
/** Browsers draw nothing below some 16 million pixels. */
const TALLEST_PX = 15_000_000;

export interface ListProps {
  readonly label: string;
  readonly count: number;
  readonly rowPx: number;
  readonly row: (at: number) => ComponentChildren;
  /** The chosen row. */
  readonly at?: number | undefined;
  /** The end is near: there may be more to load. */
  readonly onEnd?: () => void;
  readonly onScrolled?: (topPx: number) => void;
  readonly class?: string;
}

export function List({ label, count, rowPx, row, at, onEnd, onScrolled, class: name = "" }: ListProps) {
  const box = useRef<HTMLDivElement>(null);
  const seen = useSignal({ topPx: 0, heightPx: 600 });
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const measure = (): void => void (seen.value = { topPx: element.scrollTop, heightPx: element.clientHeight });
    const watcher = new ResizeObserver(measure);
    watcher.observe(element);
    measure();
    return () => watcher.disconnect();
  }, []);
  useEffect(() => {
    const element = box.current;
    if (!element || at === undefined || at < 0) return;
    const topPx = at * rowPx;
    if (topPx < element.scrollTop) element.scrollTop = topPx;
    else if (topPx + rowPx > element.scrollTop + element.clientHeight) element.scrollTop = topPx + rowPx - element.clientHeight;
  }, [at]);
  const { topPx, heightPx } = seen.value;
  const first = Math.max(0, Math.floor(topPx / rowPx) - MORE_ROWS);
  const end = Math.min(count, Math.ceil((topPx + heightPx) / rowPx) + MORE_ROWS);
  useEffect(() => {
    if (count > 0 && end >= count - MORE_ROWS) onEnd?.();
  }, [end, count]);
  const rows = Array.from({ length: Math.max(0, end - first) }, (_, index) => first + index);
  return (
    <div
      class={`list ${name}`}
      ref={box}
      role="grid"
      aria-label={label}
      aria-rowcount={count}
      tabIndex={0}
      onScroll={(event) => {
        const { scrollTop, clientHeight } = event.currentTarget;
        seen.value = { topPx: scrollTop, heightPx: clientHeight };
        onScrolled?.(scrollTop);
      }}
    >
      <div class="list-space" role="presentation" style={{ height: `${Math.min(count * rowPx, TALLEST_PX)}px` }}>
        {rows.map((index) => (
          <div class="list-row" role="presentation" key={index} style={{ top: `${index * rowPx}px`, height: `${rowPx}px` }}>
            {row(index)}
          </div>
        ))}
      </div>
    </div>
  );
}
