// The form of the selected panel, next to the dashboard, which shows each change at once.
import { PromqlField } from "../metrics/promql-field.tsx";
import type { Unit } from "../metrics/unit.ts";
import { Button, Checkbox, Field, Select, TextArea } from "../parts/controls.tsx";
import { type Panel, PANEL_KINDS, type PanelChange, type PanelKind, type Source, SOURCES } from "./dashboard.ts";
import { COLUMNS, rowsOf } from "./layout.ts";

const MAX_QUERIES = 10;
const MAX_THRESHOLDS = 10;
const QUERY_LABELS: Readonly<Record<Exclude<Source, "metrics">, string>> = {
  logs: "Log query, or LogQL that counts",
  traces: "Attributes, such as http.response.status_code>=500",
};
const UNITS: readonly (readonly [Unit | "", string])[] = [
  ["", "from the query"],
  ["short", "number"],
  ["bytes", "bytes"],
  ["Bps", "bytes per second"],
  ["percentunit", "% of 0 to 1"],
  ["percent", "% of 0 to 100"],
  ["s", "seconds"],
  ["ms", "milliseconds"],
  ["reqps", "requests per second"],
  ["cps", "per second"],
  ["cores", "CPU cores"],
];

interface PanelFormProps {
  readonly panel: Panel;
  readonly set: (part: PanelChange) => void;
  readonly onRemove: () => void;
  readonly onCopy: () => void;
}

export function PanelForm({ panel, set, onRemove, onCopy }: PanelFormProps) {
  return (
    <div class="stack panel-form">
      <Field label="Title" maxLength={200} value={panel.title} onType={(title) => set({ title })} />
      <div class="row">
        <Select label="Panel type" value={panel.kind} of={PANEL_KINDS} onChoose={(kind: PanelKind) => set({ kind })} />
        {panel.kind !== "text" && (
          <Select label="Source" value={panel.source} of={SOURCES} onChoose={(source: Source) => set({ source })} />
        )}
      </div>
      {panel.kind === "text" ? (
        <TextArea
          label="Text"
          rows={6}
          maxLength={10_000}
          value={panel.text ?? ""}
          onInput={(event) => set({ text: event.currentTarget.value })}
        />
      ) : (
        <Queries panel={panel} set={set} />
      )}
      {["timeseries", "stat", "table"].includes(panel.kind) && (
        <Select label="Unit" value={panel.unit ?? ""} of={UNITS} onChoose={(unit) => set({ unit: unit === "" ? undefined : unit })} />
      )}
      {panel.kind === "timeseries" && <Axis panel={panel} set={set} />}
      <div class="row">
        <Whole label={`Width, of ${COLUMNS}`} max={COLUMNS} value={panel.width} onNumber={(width) => set({ width })} />
        <Whole label="Height, in rows" max={24} value={rowsOf(panel)} onNumber={(height) => set({ height })} />
      </div>
      <div class="row">
        <Button onClick={onCopy} text="Duplicate" />
        <Button class="danger" onClick={onRemove} text="Remove panel" />
      </div>
    </div>
  );
}

type PartProps = Pick<PanelFormProps, "panel" | "set">;

function Queries({ panel, set }: PartProps) {
  const { queries, source } = panel;
  const put = (at: number, part: { query?: string; legend?: string }): void =>
    set({ queries: queries.map((other, index) => (index === at ? { ...other, ...part } : other)) });
  const names = (label: string, at: number): string => (queries.length > 1 ? `${label} ${at + 1}` : label);
  return (
    <>
      {queries.map(({ query, legend }, at) => (
        <div class="stack" key={`${source} ${at}`} role="group" aria-label={names("Query", at)}>
          {source === "metrics" ? (
            <div class="label">
              PromQL
              <PromqlField label={names("PromQL", at)} value={query} onChange={(text) => put(at, { query: text })} />
            </div>
          ) : (
            <Field label={QUERY_LABELS[source]} maxLength={4000} value={query} onType={(text) => put(at, { query: text })} />
          )}
          {source === "metrics" && (
            <Field
              label="Legend"
              placeholder="{{label}}"
              maxLength={200}
              value={legend ?? ""}
              onType={(text) => put(at, { legend: text })}
            />
          )}
          {queries.length > 1 && (
            <Button
              class="small"
              aria-label={`Remove query ${at + 1}`}
              onClick={() => set({ queries: queries.toSpliced(at, 1) })}
              text="Remove query"
            />
          )}
        </div>
      ))}
      {panel.kind !== "list" && queries.length < MAX_QUERIES && (
        <Button class="small" onClick={() => set({ queries: [...queries, { query: "" }] })} text="Add query" />
      )}
    </>
  );
}

function Axis({ panel, set }: PartProps) {
  const thresholds = panel.thresholds ?? [];
  const put = (next: typeof thresholds): void => set({ thresholds: next.length > 0 ? next : undefined });
  return (
    <>
      <div class="row">
        <NumberField label="Axis from" value={panel.min} onNumber={(min) => set({ min })} />
        <NumberField label="Axis to" value={panel.max} onNumber={(max) => set({ max })} />
        <Checkbox
          label="Stacked"
          checked={panel.stacked ?? false}
          onChange={(event) => set({ stacked: event.currentTarget.checked || undefined })}
        />
      </div>
      {thresholds.map(({ value, severity = "critical" }, at) => (
        <div class="row" key={at}>
          <NumberField
            label={`Threshold ${at + 1}`}
            value={value}
            onNumber={(typed) => put(thresholds.with(at, { value: typed ?? 0, severity }))}
          />
          <Select
            label="Severity"
            value={severity}
            of={["warning", "critical"]}
            onChoose={(chosen: "warning" | "critical") => put(thresholds.with(at, { value, severity: chosen }))}
          />
          <Button class="small" aria-label={`Remove threshold ${at + 1}`} onClick={() => put(thresholds.toSpliced(at, 1))} text="Remove" />
        </div>
      ))}
      {thresholds.length < MAX_THRESHOLDS && (
        <Button class="small" onClick={() => put([...thresholds, { value: 0, severity: "critical" }])} text="Add threshold" />
      )}
    </>
  );
}

function NumberField({
  label,
  value,
  onNumber,
}: {
  label: string;
  value: number | undefined;
  onNumber: (value: number | undefined) => void;
}) {
  return (
    <Field
      label={label}
      type="number"
      step="any"
      size={8}
      value={value === undefined ? "" : String(value)}
      onDone={(text) => onNumber(text === "" ? undefined : Number(text))}
    />
  );
}

/** A whole number from 1 to `max`; other input is not taken. */
function Whole({ label, max, value, onNumber }: { label: string; max: number; value: number; onNumber: (value: number) => void }) {
  return (
    <Field
      label={label}
      type="number"
      min={1}
      max={max}
      step={1}
      value={String(value)}
      onType={(text) => {
        const typed = Number(text);
        if (Number.isInteger(typed) && typed >= 1 && typed <= max) onNumber(typed);
      }}
    />
  );
}
