// Reads label names and values, streams, volumes and detected fields, which Grafana Explore and Logs Drilldown request before they query.
// Invariants: the size of responses is limited; as in Loki, volumes count all records, and fields are detected in the newest records.
import { and, type Sql, sql } from "../../engines/clickhouse/sql.ts";
import { NO_MATCHING } from "../../storage/logs/matching.ts";
import { findPatterns } from "../../storage/logs/message-patterns.ts";
import { parseLines } from "../../storage/found-page.ts";
import { pageConditions } from "../../storage/page.ts";
import { MAX_DETECTED_VALUE_LENGTH, MAX_LABEL_ANSWER_BYTES, MAX_LABEL_VALUES } from "../query-limits.ts";
import { dataOf, jsonOf } from "./answers.ts";
import { pushDown, selectAny } from "./conditions.ts";
import { type Entry, LabelSet, RECORD_LABELS, STREAM_LABELS } from "./entry.ts";
import { convert, wrongQuery } from "./grammar.ts";
import { findKeys, labelValue } from "./label-sql.ts";
import type { TimeSpan } from "./parameters.ts";
import { pipelineOf } from "./pipeline.ts";
import { type QueryContext, records, type Selected } from "./range-points.ts";
import type { LogQuery } from "./syntax.ts";

export async function labelNames(context: QueryContext, selected: Selected): Promise<Buffer> {
  const { from, where, read } = recordsIn(context, selected);
  const keys = await read<{ key: string }>(
    sql`SELECT DISTINCT toString(arrayJoin(mapKeys(labels))) AS key FROM ${from} WHERE ${where} AND key IN ${[...STREAM_LABELS.values()]} LIMIT ${MAX_LABEL_VALUES}`,
  );
  const storedKeys = new Set(keys.map(({ key }) => key));
  const anyRow = await read(sql`SELECT 1 AS one FROM ${from} WHERE ${where} LIMIT 1`);
  const names = [
    ...(anyRow.length > 0 ? RECORD_LABELS : []),
    ...[...STREAM_LABELS].flatMap(([name, key]) => (storedKeys.has(key) ? [name] : [])),
  ];
  return dataOf(names.sort());
}

export async function labelValues(context: QueryContext, selected: Selected, name: string): Promise<Buffer> {
  const { from, where, blockRows, read } = recordsIn(context, selected);
  const value = labelValue(name, await findKeys(context.ask, [name], { from, where: [where] }, blockRows));
  const rows = await read<{ value: string }>(
    sql`SELECT ${value} AS value FROM ${from} WHERE ${where} AND value != '' GROUP BY value ORDER BY value LIMIT ${MAX_LABEL_VALUES}`,
  );
  return dataOf(rows.map((row) => row.value));
}

export async function seriesOf(context: QueryContext, selected: Selected): Promise<Buffer> {
  return dataOf((await streamsOf(context, selected)).map(({ labels }) => labels.toObject()));
}

/** Returns the matching streams, each with its number of records and the total size of their messages. */
export async function streamsOf(
  context: QueryContext,
  selected: Selected,
): Promise<{ labels: LabelSet; entries: number; bytes: number }[]> {
  const keys = [...STREAM_LABELS.values()];
  const { from, where, read } = recordsIn(context, selected);
  const rows = await read<{ own: string[]; attributes: Record<string, string>; entries: number; bytes: number }>(
    sql`SELECT [toString(source), toString(level), toString(host_id), toString(node)] AS own,
        mapFilter((key, value) -> key IN ${keys} AND value != '', labels) AS attributes, toFloat64(count()) AS entries,
        toFloat64(sum(length(message))) AS bytes
      FROM ${from} WHERE ${where} GROUP BY own, attributes ORDER BY own LIMIT ${MAX_LABEL_VALUES}`,
  );
  const nameOf = new Map([...STREAM_LABELS].map(([name, key]) => [key, name]));
  return rows.map(({ own, attributes, entries, bytes }) => {
    const labels = [
      ...RECORD_LABELS.map((name, index) => [name, own[index] ?? ""] as const),
      ...Object.entries(attributes).map(([key, value]) => [nameOf.get(key) as string, value] as const),
    ];
    return { labels: new LabelSet(labels.filter(([, value]) => value !== "")), entries, bytes };
  });
}

/** FROM and WHERE for the selected records, and `read` for statements over them. `blockRows`: see Ask. */
export function recordsIn({ ask, orgId }: QueryContext, { span, selectors }: Selected) {
  const { where, matching } = selectors.length === 0 ? { where: undefined, matching: NO_MATCHING } : selectAny(selectors);
  const { from, blockRows } = matching;
  const conditions = [sql`org_id = ${orgId}`, ...pageConditions({ range: span }), ...(where ? [where] : [])];
  const read = async <Row>(statement: Sql): Promise<Row[]> => parseLines(await ask(statement, MAX_LABEL_ANSWER_BYTES, blockRows));
  return { from, where: and(conditions), blockRows, read };
}

/** Returns `{streams, chunks, bytes, entries}`; `chunks` is always 0, because this store has no chunks. */
export async function statistics(context: QueryContext, selected: Selected): Promise<Buffer> {
  const { from, where, read } = recordsIn(context, selected);
  const [totals] = await read<{ streams: number; entries: number; bytes: number }>(
    sql`SELECT toFloat64(uniq(source, level, host_id, node, labels['k8s.pod.name'], labels['k8s.container.name'])) AS streams,
        toFloat64(count()) AS entries, toFloat64(sum(length(message))) AS bytes FROM ${from} WHERE ${where}`,
  );
  return jsonOf({ streams: totals?.streams ?? 0, chunks: 0, bytes: totals?.bytes ?? 0, entries: totals?.entries ?? 0 });
}

