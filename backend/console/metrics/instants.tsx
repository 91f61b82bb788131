// Values of series at one moment, as a table.
import { NameLink, Problem, Status, Table } from "../parts/common.tsx";
import type { Loaded } from "../state/loaded.ts";
import { address } from "../state/route.ts";
import { type Instant, seriesName } from "./prometheus.ts";

export const MOST_ROWS = 1000;

export function Instants({ found, nothing, heads = ["series", "value"] }: { found: Loaded<Instant[]>; nothing: string; heads?: string[] }) {
  const rows = found.value.value ?? [];
  return (
    <Status of={found} empty={rows.length === 0 && nothing}>
      {rows.length > 0 && (
        <Table title="Series and their values" heads={heads}>
          {rows.slice(0, MOST_ROWS).map(({ labels, value }, at) => (
            <tr key={at}>
              <td>
                <NameLink href={address("metrics", { q: seriesName(labels) })} text={seriesName(labels)} />
              </td>
              <td class="number">{value}</td>
            </tr>
          ))}
        </Table>
      )}
      {rows.length > MOST_ROWS && <Problem words={`The first ${MOST_ROWS} of ${rows.length} rows are shown.`} />}
    </Status>
  );
}
