// The variables of a dashboard: each has its values, or takes them from a label of a PromQL query.
import { Button, Field } from "../parts/controls.tsx";
import type { Variable } from "./dashboard.ts";

interface VariablesFormProps {
  readonly variables: readonly Variable[];
  readonly onVariables: (variables: readonly Variable[]) => void;
}

export function VariablesForm({ variables, onVariables }: VariablesFormProps) {
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
