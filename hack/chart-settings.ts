// What the charts know of the settings, generated from their tables: settings.json, with which a chart passes each value to the program, and
// the value's entry in values.schema.json. So a new setting with a chart value needs its row and its default in values.yaml only.
import type { Kind, Setting, Table } from "../common/settings-table.ts";

interface Schema {
  properties?: Record<string, Schema>;
  readonly [keyword: string]: unknown;
}

/**
 * The rows with a value, by variable. Without `default`, the chart's templates pass the value in another form: a secret as a file, a file by
 * its path.
 */
export function chartSettings(table: Table): string {
  const rows = Object.values(table).flatMap((row) => (row.value === undefined ? [] : [[row.name, passing(row, row.value)] as const]));
  return `${JSON.stringify(Object.fromEntries(rows), undefined, 2)}\n`;
}

function passing(row: Setting, value: string): object {
  if (row.isSecret || row.kind.type === "file") return { value };
  const inCluster = typeof row.default === "object" ? row.default["cluster"] : row.default;
  return { value, default: inCluster ?? "", separator: row.kind.type.includes("per line") ? "\n" : "," };
}

/** Adds missing entries; existing ones may be stricter, and hack/reference-pages.test.ts compares them with the table. */
export function withChartValues(text: string, table: Table): string {
  const schema = JSON.parse(text) as Schema;
  for (const { value, kind } of Object.values(table)) {
    const path = value?.split(".") ?? [];
    const last = path.pop();
    let at = schema;
    for (const name of path) at = (at.properties ??= {})[name] ??= { type: "object", additionalProperties: false, properties: {} };
    if (last !== undefined) (at.properties ??= {})[last] ??= schemaOf(kind);
  }
  return `${JSON.stringify(schema, undefined, 2)}\n`;
}

function schemaOf({ type, range = {} }: Kind<unknown>): Schema {
  const { min, above, max, values } = range;
  if (type === "boolean") return { type: "boolean" };
  if (type === "duration") return { type: "string", pattern: "^[0-9]+(ms|[wdhms])([0-9]+(ms|[wdhms]))*$" };
  if (values) return { enum: values };
  if (type === "integer" || type === "number")
    return {
      type,
      ...(min !== undefined && { minimum: min }),
      ...(above !== undefined && { exclusiveMinimum: above }),
      ...(max !== undefined && { maximum: max }),
    };
  return type.includes("list") || type.includes("per line") ? { type: "array", items: { type: "string" } } : { type: "string" };
}
