// Fields of the builder for metric, filters, change and combination, next to the resulting expression.
import type { ApiResponses } from "../../client/api.ts";
import { useSignal } from "@preact/signals";
import { Problem, Button, ChoiceField, MAX_CHOICES, Select, visible } from "../parts/index.ts";
import { call, type Loaded, useLoaded, currentRange } from "../state/index.ts";
import { type Built, CHANGES, COMBINATIONS, type Filter, firstQuery, OPERATORS, parseQuery, formatQuery } from "./builder.ts";
import { PROMETHEUS } from "./prometheus.ts";

type Metadata = NonNullable<ApiResponses["GET /query/prometheus/api/v1/metadata"]["data"]>;

type Described = Metadata[string][number];

const BUCKETS = /_bucket$/;

/** Type, unit and help of all metrics, for all builders of the screen; not requested while no builder is shown. */
export function useMetadata(isShown: boolean): Loaded<Metadata> {
  const ask = async (signal: AbortSignal) => (await call<{ data: Metadata }>(`${PROMETHEUS}/metadata`, { signal })).data;
  return useLoaded(isShown ? "metadata" : undefined, ask);
}

export function Builder({ query, metadata, onBuilt }: { query: string; metadata: Loaded<Metadata>; onBuilt: (query: string) => void }) {
  const built = query === "" ? firstQuery("", undefined) : parseQuery(query);
  const labels = useLoaded(
    built?.metric ? `labels ${built.metric}` : undefined,
    async (signal) => await labelChoices("labels", built?.metric, signal),
  );
  if (!built)
    return (
      <p class="quiet">
        The builder cannot show this expression. <Button class="small" onClick={() => onBuilt("")} text="Start a new query" />
      </p>
    );
  const described = describedBy(metadata.value.value ?? {}, built.metric);
  const change = (part: Partial<Built>): void => onBuilt(formatQuery({ ...built, ...part }));
  const free = (labels.value.value ?? []).filter((label) => label !== "__name__" && label !== "org_id");
  return (
    <fieldset class="builder">
      <legend class="unseen">Builder</legend>
      <ChoiceField
        label="metric"
        size={34}
        initial={built.metric}
        choices={Object.keys(metadata.value.value ?? {})}
        // How a metric is shown first depends on its type.
        disabled={metadata.value.value === undefined && metadata.error.value === undefined}
        onDone={(typed) => {
          const name = onlyMatch(typed, Object.keys(metadata.value.value ?? {}));
          onBuilt(name && formatQuery(firstQuery(name, metadata.value.value?.[name]?.[0]?.type)));
        }}
      />
      {built.metric !== "" && <Parts built={built} labels={free} onChange={change} />}
      {described && <p class="quiet">{descriptionText(described, built)}</p>}
      <Problem message={metadata.error.value ?? labels.error.value} retry={metadata.reload} />
    </fieldset>
  );
}

/** The only name with the typed part, or what was typed: the metadata may lack the name of a metric. */
function onlyMatch(typed: string, names: readonly string[]): string {
  const [match, ...others] = names.includes(typed) ? [] : names.filter((name) => name.includes(typed));
  return (others.length === 0 && typed && match) || typed;
}

function Parts({ built, labels, onChange }: { built: Built; labels: readonly string[]; onChange: (part: Partial<Built>) => void }) {
  const { change, window, combination, by, metric } = built;
  return (
    <>
      <Filters built={built} labels={labels} onFilters={(filters) => onChange({ filters })} />
      <Select
        label="function"
        of={CHANGES.map((name) => [name, CHANGE_NAMES[name]])}
        value={change}
        onChoose={(chosen) => onChange({ change: chosen })}
      />
      {change !== "" && (
        <label>
          over
          <input
            type="text"
            size={4}
            value={window}
            pattern="\d+[smhdw]"
            onChange={({ currentTarget: field }) => field.checkValidity() && onChange({ window: field.value })}
          />
        </label>
      )}
      <Select
        label="combined"
        of={COMBINATIONS.filter((name) => BUCKETS.test(metric) || !name.startsWith("p")).map((name) => [name, name || "none"])}
        value={combination}
        onChoose={(chosen) => onChange({ combination: chosen, ...(chosen === "" && { by: [] }) })}
      />
      {combination !== "" && <Grouping by={by} labels={labels} onBy={(chosen) => onChange({ by: chosen })} />}
    </>
  );
}