interface PatternsRequest {
  readonly query: LogQuery;
  readonly span: TimeSpan;
  readonly stepNs: bigint;
}

/** Returns `[{pattern, samples: [[seconds, records], …]}]`. */
export async function patterns({ ask, orgId }: QueryContext, { query, span, stepNs }: PatternsRequest): Promise<Buffer> {
  const { conditions, matching, rest } = pushDown(query);
  const [stage] = rest;
  if (stage) throw wrongQuery(`patterns: the stage ${stage.kind} is not supported; write a selector with line filters`);
  if (span.end === span.start) return dataOf([]);
  const range = { start: span.start, end: span.end - 1n };
  const found = await findPatterns(ask, { orgId, conditions, matching, range, stepNs });
  const timeOf = (stepIndex: number): number => Number((span.start + BigInt(stepIndex) * stepNs) / 1_000_000_000n);
  return dataOf(
    found.patterns.map(({ pattern, counts }) => ({
      pattern,
      samples: [...counts].sort(([a], [b]) => a - b).map(([stepIndex, count]) => [timeOf(stepIndex), count]),
    })),
  );
}

/** Returns `{detectedLabels: [{label, cardinality}]}`. */
export async function detectedLabels(context: QueryContext, selected: Selected): Promise<Buffer> {
  const values = new Map<string, Set<string>>();
  for (const { labels } of await streamsOf(context, selected))
    for (const [name, value] of labels.entries) values.set(name, (values.get(name) ?? new Set()).add(value));
  return jsonOf({ detectedLabels: [...values].map(([label, { size }]) => ({ label, cardinality: size })) });
}

interface FieldsRequest {
  readonly query: LogQuery;
  readonly span: TimeSpan;
  readonly lineLimit: number;
  readonly limit: number;
  /** Set to read the values of this field. */
  readonly name?: string;
}

interface Field {
  readonly values: Set<string>;
  readonly parsers: Set<string>;
}

/** Returns `{fields: [{label, type, cardinality, parsers}], limit}` or, for a single field, `{values, limit}`. */
export async function detectedFields(context: QueryContext, request: FieldsRequest): Promise<Buffer> {
  const { limit, name } = request;
  const fields = await fieldsOf(context, request);
  if (name !== undefined) return jsonOf({ values: [...(fields.get(name)?.values ?? [])].slice(0, limit), limit });
  const detected = [...fields].slice(0, limit).map(([label, { values, parsers }]) => ({
    label,
    type: typeOf([...values]),
    cardinality: values.size,
    parsers: parsers.size > 0 ? [...parsers] : null,
  }));
  return jsonOf({ fields: detected, limit });
}

const PARSERS = {
  json: pipelineOf([{ kind: "json" }]),
  logfmt: pipelineOf([{ kind: "logfmt", isStrict: false, keepsEmpty: false }]),
};

async function fieldsOf(context: QueryContext, { query, span, lineLimit }: FieldsRequest): Promise<Map<string, Field>> {
  const pushedDown = pushDown(query);
  const passes = pipelineOf(pushedDown.rest);
  const fields = new Map<string, Field>();
  let count = 0;
  for await (const entry of records(context, { ...pushedDown, span, oldestFirst: false, hasLines: true, limit: lineLimit })) {
    if (!passes(entry)) continue;
    const before = new Set<string>();
    for (const [name, value, category] of entry.labels()) {
      before.add(name);
      if (category !== "stream" && value !== "" && !name.startsWith("__error")) addValue(fieldOf(fields, name), value);
    }
    readFields(entry, before, fields);
    if ((count += 1) >= lineLimit) break;
  }
  return fields;
}

/** Parses lines that start with `{` as JSON, and other lines that contain `=` as logfmt. */
function readFields(entry: Entry, before: ReadonlySet<string>, fields: Map<string, Field>): void {
  const kind = entry.line.trimStart().startsWith("{") ? "json" : "logfmt";
  if (kind === "logfmt" && !entry.line.includes("=")) return;
  PARSERS[kind](entry);
  for (const [name, value, category] of entry.labels()) {
    if (category !== "parsed" || value === "" || before.has(name) || name.startsWith("__error")) continue;
    const field = fieldOf(fields, name);
    addValue(field, value);
    field.parsers.add(kind);
  }
}

function addValue({ values }: Field, value: string): void {
  if (value.length <= MAX_DETECTED_VALUE_LENGTH) values.add(value);
}

function fieldOf(fields: Map<string, Field>, name: string): Field {
  const field = fields.get(name) ?? { values: new Set(), parsers: new Set() };
  fields.set(name, field);
  return field;
}

function typeOf(values: readonly string[]): string {
  const all = (test: (value: string) => boolean): boolean => values.length > 0 && values.every(test);
  if (all((value) => /^[+-]?\d+$/.test(value))) return "int";
  if (all((value) => convert(value, "number") !== undefined)) return "float";
  if (all((value) => value === "true" || value === "false")) return "boolean";
  if (all((value) => convert(value, "duration") !== undefined)) return "duration";
  return all((value) => convert(value, "bytes") !== undefined) ? "bytes" : "string";
}
