// Shows a trace as a flame graph, and where its time was spent: operations by self time. The table has the same content as the graph, for
// keyboards and screen readers.
import { useMemo } from "preact/hooks";
import { Table, visible } from "../parts/index.ts";
import { choose, span as duration } from "../state/index.ts";
import type { Tree } from "../../client/trace-tree.ts";
import { shareText } from "../services/service.ts";
import { flameFrames, type OperationTime, operationTimes } from "./flame.ts";

const ROW_PX = 22;
const MAX_OPERATIONS = 200;
const NAME_LENGTH = 120;

export interface FlameGraphProps {
  readonly tree: Tree;
  readonly colours: ReadonlyMap<string, string>;
  readonly chosenId: string | undefined;
}

const chooseSpan = (spanId: string): void => choose({ span: spanId }, { replace: true });

export function FlameGraph({ tree, colours, chosenId }: FlameGraphProps) {
  const frames = useMemo(() => flameFrames(tree), [tree]);
  const rows = frames.reduce((max, { depth }) => Math.max(max, depth + 1), 1);
  return (
    <div class="flames">
      <div
        class="flame"
        role="img"
        aria-label="Flame graph; the table below has its figures"
        style={{ height: `${Math.min(rows, 16) * ROW_PX + 2}px` }}
      >
        {frames.map(({ service, operation, depth, left, width, count, selfMs, hasError, spanId }) => {
          const name = `${visible(service)} ${visible(operation)}`.slice(0, NAME_LENGTH);
          return (
            <div
              key={`${depth} ${left} ${name}`}
              class={`frame ${spanId === chosenId ? "is-chosen" : ""}`}
              style={{ left: `${left * 100}%`, width: `${width * 100}%`, top: `${depth * ROW_PX}px`, background: colours.get(service) }}
              title={`${name}: ${count.toLocaleString("en")} spans, self time ${duration(selfMs)}`}
              onClick={() => chooseSpan(spanId)}
            >
              {hasError && "! "}
              <bdi>{name}</bdi>
            </div>
          );
        })}
      </div>
      <Operations tree={tree} />
    </div>
  );
}

function OperationName({ of: { service, operation, spanId } }: { of: OperationTime }) {
  return (
    <button type="button" class="plain" onClick={() => chooseSpan(spanId)}>
      <strong>
        <bdi>{visible(service.slice(0, 60))}</bdi>
      </strong>{" "}
      <bdi>{visible(operation.slice(0, NAME_LENGTH))}</bdi>
    </button>
  );
}

function Operations({ tree }: { tree: Tree }) {
  const times = useMemo(() => operationTimes(tree), [tree]);
  const wholeMs = Math.max(
    0.001,
    times.reduce((sum, { selfMs }) => sum + selfMs, 0),
  );
  return (
    <Table
      title="Self time by operation"
      rows={times.slice(0, MAX_OPERATIONS)}
      keyOf={({ service, operation }) => `${service} ${operation}`}
      columns={[
        { head: "operation", kind: "name", order: ({ operation }) => operation, cell: (time) => <OperationName of={time} /> },
        { head: "self time", kind: "number", order: ({ selfMs }) => selfMs, cell: ({ selfMs }) => duration(selfMs) },
        { head: "share", kind: "number", cell: ({ selfMs }) => shareText(selfMs / wholeMs) },
        { head: "spans", kind: "number", order: ({ count }) => count, cell: ({ count }) => count.toLocaleString("en") },
        { head: "shortest", kind: "number", order: ({ minMs }) => minMs, cell: ({ minMs }) => duration(minMs) },
        { head: "longest", kind: "number", order: ({ maxMs }) => maxMs, cell: ({ maxMs }) => duration(maxMs) },
        {
          head: "errors",
          kind: "number",
          order: ({ errors }) => errors,
          class: ({ errors }) => (errors > 0 ? "level is-error" : ""),
          cell: ({ errors }) => errors,
        },
      ]}
    />
  );
}
