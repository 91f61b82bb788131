// The groups of the explorer with their values over the whole range, largest first.
import { Table } from "../parts/table.tsx";
import { visible } from "../parts/text.ts";
import type { Instant } from "./prometheus.ts";
import { formatValue, type Unit } from "./unit.ts";

const MAX_ROWS = 500;

interface GroupTableProps {
  readonly groups: readonly Instant[];
  readonly by: readonly string[];
  /** What the values are. */
  readonly of: string;
  readonly labelOf: (field: string) => string;
  readonly unit: Unit | undefined;
}

export function GroupTable({ groups, by, of, labelOf, unit }: GroupTableProps) {
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
