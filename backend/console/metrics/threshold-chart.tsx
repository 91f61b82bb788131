// A chart whose threshold can be dragged, or moved with the arrow keys.
import { useRef } from "preact/hooks";
import type uPlot from "uplot";
import { noteEdit } from "../state/unsaved.ts";
import { Chart, type ChartProps } from "./chart.tsx";
import { formatValue } from "./unit.ts";

interface ThresholdChartProps extends Omit<ChartProps, "thresholds" | "onPlot"> {
  readonly threshold: number;
  /** Called after a drag, and for each press of a key. */
  readonly onThreshold: (threshold: number) => void;
}

/** A press of a key moves the threshold by this share of the axis. */
const KEY_SHARE = 0.01;
const BIG_STEPS = 10;

export function ThresholdChart({ threshold, onThreshold, ...chart }: ThresholdChartProps) {
  const latest = useRef(onThreshold);
  latest.current = onThreshold;
  // The plot is drawn again after each change, and the handle must keep the focus.
  const hadFocus = useRef(false);
  const attach = (plot: uPlot): (() => void) => {
    const handle = document.createElement("div");
    handle.className = "threshold-handle";
    handle.tabIndex = 0;
    handle.role = "slider";
    handle.ariaLabel = "Threshold";
    handle.ariaOrientation = "vertical";
    let value = threshold;
    const show = (next: number): void => {
      value = next;
      const { min, max } = plot.scales["y"] ?? {};
      [handle.ariaValueMin, handle.ariaValueMax] = [String(min ?? 0), String(max ?? 1)];
      handle.style.top = `${plot.valToPos(next, "y")}px`;
      handle.ariaValueNow = String(next);
      handle.ariaValueText = formatValue(next, chart.unit);
      handle.title = `Threshold ${formatValue(next, chart.unit)}: drag, or press an arrow key`;
    };
    const choose = (next: number): void => {
      hadFocus.current = document.activeElement === handle;
      show(next);
      latest.current(next);
      noteEdit(handle);
    };
    listen(handle, {
      onDrag: (clientY) => show(rounded(plot.posToVal(clientY - plot.over.getBoundingClientRect().top, "y"), plot)),
      onDrop: () => value !== threshold && choose(value),
      onStep: (steps) => choose(rounded(value + steps * KEY_SHARE * axisLength(plot), plot)),
    });
    plot.over.append(handle);
    show(threshold);
    if (hadFocus.current) handle.focus();
    // The height of the plot is known after it is laid out.
    (plot.hooks.draw ??= []).push(() => show(value));
    return () => void (hadFocus.current = document.activeElement === handle);
  };
  return <Chart {...chart} thresholds={[{ value: threshold }]} onPlot={attach} />;
}

function axisLength(plot: uPlot): number {
  const { min = 0, max = 1 } = plot.scales["y"] ?? {};
  return (max ?? 1) - (min ?? 0);
}

/** To a hundredth of the axis or less, so that a person can read the value. */
function rounded(value: number, plot: uPlot): number {
  const step = 10 ** Math.floor(Math.log10(axisLength(plot) * KEY_SHARE));
  return Number((Math.round(value / step) * step).toPrecision(12));
}

interface HandleEvents {
  readonly onDrag: (clientY: number) => void;
  readonly onDrop: () => void;
  readonly onStep: (steps: number) => void;
}

function listen(handle: HTMLElement, { onDrag, onDrop, onStep }: HandleEvents): void {
  // The chart under the handle would begin to select a time range.
  handle.addEventListener("mousedown", (event) => event.stopPropagation());
  handle.addEventListener("pointerdown", (event) => handle.setPointerCapture(event.pointerId));
  handle.addEventListener("pointermove", (event) => handle.hasPointerCapture(event.pointerId) && onDrag(event.clientY));
  handle.addEventListener("lostpointercapture", onDrop);
  handle.addEventListener("keydown", (event) => {
    const steps = { ArrowUp: 1, ArrowDown: -1, PageUp: BIG_STEPS, PageDown: -BIG_STEPS }[event.key];
    if (steps === undefined) return;
    event.preventDefault();
    onStep(steps);
  });
}
