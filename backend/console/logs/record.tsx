// Shows a single record: its message, its fields with buttons to filter by them, its neighbours, its trace.
import { useSignal } from "@preact/signals";
import { address } from "../state/route.ts";
import { around, timestampText } from "../state/time.ts";
import { Context } from "./context.tsx";
import { levelClass } from "./log-histogram.tsx";
import { neighbourFilters } from "./neighbours.ts";
import { FieldText, Message } from "./message.tsx";
import { formatTerm, type Term } from "./query-line.ts";
import { recordAddress } from "./record-address.ts";
import type { LogRow } from "./log-rows.ts";
import { findEntities } from "../entities/entity.ts";
import { EntityLink, ServiceLink } from "../entities/links.tsx";
import { Copy, SenderText } from "../parts/common.tsx";
import { Button } from "../parts/controls.tsx";
import { Icon } from "../parts/icons.tsx";

const AROUND_MS = 5 * 60_000;
const TRACE_AROUND_MS = 30 * 60_000;
/** Number of first characters of a message that distinguish records with the same time and span. */
const DISTINCT_CHARACTERS = 200;

export function Record({ row, onFilter, onClose }: { row: LogRow; onFilter: (term: Term) => void; onClose: () => void }) {
  const isContextOpen = useSignal(false);
  const at = Date.parse(row.timestamp);
  const neighbours = [
    row.source && formatTerm({ not: false, name: "source", value: row.source }),
    row.node && formatTerm({ not: false, name: "node", value: row.node }),
  ];
  return (
    <aside class="side" aria-label="Record">
      <header>
        <h2>
          <span class={`level ${levelClass(row.level)}`}>{row.level || "no level"}</span> {timestampText(row.timestamp)}
        </h2>
        <Button class="plain" aria-label="Close" onClick={onClose} text={<Icon name="close" />} />
      </header>
      <Message text={row.message} />
      <p class="links">
        <a href={address("logs", { q: neighbours.filter(Boolean).join(" "), ...around(at, 0, AROUND_MS) })}>Logs around this time</a>
        <Button
          class="small"
          aria-expanded={isContextOpen.value}
          onClick={() => (isContextOpen.value = !isContextOpen.value)}
          text="Before and after"
        />
        <Copy text={linkTo(row)} label="Copy link" />
        <a href={address("logs", { q: streamQuery(row), live: "1" })}>Live tail of this stream</a>
        {row.trace_id && <a href={address("traces", { span: row.span_id, ...around(at, 0, TRACE_AROUND_MS) }, row.trace_id)}>View trace</a>}
      </p>
      {isContextOpen.value && <Context row={row} key={`${row.timestamp} ${row.span_id} ${row.message.slice(0, DISTINCT_CHARACTERS)}`} />}
      <Fields row={row} onFilter={onFilter} />
    </aside>
  );
}

function Fields({ row, onFilter }: { row: LogRow; onFilter: (term: Term) => void }) {
  const columns = (["level", "source", "node", "host_id", "trace_id", "span_id", "scope"] as const).map(
    (name) => [name, row[name]] as const,
  );
  const labels = Object.entries(row.labels)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => [`label.${name}`, value] as const);
  const entities = findEntities(row.labels, row);
  return (
    <table class="fields">
      <caption class="unseen">Fields</caption>
      <tbody>
        {[...columns.filter(([, value]) => value !== ""), ...labels].map(([name, value]) => (
          <tr key={name}>
            <th scope="row">
              <SenderText text={name.replace(/^label\./, "")} />
            </th>
            <td>
              <FieldText text={value} max={10_000} />
              {name === "source" ? <ServiceLink service={value} /> : <EntityLink entity={entities.get(name.replace(/^label\./, ""))} />}
            </td>
            <td class="actions">
              <Button
                class="plain"
                title="Only this"
                aria-label={`Only ${name.replace("label.", "")} ${value.slice(0, 40)}`}
                onClick={() => onFilter({ not: false, name, value })}
                text="+"
              />
              <Button
                class="plain"
                title="Without this"
                aria-label={`Without ${name.replace("label.", "")} ${value.slice(0, 40)}`}
                onClick={() => onFilter({ not: true, name, value })}
                text="−"
              />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const LINK_AROUND_MS = 60_000;

/** A link to the record with a minute on either side, in absolute times. */
function linkTo(row: LogRow): string {
  const target = address("logs", { record: recordAddress(row), ...around(Date.parse(row.timestamp), 0, LINK_AROUND_MS) });
  return `${location.origin}${location.pathname}${target}`;
}

/** The records of the same file, pod or service. */
function streamQuery(row: LogRow): string {
  return Object.entries(neighbourFilters(row, "stream"))
    .filter(([, value]) => value !== "")
    .map(([name, value]) => formatTerm({ not: false, name, value }))
    .join(" ");
}
