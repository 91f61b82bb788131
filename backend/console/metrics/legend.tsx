// The legend of a chart: its series with their figures, sortable. A click on a name shows only that series, with Ctrl or Shift also that
// one; the pointer on a row highlights its line.
import { useSignal } from "@preact/signals";
import { type Column, SortedTable, visible } from "../parts/index.ts";
import { changeText, type Figures, figuresOf } from "./plot-data.ts";
import type { Series } from "./prometheus.ts";
import { colourProperty } from "./series-colour.ts";
import { formatValue, type Unit } from "./unit.ts";

const MAX_ROWS = 1000;
const FIGURES = ["last", "min", "max", "mean"] as const satisfies readonly (keyof Figures)[];

interface LegendProps {
  readonly series: readonly Series[];
  readonly unit: Unit | undefined;
  /** Names of the only series that are drawn; empty: all are. */
  readonly isolated: ReadonlySet<string>;
  readonly onIsolate: (names: ReadonlySet<string>) => void;
  readonly onHighlight: (line: Series | undefined) => void;
}

interface Row {
  readonly line: Series;
  readonly figures: Figures;
  readonly change: string;
}

export function Legend({ series, unit, isolated, onIsolate, onHighlight }: LegendProps) {
  const by = useSignal("");
  const name: Column<Row> = {
    head: "series",
    kind: "name",
    order: ({ line }) => line.short,
    cell: ({ line }) => (
      <button
        type="button"
        class="plain"
        aria-pressed={isolated.has(line.short)}
        title={visible(line.name)}
        onClick={(event) => onIsolate(nextIsolated(isolated, line.short, event.ctrlKey || event.metaKey || event.shiftKey))}
      >
        <span class="swatch" style={{ background: `var(${line.colour ?? colourProperty(line.short)})` }} /> <bdi>{visible(line.short)}</bdi>
      </button>
    ),
  };
  const figures = FIGURES.map((key): Column<Row> => ({
    head: key,
    kind: "number",
    class: `is-${key}`,
    // Series without values are last in both directions.
    order: ({ figures: { [key]: value } }) => (Number.isNaN(value) ? undefined : value),
    cell: (row) => formatValue(row.figures[key], unit),
  }));
  const change: Column<Row> = { head: "Δ mean", kind: "number", cell: (row) => row.change };
  const isCompared = series.some(({ earlierOf }) => earlierOf !== undefined);
  return (
    <div class="legend-table" tabIndex={0} role="group" aria-label="Legend">
      <SortedTable
        title="Series and their values"
        rows={series.filter(({ earlierOf }) => earlierOf === undefined).map((line) => rowOf(line, series))}
        columns={[name, ...figures, ...(isCompared ? [change] : [])]}
        maxRows={MAX_ROWS}
        rowAttributes={({ line }) => ({
          class: isolated.size > 0 && !isolated.has(line.short) ? "is-off" : "",
          onMouseEnter: () => onHighlight(line),
          onMouseLeave: () => onHighlight(undefined),
        })}
        by={by.value}
        onBy={(next) => (by.value = next)}
      />
    </div>
  );
}

function rowOf(line: Series, all: readonly Series[]): Row {
  const figures = figuresOf(line);
  const earlier = all.find(({ earlierOf }) => earlierOf === line.short);
  return { line, figures, change: earlier ? changeText(figures.mean, figuresOf(earlier).mean) : "" };
}

/** `isAdding`: the other isolated series stay. A click on the only isolated one shows all. */
function nextIsolated(isolated: ReadonlySet<string>, name: string, isAdding: boolean): ReadonlySet<string> {
  if (!isAdding) return isolated.size === 1 && isolated.has(name) ? new Set() : new Set([name]);
  const next = new Set(isolated);
  if (!next.delete(name)) next.add(name);
  return next;
}
