// The panels of a dashboard with its variables. The chosen values are in the address: `var-NAME`.
import { useMarkers } from "../metrics/markers.ts";
import { PROMETHEUS, queryRange } from "../metrics/prometheus.ts";
import { Problem, Select, Skeleton, visible } from "../parts/index.ts";
import { type Loaded, useLoaded, choose, route, currentRange } from "../state/index.ts";
import { type Chosen, type Dashboard, fillVariables, type Panel, type Variable } from "./dashboard.ts";
import { PanelView } from "./panel.tsx";

const MAX_VALUES = 1000;
/** Values are looked for at so many times of the range, so that a node that is silent now can still be chosen. */
const POINTS = 60;

export function Board({ dashboard, requestKey }: { dashboard: Dashboard; requestKey: string }) {
  const loaded = useChoices(dashboard.variables);
  const choices = loaded.value.value;
  return (
    <>
      <Problem message={loaded.error.value} retry={loaded.reload} />
      {dashboard.variables.length > 0 && (
        <div class="bar" role="group" aria-label="Variables">
          {dashboard.variables.map(({ name }) => (
            <Select
              key={name}
              label={visible(name)}
              value={choices?.chosen[name] ?? ""}
              onChoose={(value) => choose({ [`var-${name}`]: value })}
              of={
                choices?.values[name]?.length
                  ? choices.values[name]
                  : [["", choices ? "no values" : loaded.busy.value ? "Loading …" : "unknown"]]
              }
            />
          ))}
        </div>
      )}
      {!choices && loaded.busy.value && <Skeleton />}
      {choices && <Panels panels={dashboard.panels} chosen={choices.chosen} requestKey={requestKey} />}
    </>
  );
}

export function useChoices(variables: readonly Variable[]): Loaded<Choices> {
  const { query } = route.value;
  return useLoaded(`${JSON.stringify(variables)} ${query}`, async (signal) => await readVariables(variables, signal));
}

interface PanelsProps {
  readonly panels: readonly Panel[];
  readonly chosen: Chosen;
  readonly requestKey: string;
  /** A log query for the Kubernetes events that the charts mark. */
  readonly events?: string | undefined;
}

export function Panels({ panels, chosen, requestKey, events }: PanelsProps) {
  const markers = useMarkers({ service: chosen["service"], events }, requestKey);
  return (
    <div class="board">
      {panels.map((panel, at) => (
        <PanelView panel={panel} chosen={chosen} requestKey={requestKey} markers={markers} key={`${at} ${panel.title}`} />
      ))}
    </div>
  );
}

interface Choices {
  readonly values: Readonly<Record<string, readonly string[]>>;
  readonly chosen: Chosen;
}

/** Reads variables in order, because the query of one may contain earlier ones. Values in the address are valid even without data. */
async function readVariables(variables: readonly Variable[], signal: AbortSignal): Promise<Choices> {
  const values: Record<string, readonly string[]> = {};
  const chosen: Record<string, string> = {};
  for (const variable of variables) {
    const wanted = route.peek().query.get(`var-${variable.name}`);
    // oxlint-disable-next-line no-await-in-loop -- a query may contain the variables before it
    const available = await valuesOf(variable, chosen, signal);
    values[variable.name] = wanted !== null && !available.includes(wanted) ? [wanted, ...available] : available;
    const value = wanted ?? available[0];
    if (value !== undefined) chosen[variable.name] = value;
  }
  return { values, chosen };
}

async function valuesOf({ values, query, label }: Variable, chosen: Chosen, signal: AbortSignal): Promise<readonly string[]> {
  if (query === undefined || label === undefined) return values ?? [];
  const range = currentRange();
  const step = Math.max(60, Math.ceil((range.toMs - range.fromMs) / 1000 / POINTS));
  const series = await queryRange(fillVariables(query, chosen), range, signal, PROMETHEUS, step);
  const all = new Set(series.map(({ labels }) => labels[label] ?? "").filter(Boolean));
  return [...all].toSorted().slice(0, MAX_VALUES);
}
