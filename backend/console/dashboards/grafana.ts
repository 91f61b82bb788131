// Reads a dashboard file: an exported one of this product, or Grafana's
// (https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/). Invariant: whatever the JSON contains, the
// result has only the fields of a dashboard, and every part that cannot be shown here is named.
import type { Dashboard, Panel, PanelKind, PanelQuery, Source, Variable } from "./dashboard.ts";
import type { Unit } from "../metrics/unit.ts";

export const MAX_PANELS = 100;
const MAX_QUERIES = 10;
const MAX_VARIABLES = 20;
const MAX_QUERY_CHARACTERS = 4000;
const MAX_VALUES = 200;
const COLUMNS = 12;
const MAX_OMITTED = 50;
const MAX_THRESHOLDS = 10;

export interface Imported {
  readonly dashboard: Dashboard;
  readonly omitted: readonly string[];
}

type Json = Readonly<Record<string, unknown>>;

const KINDS: Readonly<Record<string, PanelKind>> = {
  timeseries: "timeseries",
  graph: "timeseries",
  barchart: "timeseries",
  stat: "stat",
  singlestat: "stat",
  gauge: "stat",
  bargauge: "stat",
  table: "table",
  "table-old": "table",
  logs: "list",
  text: "text",
};
const UNITS: Readonly<Record<string, Unit>> = {
  bytes: "bytes",
  decbytes: "bytes",
  Bps: "Bps",
  binBps: "Bps",
  percentunit: "percentunit",
  percent: "percent",
  s: "s",
  ms: "ms",
  reqps: "reqps",
  ops: "cps",
  cps: "cps",
  short: "short",
};

/** Whether a JSON document comes from Grafana, not from this product. */
export function isGrafanaDashboard(json: unknown): boolean {
  const { panels, schemaVersion, rows, dashboard } = objectOf(json);
  return (
    schemaVersion !== undefined ||
    rows !== undefined ||
    dashboard !== undefined ||
    listOf(panels).some((panel) => "type" in objectOf(panel))
  );
}

export function readGrafana(json: unknown): Imported {
  const outer = objectOf(json);
  const source = outer["dashboard"] === undefined ? outer : objectOf(outer["dashboard"]);
  const omitted: string[] = [];
  const omit = (words: string): void => void (omitted.length < MAX_OMITTED && omitted.push(words));
  const variables = listOf(objectOf(source["templating"])["list"]).flatMap((variable) => readVariable(objectOf(variable), omit));
  if (variables.length > MAX_VARIABLES) omit(`${variables.length - MAX_VARIABLES} variables: at most ${MAX_VARIABLES}`);
  const flat = listOf(source["panels"]).flatMap((panel) => [panel, ...listOf(objectOf(panel)["panels"])]);
  const panels = flat
    .map(objectOf)
    .filter(({ type }) => type !== "row")
    .flatMap((panel) => readPanel(panel, omit));
  if (panels.length > MAX_PANELS) omit(`${panels.length - MAX_PANELS} panels: at most ${MAX_PANELS}`);
  const dashboard = {
    name: textOf(source["title"]).slice(0, 100) || "Imported dashboard",
    description: textOf(source["description"]).slice(0, 1000),
    variables: variables.slice(0, MAX_VARIABLES),
    panels: panels.slice(0, MAX_PANELS),
  };
  return { dashboard, omitted };
}

function readPanel(panel: Json, omit: (words: string) => void): Panel[] {
  const type = textOf(panel["type"]);
  const title = textOf(panel["title"]).slice(0, 200);
  const kind = Object.hasOwn(KINDS, type) ? KINDS[type] : undefined;
  if (!kind) return (omit(`panel ${title}: its type ${type} is not shown here`), []);
  const base = { title, kind, width: widthOf(panel), ...heightOf(panel), ...fieldOptions(panel) };
  if (kind === "text")
    return [{ ...base, source: "metrics", queries: [], text: textOf(objectOf(panel["options"])["content"]).slice(0, 10_000) }];
  const source = sourceOf(panel, type);
  const targets = listOf(panel["targets"])
    .map(objectOf)
    .filter(({ hide }) => hide !== true);
  const queries = targets.flatMap((target) => queryOf(target));
  if (!source || queries.length === 0) return (omit(`panel ${title}: it has no PromQL query`), []);
  const short = queries.filter(({ query }) => query.length <= MAX_QUERY_CHARACTERS);
  const long = queries.length - short.length;
  if (long > 0) omit(`panel ${title}: ${long} of its queries: longer than ${MAX_QUERY_CHARACTERS} characters`);
  if (short.length > MAX_QUERIES) omit(`panel ${title}: ${short.length - MAX_QUERIES} of its queries: at most ${MAX_QUERIES}`);
  return short.length === 0 ? [] : [{ ...base, source, queries: short.slice(0, MAX_QUERIES) }];
}

/** Only Prometheus queries can be imported: the panels' log query language is not LogQL. */
function sourceOf(panel: Json, type: string): Source | undefined {
  const kinds = [panel, ...listOf(panel["targets"])].map((part) => textOf(objectOf(objectOf(part)["datasource"])["type"]));
  const isOther = type === "logs" || kinds.some((kind) => kind !== "" && kind !== "prometheus");
  return isOther ? undefined : "metrics";
}

