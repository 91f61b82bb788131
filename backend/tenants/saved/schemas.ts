// What a dashboard and a saved view contain. The console reads both; the backend stores them as they are. Invariant: every text and every list
// has a maximum, and the address of a view stays inside the console.
import { FORBIDDEN_CHARACTERS, nameSchema } from "../../http/schemas.ts";
import {
  MAX_ADDRESS_LENGTH,
  MAX_DASHBOARD_PANELS,
  MAX_DASHBOARD_VARIABLES,
  MAX_PANEL_QUERIES,
  MAX_PANEL_TEXT_LENGTH,
  MAX_SAVED_QUERY_LENGTH,
  MAX_VARIABLE_VALUES,
} from "../limits.ts";

const text = (maxLength: number) => ({ type: "string", maxLength }) as const;

function closed(required: readonly string[], properties: Readonly<Record<string, object>>) {
  return { type: "object", additionalProperties: false, required, properties } as const;
}

const QUERY = closed(["query"], {
  query: {
    ...text(MAX_SAVED_QUERY_LENGTH),
    description: "PromQL, a log query, or comparisons with attributes, as `source` says; contains `$variable`",
  },
  legend: { ...text(200), description: "name of a series; `{{label}}` is the value of a label" },
});

const PANEL = closed(["title", "kind", "source", "width", "queries"], {
  title: text(200),
  kind: { enum: ["timeseries", "stat", "table", "list", "text"] },
  source: { enum: ["metrics", "logs", "traces"] },
  unit: { enum: ["short", "bytes", "Bps", "percentunit", "percent", "s", "ms", "reqps"] },
  width: { type: "integer", minimum: 1, maximum: 12, description: "of 12 columns" },
  queries: { type: "array", maxItems: MAX_PANEL_QUERIES, items: QUERY },
  text: { ...text(MAX_PANEL_TEXT_LENGTH), description: "of a panel of the kind text; plain text" },
});

const VARIABLE = closed(["name"], {
  name: { type: "string", pattern: "^[A-Za-z0-9_]{1,50}$" },
  query: { ...text(MAX_SAVED_QUERY_LENGTH), description: "PromQL; its values are those of `label`" },
  label: text(200),
  values: { type: "array", maxItems: MAX_VARIABLE_VALUES, items: text(200), description: "instead of `query` and `label`" },
});

export const DASHBOARD = closed(["name", "description", "variables", "panels"], {
  name: nameSchema(100),
  description: text(1000),
  variables: { type: "array", maxItems: MAX_DASHBOARD_VARIABLES, items: VARIABLE },
  panels: { type: "array", maxItems: MAX_DASHBOARD_PANELS, items: PANEL },
});

export const VIEW = closed(["name", "address"], {
  name: nameSchema(100),
  address: {
    type: "string",
    maxLength: MAX_ADDRESS_LENGTH,
    pattern: `^#/[a-z]+(?:[/?][^${FORBIDDEN_CHARACTERS}]*)?$`,
    description: "what follows /console/ in the browser, such as #/logs?q=level:error",
  },
});
