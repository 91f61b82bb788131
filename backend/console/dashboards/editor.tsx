// Edits a dashboard: its name, variables, and panels in order, with a preview of each panel. Changes are sent when it is saved.
import { useSignal, type Signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Problem } from "../parts/common.tsx";
import { Button, Field, Select, TextArea, Toggle } from "../parts/controls.tsx";
import { visible } from "../parts/text.ts";
import { useRefresh } from "../parts/time-picker.tsx";
import { submitBy, useSending } from "../state/sending.ts";
import { useUnsaved } from "../state/unsaved.ts";
import { type Dashboard, type Panel, PANEL_KINDS, type PanelKind, type Source, SOURCES, type Variable } from "./dashboard.ts";
import { Panels } from "./board.tsx";

const WIDTHS = [3, 4, 6, 8, 12] as const;
const NEW_PANEL: Panel = { title: "", kind: "timeseries", source: "metrics", width: 6, queries: [{ query: "" }] };

export function Editor({ dashboard, save }: { dashboard: Dashboard; save: (changed: Dashboard) => Promise<string> }) {
  const draft = useSignal(dashboard);
  const unsaved = useUnsaved();
  // Panels and variables change the draft, too.
  useEffect(() => draft.subscribe((changed) => void (changed !== dashboard && unsaved.changed())), []);
  const { send, isBusy, error } = useSending(async () => {
    const empty = draft.peek().panels.findIndex(isWithoutQuery);
    if (empty >= 0) throw new Error(`Panel ${empty + 1} has no query. Enter one, or remove the panel.`);
    return await unsaved.save(() => save(draft.peek()));
  });
  const change = (part: Partial<Dashboard>): void => void (draft.value = { ...draft.peek(), ...part });
  const { name, description, panels } = draft.value;
  return (
    <form class="stack" onSubmit={submitBy(() => send())}>
      <div class="filters">
        <Field label="Name" required maxLength={100} value={name} onType={(text) => change({ name: text })} />
        <Field label="Description" size={40} maxLength={1000} value={description} onType={(text) => change({ description: text })} />
      </div>
      <Variables draft={draft} />
      {panels.map((panel, at) => (
        <PanelForm draft={draft} panel={panel} at={at} key={at} />
      ))}
      <div class="filters">
        <Button onClick={() => change({ panels: [...panels, NEW_PANEL] })} text="Add panel" />
        <Button type="submit" class="primary" disabled={isBusy} text="Save" />
      </div>
      <Problem message={error} />
    </form>
  );
}

function isWithoutQuery({ kind, source, queries }: Panel): boolean {
  return kind !== "text" && source === "metrics" && queries.every(({ query }) => query.trim() === "");
}

/** One line per variable: `name = a, b, c`, or `name = label of PromQL`. */
function Variables({ draft }: { draft: Signal<Dashboard> }) {
  const { variables } = draft.value;
  const set = (at: number, variable: Variable | undefined): void => {
    const next = variables.flatMap((other, index) => (index === at ? (variable ? [variable] : []) : [other]));
    draft.value = { ...draft.peek(), variables: next };
  };
  return (
    <fieldset>
      <legend>Variables</legend>
      {variables.map((variable, at) => (
        <VariableRow variable={variable} set={(changed) => set(at, changed)} key={at} />
      ))}
      <Button
        class="small"
        onClick={() =>
          (draft.value = { ...draft.peek(), variables: [...variables, { name: `variable${variables.length + 1}`, values: [] }] })
        }
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

interface PanelFormProps {
  readonly draft: Signal<Dashboard>;
  readonly panel: Panel;
  readonly at: number;
}

function PanelForm({ draft, panel, at }: PanelFormProps) {
  const isPreviewed = useSignal(false);
  const refreshed = useSignal(0);
  useRefresh(() => refreshed.value++);
  const { panels } = draft.value;
  const put = (next: readonly Panel[]): void => void (draft.value = { ...draft.peek(), panels: next });
  const set = (part: Partial<Panel>): void => put(panels.map((other, index) => (index === at ? { ...other, ...part } : other)));
  const move = (by: number): void => {
    const rest = panels.toSpliced(at, 1);
    put(rest.toSpliced(at + by, 0, panel));
  };
  const title = panel.title || `panel ${at + 1}`;
  return (
    <fieldset class="panel-form">
      <legend>{visible(title)}</legend>
      <div class="filters">
        <Field label="Title" maxLength={200} value={panel.title} onType={(title) => set({ title })} />
        <Select label="Panel type" value={panel.kind} of={PANEL_KINDS} onChoose={(kind: PanelKind) => set({ kind })} />
        {panel.kind !== "text" && (
          <Select label="Source" value={panel.source} of={SOURCES} onChoose={(source: Source) => set({ source })} />
        )}
        <Select
          label="Width (of 12)"
          value={String(panel.width)}
          of={[...new Set([...WIDTHS, panel.width])].toSorted((a, b) => a - b).map(String)}
          onChoose={(width) => set({ width: Number(width) })}
        />
        <Button class="small" disabled={at === 0} aria-label={`Move ${title} up`} onClick={() => move(-1)} text="↑" />
        <Button class="small" disabled={at === panels.length - 1} aria-label={`Move ${title} down`} onClick={() => move(1)} text="↓" />
        <Button class="small" aria-label={`Remove ${title}`} onClick={() => put(panels.toSpliced(at, 1))} text="Remove" />
      </div>
      {panel.kind === "text" ? (
        <TextArea
          label="Text"
          rows={3}
          maxLength={10_000}
          value={panel.text ?? ""}
          onInput={(event) => set({ text: event.currentTarget.value })}
        />
      ) : (
        <Queries panel={panel} set={set} />
      )}
      <Toggle class="small" text="Preview" isOn={isPreviewed.value} onToggle={(isOn) => (isPreviewed.value = isOn)} />
      {isPreviewed.value && <Panels panels={[{ ...panel, width: 12 }]} chosen={{}} refreshes={refreshed.value} />}
    </fieldset>
  );
}

const QUERY_LABELS: Readonly<Record<Source, string>> = {
  metrics: "PromQL",
  logs: "Log query",
  traces: "Attributes, such as http.response.status_code>=500",
};

function Queries({ panel, set }: { panel: Panel; set: (part: Partial<Panel>) => void }) {
  const { queries, source } = panel;
  const put = (at: number, part: { query?: string; legend?: string }): void =>
    set({ queries: queries.map((other, index) => (index === at ? { ...other, ...part } : other)) });
  return (
    <>
      {queries.map(({ query, legend }, at) => (
        <div class="filters" key={at}>
          <Field label={QUERY_LABELS[source]} size={60} maxLength={4000} value={query} onDone={(text) => put(at, { query: text })} />
          {source === "metrics" && (
            <Field
              label="Legend"
              size={16}
              placeholder="{{label}}"
              maxLength={200}
              value={legend ?? ""}
              onDone={(text) => put(at, { legend: text })}
            />
          )}
          {queries.length > 1 && (
            <Button
              class="small"
              aria-label={`Remove query ${at + 1}`}
              onClick={() => set({ queries: queries.toSpliced(at, 1) })}
              text="Remove"
            />
          )}
        </div>
      ))}
      {panel.kind !== "list" && queries.length < 10 && (
        <Button class="small" onClick={() => set({ queries: [...queries, { query: "" }] })} text="Add query" />
      )}
    </>
  );
}
