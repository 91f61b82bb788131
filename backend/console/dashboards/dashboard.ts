// The model of a dashboard: panels with metric, log or trace queries, and variables that the queries contain (docs/console.md).
import type { ApiBodies } from "../../client/api.ts";
import { call, saveResource } from "../state/api.ts";

const PATH = "/api/dashboards";
export type Dashboard = ApiBodies["POST /api/dashboards"];
export type Panel = Dashboard["panels"][number];
/** The path of a stored dashboard. */
export const pathOf = (id: string): string => `${PATH}/${encodeURIComponent(id)}`;

export async function readDashboard(id: string, signal?: AbortSignal): Promise<Dashboard> {
  const { name, description, variables, panels } = await call<Dashboard>(pathOf(id), { ...(signal && { signal }) });
  return { name, description, variables, panels };
}

/** Resolves to the id of the stored dashboard: of a new one, if `id` is undefined. */
export async function storeDashboard(dashboard: Dashboard, id?: string): Promise<string> {
  return (await saveResource<{ id: string }>(PATH, id, dashboard)).id;
}

export type PanelKind = Panel["kind"];
export type Source = Panel["source"];
/** Changed fields of a panel; undefined removes one. */
export type PanelChange = { readonly [K in keyof Panel]?: Panel[K] | undefined };

export function changePanel(panel: Panel, change: PanelChange): Panel {
  const next = Object.entries({ ...panel, ...change }).filter(([, value]) => value !== undefined);
  return Object.fromEntries(next) as unknown as Panel;
}

/** `legend`: the name of a series, with `{{label}}` for the value of a label. */
export type PanelQuery = Panel["queries"][number];
/** A variable whose value the reader chooses: one of `values`, or a value of `label` in the series of `query`. */
export type Variable = Dashboard["variables"][number];

export const PANEL_KINDS: readonly PanelKind[] = ["timeseries", "stat", "table", "list", "text"];
export const SOURCES: readonly Source[] = ["metrics", "logs", "traces"];

export type Chosen = Readonly<Record<string, string>>;

/** `$name`, `${name}`, `${name:regex}` and `[[name]]`. */
const VARIABLE = /\$\{(\w+)(?::\w+)?\}|\$(\w+)|\[\[(\w+)\]\]/g;

/**
 * Replaces variables in a query by their values. A value inside a string cannot end the string: its quotes are escaped, and so is its
 * regular expression syntax if it is compared by `=~`. Outside a string, only a word or a number is inserted.
 */
export function fillVariables(query: string, chosen: Chosen): string {
  return query.replace(VARIABLE, (match: string, ...groups: unknown[]) => {
    const [braced, plain, bracketed, offset] = groups as [string?, string?, string?, number?];
    const name = braced ?? plain ?? bracketed ?? "";
    const value = Object.hasOwn(chosen, name) ? chosen[name] : undefined;
    if (value === undefined) return match;
    const before = textBeforeOpenString(query.slice(0, offset));
    if (before === undefined) return /^[\w.:]+$/.test(value) ? value : match;
    const text = /[=!]~\s*$/.test(before) ? value.replaceAll(/[$()*+.?[\\\]^{|}]/g, "\\$&") : value;
    return text.replaceAll(/["'\\`\n]/g, (char) => (char === "\n" ? "\\n" : `\\${char}`));
  });
}

/** The text before the quote of a string that is still open at the end; undefined outside strings. */
function textBeforeOpenString(text: string): string | undefined {
  let start = -1;
  for (let at = 0; at < text.length; at++) {
    const char = text[at] ?? "";
    if (start >= 0 && char === "\\") at++;
    else if (start >= 0 && char === text[start]) start = -1;
    else if (start < 0 && `"'\``.includes(char)) start = at;
  }
  return start < 0 ? undefined : text.slice(0, start);
}

/** Replaces `{{pod}} {{container}}` by the series' labels. */
export function seriesLegend(legend: string, labels: Readonly<Record<string, string>>): string {
  return legend.replaceAll(/\{\{\s*([\w.]+)\s*\}\}/g, (_written, label: string) => labels[label] ?? "").trim();
}
