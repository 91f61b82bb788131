// The legend of a chart: its series with their figures, sortable. A click on a name shows only that series, with Ctrl or Shift also that
// one; the pointer on a row highlights its line.
import { useSignal } from "@preact/signals";
import { visible } from "../parts/text.ts";
import { changeText, type Figures, figuresOf } from "./plot-data.ts";
import type { Series } from "./prometheus.ts";
import { colourProperty } from "./series-colour.ts";
import { formatValue, type Unit } from "./unit.ts";

const MAX_ROWS = 1000;
const FIGURES = ["last", "min", "max", "mean"] as const satisfies readonly (keyof Figures)[];
type SortKey = "name" | keyof Figures;

interface Sort {
  readonly key: SortKey;
  readonly isDescending: boolean;
}

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
  const sort = useSignal<Sort | undefined>(undefined);
  const isCompared = series.some(({ earlierOf }) => earlierOf !== undefined);
  const rows = sortRows(
    series.filter(({ earlierOf }) => earlierOf === undefined).map((line) => rowOf(line, series)),
    sort.value,
  );
  const choose = (key: SortKey): void =>
    void (sort.value = { key, isDescending: sort.peek()?.key === key ? !sort.peek()?.isDescending : key !== "name" });
  return (
    <div class="legend-table" tabIndex={0} role="group" aria-label="Legend">
      <table>
        <caption class="unseen">Series and their values</caption>
        <thead>
          <tr>
            {(["name", ...FIGURES] as const).map((key) => (
              <Head key={key} of={key} sort={sort.value} onChoose={() => choose(key)} />
            ))}
            {isCompared && (
              <th scope="col" class="number">
                Δ mean
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, MAX_ROWS).map(({ line, figures, change }, at) => (
            <tr
              key={`${line.short} ${at}`}
              class={isolated.size > 0 && !isolated.has(line.short) ? "is-off" : ""}
              onMouseEnter={() => onHighlight(line)}
              onMouseLeave={() => onHighlight(undefined)}
            >
              <th scope="row">
                <button
                  type="button"
                  class="plain"
                  aria-pressed={isolated.has(line.short)}
                  title={visible(line.name)}
                  onClick={(event) => onIsolate(nextIsolated(isolated, line.short, event.ctrlKey || event.metaKey || event.shiftKey))}
                >
                  <span class="swatch" style={{ background: `var(${line.colour ?? colourProperty(line.short)})` }} />{" "}
                  <bdi>{visible(line.short)}</bdi>
                </button>
              </th>
              {FIGURES.map((key) => (
                <td class={`number is-${key}`} key={key}>
                  {formatValue(figures[key], unit)}
                </td>
              ))}
              {isCompared && <td class="number">{change}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Head({ of, sort, onChoose }: { of: SortKey; sort: Sort | undefined; onChoose: () => void }) {
  const order = sort?.key !== of ? undefined : sort.isDescending ? "descending" : "ascending";
  return (
    <th scope="col" class={of === "name" ? "" : `number is-${of}`} aria-sort={order}>
      <button type="button" class="plain" onClick={onChoose}>
        {of === "name" ? "series" : of}
      </button>
    </th>
  );
}

function rowOf(line: Series, all: readonly Series[]): Row {
  const figures = figuresOf(line);
  const earlier = all.find(({ earlierOf }) => earlierOf === line.short);
  return { line, figures, change: earlier ? changeText(figures.mean, figuresOf(earlier).mean) : "" };
}

function sortRows(rows: readonly Row[], sort: Sort | undefined): readonly Row[] {
  if (!sort) return rows;
  const { key } = sort;
  const sign = sort.isDescending ? -1 : 1;
  if (key === "name") return rows.toSorted((a, b) => sign * a.line.short.localeCompare(b.line.short, "en", { numeric: true }));
  // Series without values are last in both directions.
  const order = ({ figures }: Row): number => (Number.isNaN(figures[key]) ? Infinity : sign * figures[key]);
  return rows.toSorted((a, b) => (order(a) === order(b) ? 0 : order(a) - order(b)));
}

/** `isAdding`: the other isolated series stay. A click on the only isolated one shows all. */
function nextIsolated(isolated: ReadonlySet<string>, name: string, isAdding: boolean): ReadonlySet<string> {
  if (!isAdding) return isolated.size === 1 && isolated.has(name) ? new Set() : new Set([name]);
  const next = new Set(isolated);
  if (!next.delete(name)) next.add(name);
  return next;
}
