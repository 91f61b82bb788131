// Evaluates a range aggregation over stored records: in ClickHouse if it can be translated to SQL, otherwise record by record, within the
// limits of the budget. Invariant: both ways return the same points.
import type { Ask } from "../../engines/clickhouse/clickhouse-client.ts";
import { sql } from "../../engines/clickhouse/sql.ts";
import { readPageRows } from "../../storage/found-page.ts";
import { mayBeDense, minutesAround } from "../../storage/logs/minute-counts.ts";
import { type Cursor, pageConditions } from "../../storage/page.ts";
import { LINE_BLOCK_ROWS, MAX_CELLS, MAX_CELL_BYTES } from "../query-limits.ts";
import { aggregateSql, type Cell, cellStatement, labelReader, minuteSources } from "./cell-statement.ts";
import { pushDown, type PushedDown } from "./conditions.ts";
import { type Entry, EntryFactory, LabelSet, NO_LABELS, type Row } from "./entry.ts";
import { convert, wrongQuery } from "./grammar.ts";
import { findKeys } from "./label-sql.ts";
import { type Leaf, leafSql, neededStages } from "./leaf.ts";
import { spanOf, stepIndexesOf, type Steps, type TimeSpan } from "./parameters.ts";
import { filterTest, pipelineOf } from "./pipeline.ts";
import { CELL_FUNCTIONS, CellPoints, CountedPoints, NEEDS_SINGLE_CELLS, type Points, RANGE_FUNCTIONS, WindowedPoints } from "./points.ts";
import { type Budget, tooExpensive } from "./regex.ts";
import { type LogQuery, type Stage, usesLine } from "./syntax.ts";

/** How a query reads records, and what it may spend. */
export interface QueryContext {
  readonly ask: Ask;
  readonly orgId: string;
  readonly budget: Budget;
}

export interface Evaluation extends QueryContext {
  readonly steps: Steps;
}

export async function rangePoints(evaluation: Evaluation, leaf: Leaf): Promise<Points> {
  const pushedDown = pushDown(leaf.range.log);
  const stages = neededStages(leaf, pushedDown.rest);
  // If no label is stored, most stages can be translated to SQL; evaluateInEngine decides with the real keys of the records.
  const plan = leafSql(leaf, stages, () => []);
  if (plan && aggregateSql(leaf.range, plan.value, evaluation.steps)) {
    const points = await evaluateInEngine(evaluation, leaf);
    if (points) return points;
  }
  return evaluateEachRecord(evaluation, leaf, { ...pushedDown, rest: stages });
}

export async function evaluateEachRecord(evaluation: Evaluation, leaf: Leaf, pushedDown: PushedDown): Promise<Points> {
  const { steps } = evaluation;
  const { range } = leaf;
  const points = new WindowedPoints(RANGE_FUNCTIONS[range.operation] as (typeof RANGE_FUNCTIONS)[string], {
    stepNs: Number(steps.step),
    rangeNs: Number(range.rangeNs),
    parameter: range.parameter ?? Number.NaN,
  });
  const reader = sampleReader(leaf, pushedDown.rest);
  const query = { ...pushedDown, span: spanOf(steps, range), oldestFirst: true, hasLines: reader.readsLines };
  for await (const entry of records(evaluation, query)) {
    const [first, last] = stepIndexesOf(entry.timeNs, steps, range);
    if (first > last) continue;
    const sample = reader.sample(entry);
    if (sample) points.add(sample.labels, Number(entry.timeNs + range.offsetNs - steps.start), sample.value);
  }
  return points;
}

