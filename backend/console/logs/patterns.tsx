// The patterns of the matching messages, most frequent first: a click shows only their records or excludes them.
import type { ApiResponses } from "../../client/api.ts";
import { visible } from "../parts/text.ts";
import { call } from "../state/api.ts";
import { useLoaded } from "../state/loaded.ts";
import { currentRange, rangeQuery } from "../state/time.ts";
import { Refusal } from "./fields.tsx";
import { patternCondition } from "./query-line.ts";
import type { Question } from "./rows.ts";

type Patterns = ApiResponses["GET /query/logs/patterns"];

const SHOWN = 100;
const DRAWN = 400;

export interface PatternsProps {
  readonly asked: string;
  readonly question: Question;
  /** Called with a condition of the query language. */
  readonly onCondition: (condition: string) => void;
}

export function Patterns({ asked, question, onCondition }: PatternsProps) {
  const found = useLoaded(asked, async (signal) => {
    const query = [...question, ...rangeQuery(currentRange()), ["limit", String(SHOWN)] as const];
    return await call<Patterns>("/query/logs/patterns", { query, signal });
  });
  const { patterns = [], records = 0, sampled_one_of: sampled = 1 } = found.value.value ?? {};
  const most = Math.max(1, ...patterns.map(({ count }) => count));
  return (
    <section class="patterns" aria-label="Patterns">
      <Refusal of={found} />
      {found.busy.value && patterns.length === 0 && <p class="quiet">Loading …</p>}
      {found.value.value && (
        <p class="quiet" role="status">
          {patterns.length} patterns of {records.toLocaleString("en")} records
          {sampled > 1 && `; counts are estimated from one of ${sampled.toLocaleString("en")} parts of the range`}
        </p>
      )}
      <ul class="plain-list">
        {patterns.map(({ pattern, count, example }) => {
          const condition = patternCondition(pattern);
          return (
            <li key={pattern}>
              <span class="number">{count.toLocaleString("en")}</span>
              <meter min={0} max={most} value={count} aria-label="compared with the most frequent pattern" />
              <button
                type="button"
                class="plain value"
                disabled={condition === undefined}
                title={visible(example.slice(0, DRAWN))}
                aria-label={`Only ${visible(pattern.slice(0, 80))}`}
                onClick={() => condition && onCondition(condition)}
              >
                <bdi dir="ltr">{visible(pattern.slice(0, DRAWN)) || "(empty)"}</bdi>
              </button>
              {condition && (
                <button
                  type="button"
                  class="plain"
                  aria-label={`Without ${visible(pattern.slice(0, 80))}`}
                  onClick={() => onCondition(`-${condition}`)}
                >
                  −
                </button>
              )}
            </li>
          );
        })}
      </ul>
    </section>
  );
}
