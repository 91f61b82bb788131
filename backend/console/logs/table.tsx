// The lines of the logs screen.
import type { Signal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { List } from "../parts/list.tsx";
import { address, route } from "../state/route.ts";
import { clock, day } from "../state/time.ts";
import { levelClass } from "./histogram.tsx";
import type { LogRow, LogRows } from "./rows.ts";
import { visible } from "../parts/text.ts";

const ROW_PX = 24;
/** Of a line only what could be seen is drawn: one of a megabyte would take a second. */
const DRAWN = 600;

export function LogTable({ store, chosen }: { store: LogRows; chosen: Signal<LogRow | undefined> }) {
  const rows = store.rows.value;
  const row = chosen.value;
  // It moves when others come before it.
  const chosenAt = useMemo(() => (row ? rows.indexOf(row) : -1), [rows, row]);
  if (rows.length === 0)
    return <div class="empty">{store.busy.value ? "Loading …" : <Nothing isFiltered={Boolean(route.value.query.get("q"))} />}</div>;
  return (
    <List
      label="Log records"
      class="log-table"
      count={rows.length}
      rowPx={ROW_PX}
      at={chosenAt}
      chosen={row}
      onEnd={() => void store.more()}
      row={(at) => {
        const shown = rows[at];
        return shown && <Line row={shown} isChosen={at === chosenAt} onChoose={() => (chosen.value = shown)} />;
      }}
    />
  );
}

/** Where nothing was asked for, the query is not the reason. */
function Nothing({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) return <>No records. A longer time range or fewer words in the query may find some.</>;
  return (
    <>
      No records. A longer time range may have some, and the <a href={address("fleet")}>fleet</a> tells who reports.
    </>
  );
}

function Line({ row, isChosen, onChoose }: { row: LogRow; isChosen: boolean; onChoose: () => void }) {
  const at = new Date(row.timestamp);
  return (
    <div class={`line ${isChosen ? "is-chosen" : ""}`} role="row" aria-selected={isChosen} onClick={onChoose}>
      <time role="gridcell" dateTime={row.timestamp} title={`${day(at)} ${clock(at)}`}>
        {clock(at)}
      </time>
      <span role="gridcell" class={`level ${levelClass(row.level)}`}>
        {visible(row.level.slice(0, 8)) || "–"}
      </span>
      <bdi role="gridcell" class="quiet from" title={row.source}>
        {visible((row.labels["k8s.pod.name"] ?? row.labels["service.name"] ?? row.source).slice(0, 80))}
      </bdi>
      <bdi role="gridcell" class="message" dir="ltr">
        {visible(row.message.slice(0, DRAWN).replace(/\s+/g, " "))}
      </bdi>
    </div>
  );
}
