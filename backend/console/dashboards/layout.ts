// Where panels are on the grid of a dashboard: in their order, from left to right, each with a width in columns and a height in rows.
import type { Panel } from "./dashboard.ts";

export const COLUMNS = 12;
const [MIN_COLUMNS, MIN_ROWS, MAX_ROWS] = [2, 2, 24];
const DEFAULT_ROWS: Readonly<Record<Panel["kind"], number>> = { timeseries: 7, stat: 3, table: 6, list: 6, text: 3 };

export function rowsOf({ kind, height }: Pick<Panel, "kind" | "height">): number {
  return height ?? DEFAULT_ROWS[kind];
}

export function resized(panel: Pick<Panel, "kind" | "width" | "height">, columns: number, rows: number): { width: number; height: number } {
  return { width: within(panel.width + columns, MIN_COLUMNS, COLUMNS), height: within(rowsOf(panel) + rows, MIN_ROWS, MAX_ROWS) };
}

const within = (value: number, min: number, max: number): number => Math.max(min, Math.min(max, Math.round(value)));

export function moved<T>(list: readonly T[], from: number, to: number): readonly T[] {
  const item = list[from];
  if (item === undefined || to < 0 || to >= list.length || from === to) return list;
  return list.toSpliced(from, 1).toSpliced(to, 0, item);
}
