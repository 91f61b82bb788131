// The fields of the matching records, each with its most frequent values and their share. A click filters by a value, excludes it, or shows
// the field as a column.
import { Problem } from "../parts/common.tsx";
import { Button } from "../parts/controls.tsx";
import { visible } from "../parts/text.ts";
import { call, type Query } from "../state/api.ts";
import { type Loaded, useLoaded } from "../state/loaded.ts";
import { rangeQuery, currentRange } from "../state/time.ts";
import type { Field } from "./query-field.tsx";
import { type Term, formatFieldName } from "./query-line.ts";
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
  /** The key of the request: another key sends another request. */
  readonly requestKey: string;
  readonly parameters: Query;
  readonly columns: readonly string[];
  readonly onTerm: (term: Term) => void;
  readonly onColumn: (name: string) => void;
}

export function Fields({ requestKey, parameters, columns, onTerm, onColumn }: FieldsProps) {
  const loaded = useLoaded(requestKey, async (signal) => {
    const query = { ...parameters, ...rangeQuery(currentRange()) };
    return await call<Field[]>("/query/logs/fields", { query, signal });
  });
  const fields = sortFields(loaded.value.value ?? []);
  // Every record has a level.
  const total = loaded.value.value?.find(({ name }) => name === "level")?.records ?? 0;
  return (
    <aside class="field-list" aria-label="Fields">
      <Refusal of={loaded} />
      {loaded.value.value?.length === 0 && <p class="quiet">No fields.</p>}
      {fields.length > 0 && <p class="quiet">In the newest {total.toLocaleString("en")} matching records</p>}
      {fields.map((field) => (
        <details key={field.name} open={ALWAYS_SHOWN.has(field.name)}>
          <summary>
            <bdi>{visible(formatFieldName(field.name))}</bdi> <span class="quiet">{percent(field.records, total)}</span>
          </summary>
          {!ALWAYS_SHOWN.has(field.name) && (
            <Button class="small" aria-pressed={columns.includes(field.name)} onClick={() => onColumn(field.name)} text="column" />
          )}
          <Values field={field} total={total} onTerm={onTerm} />
        </details>
      ))}
    </aside>
  );
}

function Values({ field: { name, values }, total, onTerm }: { field: Field; total: number; onTerm: (term: Term) => void }) {
  return (
    <ul>
      {values.slice(0, SHOWN_VALUES).map(({ value, count }) => (
        <li key={value}>
          <button
            type="button"
            class="plain value"
            aria-label={`Only ${name} ${visible(value)}`}
            onClick={() => onTerm({ not: false, name, value, isCut: isCut(value) })}
          >
            <bdi>{visible(value) || "(empty)"}</bdi>
          </button>
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

function sortFields(fields: readonly Field[]): Field[] {
  return fields.filter(({ values }) => values.some(({ value }) => value !== "")).toSorted((a, b) => rank(a) - rank(b));
}

function percent(count: number, total: number): string {
  if (total === 0) return "";
  const share = (count / total) * 100;
  return share >= 10 || share === 0 ? `${Math.round(share)} %` : share < 0.1 ? "< 0.1 %" : `${share.toFixed(1)} %`;
}
