// The explorer over the records of a log query.
import { logQlFilter, logQlOf, readAggregate } from "../metrics/aggregate.ts";
import { Explorer } from "../metrics/explorer.tsx";
import { call, type Query, useLoaded, route, currentRange, rangeQuery } from "../state/index.ts";
import type { Field } from "./query-field.tsx";
import { formatFieldName, logQlLabel, splitQuery } from "./query-line.ts";

export function LogGroups({ line, parameters, requestKey }: { line: string; parameters: Query; requestKey: string }) {
  const aggregate = readAggregate(route.value.query, "source");
  const loaded = useLoaded(requestKey, async (signal) => {
    return await call<Field[]>("/query/logs/fields", { query: { ...parameters, ...rangeQuery(currentRange()) }, signal });
  });
  return (
    <Explorer
      source="logs"
      aggregate={aggregate}
      fields={(loaded.value.value ?? []).map(({ name }) => formatFieldName(name))}
      labelOf={logQlLabel}
      expression={(window) => logQlOf(aggregate, logQlFilter(splitQuery(line), line), window)}
      requestKey={requestKey}
    />
  );
}
