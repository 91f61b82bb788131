// Shows a single record: its message, its fields with buttons to filter by them, its neighbours, its trace.
import { useSignal } from "@preact/signals";
import { address, around, timestampText } from "../state/index.ts";
import { Context } from "./context.tsx";
import { levelClass } from "./log-histogram.tsx";
import { neighbourFilters } from "./neighbours.ts";
import { formatTerm, type Term } from "./query-line.ts";
import { recordAddress } from "./record-address.ts";
import type { LogRow } from "./log-rows.ts";
import { findEntities } from "../entities/entity.ts";
import { EntityLink, ServiceLink } from "../entities/links.tsx";
import { Copy, SenderText, Button, Toggle, FieldTable, Side } from "../parts/index.ts";
import { useEffect } from "preact/hooks";

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
  const title = (
    <>
      <span class={`level ${levelClass(row.level)}`}>{row.level || "no level"}</span> {timestampText(row.timestamp)}
    </>
  );
  return (
    <Side label="Record" title={title} onClose={onClose} takesFocus={false}>
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
    </Side>
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
  const filter = (not: boolean, name: string, value: string) => (
    <Button
      class="plain"
      title={not ? "Without this" : "Only this"}
      aria-label={`${not ? "Without" : "Only"} ${name.replace("label.", "")} ${value.slice(0, 40)}`}
      onClick={() => onFilter({ not, name, value })}
      text={not ? "−" : "+"}
    />
  );
  return (
    <FieldTable
      title="Fields"
      of={[...columns.filter(([, value]) => value !== ""), ...labels]}
      links={(name, value) =>
        name === "source" ? <ServiceLink service={value} /> : <EntityLink entity={entities.get(name.replace(/^label\./, ""))} />
      }
      actions={(name, value) => [filter(false, name, value), filter(true, name, value)]}
    />
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

/** More is shown on demand. */
const SHOWN = 20_000;
const LONGEST_JSON = 200_000;

/** Invariant: it is always shown as text, and at most SHOWN characters are drawn until the user asks for the rest. */
function Message({ text }: { text: string }) {
  const isWhole = useSignal(false);
  const isRaw = useSignal(false);
  useEffect(() => void ((isWhole.value = false), (isRaw.value = false)), [text]);
  const indented = indentedJson(text);
  const full = indented !== undefined && !isRaw.value ? indented : text;
  const shown = isWhole.value ? full : full.slice(0, SHOWN);
  return (
    <div class="message-whole">
      <pre tabIndex={0}>
        <SenderText text={shown} />
      </pre>
      <Copy text={text} label="Copy message" />
      {indented !== undefined && <Toggle class="small" text="Raw" isOn={isRaw.value} onToggle={(isOn) => (isRaw.value = isOn)} />}
      {shown.length < full.length && (
        <Button class="small" onClick={() => (isWhole.value = true)} text={`Show all ${full.length.toLocaleString("en")} characters`} />
      )}
    </div>
  );
}

/** Undefined if the text is not a JSON object or array. */
function indentedJson(text: string): string | undefined {
  const trimmed = text.trim();
  if (trimmed.length > LONGEST_JSON || !/^[{[]/.test(trimmed)) return undefined;
  try {
    return JSON.stringify(JSON.parse(trimmed), undefined, 2);
  } catch {
    return undefined;
  }
}