function queryOf({ expr, legendFormat }: Json): PanelQuery[] {
  const query = textOf(expr);
  if (query === "") return [];
  const legend = textOf(legendFormat).slice(0, 200);
  return [legend === "" || legend === "__auto" ? { query } : { query, legend }];
}

function widthOf(panel: Json): number {
  const width = Number(objectOf(panel["gridPos"])["w"]) / 2;
  return Number.isFinite(width) ? Math.min(COLUMNS, Math.max(2, Math.round(width))) : COLUMNS / 2;
}

/** Grafana's rows are 38 pixels apart, those of this product 50. */
const ROWS_PER_GRAFANA_ROW = 38 / 50;

function heightOf(panel: Json): { height?: number } {
  const height = numberOf(objectOf(panel["gridPos"])["h"]);
  return height === undefined ? {} : { height: Math.max(2, Math.min(24, Math.round(height * ROWS_PER_GRAFANA_ROW))) };
}

function fieldOptions(panel: Json): Pick<Panel, "unit" | "min" | "max" | "stacked" | "thresholds"> {
  const defaults = objectOf(objectOf(panel["fieldConfig"])["defaults"]);
  const custom = objectOf(defaults["custom"]);
  const [unit, min, max] = [UNITS[textOf(defaults["unit"])], numberOf(defaults["min"]), numberOf(defaults["max"])];
  const thresholds = thresholdsOf(defaults, custom);
  return {
    ...(unit && { unit }),
    ...(min !== undefined && { min }),
    ...(max !== undefined && { max }),
    ...(["normal", "percent"].includes(textOf(objectOf(custom["stacking"])["mode"])) && { stacked: true }),
    ...(thresholds.length > 0 && { thresholds }),
  };
}

/** Those that Grafana draws; every panel has some that it does not. */
function thresholdsOf(defaults: Json, custom: Json): NonNullable<Panel["thresholds"]>[number][] {
  const mode = textOf(objectOf(custom["thresholdsStyle"])["mode"]);
  if (mode === "" || mode === "off") return [];
  return listOf(objectOf(defaults["thresholds"])["steps"])
    .map(objectOf)
    .flatMap(({ value, color }) => {
      const number = numberOf(value);
      if (number === undefined) return [];
      return [{ value: number, severity: /red/i.test(textOf(color)) ? ("critical" as const) : ("warning" as const) }];
    })
    .slice(0, MAX_THRESHOLDS);
}

function numberOf(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}

function readVariable(variable: Json, omit: (words: string) => void): Variable[] {
  const name = textOf(variable["name"]);
  const type = textOf(variable["type"]);
  // There is one data source here.
  if (type === "datasource") return [];
  if (!/^\w{1,50}$/.test(name)) return (omit(`variable ${name.slice(0, 50)}: its name is not a word`), []);
  if (type === "query") {
    const query = valuesQuery(
      textOf(variable["definition"]) || textOf(objectOf(variable["query"])["query"]) || textOf(variable["query"]),
      variable,
    );
    return query ? [{ name, ...query }] : (omit(`variable ${name}: only label_values and query_result are read`), []);
  }
  const values = type === "custom" || type === "interval" ? textOf(variable["query"]).split(",") : [textOf(variable["query"])];
  if (!["custom", "interval", "constant", "textbox"].includes(type)) return (omit(`variable ${name}: its type ${type} is not read`), []);
  return [
    {
      name,
      values: values
        .map((value) => value.trim().slice(0, 200))
        .filter(Boolean)
        .slice(0, MAX_VALUES),
    },
  ];
}

/** `label_values(metric{…}, label)`, or `query_result(…)` with a regular expression that takes the value of one label. */
function valuesQuery(definition: string, variable: Json): { query: string; label: string } | undefined {
  const inside = /^\s*(label_values|query_result)\s*\((.*)\)\s*$/s.exec(definition.slice(0, MAX_QUERY_CHARACTERS));
  if (!inside) return undefined;
  const [, call, argument = ""] = inside;
  if (call === "query_result") {
    const label = /\b(\w{1,50})="/.exec(textOf(variable["regex"]))?.[1];
    return label ? { query: argument, label } : undefined;
  }
  const comma = argument.lastIndexOf(",");
  const label = argument.slice(comma + 1).trim();
  if (!/^\w+$/.test(label)) return undefined;
  const selector = comma < 0 ? `{${label}!=""}` : argument.slice(0, comma).trim();
  return { query: `group by (${label}) (${selector})`, label };
}

function objectOf(value: unknown): Json {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value.slice(0, 1000) : [];
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Large, because most of Grafana's JSON is ignored. */
const MAX_FILE_BYTES = 4 * 1024 * 1024;

export async function readDashboardFile(file: Blob): Promise<Imported> {
  if (file.size > MAX_FILE_BYTES) throw new Error(`The file is larger than ${MAX_FILE_BYTES / 1024 / 1024} MiB.`);
  const text = await file.text();
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw new Error("The file is not valid JSON.", { cause: error });
  }
  return toDashboard(json);
}

export function toDashboard(json: unknown): Imported {
  if (isGrafanaDashboard(json)) return readGrafana(json);
  const { name, description = "", variables = [], panels } = json as Partial<Dashboard>;
  if (typeof name !== "string" || !Array.isArray(panels)) throw new Error("The file has no dashboard: it needs a name and panels.");
  return { dashboard: { name, description, variables, panels }, omitted: [] };
}
