// Draws spans on a common time axis, one per row.
import { colourOf } from "../metrics/series-colour.ts";
import { Button, List, counted, visible } from "../parts/index.ts";
import { span as duration } from "../state/time.ts";
import type { Node, Tree } from "../../client/trace-tree.ts";

const ROW_PX = 26;
const MAX_INDENTED_DEPTH = 24;

export interface WaterfallProps {
  readonly tree: Tree;
  readonly rows: readonly Node[];
  readonly colours: ReadonlyMap<string, string>;
  readonly at: number;
  readonly collapsed: ReadonlySet<Node>;
  readonly onChoose: (node: Node) => void;
  readonly onToggle: (node: Node) => void;
}

export function Waterfall({ tree, rows, colours, at, collapsed, onChoose, onToggle }: WaterfallProps) {
  return (
    <div class="waterfall">
      <div class="axis" aria-hidden="true">
        {[0, 0.25, 0.5, 0.75].map((part) => (
          <span key={part} style={{ left: `${part * 100}%` }}>
            {duration(tree.durationMs * part)}
          </span>
        ))}
      </div>
      <List
        label="Spans"
        count={rows.length}
        rowPx={ROW_PX}
        at={at}
        row={(index) => {
          const node = rows[index];
          return (
            node && (
              <Row
                node={node}
                colour={colours.get(node.span.Service)}
                tree={tree}
                isChosen={index === at}
                isCollapsed={collapsed.has(node)}
                onChoose={onChoose}
                onToggle={onToggle}
              />
            )
          );
        }}
      />
    </div>
  );
}

interface RowProps extends Pick<WaterfallProps, "tree" | "onChoose" | "onToggle"> {
  readonly node: Node;
  readonly colour: string | undefined;
  readonly isChosen: boolean;
  readonly isCollapsed: boolean;
}

function Row({ node, tree, colour, isChosen, isCollapsed, onChoose, onToggle }: RowProps) {
  const { span, startMs, depth, children, below, hasErrorBelow, isCritical } = node;
  const left = (startMs / tree.durationMs) * 100;
  const width = Math.max((span.DurationMs / tree.durationMs) * 100, 0.2);
  return (
    <div class={`line span-line ${isChosen ? "is-chosen" : ""}`} role="row" aria-selected={isChosen} onClick={() => onChoose(node)}>
      <div role="gridcell" class="span-name" style={{ paddingLeft: `${Math.min(depth, MAX_INDENTED_DEPTH) * 12 + 4}px` }}>
        {children.length > 0 ? (
          <Button
            class="plain fold"
            aria-expanded={!isCollapsed}
            aria-label={`${counted(below, "span")} below`}
            onClick={(event) => (event.stopPropagation(), onToggle(node))}
            text={isCollapsed ? `▸ ${below}` : "▾"}
          />
        ) : (
          <span class="fold" />
        )}
        {(span.Error || (isCollapsed && hasErrorBelow)) && (
          <span class="level is-error" title="error">
            !
          </span>
        )}
        <strong>
          <bdi title={visible(span.Service)}>{visible(span.Service.slice(0, 60))}</bdi>
        </strong>
        <bdi>{visible(span.Operation.slice(0, 120))}</bdi>
      </div>
      <div role="gridcell" class="span-time">
        <span class={`span-bar ${isCritical ? "is-critical" : ""}`} style={{ left: `${left}%`, width: `${width}%`, background: colour }} />
        <span class="span-ms" style={labelPosition(left, width)}>
          {duration(span.DurationMs)}
        </span>
      </div>
    </div>
  );
}

/** The duration is written to the right of the bar, otherwise to its left, otherwise inside it, depending on the available space. */
function labelPosition(left: number, width: number): Record<string, string> {
  if (left + width < 80) return { left: `${left + width}%` };
  return left > 20 ? { right: `${100 - left}%` } : { right: `${Math.max(0, 100 - left - width)}%`, color: "var(--page)" };
}

export function serviceColours({ all }: Tree): ReadonlyMap<string, string> {
  return new Map([...new Set(all.map(({ span }) => span.Service))].map((service) => [service, colourOf(service)]));
}
