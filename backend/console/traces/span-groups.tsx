// The explorer over spans. It reads the metrics of spans, which exist for each service, operation, kind and status.
import { promQlOf, readAggregate, SPAN_LABELS } from "../metrics/aggregate.ts";
import { Explorer } from "../metrics/explorer.tsx";
import { route } from "../state/route.ts";

const FIELDS = Object.keys(SPAN_LABELS);

export function SpanGroups({ requestKey }: { requestKey: string }) {
  const { query } = route.value;
  const aggregate = readAggregate(query, "service");
  const search = Object.fromEntries(query);
  return (
    <Explorer
      source="traces"
      aggregate={{ ...aggregate, by: aggregate.by.filter((field) => FIELDS.includes(field)) }}
      fields={FIELDS}
      labelOf={(field) => SPAN_LABELS[field as keyof typeof SPAN_LABELS] ?? field}
      expression={(window) => {
        const other = ["attributes", "min", "max"].find((name) => query.get(name));
        if (other) throw new Error(`Spans are grouped without looking at each, so the condition "${other}" cannot be used: remove it.`);
        return promQlOf(aggregate, search, window);
      }}
      unit={aggregate.of === "count" ? undefined : "s"}
      requestKey={requestKey}
    />
  );
}
