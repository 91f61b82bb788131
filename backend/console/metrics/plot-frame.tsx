// A frame for pictures that are drawn as SVG, such as a heatmap: a value axis, a time axis, a tooltip and a brush. Dragging selects a range
// of times, or of times and values.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { axisTime, utc } from "../state/time.ts";
import { timeTicks } from "./ticks.ts";
import { Tooltip, type TooltipContent } from "./tooltip.ts";

/** Shares of the picture, from the left and from the bottom. */
export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface Tip extends TooltipContent {
  readonly atMs: number;
}

interface PlotFrameProps {
  readonly label: string;
  readonly heightPx: number;
  readonly viewBox: string;
  readonly fromMs: number;
  readonly toMs: number;
  /** Labels of the value axis; `at` is the share of the height from the bottom. */
  readonly ticks: readonly { readonly at: number; readonly text: string }[];
  readonly selectsValues?: boolean;
  /** Called with the lower left and the upper right corner; the same point twice after a click. */
  readonly onBrush: (from: Point, to: Point) => void;
  readonly tipAt: (point: Point) => Tip | undefined;
  readonly children: ComponentChildren;
}

const TIME_TICKS = 8;
/** A shorter drag is a click. */
const MIN_DRAG = 0.005;

type PointerOf = PointerEvent & { readonly currentTarget: SVGSVGElement };

export function PlotFrame(props: PlotFrameProps) {
  const { label, heightPx, viewBox, fromMs, toMs, ticks, selectsValues = false, onBrush, tipAt, children } = props;
  const drag = useSignal<{ from: Point; to: Point } | undefined>(undefined);
  const frame = useRef<HTMLDivElement>(null);
  const tooltip = useRef<Tooltip>();
  useEffect(() => {
    if (frame.current) tooltip.current = new Tooltip(frame.current);
    return () => tooltip.current?.remove();
  }, []);
  const move = (event: PointerOf): void => {
    const point = pointOf(event);
    if (drag.value) drag.value = { ...drag.value, to: point };
    const tip = tipAt(point);
    if (tip) tooltip.current?.show(event.clientX, event.clientY, JSON.stringify(tip), tip.atMs / 1000, () => tip);
  };
  const finish = (): void => {
    const chosen = drag.value;
    drag.value = undefined;
    tooltip.current?.hide();
    if (chosen) onBrush(...cornersOf(chosen));
  };
  return (
    <div class="plot-frame" ref={frame}>
      <ValueAxis ticks={ticks} heightPx={heightPx} />
      <div class="plot-area" style={{ height: `${heightPx}px` }}>
        {ticks.map(({ at, text }) => (
          <i key={text} style={{ bottom: `${at * 100}%` }} />
        ))}
        <svg
          viewBox={viewBox}
          preserveAspectRatio="none"
          role="img"
          aria-label={label}
          onPointerDown={(event) => {
            event.currentTarget.setPointerCapture(event.pointerId);
            drag.value = { from: pointOf(event), to: pointOf(event) };
          }}
          onPointerMove={move}
          onPointerLeave={() => tooltip.current?.hide()}
          onPointerUp={finish}
          onPointerCancel={() => (drag.value = undefined)}
        >
          {children}
        </svg>
        {drag.value && <Brush {...drag.value} selectsValues={selectsValues} />}
      </div>
      <TimeAxis fromMs={fromMs} toMs={toMs} />
    </div>
  );
}

function ValueAxis({ ticks, heightPx }: Pick<PlotFrameProps, "ticks" | "heightPx">) {
  return (
    <div class="plot-values" aria-hidden="true" style={{ height: `${heightPx}px` }}>
      {ticks.map(({ at, text }) => (
        <span key={text} style={{ bottom: `${at * 100}%` }}>
          {text}
        </span>
      ))}
    </div>
  );
}

function TimeAxis({ fromMs, toMs }: Pick<PlotFrameProps, "fromMs" | "toMs">) {
  const offsetMs = utc.value ? 0 : -new Date(fromMs).getTimezoneOffset() * 60_000;
  const format = axisTime(fromMs, toMs);
  return (
    <div class="plot-times" aria-hidden="true">
      {timeTicks(fromMs, toMs, TIME_TICKS, offsetMs)
        .map((at) => [at, (at - fromMs) / (toMs - fromMs)] as const)
        // Those at the ends would be cut off.
        .filter(([, place]) => Math.abs(place - 0.5) < 0.48)
        .map(([at, place]) => (
          <span key={at} style={{ left: `${place * 100}%` }}>
            {format(at)}
          </span>
        ))}
    </div>
  );
}

function Brush({ from, to, selectsValues }: { from: Point; to: Point; selectsValues: boolean }) {
  const [low, high] = cornersOf({ from, to });
  const across = { left: `${low.x * 100}%`, width: `${(high.x - low.x) * 100}%` };
  const upright = selectsValues ? { bottom: `${low.y * 100}%`, height: `${(high.y - low.y) * 100}%` } : { bottom: "0", height: "100%" };
  return <div class="plot-brush" style={{ ...across, ...upright }} />;
}

function cornersOf({ from, to }: { from: Point; to: Point }): [Point, Point] {
  if (Math.abs(from.x - to.x) < MIN_DRAG) return [from, from];
  return [
    { x: Math.min(from.x, to.x), y: Math.min(from.y, to.y) },
    { x: Math.max(from.x, to.x), y: Math.max(from.y, to.y) },
  ];
}

const share = (value: number): number => Math.max(0, Math.min(1, value));

function pointOf({ clientX, clientY, currentTarget }: PointerOf): Point {
  const { left, bottom, width, height } = currentTarget.getBoundingClientRect();
  return { x: share((clientX - left) / width), y: share((bottom - clientY) / height) };
}