/** Undefined if JavaScript has to read the records. */
export async function evaluateInEngine({ ask, orgId, steps, budget }: Evaluation, leaf: Leaf): Promise<Points | undefined> {
  const { range } = leaf;
  const span = spanOf(steps, range);
  const org = sql`org_id = ${orgId}`;
  const rangeConditions = [org, ...pageConditions({ range: span })];
  const columnsOnly = range.log.selector.filter(({ name }) => name === "service_name" || name === "host_id");
  const narrowed = pushDown({ kind: "log", selector: columnsOnly, stages: [] });
  const keysOf = await findKeys(
    ask,
    labelsOf(leaf),
    {
      from: narrowed.matching.from,
      where: [...rangeConditions, ...narrowed.conditions],
      groups: narrowed.matching.blockRows === undefined ? [org, minutesAround(span), ...narrowed.conditions] : undefined,
      isAlways: range.log.stages.some(({ kind }) => kind === "json" || kind === "logfmt"),
    },
    narrowed.matching.blockRows,
  );
  const { conditions, matching, rest } = pushDown(range.log, keysOf);
  const plan = leafSql(leaf, neededStages(leaf, rest), keysOf);
  if (!plan) return undefined;
  const source = { range, steps, plan, keysOf, matching, where: [...rangeConditions, ...conditions] };
  const readLabels = labelReader(plan);
  const rangeNs = Number(range.rangeNs);
  const cellFunction = CELL_FUNCTIONS[range.operation] as (typeof CELL_FUNCTIONS)[string];
  const points =
    range.unwrap && range.operation !== "absent_over_time"
      ? new CellPoints((cells) => cellFunction(cells, rangeNs))
      : new CountedPoints(steps.count, range.operation.endsWith("rate") ? rangeNs / 1e9 : 1);
  let cellCount = 0;
  for (const part of minuteSources(source, [org], conditions) ?? [source]) {
    const cellQuery = cellStatement(part);
    if (!cellQuery) return undefined;
    const blockRows = matching.blockRows ?? (plan.readsLine ? LINE_BLOCK_ROWS : undefined);
    const lines = await ask(cellQuery.statement, MAX_CELL_BYTES, blockRows, cellQuery.maxCells);
    budget.begin();
    for (const line of linesOf(lines)) {
      if ((cellCount += 1) > MAX_CELLS)
        throw tooExpensive(`has more than ${MAX_CELLS} counts by series and time; write sum by (…) around it`);
      const cell = JSON.parse(line) as Cell;
      if (cell.ambiguous || cell.value === null || cell.squares === null) return undefined;
      points.add(readLabels(cell), { ...cell, value: cell.value, squares: cell.squares ?? 0 });
      if (budget.isDue) await budget.yieldToOthers();
    }
  }
  return NEEDS_SINGLE_CELLS.has(range.operation) && points instanceof CellPoints && points.hasDuplicates() ? undefined : points;
}

/** All labels that the statement may use. */
function labelsOf({ range, labels, usedLabels }: Leaf): string[] {
  const dropped = range.log.stages
    .flatMap((stage) => (stage.kind === "drop" ? stage.labels : []))
    .filter((label) => typeof label === "string");
  const named = labels.kind === "by" || labels.kind === "without" ? labels.names : [];
  return [...range.log.selector.map(({ name }) => name), ...usedLabels, ...named, ...dropped];
}

function* linesOf(lines: Buffer): Generator<string> {
  for (let from = 0; from < lines.length;) {
    const end = lines.indexOf(0x0a, from);
    const to = end === -1 ? lines.length : end;
    if (to > from) yield lines.toString("utf8", from, to);
    from = to + 1;
  }
}

const PAGE_RECORDS = 5000;
/** More rows than this are unlikely to be within one minute. */
const DENSE_ROWS = 1000;
const PAGE_BYTES = 2 * 1024 * 1024;

/** The records from which labels and series are read. */
export interface Selected {
  /** Both ends are inclusive. */
  readonly span: TimeSpan;
  /** Records that any of them selects; none: all records. */
  readonly selectors: readonly LogQuery[];
}

export interface RecordQuery extends Pick<PushedDown, "conditions" | "matching"> {
  /** Both ends are inclusive. */
  readonly span: TimeSpan;
  readonly oldestFirst: boolean;
  readonly hasLines: boolean;
  readonly limit?: number | undefined;
  /** Records come after this one. */
  readonly after?: Cursor | undefined;
  /** Rows have `row_id`, for a cursor. */
  readonly hasIds?: boolean;
  /** Called when there are further records; true ends the reading. */
  readonly isEnough?: () => boolean;
}

const FIELDS = sql`toString(toUnixTimestamp64Nano(time)) AS ns, level, source, host_id, node, trace_id, span_id, severity_number, scope_name, labels`;
const SIZES = sql`level, source, message, labels, host_id, node, scope_name`;

