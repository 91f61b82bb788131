// Edits a dashboard in place: its panels as readers see them, with handles to move and resize them, and the form of the selected panel next
// to them. Changes are sent when the dashboard is saved.
import { type Signal, useComputed, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Problem } from "../parts/common.tsx";
import { Button, Field } from "../parts/controls.tsx";
import { Side } from "../parts/side.tsx";
import { submitBy, useSending } from "../state/sending.ts";
import { useUnsaved } from "../state/unsaved.ts";
import { useChoices } from "./board.tsx";
import type { Chosen, Dashboard, Panel } from "./dashboard.ts";
import { changeDraft, type DraftPanel, EditableBoard } from "./editable-board.tsx";
import { PanelForm } from "./panel-form.tsx";
import { VariablesForm } from "./variables-form.tsx";

const NOTHING: Chosen = {};
const NEW_PANEL: Panel = { title: "", kind: "timeseries", source: "metrics", width: 6, queries: [{ query: "" }] };

export function Editor({ dashboard, save }: { dashboard: Dashboard; save: (changed: Dashboard) => Promise<string> }) {
  const head = useSignal({ name: dashboard.name, description: dashboard.description, variables: dashboard.variables });
  const panels = useSignal<readonly DraftPanel[]>(dashboard.panels.map((panel, key) => ({ key, panel })));
  const selected = useSignal<number | undefined>(undefined);
  const unsaved = useUnsaved();
  const edited = useComputed(() => [head.value, panels.value]);
  useEffect(() => {
    if (dashboard.name === "") document.querySelector<HTMLElement>("[data-first]")?.focus();
    const initial = edited.peek();
    return edited.subscribe((changed) => void (changed !== initial && unsaved.changed()));
  }, []);
  const { send, isBusy, error } = useSending(async () => {
    const all = panels.peek();
    const empty = all.findIndex(({ panel }) => isWithoutQuery(panel));
    if (empty >= 0) {
      selected.value = all[empty]?.key;
      throw new Error(`Panel ${empty + 1} has no query. Enter one, or remove the panel.`);
    }
    return await unsaved.save(() => save({ ...head.peek(), panels: all.map(({ panel }) => panel) }));
  });
  const change = (part: Partial<Dashboard>): void => void (head.value = { ...head.peek(), ...part });
  const insert = (panel: Panel): void => {
    const key = Math.max(-1, ...panels.peek().map((other) => other.key)) + 1;
    panels.value = [...panels.peek(), { key, panel }];
    selected.value = key;
  };
  const { name, description, variables } = head.value;
  const choices = useChoices(variables);
  const chosen = panels.value.find(({ key }) => key === selected.value);
  return (
    <form class="stack dashboard-editor" onSubmit={submitBy(() => send())}>
      <div class="filters">
        <Field label="Name" data-first required maxLength={100} value={name} onType={(text) => change({ name: text })} />
        <Field label="Description" size={40} maxLength={1000} value={description} onType={(text) => change({ description: text })} />
        <Button onClick={() => insert(NEW_PANEL)} text="Add panel" />
        <Button type="submit" class="primary" disabled={isBusy} text="Save" />
      </div>
      <Problem message={error} />
      <details open={variables.length > 0}>
        <summary>Variables ({variables.length})</summary>
        <VariablesForm variables={variables} onVariables={(next) => change({ variables: [...next] })} />
      </details>
      {panels.value.length === 0 && <p class="empty">No panels. Add one, or add a query from Logs, Metrics or Traces.</p>}
      <div class={`split ${chosen ? "with-side" : ""}`}>
        <EditableBoard panels={panels} selected={selected} chosen={choices.value.value?.chosen ?? NOTHING} />
        {chosen && <PanelSide key={chosen.key} chosen={chosen} panels={panels} selected={selected} onCopy={() => insert(chosen.panel)} />}
      </div>
    </form>
  );
}

interface PanelSideProps {
  readonly chosen: DraftPanel;
  readonly panels: Signal<readonly DraftPanel[]>;
  readonly selected: Signal<number | undefined>;
  readonly onCopy: () => void;
}

/** The form of the selected panel. */
function PanelSide({ chosen: { key, panel }, panels, selected, onCopy }: PanelSideProps) {
  return (
    <Side label="Panel" title={panel.title || "New panel"} onClose={() => (selected.value = undefined)} takesFocus={false}>
      <PanelForm
        panel={panel}
        set={(part) => changeDraft(panels, key, part)}
        onRemove={() => (panels.value = panels.peek().filter((other) => other.key !== key))}
        onCopy={onCopy}
      />
    </Side>
  );
}

function isWithoutQuery({ kind, source, queries }: Panel): boolean {
  return kind !== "text" && source === "metrics" && queries.every(({ query }) => query.trim() === "");
}
