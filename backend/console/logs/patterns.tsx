// The patterns of the matching messages, most frequent first: a click shows only their records or excludes them.
import { Button, counted, Skeleton, visible } from "../parts/index.ts";
import type { ApiResponses } from "../../client/api.ts";
import { call, type Query, useLoaded, currentRange, rangeQuery } from "../state/index.ts";
import { Refusal } from "./fields.tsx";
import { patternCondition } from "./query-line.ts";

type Patterns = ApiResponses["GET /query/logs/patterns"];

const SHOWN = 100;
const DRAWN = 400;

export interface PatternsProps {
  readonly requestKey: string;
  readonly parameters: Query;
  readonly onCondition: (condition: string) => void;
}

export function Patterns({ requestKey, parameters, onCondition }: PatternsProps) {
  const loaded = useLoaded(requestKey, async (signal) => {
    const query = { ...parameters, ...rangeQuery(currentRange()), limit: SHOWN };
    return await call<Patterns>("/query/logs/patterns", { query, signal });
  });
  const { patterns = [], records = 0, sampled_one_of: sampled = 1 } = loaded.value.value ?? {};
  const max = Math.max(1, ...patterns.map(({ count }) => count));
  return (
    <section class="patterns" aria-label="Patterns">
      <Refusal of={loaded} />
      {loaded.busy.value && patterns.length === 0 && <Skeleton />}
      {loaded.value.value && patterns.length === 0 && <p class="empty">No records. Choose a longer time range, or remove conditions.</p>}
      {patterns.length > 0 && (
        <p class="quiet" role="status">
          {counted(patterns.length, "pattern")} of {counted(records, "record")}
          {sampled > 1 && `; counts are estimated from one of ${sampled.toLocaleString("en")} parts of the range`}
        </p>
      )}
      <ul class="plain-list">
        {patterns.map(({ pattern, count, example }) => {
          const condition = patternCondition(pattern);
          return (
            <li key={pattern}>
              <span class="number">{count.toLocaleString("en")}</span>
              <meter min={0} max={max} value={count} aria-label="compared with the most frequent pattern" />
              <Button
                class="plain value"
                disabled={condition === undefined}
                title={visible(example.slice(0, DRAWN))}
                aria-label={`Only ${visible(pattern.slice(0, DRAWN)) || "(empty)"}`}
                onClick={() => condition && onCondition(condition)}
                text={<bdi dir="ltr">{visible(pattern.slice(0, DRAWN)) || "(empty)"}</bdi>}
              />
              {condition && (
                <Button
                  class="plain"
                  aria-label={`Without ${visible(pattern.slice(0, 80))}`}
                  onClick={() => onCondition(`-${condition}`)}
                  text="−"
                />
              )}
            </li>
          );
        })}
      </ul>
    </section>
  );
}
