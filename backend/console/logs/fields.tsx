// The fields of the matching records, each with its most frequent values and their share. A click filters by a value, excludes it, or shows
// the field as a column.
import { Problem, Button, counted, visible } from "../parts/index.ts";
import { call, type Query, type Loaded, useLoaded, rangeQuery, currentRange } from "../state/index.ts";
import type { Field } from "./query-field.tsx";
import { chosenFields, type Term, formatFieldName } from "./query-line.ts";
import { queryProblem } from "./log-rows.ts";

const SHOWN_VALUES = 10;
/** The backend cuts values at this length. */
const MAX_CHARACTERS = 256;
const isCut = (value: string): boolean => value.length >= MAX_CHARACTERS && Array.from(value).length === MAX_CHARACTERS;

/**
 * Shows why a request failed. The query field also shows what is wrong with a query, so the message is quiet; but it is needed here,
 * because LogQL that lists records may be refused for counts.
 */
export function Refusal({ of }: { of: Loaded<unknown> }) {
  const refusal = queryProblem(of.error.value);
  return refusal === undefined ? <Problem message={of.error.value} retry={of.reload} /> : <p class="quiet">{refusal}</p>;
}

export interface FieldsProps {
  readonly requestKey: string;
  readonly parameters: Query;
  readonly columns: readonly string[];
  readonly onTerm: (term: Term) => void;
  readonly onColumn: (name: string) => void;
}

export function Fields({ requestKey, parameters, columns, onTerm, onColumn }: FieldsProps) {
  const loaded = useLoaded(requestKey, async (signal) => await readFields(parameters, signal));
  const { fields = [], total = 0, isEmpty = false } = loaded.value.value ?? {};
  return (
    <aside class="field-list" aria-label="Fields">
      <Refusal of={loaded} />
      {isEmpty && <p class="quiet">No fields.</p>}
      {fields.length > 0 && <p class="quiet">In the newest {counted(total, "matching record")}</p>}
      {fields.map((field) => (
        <details key={field.name} open={ALWAYS_SHOWN.has(field.name)}>
          <summary>
            <bdi>{visible(formatFieldName(field.name))}</bdi> <span class="quiet">{percent(field.records, field.total)}</span>
          </summary>
          {!ALWAYS_SHOWN.has(field.name) && (
            <Button class="small" aria-pressed={columns.includes(field.name)} onClick={() => onColumn(field.name)} text="column" />
          )}
          <Values field={field} onTerm={onTerm} />
        </details>
      ))}
    </aside>
  );
}

interface CountedField extends Field {
  readonly total: number;
}

const MAX_CHOSEN = 3;

/** A field for which the query chooses a value keeps its other values: they are counted without that choice. */
async function readFields(
  parameters: Query,
  signal: AbortSignal,
): Promise<{ fields: readonly CountedField[]; total: number; isEmpty: boolean }> {
  const read = async (query: Query): Promise<CountedField[]> => {
    const fields = await call<Field[]>("/query/logs/fields", { query: { ...query, ...rangeQuery(currentRange()) }, signal });
    // Every record has a level.
    const total = fields.find(({ name }) => name === "level")?.records ?? 0;
    return fields.map((field) => ({ ...field, total }));
  };
  const chosen = chosenFields(String(parameters["query"] ?? "")).slice(0, MAX_CHOSEN);
  const [matching, ...others] = await Promise.all([
    read(parameters),
    ...chosen.map(async ({ rest }) => await read({ ...parameters, query: rest || undefined })),
  ]);
  const kept = others.flatMap((fields, at) => fields.filter(({ name }) => formatFieldName(name) === chosen[at]?.field));
  const all = [...matching.filter(({ name }) => !kept.some((field) => field.name === name)), ...kept];
  return { fields: sortFields(all), total: matching[0]?.total ?? 0, isEmpty: matching.length === 0 };
}

function Values({ field: { name, values, total }, onTerm }: { field: CountedField; onTerm: (term: Term) => void }) {
  return (
    <ul>
      {values.slice(0, SHOWN_VALUES).map(({ value, count }) => (
        <li key={value}>
          <Button
            class="plain value"
            aria-label={`Only ${name} ${visible(value)}`}
            onClick={() => onTerm({ not: false, name, value, isCut: isCut(value) })}
            text={<bdi>{visible(value) || "(empty)"}</bdi>}
          />
          <span class="quiet number" title={count.toLocaleString("en")}>
            {percent(count, total)}
          </span>
          <Button
            class="plain"
            aria-label={`Without ${name} ${visible(value.slice(0, 40))}`}
            onClick={() => onTerm({ not: true, name, value, isCut: isCut(value) })}
            text="−"
          />
          <span class="share" style={{ width: `${total > 0 ? (count / total) * 100 : 0}%` }} />
        </li>
      ))}
    </ul>
  );
}

/** Shown last, because the senders' own fields are needed more often than the host. */
const LAST: ReadonlySet<string> = new Set(["node", "host_id", "scope"]);
const ALWAYS_SHOWN: ReadonlySet<string> = new Set(["level", "source"]);

function rank({ name }: Field): number {
  return ALWAYS_SHOWN.has(name) ? 0 : LAST.has(name) ? 2 : 1;
}

function sortFields(fields: readonly CountedField[]): CountedField[] {
  return fields.filter(({ values }) => values.some(({ value }) => value !== "")).toSorted((a, b) => rank(a) - rank(b));
}

function percent(count: number, total: number): string {
  if (total === 0) return "";
  const share = (count / total) * 100;
  return share >= 10 || share === 0 ? `${Math.round(share)} %` : share < 0.1 ? "< 0.1 %" : `${share.toFixed(1)} %`;
}
