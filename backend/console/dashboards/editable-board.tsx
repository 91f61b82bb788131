// The panels of a dashboard that is edited: a click selects one, its handles move and resize it, with the pointer or the arrow keys.
import type { Signal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { visible, useScreenRange, Button } from "../parts/index.ts";
import { changePanel, type Chosen, type Panel, type PanelChange } from "./dashboard.ts";
import { COLUMNS, moved, resized } from "./layout.ts";
import { PanelView } from "./panel.tsx";

/** A panel with a key that stays when it moves. */
export interface DraftPanel {
  readonly key: number;
  readonly panel: Panel;
}

export function changeDraft(panels: Signal<readonly DraftPanel[]>, key: number, part: PanelChange): void {
  panels.value = panels.peek().map((other) => (other.key === key ? { key, panel: changePanel(other.panel, part) } : other));
}

interface EditableBoardProps {
  readonly panels: Signal<readonly DraftPanel[]>;
  readonly selected: Signal<number | undefined>;
  readonly chosen: Chosen;
}

export function EditableBoard({ panels, selected, chosen }: EditableBoardProps) {
  const board = useRef<HTMLDivElement>(null);
  const { rangeKey: requestKey } = useScreenRange();
  const put = (key: number, part: PanelChange): void => changeDraft(panels, key, part);
  const moveTo = (key: number, to: number): void =>
    void (panels.value = moved(
      panels.peek(),
      panels.peek().findIndex((other) => other.key === key),
      to,
    ));
  return (
    <div class="board is-editing" ref={board}>
      {panels.value.map(({ key, panel }, at) => {
        const title = visible(panel.title) || `panel ${at + 1}`;
        return (
          <PanelView
            key={key}
            panel={panel}
            chosen={chosen}
            requestKey={requestKey}
            editing={{
              isSelected: selected.value === key,
              onSelect: () => (selected.value = key),
              handles: (
                <>
                  <Handle
                    name={`Move ${title}`}
                    class="move"
                    text="⠿"
                    onArrow={(across, down) => moveTo(key, at + across + down)}
                    onDrag={({ clientX, clientY }) => {
                      const target = panelAt(board.current, clientX, clientY);
                      if (target !== undefined) moveTo(key, target);
                    }}
                  />
                  <Handle
                    name={`Resize ${title}`}
                    class="resize"
                    text="◢"
                    onArrow={(across, down) => put(key, resized(panel, across, down))}
                    onDrag={(event, start) => {
                      const { width, rowHeight } = cellOf(board.current);
                      const initial = start.panel ?? (start.panel = panel);
                      put(key, resized(initial, (event.clientX - start.x) / width, (event.clientY - start.y) / rowHeight));
                    }}
                  />
                </>
              ),
            }}
          />
        );
      })}
    </div>
  );
}

interface DragStart {
  readonly x: number;
  readonly y: number;
  /** The panel before the drag. */
  panel?: Panel;
}

interface HandleProps {
  readonly name: string;
  readonly class: string;
  readonly text: string;
  readonly onArrow: (across: number, down: number) => void;
  readonly onDrag: (event: PointerEvent, start: DragStart) => void;
}

const ARROWS: Readonly<Record<string, readonly [across: number, down: number]>> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

function Handle({ name, class: className, text, onArrow, onDrag }: HandleProps) {
  const start = useRef<DragStart>();
  return (
    <Button
      class={`plain handle ${className}`}
      aria-label={`${name}, with the arrow keys`}
      title={`${name}: drag, or press an arrow key`}
      onKeyDown={(event) => {
        const arrow = ARROWS[event.key];
        if (!arrow) return;
        event.preventDefault();
        onArrow(...arrow);
      }}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        start.current = { x: event.clientX, y: event.clientY };
      }}
      onPointerMove={(event) => start.current && onDrag(event, start.current)}
      onPointerUp={() => (start.current = undefined)}
      onPointerCancel={() => (start.current = undefined)}
      text={text}
    />
  );
}

function panelAt(board: HTMLElement | null, x: number, y: number): number | undefined {
  const all = [...(board?.children ?? [])];
  const at = all.findIndex((panel) => {
    const { left, right, top, bottom } = panel.getBoundingClientRect();
    return x >= left && x <= right && y >= top && y <= bottom;
  });
  return at < 0 ? undefined : at;
}

/** The distance from a column to the next one, and from a row to the next one. */
function cellOf(board: HTMLElement | null): { width: number; rowHeight: number } {
  if (!board) return { width: 1, rowHeight: 1 };
  const style = getComputedStyle(board);
  const gap = Number.parseFloat(style.columnGap) || 0;
  return { width: (board.clientWidth + gap) / COLUMNS, rowHeight: Number.parseFloat(style.gridAutoRows) + gap };
}
