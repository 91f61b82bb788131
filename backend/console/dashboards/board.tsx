// The panels of a dashboard with its variables. The chosen values are in the address: `var-NAME`.
import { queryInstant } from "../metrics/prometheus.ts";
import { Options, Problem } from "../parts/common.tsx";
import { visible } from "../parts/text.ts";
import { useLoaded } from "../state/loaded.ts";
import { choose, route } from "../state/route.ts";
import { currentRange } from "../state/time.ts";
import { type Chosen, type Dashboard, filled, type Panel, type Variable } from "./dashboard.ts";
import { PanelView } from "./panel.tsx";

const MOST_VALUES = 1000;

/** `again`: a new value repeats the queries of all panels. */
export function Board({ dashboard, again }: { dashboard: Dashboard; again: number }) {
  const { query } = route.value;
  const found = useLoaded(
    `${JSON.stringify(dashboard.variables)} ${query}`,
    async (signal) => await readChoices(dashboard.variables, signal),
  );
  const choices = found.value.value;
  return (
    <>
      <Problem words={found.error.value} retry={found.reload} />
      {dashboard.variables.length > 0 && (
        <div class="bar" role="group" aria-label="Variables">
          {dashboard.variables.map(({ name }) => (
            <label key={name}>
              {visible(name)}
              <select value={choices?.chosen[name] ?? ""} onChange={(event) => choose({ [`var-${name}`]: event.currentTarget.value })}>
                <Options of={choices?.values[name] ?? []} />
              </select>
            </label>
          ))}
        </div>
      )}
      {choices && <Panels panels={dashboard.panels} chosen={choices.chosen} again={again} />}
    </>
  );
}

export function Panels({ panels, chosen, again }: { panels: readonly Panel[]; chosen: Chosen; again: number }) {
  const { query } = route.value;
  const asked = `${query.get("from")} ${query.get("to")} ${again}`;
  return (
    <div class="board">
      {panels.map((panel, at) => (
        <PanelView panel={panel} chosen={chosen} asked={asked} key={`${at} ${panel.title}`} />
      ))}
    </div>
  );
}

interface Choices {
  readonly values: Readonly<Record<string, readonly string[]>>;
  readonly chosen: Chosen;
}

/** Reads variables in order, because the query of one may contain earlier ones. Values in the address are valid even without data. */
async function readChoices(variables: readonly Variable[], signal: AbortSignal): Promise<Choices> {
  const values: Record<string, readonly string[]> = {};
  const chosen: Record<string, string> = {};
  for (const variable of variables) {
    const wanted = route.peek().query.get(`var-${variable.name}`);
    // oxlint-disable-next-line no-await-in-loop -- a query may contain the variables before it
    const found = await valuesOf(variable, chosen, signal);
    values[variable.name] = wanted !== null && !found.includes(wanted) ? [wanted, ...found] : found;
    const value = wanted ?? found[0];
    if (value !== undefined) chosen[variable.name] = value;
  }
  return { values, chosen };
}

async function valuesOf({ values, query, label }: Variable, chosen: Chosen, signal: AbortSignal): Promise<readonly string[]> {
  if (query === undefined || label === undefined) return values ?? [];
  const found = await queryInstant(filled(query, chosen), currentRange().toMs, signal);
  const all = new Set(found.map(({ labels }) => labels[label] ?? "").filter(Boolean));
  return [...all].toSorted().slice(0, MOST_VALUES);
}