const CHANGE_NAMES = { "": "unchanged", rate: "rate per second", increase: "increase" };

/** The metadata of a histogram is stored under its own name, without the suffix of its series. */
function describedBy(metadata: Metadata, metric: string): Described | undefined {
  return (metadata[metric] ?? metadata[metric.replace(/_(bucket|sum|count)$/, "")])?.[0];
}

function descriptionText({ type, unit, help }: Described, { change }: Built): string {
  const words = [type === "unknown" ? "" : type, unit && `in ${unit}`, help].filter(Boolean).join(", ");
  return type === "counter" && change === "" ? `${words}: use rate to see its change per second` : words;
}

/** Label names, or the values of one label, of a metric's series in the current range. */
async function labelChoices(path: string, metric: string | undefined, signal: AbortSignal): Promise<string[]> {
  const { fromMs, toMs } = currentRange();
  const query = { "match[]": metric, start: fromMs / 1000, end: toMs / 1000, limit: MAX_CHOICES };
  return (await call<{ data: string[] }>(`${PROMETHEUS}/${path}`, { query, signal })).data;
}

interface FiltersProps {
  readonly built: Built;
  readonly labels: readonly string[];
  readonly onFilters: (filters: readonly Filter[]) => void;
}

function Filters({ built: { metric, filters }, labels, onFilters }: FiltersProps) {
  const added = useSignal("");
  const replace = (at: number, ...filter: Filter[]): void => onFilters(filters.toSpliced(at, 1, ...filter));
  return (
    <>
      {filters.map((filter, at) => (
        <FilterFields
          key={`${at} ${filter.label}`}
          metric={metric}
          filter={filter}
          onFilter={(changed) => replace(at, changed)}
          onRemove={() => replace(at)}
        />
      ))}
      {added.value !== "" && (
        <FilterFields
          key={`new ${added.value}`}
          metric={metric}
          filter={{ label: added.value, operator: "=", value: "" }}
          onFilter={(filter) => {
            if (filter.value === "") return;
            added.value = "";
            onFilters([...filters, filter]);
          }}
          onRemove={() => (added.value = "")}
        />
      )}
      <Select label="filter by" of={[["", "add …"], ...labels]} value="" onChoose={(label) => (added.value = label)} />
    </>
  );
}

interface FilterProps {
  readonly metric: string;
  readonly filter: Filter;
  readonly onFilter: (filter: Filter) => void;
  readonly onRemove: () => void;
}

function FilterFields({ metric, filter, onFilter, onRemove }: FilterProps) {
  const values = useLoaded(
    `values ${metric} ${filter.label}`,
    async (signal) => await labelChoices(`label/${encodeURIComponent(filter.label)}/values`, metric, signal),
  );
  return (
    <span class="filter">
      <span class="quiet">{visible(filter.label)}</span>
      <Select
        aria-label={`operator of ${filter.label}`}
        value={filter.operator}
        onChoose={(operator) => onFilter({ ...filter, operator })}
        of={OPERATORS}
      />
      <ChoiceField
        label={`value of ${visible(filter.label)}`}
        isLabelHidden
        size={14}
        initial={filter.value}
        choices={values.value.value ?? []}
        onDone={(value) => onFilter({ ...filter, value })}
      />
      <Button class="plain" aria-label={`Remove the filter of ${filter.label}`} onClick={onRemove} text="✕" />
    </span>
  );
}

function Grouping({ by, labels, onBy }: { by: readonly string[]; labels: readonly string[]; onBy: (by: readonly string[]) => void }) {
  const free = labels.filter((label) => label !== "le" && !by.includes(label));
  return (
    <>
      {by.map((label) => (
        <Button
          class="small"
          key={label}
          aria-label={`Do not group by ${label}`}
          onClick={() => onBy(by.filter((other) => other !== label))}
          text={`${visible(label)} ✕`}
        />
      ))}
      <Select label="by" of={[["", "add …"], ...free]} value="" onChoose={(label) => onBy([...by, label])} />
    </>
  );
}
