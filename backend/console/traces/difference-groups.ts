// Groups the differences between two sets of spans by attribute.
import type { ApiResponses } from "../../client/api.ts";

type Difference = ApiResponses["GET /query/traces/differences"][number];

const [MAX_GROUPS, MAX_VALUES] = [18, 4];
/** A smaller difference of shares is not worth a row. */
const MIN_DIFFERENCE = 0.01;

/** `isOfErrors`: failed spans are compared, so their status says nothing new. */
export function groupDifferences(all: readonly Difference[], isOfErrors: boolean): { name: string; rows: readonly Difference[] }[] {
  const informative = all.filter(
    ({ name, compared_share: share, others_share: others }) =>
      !(isOfErrors && name === "status") && Math.abs(share - others) >= MIN_DIFFERENCE,
  );
  return [...Map.groupBy(informative, ({ name }) => name)]
    .map(([name, rows]) => ({ name, rows: rows.toSorted((a, b) => size(b) - size(a)).slice(0, MAX_VALUES) }))
    .toSorted((a, b) => size(b.rows[0]) - size(a.rows[0]))
    .slice(0, MAX_GROUPS);
}

function size(row: Difference | undefined): number {
  return row ? Math.abs(row.compared_share - row.others_share) : 0;
}
