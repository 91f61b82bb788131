// Calculates over the matching records or spans: how many there are, how many different values a field has, a sum or a percentile, for each
// value of some fields; as a chart and a table. The choices are in the address: `of`, `field`, `by`.
import { useSignal } from "@preact/signals";
import { AddToDashboard } from "../dashboards/add-to-dashboard.tsx";
import { Problem, Status, ChoiceField, IconButton, Select, visible, Table } from "../parts/index.ts";
import { errorMessage, useLoaded, choose, currentRange, type Range } from "../state/index.ts";
import { type Aggregate, type AggregateFunction, FUNCTIONS, NO_GROUPS, SPAN_FUNCTIONS } from "./aggregate.ts";
import { LOKI, PROMETHEUS, queryInstant, queryRange, type Instant } from "./prometheus.ts";
import { SeriesChart } from "./series-chart.tsx";
import { type Unit, formatValue } from "./unit.ts";

const POINTS = 60;
const MAX_GROUPS_DRAWN = 20;
const MAX_BY = 3;
/** Those that are calculated from the values of a field. */
const NEEDS_FIELD: ReadonlySet<AggregateFunction> = new Set(["unique", "sum", "avg", "max", "p50", "p95", "p99"]);
/** Those whose values of intervals are bars. */
const COUNTS: ReadonlySet<AggregateFunction> = new Set(["count", "unique", "sum"]);

interface ExplorerProps {
  readonly source: "logs" | "traces";
  readonly aggregate: Aggregate;
  readonly fields: readonly string[];
  readonly labelOf: (field: string) => string;
  /** The expression for a window such as `60s`. Throws an Error if the search has no equal. */
  readonly expression: (window: string) => string;
  readonly unit?: Unit | undefined;
  readonly requestKey: string;
}

export function Explorer(props: ExplorerProps) {
  const { aggregate, source, fields } = props;
  const isOfSpans = source === "traces";
  const hasField = !isOfSpans && NEEDS_FIELD.has(aggregate.of);
  return (
    <section class="explorer stack" aria-label="Grouped">
      <div class="filters">
        <Select label="Show" value={aggregate.of} of={isOfSpans ? SPAN_FUNCTIONS : FUNCTIONS} onChoose={(of) => choose({ of })} />
        {hasField && <ChoiceField label="of" size={34} initial={aggregate.field} choices={fields} onDone={(field) => choose({ field })} />}
        <GroupChips by={aggregate.by} fields={fields} isClosed={isOfSpans} />
      </div>
      {hasField && aggregate.field === "" ? <p class="empty">Choose a field.</p> : <Result {...props} key={source} />}
    </section>
  );
}

/** `isClosed`: only these fields can be grouped by. */
function GroupChips({ by, fields, isClosed }: { by: readonly string[]; fields: readonly string[]; isClosed: boolean }) {
  const added = useSignal(0);
  const add = (field: string): void => {
    added.value++;
    if (field !== "" && !by.includes(field) && (!isClosed || fields.includes(field))) choose({ by: [...by, field] });
  };
  const remove = (field: string): void => choose({ by: by.length === 1 ? [NO_GROUPS] : by.filter((other) => other !== field) });
  return (
    <div class="group-by" role="group" aria-label="Group by">
      <span class="quiet">by</span>
      {by.map((field) => (
        <span class="chip" key={field}>
          <bdi>{visible(field)}</bdi>
          <IconButton icon="close" class="plain" label={`Do not group by ${visible(field)}`} onClick={() => remove(field)} />
        </span>
      ))}
      {by.length < MAX_BY && (
        <ChoiceField
          key={added.value}
          label="Add a field"
          isLabelHidden
          size={14}
          placeholder="add a field"
          initial=""
          choices={fields.filter((field) => !by.includes(field))}
          onDone={add}
        />
      )}
    </div>
  );
}

