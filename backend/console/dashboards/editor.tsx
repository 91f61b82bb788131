// Edits a dashboard in place: its panels as readers see them, with handles to move and resize them, and the form of the selected panel next
// to them. Changes are sent when the dashboard is saved.
import { type Signal, useComputed, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Problem, Button, Field, Side } from "../parts/index.ts";
import { submitBy, useSending, markEdited } from "../state/index.ts";
import { useChoices } from "./board.tsx";
import type { Chosen, Dashboard, Panel, Variable } from "./dashboard.ts";
import { changeDraft, type DraftPanel, EditableBoard } from "./editable-board.tsx";
import { PanelForm } from "./panel-form.tsx";

const NOTHING: Chosen = {};
const NEW_PANEL: Panel = { title: "", kind: "timeseries", source: "metrics", width: 6, queries: [{ query: "" }] };

export function Editor({ dashboard, save }: { dashboard: Dashboard; save: (changed: Dashboard) => Promise<string> }) {
  const head = useSignal({ name: dashboard.name, description: dashboard.description, variables: dashboard.variables });
  const panels = useSignal<readonly DraftPanel[]>(dashboard.panels.map((panel, key) => ({ key, panel })));
  const selected = useSignal<number | undefined>(undefined);
  const element = useRef<HTMLFormElement>(null);
  const edited = useComputed(() => [head.value, panels.value]);
  useEffect(() => {
    if (dashboard.name === "") document.querySelector<HTMLElement>("[data-first]")?.focus();
    const initial = edited.peek();
    return edited.subscribe((changed) => void (changed !== initial && markEdited(element.current)));
  }, []);
  const { send, isBusy, error } = useSending(async () => {
    const all = panels.peek();
    const empty = all.findIndex(({ panel }) => isWithoutQuery(panel));
    if (empty >= 0) {
      selected.value = all[empty]?.key;
      throw new Error(`Panel ${empty + 1} has no query. Enter one, or remove the panel.`);
    }
    return await save({ ...head.peek(), panels: all.map(({ panel }) => panel) });
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
    <form class="stack dashboard-editor" ref={element} onSubmit={submitBy(() => send())}>
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

interface VariablesFormProps {
  readonly variables: readonly Variable[];
  readonly onVariables: (variables: readonly Variable[]) => void;
}

function VariablesForm({ variables, onVariables }: VariablesFormProps) {
  const set = (at: number, variable: Variable | undefined): void =>
    onVariables(variables.flatMap((other, index) => (index === at ? (variable ? [variable] : []) : [other])));
  return (
    <fieldset>
      <legend>Variables</legend>
      {variables.map((variable, at) => (
        <VariableRow variable={variable} set={(changed) => set(at, changed)} key={at} />
      ))}
      <Button
        class="small"
        onClick={() => onVariables([...variables, { name: `variable${variables.length + 1}`, values: [] }])}
        text="Add variable"
      />
    </fieldset>
  );
}

function VariableRow({ variable, set }: { variable: Variable; set: (changed: Variable | undefined) => void }) {
  return (
    <div class="filters">
      <Field label="Name" size={10} required pattern="\w{1,50}" value={variable.name} onType={(name) => set({ ...variable, name })} />
      <Field
        label="Values, separated by commas"
        value={variable.values?.join(", ") ?? ""}
        onDone={(text) => set({ name: variable.name, values: listOf(text) })}
      />
      <Field
        label="or values of label"
        size={12}
        value={variable.label ?? ""}
        onDone={(label) => set({ name: variable.name, query: variable.query ?? "", label })}
      />
      <Field
        label="in PromQL query"
        size={30}
        value={variable.query ?? ""}
        onDone={(query) => set({ name: variable.name, label: variable.label ?? "", query })}
      />
      <Button class="small" aria-label={`Remove variable ${variable.name}`} onClick={() => set(undefined)} text="Remove" />
    </div>
  );
}

function listOf(text: string): string[] {
  return text
    .split(",")
    .map((value) => value.trim())
    .filter(Boolean);
}
