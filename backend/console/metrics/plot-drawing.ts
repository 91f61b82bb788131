// What is drawn on the canvas of a chart besides its lines: thresholds, deployments and events, exemplars.
import type uPlot from "uplot";
import { visible } from "../parts/text.ts";

/** Something that happened at a time: a `version` that was deployed, an `alert` that began, or an `event`. */
export interface Marker {
  readonly atS: number;
  readonly kind: "version" | "alert" | "event";
  readonly text: string;
}

const DIAMOND_PX = 4;
const LABEL_HEIGHT_PX = 14;
const MAX_LABEL = 16;
const COLOURS: Readonly<Record<Marker["kind"], string>> = { version: "--accent", alert: "--error", event: "--warn" };

export function drawThreshold(plot: uPlot, value: number, colour: string): void {
  const y = plot.valToPos(value, "y", true);
  const { top, height, left, width } = plot.bbox;
  if (y < top || y > top + height) return;
  draw(plot, ({ ctx }) => {
    ctx.strokeStyle = colour;
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
    line(ctx, left, y, left + width, y);
  });
}

/** Lines at the times of markers; labels, which events do not have, are above the lines if they have room there. */
export function drawMarkers(plot: uPlot, markers: readonly Marker[], read: (property: string) => string): void {
  const { left, top, width, height } = plot.bbox;
  let free = left;
  for (const { atS, kind, text } of markers.toSorted((a, b) => a.atS - b.atS)) {
    const x = Math.round(plot.valToPos(atS, "x", true));
    if (x < left || x > left + width) continue;
    draw(plot, ({ ctx }) => {
      const px = devicePixelRatio;
      [ctx.strokeStyle, ctx.fillStyle, ctx.lineWidth] = [read(COLOURS[kind]), read(COLOURS[kind]), px];
      ctx.setLineDash([3 * px, 3 * px]);
      line(ctx, x, top, x, top + height);
      if (kind === "event") return triangle(ctx, x, top, 4 * px);
      ctx.font = `600 ${10 * px}px system-ui, sans-serif`;
      const label = visible(text).slice(0, MAX_LABEL);
      const labelWidth = ctx.measureText(label).width + 10 * px;
      const start = Math.max(left, Math.min(x - labelWidth / 2, left + width - labelWidth));
      if (start < free) return triangle(ctx, x, top, 4 * px);
      free = start + labelWidth + 2 * px;
      ctx.beginPath();
      ctx.roundRect(start, top - (LABEL_HEIGHT_PX + 3) * px, labelWidth, LABEL_HEIGHT_PX * px, 7 * px);
      ctx.fill();
      [ctx.fillStyle, ctx.textBaseline, ctx.textAlign] = [read("--on-accent"), "middle", "left"];
      ctx.fillText(label, start + 5 * px, top - (LABEL_HEIGHT_PX / 2 + 2.5) * px);
    });
  }
}

export function drawDiamond(plot: uPlot, atS: number, value: number, colour: string): void {
  draw(plot, ({ ctx }) => {
    const size = DIAMOND_PX * devicePixelRatio;
    ctx.fillStyle = colour;
    ctx.translate(plot.valToPos(atS, "x", true), plot.valToPos(value, "y", true));
    ctx.rotate(Math.PI / 4);
    ctx.fillRect(-size / 2, -size / 2, size, size);
  });
}

function draw(plot: uPlot, paint: (plot: uPlot) => void): void {
  plot.ctx.save();
  paint(plot);
  plot.ctx.restore();
}

function line(ctx: CanvasRenderingContext2D, x1: number, y1: number, x2: number, y2: number): void {
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x2, y2);
  ctx.stroke();
}

function triangle(ctx: CanvasRenderingContext2D, x: number, top: number, size: number): void {
  ctx.beginPath();
  ctx.moveTo(x - size, top - size * 2);
  ctx.lineTo(x + size, top - size * 2);
  ctx.lineTo(x, top);
  ctx.fill();
}
