// Shows one trace: its spans as a waterfall, next to it the details of one span.
import { Bar, Copy, Status, Problem, Tabs, counted, visible } from "../parts/index.ts";
import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { stepKeys, useKeys, useLoaded, address, choose, route, wholeList, call } from "../state/index.ts";
import { around, timestampText, span as duration, timeText } from "../state/time.ts";
import { FlameGraph } from "./flame-graph.tsx";
import { SpanDetails } from "./span-details.tsx";
import { buildTree, type Node, type Span, type Tree } from "../../client/trace-tree.ts";
import { serviceColours, Waterfall } from "./waterfall.tsx";
import { recordAddress } from "../logs/record-address.ts";
import { levelClass } from "../logs/log-histogram.tsx";
import { formatTerm } from "../logs/query-line.ts";
import type { LogRow } from "../logs/log-rows.ts";

const MAX_PAGES = 10;
const VIEWS = [
  ["", "waterfall"],
  ["flame", "flame graph and self time"],
] as const;

export function Trace({ id }: { id: string }) {
  const loaded = useLoaded(id, async (signal) => await wholeList<Span>(`/query/traces/${encodeURIComponent(id)}`, signal, MAX_PAGES));
  const trace = loaded.value.value;
  const tree = useMemo(() => (trace && trace.rows.length > 0 ? buildTree(trace.rows) : undefined), [trace]);
  return (
    <section class="screen trace" aria-labelledby="title">
      <Status of={loaded}>{tree && <TraceView id={id} tree={tree} isTruncated={trace?.isTruncated ?? false} />}</Status>
    </section>
  );
}

function TraceView({ id, tree, isTruncated }: { id: string; tree: Tree; isTruncated: boolean }) {
  const collapsed = useSignal<ReadonlySet<Node>>(new Set());
  const chosenId = route.value.query.get("span");
  const isFlame = route.value.query.get("view") === "flame";
  const searched = useSignal("");
  const colours = useMemo(() => serviceColours(tree), [tree]);
  const rows = useMemo(() => filterRows(visibleRows(tree, collapsed.value), searched.value), [tree, collapsed.value, searched.value]);
  const at = rows.findIndex(({ span }) => span.SpanID === chosenId);
  const chosen = rows[at] ?? (isFlame ? tree.all.find(({ span }) => span.SpanID === chosenId) : undefined);
  const toggle = (node: Node): void => {
    const next = new Set(collapsed.value);
    if (!next.delete(node)) next.add(node);
    collapsed.value = next;
  };
  useKeys(() => {
    const steps = stepKeys({ count: () => rows.length, at: () => at, choose: (next) => chooseSpan(rows[next]) });
    const fold = () => chosen && chosen.children.length > 0 && toggle(chosen);
    return { ...steps, Enter: () => void fold(), Escape: () => chooseSpan(undefined) };
  }, [rows, at]);
  return (
    <>
      <TraceHeader id={id} tree={tree} isTruncated={isTruncated} />
      <div class="bar">
        <Tabs label="Shown as" tabs={VIEWS} chosen={isFlame ? "flame" : ""} onChoose={(view) => choose({ view })} />
        {!isFlame && (
          <input
            type="search"
            aria-label="Spans with this in their service, operation or attributes"
            placeholder="search spans"
            data-query
            onInput={(event) => (searched.value = event.currentTarget.value)}
          />
        )}
      </div>
      <div class={`split ${chosen ? "with-side" : ""}`}>
        {isFlame ? (
          <FlameGraph tree={tree} colours={colours} chosenId={chosenId ?? undefined} />
        ) : (
          <Waterfall
            tree={tree}
            rows={rows}
            colours={colours}
            at={at}
            collapsed={collapsed.value}
            onChoose={chooseSpan}
            onToggle={toggle}
          />
        )}
        {chosen && <SpanDetails node={chosen} tree={tree} onClose={() => chooseSpan(undefined)} />}
      </div>
      <TraceLogs id={id} startMs={tree.startMs} durationMs={tree.durationMs} spanId={chosen?.span.SpanID} />
    </>
  );
}

