// Shows a trace as a flame graph, and where its time was spent: operations by self time. The table has the same content as the graph, for
// keyboards and screen readers.
import { useMemo } from "preact/hooks";
import { Table } from "../parts/common.tsx";
import { visible } from "../parts/text.ts";
import { choose } from "../state/route.ts";
import { span as duration } from "../state/time.ts";
import type { Tree } from "../../client/trace-tree.ts";
import { shareText } from "../services/service.ts";
import { flameFrames, operationTimes } from "./flame.ts";

const ROW_PX = 22;
const SHOWN_OPERATIONS = 200;
const NAME_LENGTH = 120;

export interface FlameGraphProps {
  readonly tree: Tree;
  readonly colours: ReadonlyMap<string, number>;
  readonly chosenId: string | undefined;
}

const show = (spanId: string): void => choose({ span: spanId }, { replace: true });

export function FlameGraph({ tree, colours, chosenId }: FlameGraphProps) {
  const frames = useMemo(() => flameFrames(tree), [tree]);
  const rows = frames.reduce((most, { depth }) => Math.max(most, depth + 1), 1);
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
              class={`frame colour-${colours.get(service) ?? 0} ${spanId === chosenId ? "is-chosen" : ""}`}
              style={{ left: `${left * 100}%`, width: `${width * 100}%`, top: `${depth * ROW_PX}px` }}
              title={`${name}: ${count.toLocaleString("en")} spans, self time ${duration(selfMs)}`}
              onClick={() => show(spanId)}
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

function Operations({ tree }: { tree: Tree }) {
  const times = useMemo(() => operationTimes(tree), [tree]);
  const wholeMs = Math.max(
    0.001,
    times.reduce((sum, { selfMs }) => sum + selfMs, 0),
  );
  return (
    <Table title="Self time by operation" heads={["operation", "self time", "share", "spans", "shortest", "longest", "errors"]}>
      {times.slice(0, SHOWN_OPERATIONS).map(({ service, operation, count, selfMs, minMs, maxMs, errors, spanId }) => (
        <tr key={`${service} ${operation}`}>
          <th scope="row">
            <button type="button" class="plain" onClick={() => show(spanId)}>
              <strong>
                <bdi>{visible(service.slice(0, 60))}</bdi>
              </strong>{" "}
              <bdi>{visible(operation.slice(0, NAME_LENGTH))}</bdi>
            </button>
          </th>
          <td class="number">{duration(selfMs)}</td>
          <td class="number">{shareText(selfMs / wholeMs)}</td>
          <td class="number">{count.toLocaleString("en")}</td>
          <td class="number">{duration(minMs)}</td>
          <td class="number">{duration(maxMs)}</td>
          <td class={`number ${errors > 0 ? "level is-error" : ""}`}>{errors}</td>
        </tr>
      ))}
    </Table>
  );
}