/** Records in the order of time. Throws ApiError as Ask does, and query_too_expensive. */
export async function* records({ ask, orgId, budget }: QueryContext, query: RecordQuery): AsyncGenerator<Entry> {
  const { span, oldestFirst, conditions, matching, limit = Number.POSITIVE_INFINITY } = query;
  // The alias is not `message`, because a condition on that would see the alias instead of the stored column.
  const columns = sql`${FIELDS}, ${query.hasLines ? sql`message` : sql`''`} AS line${query.hasIds ? sql`, toString(id) AS row_id` : sql``}`;
  const entries = new EntryFactory();
  const { bounds } = budget;
  let [count, bytes, after]: [number, number, Cursor | undefined] = [0, 0, query.after];
  do {
    const rows = Math.min(PAGE_RECORDS, Math.max(1, limit - count));
    const page = { range: span, limit: rows, after, oldestFirst };
    const found = await readPageRows(ask, orgId, {
      table: "logs",
      columns,
      sizes: SIZES,
      conditions,
      from: matching.from,
      blockRows: matching.blockRows,
      page,
      maxPageBytes: PAGE_BYTES,
      isDense: rows <= DENSE_ROWS && mayBeDense(conditions),
    });
    budget.begin();
    bytes += found.json.length;
    for (const row of JSON.parse(found.json.toString("utf8")) as Row[]) {
      if (budget.isDue) await budget.yieldToOthers();
      count += 1;
      yield entries.create(row);
    }
    await budget.yieldToOthers();
    if (count > bounds.records || bytes > bounds.bytes)
      throw tooExpensive(`has stages that read more than ${bounds.records} records, or ${bounds.bytes / 1024 / 1024} MiB, one by one`);
    after = found.next;
  } while (after && !query.isEnough?.() && count < limit);
}

export interface SampleReader {
  readonly readsLines: boolean;
  /** Undefined if the record is skipped. */
  readonly sample: (entry: Entry) => { readonly labels: LabelSet; readonly value: number } | undefined;
}

/** Returns one LabelSet for equal labels, so that records of a series share it. */
type InternLabels = (entries: (readonly [string, string])[]) => LabelSet;

export function sampleReader(leaf: Leaf, stages: readonly Stage[]): SampleReader {
  const { range, labels, usedLabels } = leaf;
  const isBytes = range.operation.startsWith("bytes_");
  const named = labels.kind === "by" ? labels.names : labels.kind === "none" ? [] : undefined;
  const required = named && new Set([...usedLabels, ...named]);
  const passes = pipelineOf(stages, required);
  const value = unwrapValue(leaf);
  const labelSets = new Map<string, LabelSet>();
  // A query that names __error__ gets records with errors.
  const keepsErrors = required?.has("__error__") ?? false;
  const internLabels: InternLabels = (entries) => {
    const key = JSON.stringify(entries);
    let set = labelSets.get(key);
    if (!set) {
      set = new LabelSet(entries);
      if (labelSets.size < 50_000) labelSets.set(key, set);
    }
    return set;
  };
  return {
    readsLines: isBytes || stages.some(usesLine),
    sample: (entry) => {
      if (!passes(entry)) return undefined;
      const number = value ? value(entry) : isBytes ? Buffer.byteLength(entry.line) : 1;
      if (number === undefined) return undefined;
      if (entry.error && !keepsErrors) throw pipelineError(entry);
      return { labels: entry.error ? internLabels(allLabels(entry)) : seriesLabels(leaf, entry, internLabels), value: number };
    },
  };
}

/** Undefined if the query does not unwrap values. The function returns undefined for a record without a value. */
function unwrapValue({ range: { unwrap } }: Leaf): ((entry: Entry) => number | undefined) | undefined {
  if (!unwrap) return undefined;
  const filters = unwrap.filters.map(filterTest);
  return (entry) => {
    const text = entry.get(unwrap.label) ?? "";
    if (text === "") return undefined;
    const number = convert(text, unwrap.conversion);
    if (number === undefined)
      entry.fail("SampleExtractionErr", `cannot read ${JSON.stringify(text.slice(0, 100))} as a ${unwrap.conversion}`);
    return filters.every((test) => test(entry)) ? (number ?? 0) : undefined;
  };
}

function allLabels(entry: Entry): (readonly [string, string])[] {
  return [...entry.labels()].map(([name, value]) => [name, value] as const);
}

function seriesLabels({ labels }: Leaf, entry: Entry, internLabels: InternLabels): LabelSet {
  if (labels.kind === "none") return NO_LABELS;
  if (labels.kind === "all") return internLabels(allLabels(entry));
  if (labels.kind === "without") return internLabels(allLabels(entry).filter(([name]) => !labels.names.includes(name)));
  return internLabels(
    labels.names.flatMap((name) => {
      const value = entry.groupValueOf(name);
      return value === undefined ? [] : [[name, value] as const];
    }),
  );
}

function pipelineError(entry: Entry): Error {
  const series = new LabelSet(allLabels(entry)).toString().slice(0, 500);
  const advice = `Use a label filter to intentionally skip this error. (e.g | __error__!="${entry.error}")`;
  return wrongQuery(`pipeline error: '${entry.error}' for series: '${series}'. ${advice}`);
}
