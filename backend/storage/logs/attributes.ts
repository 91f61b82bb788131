// Attributes of log records as SQL. Those of 006-attribute-columns.sql have a column of their own, which the engine fills from the map:
// the same value, without reading the others.
import { Sql, sql } from "../../engines/clickhouse/sql.ts";

const WITH_COLUMN: ReadonlySet<string> = new Set([
  "http.route",
  "http.request.method",
  "http.response.status_code",
  "k8s.namespace.name",
  "k8s.pod.name",
  "k8s.container.name",
]);

/** The value of an attribute, a String or a LowCardinality(String); empty if the record has none. */
export function attributeOf(key: string): Sql {
  return WITH_COLUMN.has(key) ? new Sql(columnOf(key)) : sql`labels[${key}]`;
}

/** The record has the attribute, with this value. */
export function hasAttribute(key: string, value: string): Sql {
  if (WITH_COLUMN.has(key) && value !== "") return sql`${new Sql(columnOf(key))} = ${value}`;
  return sql`mapContains(labels, ${key}) AND labels[${key}] = ${value}`;
}

function columnOf(key: string): string {
  return `attribute_${key.replaceAll(".", "_")}`;
}
