// Shows a single span.
import type { ComponentChildren } from "preact";
import { formatAttribute } from "./search.ts";
import { address, route, around, timestampText, span as duration } from "../state/index.ts";
import { findEntities } from "../entities/entity.ts";
import { EntityLink, ServiceLink } from "../entities/links.tsx";
import { type Node, selfMs, type Tree } from "../../client/trace-tree.ts";
import { SenderText, FieldTable, Side } from "../parts/index.ts";

const MAX_EVENTS = 200;

export function SpanDetails({ node, tree, onClose }: { node: Node; tree: Tree; onClose: () => void }) {
  const { span } = node;
  return (
    <Side label="Span" title={span.Operation} onClose={onClose} takesFocus={false}>
      <Pairs
        title="Span"
        pairs={[
          ["service", span.Service],
          ["kind", span.Kind.toLowerCase()],
          ["start", `${timestampText(span.Timestamp)} (+${duration(node.startMs)})`],
          ["duration", duration(span.DurationMs)],
          ["self time", duration(selfMs(node))],
          ["status", `${span.StatusCode.toLowerCase()} ${span.StatusMessage}`],
          ["critical path", node.isCritical ? "yes" : "no"],
          ["scope", `${span.Scope.Name} ${span.Scope.Version}`.trim()],
          ["span id", span.SpanID],
        ]}
      />
      <p class="links">
        <a href={address("logs", { q: `trace_id:${span.TraceID} span_id:${span.SpanID}`, ...around(tree.startMs, tree.durationMs) })}>
          Logs of this span
        </a>
      </p>
      <Pairs title="Attributes" pairs={Object.entries(span.Attributes).sort(([a], [b]) => (a < b ? -1 : 1))} isSearchable />
      <Section title="Events" count={span.Events.length}>
        {span.Events.slice(0, MAX_EVENTS).map((event, at) => (
          <details key={at} open={event.Name === "exception"}>
            <summary>
              <SenderText text={event.Name} /> <span class="quiet">{timestampText(event.Timestamp)}</span>
            </summary>
            <Pairs pairs={Object.entries(event.Attributes)} />
          </details>
        ))}
      </Section>
      <Section title="Links" count={span.Links.length}>
        {span.Links.slice(0, MAX_EVENTS).map((link, at) => (
          <div key={at}>
            <a href={address("traces", { span: link.SpanID }, link.TraceID)}>{link.TraceID}</a>
            <Pairs pairs={Object.entries(link.Attributes)} />
          </div>
        ))}
      </Section>
    </Side>
  );
}

function Section({ title, count, children }: { title: string; count: number; children: ComponentChildren }) {
  return count === 0 ? null : (
    <>
      <h3>
        {title} ({count})
      </h3>
      {children}
    </>
  );
}

function SearchLink({ name, value }: { name: string; value: string }) {
  const attributes = formatAttribute(name, value);
  if (attributes.length > 1000) return null;
  const { from, to } = Object.fromEntries(route.value.query);
  return (
    <a
      class="only"
      href={address("traces", { attributes, from, to })}
      aria-label={`Traces with ${name} ${value.slice(0, 40)}`}
      title="Traces with this"
    >
      +
    </a>
  );
}

interface PairsProps {
  readonly title?: string;
  readonly pairs: readonly (readonly [string, string])[];
  /** Whether a value links to the traces that have it. */
  readonly isSearchable?: boolean;
}

function Pairs({ title, pairs, isSearchable = false }: PairsProps) {
  const shown = pairs.filter(([, value]) => value !== "");
  const entities = findEntities(isSearchable ? Object.fromEntries(pairs) : {});
  if (shown.length === 0) return null;
  return (
    <FieldTable
      title={title}
      of={shown}
      links={(name, value) => (
        <>
          {isSearchable && <SearchLink name={name} value={value} />}
          {isSearchable ? <EntityLink entity={entities.get(name)} /> : name === "service" && <ServiceLink service={value} />}
        </>
      )}
    />
  );
}