function TraceHeader({ id, tree, isTruncated }: { id: string; tree: Tree; isTruncated: boolean }) {
  const root = tree.roots[0]?.span;
  const errors = tree.all.filter(({ span }) => span.Error).length;
  const services = new Set(tree.all.map(({ span }) => span.Service));
  return (
    <Bar title={`${root?.Service ?? ""} ${root?.Operation ?? ""}`}>
      <span>{timestampText(tree.startMs)}</span>
      <strong>{duration(tree.durationMs)}</strong>
      <span>
        {counted(tree.all.length, "span")}
        {isTruncated ? " (the first ones)" : ""}, {counted(services.size, "service")}
      </span>
      {errors > 0 && <span class="level is-error">{counted(errors, "error")}</span>}
      <code>{id}</code> <Copy text={id} />
      <a href={address("logs", { q: `trace_id:${id}`, ...around(tree.startMs, tree.durationMs) })}>Logs of this trace</a>
    </Bar>
  );
}

function chooseSpan(node: Node | undefined): void {
  choose({ span: node?.span.SpanID }, { replace: true });
}

/** Rows that contain a text in their service, operation or attributes. */
function filterRows(rows: Node[], text: string): Node[] {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return rows;
  const has = (value: string): boolean => value.toLowerCase().includes(wanted);
  return rows.filter(
    ({ span }) =>
      has(span.Service) || has(span.Operation) || Object.entries(span.Attributes).some(([key, value]) => has(key) || has(value)),
  );
}

/** Rows without descendants of collapsed spans. */
function visibleRows(tree: Tree, collapsed: ReadonlySet<Node>): Node[] {
  const rows: Node[] = [];
  for (let at = 0; at < tree.all.length; at++) {
    const node = tree.all[at] as Node;
    rows.push(node);
    if (collapsed.has(node)) at += node.below;
  }
  return rows;
}

const MAX_ROWS = 200;
/** Characters shown per message. */
const DRAWN = 400;

interface TraceLogsProps {
  readonly id: string;
  readonly startMs: number;
  readonly durationMs: number;
  readonly spanId: string | undefined;
}

function TraceLogs({ id, startMs, durationMs, spanId }: TraceLogsProps) {
  const loaded = useLoaded(id, async (signal) => {
    return await call<LogRow[]>("/query/logs", { query: { trace_id: id, order: "oldest", limit: MAX_ROWS }, signal });
  });
  const rows = loaded.value.value ?? [];
  const q = formatTerm({ not: false, name: "trace_id", value: id });
  const range = around(startMs, durationMs);
  return (
    <section class="trace-logs" aria-label="Logs of the trace">
      <h2>
        <a href={address("logs", { q, ...range })}>{counted(rows.length, "log record")}</a>
        {rows.length === MAX_ROWS && <span class="quiet"> (the first ones)</span>}
      </h2>
      <Problem message={loaded.error.value} retry={loaded.reload} />
      {rows.map((row, at) => (
        <a
          key={at}
          class={`line mark ${levelClass(row.level)} ${spanId && row.span_id === spanId ? "is-chosen" : ""}`}
          href={address("logs", { q, ...range, record: recordAddress(row) })}
        >
          <time dateTime={row.timestamp}>{timeText(new Date(row.timestamp))}</time>
          <span class={`level ${levelClass(row.level)}`}>{visible(row.level.slice(0, 8)) || "–"}</span>
          <bdi class="quiet">{visible(row.source.slice(0, 40))}</bdi>
          <bdi dir="ltr" class="message">
            {visible(row.message.slice(0, DRAWN).replace(/\s+/g, " "))}
          </bdi>
        </a>
      ))}
    </section>
  );
}
