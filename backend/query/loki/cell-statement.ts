// Builds the ClickHouse statement for a range aggregation: records that belong to the same series and count for the same evaluation times
// are one cell. Invariant: it runs with `maxCells` as its limit of groups, so that a high cardinality costs no more than that.
import { and, commaList, Sql, sql } from "../../engines/clickhouse/sql.ts";
import type { Matching } from "../../storage/logs/matching.ts";
import { GROUP_NS, splitByMinute, useOnlyGroupColumns } from "../../storage/logs/minute-counts.ts";
import { MAX_CELLS, MAX_QUERY_SERIES, MAX_WINDOWS_PER_RECORD } from "../query-limits.ts";
import { EntryFactory, LabelSet, NO_LABELS, RECORD_LABELS, STREAM_LABELS } from "./entry.ts";
import { type KeysOf, keysOfLabel } from "./label-sql.ts";
import { type LeafSql, MARK } from "./leaf.ts";
import { spanOf, type Steps } from "./parameters.ts";
import type { RangeAggregation } from "./syntax.ts";

const RECORD_NS = sql`toUnixTimestamp64Nano(time)`;

/** A row of the statement. */
export interface Cell {
  readonly first: number;
  readonly last: number;
  /** Number of records. */
  readonly n: number;
  /** The result of `aggregateSql` for the operation; null if it is not finite. */
  readonly value: number | null;
  readonly squares?: number | null;
  /** Set if JavaScript has to read one of the cell's records. */
  readonly ambiguous?: number;
  readonly k?: readonly string[];
  /** The record's attributes as JSON, if all labels are needed. */
  readonly labels_text?: string;
}

/** Undefined if ClickHouse would compute another value. */
export function aggregateSql(
  { operation, unwrap, parameter, rangeNs }: RangeAggregation,
  value: Sql | undefined,
  steps: Steps,
): Sql | undefined {
  if (operation === "absent_over_time") return sql`toFloat64(count()) AS value`;
  if (!unwrap || !value)
    return operation.startsWith("bytes_") ? sql`toFloat64(sum(length(message))) AS value` : sql`toFloat64(count()) AS value`;
  switch (operation) {
    case "sum_over_time":
    case "rate":
    case "avg_over_time":
      return sql`sum(${value}) AS value`;
    case "min_over_time":
      return sql`min(${value}) AS value`;
    case "max_over_time":
      return sql`max(${value}) AS value`;
    case "first_over_time":
      return sql`argMin(${value}, (time, id)) AS value`;
    case "last_over_time":
      return sql`argMax(${value}, (time, id)) AS value`;
    case "stdvar_over_time":
    case "stddev_over_time":
      return sql`avg(${value}) AS value, varPopStable(${value}) AS squares`;
    case "quantile_over_time": {
      const isLevel = parameter !== undefined && parameter >= 0 && parameter <= 1;
      const windows = (rangeNs + steps.step - 1n) / steps.step;
      // A literal, because the parameter of an aggregate function cannot be an expression.
      return isLevel && (windows <= MAX_WINDOWS_PER_RECORD || steps.count === 1)
        ? sql`quantileExactInclusive(${new Sql(parameter.toFixed(20))})(${value}) AS value`
        : undefined;
    }
    default:
      return undefined;
  }
}

export interface CellSource {
  readonly range: RangeAggregation;
  readonly steps: Steps;
  readonly plan: LeafSql;
  readonly keysOf: KeysOf;
  readonly matching: Matching;
  readonly where: readonly Sql[];
  /** The time of a record, or of its group, in nanoseconds. */
  readonly at?: Sql;
}

export interface CellStatement {
  readonly statement: Sql;
  /** With more cells the result is incomplete, and the query too expensive. */
  readonly maxCells: number;
}

/**
 * Reads the projection of counts by minute if the statement only counts records by columns of its groups; records are then read only for
 * minutes in which a window begins or ends. Undefined if all records have to be read.
 */
export function minuteSources(source: CellSource, orgConditions: readonly Sql[], conditions: readonly Sql[]): CellSource[] | undefined {
  const { range, steps, plan, keysOf, matching } = source;
  if (
    range.unwrap ||
    range.operation.startsWith("bytes_") ||
    plan.isAmbiguous ||
    plan.labels.kind === "all" ||
    plan.labels.kind === "without"
  )
    return undefined;
  const columns = [...conditions, ...plan.conditions, keyColumns(plan, keysOf).group];
  const split =
    matching.blockRows === undefined && useOnlyGroupColumns(columns)
      ? splitByMinute(spanOf(steps, range), windowBorders(range, steps))
      : undefined;
  if (!split) return undefined;
  const groups = { ...source, at: GROUP_NS, where: [...orgConditions, ...conditions, split.groups] };
  return split.rows ? [groups, { ...source, where: [...orgConditions, ...conditions, split.rows] }] : [groups];
}

/** Where windows begin and end: at each a record starts or ceases to count. */
function* windowBorders({ rangeNs, offsetNs }: RangeAggregation, { start, step, count }: Steps): Generator<bigint> {
  for (let index = 0n; index < BigInt(count); index += 1n) {
    const end = start + step * index - offsetNs + 1n;
    yield end;
    yield end - rangeNs;
  }
}

