// The tooltip of a chart: the time at the pointer, the values there, largest first, and what happened then. It is drawn above the page, so
// nothing moves when it appears. Invariants: names of senders are set as text; while the pointer stays at the same values, the tooltip moves
// without a layout of the page.
import type uPlot from "uplot";
import { timestampText } from "../state/time.ts";
import { visible } from "../parts/text.ts";

export interface TooltipRow {
  readonly name: string;
  readonly value: number;
  readonly text: string;
  readonly colour: string;
  readonly isNearest: boolean;
}

const MAX_ROWS = 12;
const MAX_NAME = 60;
const DISTANCE_PX = 14;

export interface TooltipContent {
  readonly rows: readonly TooltipRow[];
  readonly notes: readonly string[];
}

export class Tooltip {
  readonly #element = document.createElement("div");
  #key: string | undefined;
  #size = { width: 0, height: 0 };

  constructor(parent: HTMLElement) {
    this.#element.className = "tooltip";
    this.#element.setAttribute("role", "tooltip");
    this.#element.popover = "manual";
    parent.append(this.#element);
  }

  /** `x` and `y`: the pointer within the window. The content is built when `key` changes. */
  show(x: number, y: number, key: string, atS: number, content: () => TooltipContent): void {
    if (key !== this.#key) this.#fill(atS, content());
    this.#key = key;
    const { width, height } = this.#size;
    const left = x + DISTANCE_PX + width > innerWidth ? x - DISTANCE_PX - width : x + DISTANCE_PX;
    const top = Math.min(y + DISTANCE_PX, innerHeight - height - 4);
    this.#element.style.transform = `translate(${Math.max(4, Math.round(left))}px, ${Math.max(4, Math.round(top))}px)`;
  }

  #fill(atS: number, { rows, notes }: TooltipContent): void {
    const sorted = rows.toSorted((a, b) => b.value - a.value);
    // The line at the pointer is listed even if many others are larger.
    const nearest = sorted.findIndex(({ isNearest }) => isNearest);
    const listed =
      nearest < MAX_ROWS ? sorted.slice(0, MAX_ROWS) : [...sorted.slice(0, MAX_ROWS - 1), ...sorted.slice(nearest, nearest + 1)];
    const rest = sorted.length - listed.length;
    this.#element.replaceChildren(
      part("div", "tooltip-time", timestampText(atS * 1000)),
      ...notes.map((note) => part("div", "tooltip-note", visible(note))),
      ...listed.map(rowElement),
      ...(rest > 0 ? [part("div", "tooltip-note", `and ${rest} more`)] : []),
    );
    if (this.#key === undefined) this.#element.showPopover();
    this.#size = { width: this.#element.offsetWidth, height: this.#element.offsetHeight };
  }

  hide(): void {
    if (this.#key !== undefined) this.#element.hidePopover();
    this.#key = undefined;
  }

  remove(): void {
    this.#element.remove();
  }
}

function rowElement({ name, text, colour, isNearest }: TooltipRow): HTMLElement {
  const row = part("div", isNearest ? "tooltip-row is-nearest" : "tooltip-row", "");
  const swatch = part("span", "swatch", "");
  swatch.style.background = colour;
  const shown = visible(name);
  row.append(swatch, part("bdi", "", shown.length > MAX_NAME ? `${shown.slice(0, MAX_NAME)}…` : shown), part("strong", "number", text));
  return row;
}

function part(tag: string, name: string, text: string): HTMLElement {
  const element = document.createElement(tag);
  element.className = name;
  element.textContent = text;
  return element;
}

/** Calls `onMove` while the pointer, a finger or the arrow keys move over the chart itself, and `onLeave` afterwards. */
export function followPointer(
  plot: uPlot,
  container: HTMLElement,
  { onMove, onLeave }: { onMove: () => void; onLeave: () => void },
): () => void {
  const { over } = plot;
  const abort = new AbortController();
  const { signal } = abort;
  let [isOver, isByKey] = [false, false];
  const leave = (): void => {
    [isOver, isByKey] = [false, false];
    onLeave();
  };
  over.addEventListener("mouseenter", () => void (isOver = true), { signal });
  over.addEventListener("mouseleave", leave, { signal });
  over.addEventListener(
    "touchmove",
    ({ touches: [finger] }) => {
      if (!finger) return;
      isOver = true;
      const { left, top } = over.getBoundingClientRect();
      plot.setCursor({ left: finger.clientX - left, top: finger.clientY - top });
    },
    { signal, passive: true },
  );
  over.addEventListener("touchend", leave, { signal });
  container.addEventListener("blur", () => isByKey && (leave(), plot.setCursor({ left: -10, top: -10 })), { signal });
  container.addEventListener(
    "keydown",
    (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.target !== container || step === undefined || plot.data[0].length === 0) return;
      event.preventDefault();
      isByKey = true;
      plot.setCursor({ left: plot.valToPos(nextTime(plot, step), "x"), top: over.clientHeight / 2 });
    },
    { signal },
  );
  (plot.hooks.setCursor ??= []).push(() => {
    if (isOver || isByKey) onMove();
  });
  return () => abort.abort();
}

/** The time of the next value that is shown, at first the one at the end where the keys come from. */
function nextTime({ cursor, data: [times], scales }: uPlot, step: number): number {
  const { min = -Infinity, max = Infinity } = scales["x"] ?? {};
  const shown = (at: number): boolean => (times[at] ?? NaN) >= min && (times[at] ?? NaN) <= max;
  const first = times.findIndex((_, at) => shown(at));
  const last = times.findLastIndex((_, at) => shown(at));
  const from = cursor.idx ?? (step > 0 ? first - 1 : last + 1);
  return times[Math.max(first, Math.min(last, from + step))] as number;
}
