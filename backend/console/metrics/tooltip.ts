// The tooltip of a chart: the time at the pointer, the values there, largest first, and what happened then. It is drawn above the page, so
// nothing moves when it appears. Invariant: names of senders are set as text.
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

export class Tooltip {
  readonly #element = document.createElement("div");

  constructor(parent: HTMLElement) {
    this.#element.className = "tooltip";
    this.#element.setAttribute("role", "tooltip");
    this.#element.popover = "manual";
    parent.append(this.#element);
  }

  /** `x` and `y`: the pointer within the window. `notes`: lines below the time. */
  show(x: number, y: number, atS: number, { rows, notes }: { rows: readonly TooltipRow[]; notes: readonly string[] }): void {
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
    if (!this.#element.matches(":popover-open")) this.#element.showPopover();
    const { offsetWidth: width, offsetHeight: height } = this.#element;
    const left = x + DISTANCE_PX + width > innerWidth ? x - DISTANCE_PX - width : x + DISTANCE_PX;
    this.#element.style.left = `${Math.max(4, left)}px`;
    this.#element.style.top = `${Math.max(4, Math.min(y + DISTANCE_PX, innerHeight - height - 4))}px`;
  }

  hide(): void {
    if (this.#element.matches(":popover-open")) this.#element.hidePopover();
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
