// The lines of the log explorer: time, level, service, chosen fields, message.
import { Button, IconButton, Skeleton, List, visible } from "../parts/index.ts";
import { useMemo } from "preact/hooks";
import { address, route, timeText, day } from "../state/index.ts";
import { levelClass } from "./log-histogram.tsx";
import { formatFieldName } from "./query-line.ts";
import type { LogRow, LogRows } from "./log-rows.ts";

const ROW_PX = 24;
/** Characters drawn per line, because a message of a megabyte would take a second. */
const DRAWN = 600;

export interface LogTableProps {
  readonly store: LogRows;
  readonly chosen: LogRow | undefined;
  readonly columns: readonly string[];
  readonly onChoose: (row: LogRow) => void;
  /** Called with the columns in their new order, or without the removed one. */
  readonly onColumns: (columns: readonly string[]) => void;
}

export function LogTable({ store, chosen, columns, onChoose, onColumns }: LogTableProps) {
  const rows = store.rows.value;
  // The position changes when new rows are inserted before it.
  const chosenAt = useMemo(() => (chosen ? rows.indexOf(chosen) : -1), [rows, chosen]);
  if (rows.length === 0 && store.busy.value) return <Skeleton lines={16} />;
  if (rows.length === 0)
    return <div class="empty">{store.error.value ? null : <EmptyState isFiltered={Boolean(route.value.query.get("q"))} />}</div>;
  return (
    <div class="log-columns">
      <div class="line heads">
        <span class="time">time</span>
        <span class="severity">level</span>
        <span class="from">service</span>
        {columns.map((name, at) => (
          <ColumnHead key={name} name={name} at={at} columns={columns} onColumns={onColumns} />
        ))}
        <span class="text">message</span>
      </div>
      <List
        label="Log records"
        class="log-table"
        count={rows.length}
        rowPx={ROW_PX}
        at={chosenAt}
        isStale={store.isStale.value}
        chosen={chosen}
        onEnd={() => void store.more()}
        row={(at) => {
          const shown = rows[at];
          return shown && <Line row={shown} columns={columns} isChosen={at === chosenAt} onChoose={() => onChoose(shown)} />;
        }}
      />
    </div>
  );
}

/** The head is dragged to another column, or moved by the arrow keys. */
function ColumnHead({ name, at, columns, onColumns }: { name: string; at: number } & Pick<LogTableProps, "columns" | "onColumns">) {
  const title = visible(formatFieldName(name));
  const moveTo = (place: number, moved = name): void => onColumns(columns.filter((other) => other !== moved).toSpliced(place, 0, moved));
  return (
    <span
      class="cell"
      draggable
      onDragStart={(event) => event.dataTransfer?.setData("text/plain", name)}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        const moved = event.dataTransfer?.getData("text/plain") ?? "";
        if (columns.includes(moved)) moveTo(at, moved);
      }}
    >
      <Button
        class="plain"
        aria-label={`Column ${title}: move it with the arrow keys`}
        title={`${title}: drag it, or press an arrow key, to move the column`}
        onKeyDown={({ key, currentTarget: button }) => {
          if (key !== "ArrowLeft" && key !== "ArrowRight") return;
          moveTo(Math.max(0, at + (key === "ArrowLeft" ? -1 : 1)));
          // The browser takes the focus from an element that moves.
          setTimeout(() => button.focus());
        }}
        text={<bdi>{title}</bdi>}
      />
      <IconButton
        icon="close"
        class="plain"
        label={`Remove the column ${title}`}
        onClick={() => onColumns(columns.filter((other) => other !== name))}
      />
    </span>
  );
}

/** If there is no query, it cannot be the reason for an empty result. */
function EmptyState({ isFiltered }: { isFiltered: boolean }) {
  if (route.value.query.get("live") === "1") return <>Waiting for new records.</>;
  if (isFiltered) return <>No records match. Change the query, or choose a longer time range.</>;
  return (
    <>
      No records. Choose a longer time range, or check your agents in <a href={address("fleet")}>Fleet</a>.
    </>
  );
}

function Line({ row, columns, isChosen, onChoose }: { row: LogRow; columns: readonly string[]; isChosen: boolean; onChoose: () => void }) {
  const at = new Date(row.timestamp);
  return (
    <div class={`line ${isChosen ? "is-chosen" : ""} mark ${levelClass(row.level)}`} role="row" aria-selected={isChosen} onClick={onChoose}>
      <time role="gridcell" dateTime={row.timestamp} title={`${day(at)} ${timeText(at)}`}>
        {timeText(at)}
      </time>
      <span role="gridcell" class={`level ${levelClass(row.level)}`}>
        {visible(row.level.slice(0, 8)) || "–"}
      </span>
      <bdi role="gridcell" class="quiet from" title={row.labels["k8s.pod.name"] ?? row.source}>
        {visible(row.source.slice(0, 80))}
      </bdi>
      {columns.map((name) => (
        <bdi role="gridcell" class="cell" key={name}>
          {visible(fieldOf(row, name).slice(0, 200).replace(/\s+/g, " "))}
        </bdi>
      ))}
      <bdi role="gridcell" class="message" dir="ltr">
        {visible(row.message.slice(0, DRAWN).replace(/\s+/g, " "))}
      </bdi>
    </div>
  );
}

const OWN = ["level", "source", "node", "host_id", "trace_id", "span_id", "scope"] as const;

/** By the name that GET /query/logs/fields uses. */
export function fieldOf(row: LogRow, name: string): string {
  if (name.startsWith("label.")) return row.labels[name.slice("label.".length)] ?? "";
  const own = OWN.find((known) => known === name);
  return own ? row[own] : "";
}