/** Undefined if ClickHouse would compute another value. */
export function cellStatement({ range, steps, plan, keysOf, matching, where, at = RECORD_NS }: CellSource): CellStatement | undefined {
  const aggregate = aggregateSql(range, plan.value, steps);
  if (!aggregate) return undefined;
  const { select, group, conditions } = stepColumns(range, steps, at);
  const keys = keyColumns(plan, keysOf);
  const ambiguous = plan.isAmbiguous ? sql`, max(${plan.isAmbiguous}) AS ambiguous` : sql``;
  const by = [group, keys.group].filter((part) => part.text !== "");
  const groups = by.length === 0 ? sql`` : sql`GROUP BY ${commaList(by)}`;
  // For an instant query grouped by named labels, each cell is a series.
  const maxCells = steps.count === 1 && plan.labels.kind === "by" ? MAX_QUERY_SERIES : MAX_CELLS;
  const condition = and([...where, ...plan.conditions, ...conditions]);
  const statement = sql`SELECT ${select}${keys.select}toFloat64(count()) AS n, ${aggregate}${ambiguous}
    FROM ${matching.from} WHERE ${condition} ${groups} HAVING n > 0 LIMIT ${maxCells + 1}`;
  return { statement, maxCells };
}

/** The numbers of the first and the last evaluation time for which a record counts. */
function stepColumns({ operation, rangeNs, offsetNs }: RangeAggregation, { start, step, count }: Steps, at: Sql) {
  if (count === 1) return { select: sql`0 AS first, 0 AS last, `, group: sql``, conditions: [] };
  const since = sql`(${at} + ${offsetNs - start})`;
  const first = sql`toUInt16(if(${since} <= 0, 0, intDiv(${since} + ${step - 1n}, ${step})))`;
  const last = sql`toUInt16(least(${count - 1}, intDiv(${since} + ${rangeNs - 1n}, ${step})))`;
  // If the range is shorter than the step, some records belong to no evaluation time.
  const conditions = rangeNs < step ? [sql`${first} <= ${last}`] : [];
  // A quantile cannot be computed from those of smaller cells, so each window is one cell.
  if (operation === "quantile_over_time") {
    const windows = rangeNs <= step ? first : sql`arrayJoin(range(toUInt32(${first}), toUInt32(${last}) + 1))`;
    return { select: sql`${windows} AS first, first AS last, `, group: sql`first`, conditions };
  }
  return { select: sql`${first} AS first, ${last} AS last, `, group: sql`first, last`, conditions };
}

const ROW_COLUMNS = ["level", "source", "host_id", "node"] as const;
const METADATA_COLUMNS = ["trace_id", "span_id", "severity_number", "scope_name"] as const;

/** The columns that identify a series. */
function keyColumns({ labels, valueOf }: LeafSql, keysOf: KeysOf): { readonly select: Sql; readonly group: Sql } {
  if (labels.kind === "none") return { select: sql``, group: sql`` };
  if (labels.kind === "by") {
    const values = labels.names.map(valueOf);
    return { select: sql`[${commaList(values.map((value) => sql`toString(${value})`))}] AS k, `, group: commaList(values) };
  }
  const droppedNames = labels.kind === "without" ? labels.names : [];
  const columns = [...ROW_COLUMNS, ...METADATA_COLUMNS.filter((name) => !droppedNames.includes(name))].map((name) => new Sql(name));
  const keys = droppedNames.flatMap((name) => droppedKeys(name, keysOf));
  const attributes = keys.length === 0 ? sql`labels` : sql`mapFilter((key, value) -> key NOT IN ${keys}, labels)`;
  return {
    select: sql`${commaList(columns)}, toJSONString(${attributes}) AS labels_text, `,
    group: sql`${commaList(columns)}, labels_text`,
  };
}

/** The keys that only matter for this label: without a label of the stream, another attribute of that name would get another name. */
function droppedKeys(name: string, keysOf: KeysOf): readonly string[] {
  const keys = keysOfLabel(name, keysOf) ?? [];
  if ((RECORD_LABELS as readonly string[]).includes(name) && name !== "level") return [];
  const streamKey = STREAM_LABELS.get(name);
  return streamKey === undefined || keys.every((key) => key === streamKey) ? keys : [];
}

export function labelReader({ labels, isMarked }: LeafSql): (cell: Cell) => LabelSet {
  const labelSets = new Map<string, LabelSet>();
  const read =
    labels.kind === "by"
      ? ({ k = [] }: Cell) => namedLabels(labels.names, k, isMarked)
      : wholeLabels(labels.kind === "without" ? labels.names : []);
  if (labels.kind === "none") return () => NO_LABELS;
  return (cell) => {
    const key = JSON.stringify(labels.kind === "by" ? cell.k : { ...cell, first: 0, last: 0, n: 0, value: 0, squares: 0, ambiguous: 0 });
    let set = labelSets.get(key);
    if (!set) labelSets.set(key, (set = read(cell)));
    return set;
  };
}

function namedLabels(names: readonly string[], values: readonly string[], isMarked: LeafSql["isMarked"]): LabelSet {
  const valueOf = (name: string, value: string): string => (isMarked(name) ? value.slice(MARK.length) : value);
  return new LabelSet(names.flatMap((name, index) => (values[index] ? [[name, valueOf(name, values[index])] as const] : [])));
}

function wholeLabels(droppedNames: readonly string[]): (cell: Cell) => LabelSet {
  const entries = new EntryFactory();
  return (cell) => {
    const { labels_text: text = "{}", ...row } = cell;
    const defaults = { trace_id: "", span_id: "", severity_number: 0, scope_name: "" };
    const record = { ...defaults, ...row, ns: "0", line: "", labels: JSON.parse(text) as Record<string, string> };
    return new LabelSet([...entries.create(record as never).labels()].map(([name, value]) => [name, value] as const)).drop(droppedNames);
  };
}
