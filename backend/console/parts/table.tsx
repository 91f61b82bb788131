// Tables. A click on a head sorts by its column; the order is in the address, so a link shows it too. If the name of a row is a link, the
// whole row is that link (style/tables.css), so a click with Ctrl or the middle button opens a tab.
import { type ComponentChildren, isValidElement, type JSX } from "preact";
import { choose, route } from "../state/route.ts";
import { Icon } from "./icons.tsx";
import { visible } from "./text.ts";

type Ordered = string | number | null | undefined;

export interface Column<R> {
  readonly head: ComponentChildren;
  /** The content of a cell. In text, control characters are made visible. */
  readonly cell: (row: R, at: number) => ComponentChildren;
  /** A `name` is the row's heading, a `number` is aligned to the right, a `timestamp` stays on one line. */
  readonly kind?: "name" | "number" | "timestamp";
  readonly class?: string | ((row: R) => string);
  /** What rows are sorted by. Default: the text of the cell, except for a `number`, whose text may have a unit. */
  readonly order?: (row: R) => Ordered;
}

export interface TableProps<R> {
  readonly title: string;
  readonly rows: readonly R[];
  readonly columns: readonly Column<R>[];
  /** Default: the `id` of the row, or its index. */
  readonly keyOf?: (row: R) => string;
  readonly isChosen?: (row: R) => boolean;
  /** After sorting, only so many are shown. */
  readonly maxRows?: number;
  readonly rowAttributes?: (row: R) => JSX.HTMLAttributes<HTMLTableRowElement>;
}

const ADDRESS_PARAMETER = "by";

/** A table in a frame that scrolls sideways if the table is wider than the window. */
export function Table<R>(props: TableProps<R>) {
  const by = route.value.query.get(ADDRESS_PARAMETER) ?? "";
  return (
    <div class="wide" tabIndex={0}>
      <SortedTable {...props} class="rows" by={by} onBy={(next) => choose({ [ADDRESS_PARAMETER]: next }, { replace: true })} />
    </div>
  );
}

interface SortedTableProps<R> extends TableProps<R> {
  readonly class?: string;
  /** The head of the column, after `-` if the largest value is first; empty: as the rows are. */
  readonly by: string;
  readonly onBy: (by: string) => void;
}

export function SortedTable<R>(props: SortedTableProps<R>) {
  const { title, rows, columns, keyOf, isChosen, maxRows, rowAttributes, class: name, by, onBy } = props;
  const isDescending = by.startsWith("-");
  const sorted = columns.find((column) => column.head === by.replace(/^-/, "") && isSortable(column, rows));
  const shown = sorted ? sortRows(rows, (row) => orderOf(sorted, row), isDescending) : rows;
  return (
    <table class={name}>
      <caption class="unseen">{title}</caption>
      <thead>
        <tr>
          {columns.map((column, at) => (
            <Head
              column={column}
              isSortable={isSortable(column, rows)}
              isDescending={column === sorted ? isDescending : undefined}
              onBy={onBy}
              key={at}
            />
          ))}
        </tr>
      </thead>
      <tbody>
        {shown.slice(0, maxRows).map((row, at) => (
          <tr
            key={keyOf?.(row) ?? (row as { readonly id?: string }).id ?? at}
            class={isChosen?.(row) ? "is-chosen" : ""}
            {...rowAttributes?.(row)}
          >
            {columns.map((column, index) => (
              <Cell column={column} row={row} at={at} key={index} />
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function orderOf<R>({ order, cell, kind }: Column<R>, row: R): Ordered {
  if (order) return order(row);
  const content = kind === "number" ? undefined : cell(row, 0);
  // Chips, and links with a name, have their text as a property.
  const text = isValidElement(content) ? (content.props as { readonly text?: unknown }).text : content;
  return typeof text === "string" || typeof text === "number" ? text : undefined;
}

function isSortable<R>(column: Column<R>, rows: readonly R[]): boolean {
  const hasHead = typeof column.head === "string" && column.head !== "";
  return hasHead && rows.length > 1 && (column.order !== undefined || orderOf(column, rows[0] as R) !== undefined);
}

interface HeadProps<R> {
  readonly column: Column<R>;
  readonly isSortable: boolean;
  /** Undefined if the table is not sorted by this column. */
  readonly isDescending: boolean | undefined;
  readonly onBy: (by: string) => void;
}

function Head<R>({ column: { head, kind, class: own }, isSortable, isDescending, onBy }: HeadProps<R>) {
  const name = [kind === "number" && kind, typeof own === "string" && own].filter(Boolean).join(" ");
  if (!isSortable || typeof head !== "string")
    return (
      <th scope="col" class={name}>
        {head}
      </th>
    );
  // The first click shows the largest number, or the first name.
  const isNextDescending = isDescending === undefined ? kind === "number" : !isDescending;
  const direction = isDescending === undefined ? "none" : isDescending ? "descending" : "ascending";
  return (
    <th scope="col" class={name} aria-sort={direction}>
      <button type="button" class="sort" onClick={() => onBy(`${isNextDescending ? "-" : ""}${head}`)}>
        {head}
        <Icon name="arrow" />
      </button>
    </th>
  );
}

/** Rows without a value are last in both directions. */
export function sortRows<R>(rows: readonly R[], order: (row: R) => Ordered, isDescending: boolean): R[] {
  const direction = isDescending ? -1 : 1;
  return rows.toSorted((one, other) => {
    const [a, b] = [one, other].map((row) => order(row) ?? "").map((value) => (value === "–" ? "" : value)) as [
      string | number,
      string | number,
    ];
    if (a === b) return 0;
    if (a === "" || b === "") return a === "" ? 1 : -1;
    if (typeof a === "number" && typeof b === "number") return (a - b) * direction;
    return String(a).localeCompare(String(b), "en", { numeric: true }) * direction;
  });
}

function Cell<R>({ column, row, at }: { column: Column<R>; row: R; at: number }) {
  const { cell, kind, class: name } = column;
  const content = cell(row, at);
  const shown = typeof content === "string" ? <bdi>{visible(content)}</bdi> : content;
  if (kind === "name") return <th scope="row">{shown}</th>;
  return <td class={[kind, typeof name === "function" ? name(row) : name].filter(Boolean).join(" ")}>{shown}</td>;
}