function Result({ source, aggregate, labelOf, expression, unit, requestKey }: ExplorerProps) {
  const problem = problemOf(() => expression("1m"));
  const loaded = useLoaded(problem === undefined ? `${requestKey} ${JSON.stringify(aggregate)}` : undefined, async (signal) => {
    const range = currentRange();
    const base = source === "logs" ? LOKI : PROMETHEUS;
    const step = stepOf(range);
    const wholeS = Math.round((range.toMs - range.fromMs) / 1000);
    const [groups, series] = await Promise.all([
      queryInstant(expression(`${wholeS}s`), range.toMs, signal, base),
      queryRange(expression(`${step}s`), range, signal, base, step),
    ]);
    const sorted = groups.toSorted((a, b) => Number(b.value) - Number(a.value));
    const largest = sorted.slice(0, MAX_GROUPS_DRAWN).map(({ labels }) => keyOf(labels, aggregate, labelOf));
    const isCount = COUNTS.has(aggregate.of);
    const drawn = series
      .map((line) => ({ ...line, key: keyOf(line.labels, aggregate, labelOf) }))
      .filter(({ key }) => largest.includes(key))
      .toSorted((a, b) => largest.indexOf(a.key) - largest.indexOf(b.key))
      .map((line) => ({
        name: line.key || aggregate.of,
        short: line.key || aggregate.of,
        // A value is that of the interval before its time.
        points: line.points.map(([at, value]) => [isCount ? at - step : at, value] as const),
      }));
    return { range, groups: sorted, series: drawn, isCount };
  });
  const { range, groups = [], series = [], isCount = false } = loaded.value.value ?? {};
  if (problem !== undefined) return <Problem message={problem} />;
  const query = expression(`${stepOf(currentRange())}s`);
  const panel = {
    kind: "timeseries",
    source: source === "logs" ? "logs" : "metrics",
    width: 6,
    queries: [{ query }],
    ...(unit && { unit }),
  } as const;
  return (
    <Status of={loaded} empty={range && groups.length === 0 && "Nothing to group in this time range."}>
      {range && (
        <>
          <div class="filters">
            <code class="explorer-query">{visible(query)}</code>
            <AddToDashboard panel={panel} />
          </div>
          <SeriesChart series={series} range={range} unit={unit} shape={isCount ? "bars" : undefined} />
          {groups.length > MAX_GROUPS_DRAWN && <p class="quiet">The chart shows the {MAX_GROUPS_DRAWN} largest groups.</p>}
          <GroupTable groups={groups} by={aggregate.by} of={titleOf(aggregate)} labelOf={labelOf} unit={unit} />
        </>
      )}
    </Status>
  );
}

function titleOf({ of, field }: Aggregate): string {
  return field === "" || of === "count" ? of : `${of} ${field}`;
}

function keyOf(labels: Readonly<Record<string, string>>, { by }: Aggregate, labelOf: (field: string) => string): string {
  return by.map((field) => labels[labelOf(field)] || "(none)").join(", ");
}

/** Whole minutes of a long range, so that repeated requests have the same intervals. */
function stepOf({ fromMs, toMs }: Range): number {
  const seconds = Math.max(1, Math.ceil((toMs - fromMs) / 1000 / POINTS));
  return seconds > 60 ? Math.ceil(seconds / 60) * 60 : seconds;
}

function problemOf(build: () => string): string | undefined {
  try {
    build();
    return undefined;
  } catch (error) {
    return errorMessage(error);
  }
}

const MAX_ROWS = 500;

interface GroupTableProps {
  readonly groups: readonly Instant[];
  readonly by: readonly string[];
  readonly of: string;
  readonly labelOf: (field: string) => string;
  readonly unit: Unit | undefined;
}

function GroupTable({ groups, by, of, labelOf, unit }: GroupTableProps) {
  return (
    <Table
      title="Groups, largest first"
      rows={groups.slice(0, MAX_ROWS)}
      columns={[
        ...by.map((field) => ({
          head: visible(field),
          kind: "name" as const,
          cell: ({ labels }: Instant) => <bdi>{visible(labels[labelOf(field)] || "(none)")}</bdi>,
        })),
        {
          head: visible(of),
          kind: "number",
          cell: ({ value }) =>
            unit === undefined ? Number(value).toLocaleString("en", { maximumFractionDigits: 3 }) : formatValue(Number(value), unit),
        },
      ]}
    />
  );
}
