// A range aggregation over stored records: counted by the engine where the engine can count what is asked, else record by record. Invariant:
// both ways give the same points.
import type { Ask } from "../engines/clickhouse/client.ts";
import { and, Sql, sql } from "../engines/clickhouse/sql.ts";
import { pageConditions } from "../query/page.ts";
import { type Budget, tooExpensive } from "./budget.ts";
import { labelValue, push, type Pushed } from "./conditions.ts";
import { EntryMaker } from "./entry-maker.ts";
import { records } from "./records.ts";
import { LabelSet, NO_LABELS } from "./label-set.ts";
import { type Leaf, neededStages } from "./leaf.ts";
import { CountedPoints, type Points, WindowedPoints } from "./points.ts";
import { RANGE_FUNCTIONS } from "./range-functions.ts";
import { sampleReader } from "./sample-reader.ts";
import { momentsOf, spanOf, type Steps } from "./steps.ts";

export interface Asking {
  readonly ask: Ask;
  readonly orgId: string;
  readonly budget: Budget;
  readonly steps: Steps;
}

const MOST_CELLS = 200_000;
const MOST_CELL_BYTES = 64 * 1024 * 1024;

export async function rangePoints(asking: Asking, leaf: Leaf): Promise<Points> {
  const pushed = push(leaf.range.log);
  const rest = neededStages(leaf, pushed.rest);
  if (rest.length === 0 && !leaf.range.unwrap && leaf.labels.kind !== "without") return countedByEngine(asking, leaf, pushed);
  return readOneByOne(asking, leaf, { ...pushed, rest });
}

async function readOneByOne(asking: Asking, leaf: Leaf, pushed: Pushed): Promise<Points> {
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

interface Cell {
  readonly first: string;
  readonly last: string;
  readonly n: number;
  readonly sum: number;
  readonly k?: readonly string[];
}

async function countedByEngine({ ask, orgId, steps, budget }: Asking, leaf: Leaf, { conditions, matching }: Pushed): Promise<Points> {
  const { range, labels } = leaf;
  const span = spanOf(steps, range);
  const since = sql`(toUnixTimestamp64Nano(time) + ${range.offsetNs - steps.start})`;
  const first = sql`if(${since} <= 0, 0, intDiv(${since} + ${steps.step - 1n}, ${steps.step}))`;
  const last = sql`least(${steps.count - 1}, intDiv(${since} + ${range.rangeNs - 1n}, ${steps.step}))`;
  const isBytes = range.operation.startsWith("bytes_");
  const keys = keyColumns(leaf);
  const where = and([sql`org_id = ${orgId}`, ...pageConditions({ range: span, after: undefined }), ...conditions]);
  const lines = await ask(
    sql`SELECT ${first} AS first, ${last} AS last, ${keys.select}toFloat64(count()) AS n, ${isBytes ? sql`toFloat64(sum(length(message)))` : sql`n`} AS sum
      FROM ${matching.from} WHERE ${where} GROUP BY first, last${keys.group} HAVING first <= last LIMIT ${MOST_CELLS + 1}`,
    MOST_CELL_BYTES,
    matching.blockRows,
  );
  budget.begin();
  const perSecond = range.operation.endsWith("rate") ? Number(range.rangeNs) / 1e9 : 1;
  const points = new CountedPoints(steps.count, perSecond);
  const known = new Map<string, LabelSet>();
  let cells = 0;
  for (const line of linesOf(lines)) {
    if ((cells += 1) > MOST_CELLS) throw tooExpensive(`has more than ${MOST_CELLS} counts by series and time; write sum by (…) around it`);
    const cell = JSON.parse(line) as Cell;
    const key = JSON.stringify(labels.kind === "all" ? { ...cell, first: "", last: "", n: 0, sum: 0 } : cell.k);
    let set = known.get(key);
    if (!set) known.set(key, (set = keys.labelsOf(cell)));
    points.add(set, { first: Number(cell.first), last: Number(cell.last), count: cell.n, sum: cell.sum });
    if (budget.isDue) await budget.breathe();
  }
  return points;
}

function* linesOf(lines: Buffer): Generator<string> {
  for (let from = 0; from < lines.length;) {
    const end = lines.indexOf(0x0a, from);
    const to = end === -1 ? lines.length : end;
    if (to > from) yield lines.toString("utf8", from, to);
    from = to + 1;
  }
}

interface KeyColumns {
  readonly select: Sql;
  readonly group: Sql;
  readonly labelsOf: (cell: Cell) => LabelSet;
}

/** What cells of one series have in common. */
function keyColumns({ labels }: Leaf): KeyColumns {
  if (labels.kind === "none") return { select: new Sql(""), group: new Sql(""), labelsOf: () => NO_LABELS };
  if (labels.kind === "by") {
    const { names } = labels;
    const values = names.map(labelValue).reduce((left, right) => sql`${left}, ${right}`);
    const labelsOf = ({ k = [] }: Cell) => new LabelSet(names.flatMap((name, index) => (k[index] ? [[name, k[index]] as const] : [])));
    return { select: sql`[${values}] AS k, `, group: sql`, k`, labelsOf };
  }
  const columns = sql`level, source, host_id, node, trace_id, span_id, severity_number, scope_name`;
  const entries = new EntryMaker();
  return {
    select: sql`${columns}, toJSONString(labels) AS labels_text, `,
    group: sql`, ${columns}, labels_text`,
    labelsOf: (cell) => {
      const { labels_text: text, ...row } = cell as unknown as { labels_text: string };
      const record = { ...row, ns: "0", line: "", labels: JSON.parse(text) as Record<string, string> };
      return new LabelSet([...entries.of(record as never).labels()].map(([name, value]) => [name, value] as const));
    },
  };
}
