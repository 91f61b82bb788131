// The expressions of a chart, each with its builder and a link to a new alert rule.
import { Button } from "../parts/controls.tsx";
import { useSignal } from "@preact/signals";
import { address } from "../state/route.ts";
import { mayWrite } from "../state/session.ts";
import { Builder, useMetadata } from "./builder-fields.tsx";
import { PromqlField } from "./promql-field.tsx";

/** Names of the queries of a chart, which has at most as many queries as there are letters. */
export const LETTERS = "ABCDEFGH";

interface QueriesProps {
  readonly queries: readonly string[];
  readonly hasBuilder: boolean;
  /** All of them, without empty ones. */
  readonly onQueries: (queries: readonly string[]) => void;
  readonly onBuilt: (queries: readonly string[]) => void;
}

export function Queries({ queries, hasBuilder, onQueries, onBuilt }: QueriesProps) {
  const isAdding = useSignal(false);
  const isBuilderShown = hasBuilder || queries.length === 0;
  const metadata = useMetadata(isBuilderShown);
  const shown = queries.length === 0 || isAdding.value ? [...queries, ""] : queries;
  const changed = (at: number, text: string): string[] => {
    isAdding.value = false;
    return shown.toSpliced(at, 1, text.trim()).filter(Boolean);
  };
  return (
    <div class="queries">
      {shown.map((query, at) => {
        const name = shown.length > 1 ? ` ${LETTERS[at]}` : "";
        return (
          <div key={at} role="group" aria-label={`Query${name}`}>
            <div class="bar">
              {name && <strong>{LETTERS[at]}</strong>}
              <PromqlField label={`PromQL${name}`} value={query} onEnter={(text) => onQueries(changed(at, text))} />
              {mayWrite.value && query !== "" && <a href={address("alerts", { rule: "new", expr: query })}>Create alert rule</a>}
              {name && <Button class="plain" aria-label={`Remove query${name}`} onClick={() => onQueries(changed(at, ""))} text="✕" />}
            </div>
            {isBuilderShown && <Builder query={query} metadata={metadata} onBuilt={(text) => onBuilt(changed(at, text))} />}
          </div>
        );
      })}
      {queries.length > 0 && !isAdding.value && queries.length < LETTERS.length && (
        <Button class="small" onClick={() => (isAdding.value = true)} text="Add query" />
      )}
    </div>
  );
}
