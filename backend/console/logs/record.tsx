// One record whole: its message, its fields with filters in and out, its neighbours, its trace.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { address } from "../state/route.ts";
import { around, moment } from "../state/time.ts";
import { Context } from "./context.tsx";
import { levelClass } from "./histogram.tsx";
import { written, type Term } from "./query-line.ts";
import type { LogRow } from "./rows.ts";
import { Copy, Foreign } from "../parts/common.tsx";

const AROUND_MS = 5 * 60_000;
const TRACE_AROUND_MS = 30 * 60_000;
/** Records that differ in so much of their messages are not the same. */
const KEPT_APART = 200;
/** More is shown on demand. */
const SHOWN = 20_000;

export function Record({ row, onFilter, onClose }: { row: LogRow; onFilter: (term: Term) => void; onClose: () => void }) {
  const isContextOpen = useSignal(false);
  const at = Date.parse(row.timestamp);
  const neighbours = [
    row.source && written({ kind: "field", not: false, name: "source", value: row.source }),
    row.node && written({ kind: "field", not: false, name: "node", value: row.node }),
  ];
  return (
    <aside class="side" aria-label="Record">
      <header>
        <h2>
          <span class={`level ${levelClass(row.level)}`}>{row.level || "no level"}</span> {moment(row.timestamp)}
        </h2>
        <button type="button" class="plain" aria-label="Close" onClick={onClose}>
          ✕
        </button>
      </header>
      <Message text={row.message} />
      <p class="links">
        <a href={address("logs", { q: neighbours.filter(Boolean).join(" "), ...around(at, 0, AROUND_MS) })}>5 minutes around it</a>
        <button
          type="button"
          class="small"
          aria-expanded={isContextOpen.value}
          onClick={() => (isContextOpen.value = !isContextOpen.value)}
        >
          Before and after
        </button>
        {row.trace_id && <a href={address("traces", { span: row.span_id, ...around(at, 0, TRACE_AROUND_MS) }, row.trace_id)}>its trace</a>}
      </p>
      {isContextOpen.value && <Context row={row} key={`${row.timestamp} ${row.span_id} ${row.message.slice(0, KEPT_APART)}`} />}
      <Fields row={row} onFilter={onFilter} />
    </aside>
  );
}

function Message({ text }: { text: string }) {
  const isWhole = useSignal(false);
  const box = useRef<HTMLPreElement>(null);
  useEffect(() => void (isWhole.value = false), [text]);
  const shown = isWhole.value ? text : text.slice(0, SHOWN);
  return (
    <div class="message-whole">
      <pre ref={box} tabIndex={0}>
        <Foreign text={shown} />
      </pre>
      <Copy text={text} label="Copy message" />
      {shown.length < text.length && (
        <button type="button" class="small" onClick={() => (isWhole.value = true)}>
          Show all {text.length.toLocaleString("en")} characters
        </button>
      )}
    </div>
  );
}

function Fields({ row, onFilter }: { row: LogRow; onFilter: (term: Term) => void }) {
  const own: [Term["kind"], string, string][] = [
    ["field", "level", row.level],
    ["field", "source", row.source],
    ["field", "node", row.node],
    ["field", "host_id", row.host_id],
    ["field", "trace_id", row.trace_id],
  ];
  const labels = Object.entries(row.labels)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => ["label", name, value] as [Term["kind"], string, string]);
  return (
    <table class="fields">
      <caption class="unseen">Fields</caption>
      <tbody>
        {[...own.filter(([, , value]) => value !== ""), ...labels].map(([kind, name, value]) => (
          <tr key={`${kind} ${name}`}>
            <th scope="row">
              <Foreign text={name} />
            </th>
            <td>
              <Foreign text={value.slice(0, 2000)} />
            </td>
            <td class="actions">
              <button
                type="button"
                class="plain"
                title="Only this"
                aria-label={`Only ${name} ${value.slice(0, 40)}`}
                onClick={() => onFilter({ kind, not: false, name, value })}
              >
                +
              </button>
              {kind === "label" && (
                <button
                  type="button"
                  class="plain"
                  title="Without this"
                  aria-label={`Without ${name} ${value.slice(0, 40)}`}
                  onClick={() => onFilter({ kind, not: true, name, value })}
                >
                  −
                </button>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
