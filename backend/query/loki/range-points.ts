// A range aggregation over stored records: counted by the engine where the engine can count what is asked, else record by record. Invariant:
// both ways give the same points.
import type { Ask } from "../../engines/clickhouse/client.ts";
import { sql } from "../../engines/clickhouse/sql.ts";
import { pageConditions } from "../../storage/page.ts";
import { minutesAround } from "../../storage/logs/minute-counts.ts";
import { type Budget, tooExpensive } from "./budget.ts";
import { aggregates, type Cell, cellStatement, labelReader, minuteSources, MOST_CELLS } from "./cell-statement.ts";
import { push, type Pushed } from "./conditions.ts";
import { ANY_KEYS, findKeys } from "./label-columns.ts";
import { leafSql } from "./leaf-sql.ts";
import { records } from "./records.ts";
import { type Leaf, neededStages } from "./leaf.ts";
import { CellPoints, CountedPoints, type Points, WindowedPoints } from "./points.ts";
import { CELL_FUNCTIONS, NEEDS_SINGLE_CELLS, RANGE_FUNCTIONS } from "./range-functions.ts";
import { sampleReader } from "./sample-reader.ts";
import { momentsOf, spanOf, type Steps } from "./steps.ts";
import type { RangeAggregation } from "./syntax.ts";

export interface Asking {
  readonly ask: Ask;
  readonly orgId: string;
  readonly budget: Budget;
  readonly steps: Steps;
}

const MOST_CELL_BYTES = 64 * 1024 * 1024;

export async function rangePoints(asking: Asking, leaf: Leaf): Promise<Points> {
  const counted = neededStages(leaf, push(leaf.range.log).rest);
  // Whether SQL has a form for them does not depend on the keys.
  const plan = leafSql(leaf, counted, ANY_KEYS);
  if (plan && aggregates(leaf.range, plan.value, asking.steps)) {
    const points = await countedByEngine(asking, leaf);
    if (points) return points;
  }
  const pushed = push(leaf.range.log);
  return readOneByOne(asking, leaf, { ...pushed, rest: counted });
}

/** In JavaScript. */
export async function readOneByOne(asking: Asking, leaf: Leaf, pushed: Pushed): Promise<Points> {
  const { steps, budget } = asking;
  const { range } = leaf;
  const rangeNs = Number(range.rangeNs);
  const { parameter = Number.NaN } = range;
  const points = new WindowedPoints(RANGE_FUNCTIONS[range.operation] as (typeof RANGE_FUNCTIONS)[string], {
    stepNs: Number(steps.step),
    rangeNs,
    parameter,
  });
  const read = sampleReader(leaf, pushed.rest);
  const wanted = { ...pushed, span: spanOf(steps, range), oldestFirst: true, hasLines: read.readsLines };
  for await (const entry of records(asking.ask, asking.orgId, wanted, budget)) {
    const [first, last] = momentsOf(entry.timeNs, steps, range);
    if (first > last) continue;
    const sample = read.sample(entry);
    if (sample) points.add(sample.labels, Number(entry.timeNs + range.offsetNs - steps.start), sample.value);
  }
  return points;
}

/** Undefined: JavaScript has to read the records. */
export async function countedByEngine({ ask, orgId, steps, budget }: Asking, leaf: Leaf): Promise<Points | undefined> {
  const { range } = leaf;
  const span = spanOf(steps, range);
  const org = sql`org_id = ${orgId}`;
  const own = [org, ...pageConditions({ range: span, after: undefined })];
  const columnsOnly = range.log.selector.filter(({ name }) => name === "service_name" || name === "host_id");
  const narrowed = push({ kind: "log", selector: columnsOnly, stages: [] });
  const keysOf = await findKeys(
    ask,
    labelsOf(leaf),
    {
      from: narrowed.matching.from,
      where: [...own, ...narrowed.conditions],
      groups: narrowed.matching.blockRows === undefined ? [org, minutesAround(span), ...narrowed.conditions] : undefined,
    },
    narrowed.matching.blockRows,
  );
  const { conditions, matching, rest } = push(range.log, keysOf);
  const plan = leafSql(leaf, neededStages(leaf, rest), keysOf);
  if (!plan) return undefined;
  const source = { range, steps, plan, keysOf, matching, where: [...own, ...conditions] };
  const readLabels = labelReader(plan);
  const points = range.unwrap && range.operation !== "absent_over_time" ? unwrappedPoints(range) : countedPoints(range, steps);
  let cells = 0;
  for (const part of minuteSources(source, [org], conditions) ?? [source]) {
    const asked = cellStatement(part);
    if (!asked) return undefined;
    const lines = await ask(asked.statement, MOST_CELL_BYTES, matching.blockRows, asked.mostCells);
    budget.begin();
    for (const line of linesOf(lines)) {
      if ((cells += 1) > MOST_CELLS)
        throw tooExpensive(`has more than ${MOST_CELLS} counts by series and time; write sum by (…) around it`);
      const cell = JSON.parse(line) as Cell;
      if (cell.odd || cell.value === null || cell.squares === null) return undefined;
      points.add(readLabels(cell), { ...cell, value: cell.value, squares: cell.squares ?? 0 });
      if (budget.isDue) await budget.breathe();
    }
  }
  return NEEDS_SINGLE_CELLS.has(range.operation) && points instanceof CellPoints && points.hasTwins() ? undefined : points;
}

/** All labels that the statement may ask for. */
function labelsOf({ range, labels, asked }: Leaf): string[] {
  const dropped = range.log.stages
    .flatMap((stage) => (stage.kind === "drop" ? stage.labels : []))
    .filter((label) => typeof label === "string");
  const named = labels.kind === "by" || labels.kind === "without" ? labels.names : [];
  return [...range.log.selector.map(({ name }) => name), ...asked, ...named, ...dropped];
}

function countedPoints({ operation, rangeNs }: RangeAggregation, { count }: Steps): CountedPoints {
  return new CountedPoints(count, operation.endsWith("rate") ? Number(rangeNs) / 1e9 : 1);
}

function unwrappedPoints({ operation, rangeNs }: RangeAggregation): CellPoints {
  const make = CELL_FUNCTIONS[operation] as (typeof CELL_FUNCTIONS)[string];
  return new CellPoints((cells) => make(cells, Number(rangeNs)));
}

function* linesOf(lines: Buffer): Generator<string> {
  for (let from = 0; from < lines.length;) {
    const end = lines.indexOf(0x0a, from);
    const to = end === -1 ? lines.length : end;
    if (to > from) yield lines.toString("utf8", from, to);
    from = to + 1;
  }
}
