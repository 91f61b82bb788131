// Usage and limits of all organisations in one table, for operators.
import type { ApiResponses } from "../../client/api.ts";
import { bytesText } from "../../client/text.ts";
import { Share } from "../entities/object-list.tsx";
import { Status } from "../parts/common.tsx";
import { Select } from "../parts/controls.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { call } from "../state/api.ts";
import { useLoaded } from "../state/loaded.ts";
import { choose, route } from "../state/route.ts";

type OrgUsage = ApiResponses["GET /api/orgs/usage"][number];

const DAYS = [
  ["1", "today"],
  ["7", "7 days"],
  ["30", "30 days"],
  ["90", "90 days"],
] as const;

export function UsageOfAll() {
  const days = DAYS.find(([known]) => known === route.value.query.get("days"))?.[0] ?? "30";
  const loaded = useLoaded(`usage of ${days}`, async (signal) => await call<OrgUsage[]>("/api/orgs/usage", { query: { days }, signal }));
  const rows = loaded.value.value ?? [];
  return (
    <section class="card" aria-label="Usage of all organisations">
      <header>
        <h2>Usage of all organisations</h2>
        <Select aria-label="Days" class="push" of={DAYS} value={days} onChoose={(chosen) => choose({ days: chosen })} />
      </header>
      <p class="quiet">
        Shares of limits are of the average rate since the first of these days. Set a limit with <code>atherops limits set</code>.
      </p>
      <Status of={loaded} empty={rows.length === 0 && "No organisation stored data in these days."}>
        <Table title="Usage of all organisations" rows={rows} columns={COLUMNS} keyOf={(row) => `${row.org_id} ${row.signal}`} />
      </Status>
    </section>
  );
}

function share(head: string, of: (row: OrgUsage) => number | null, title: (row: OrgUsage) => string): Column<OrgUsage> {
  return { head, kind: "number", order: of, cell: (row) => <Share of={of(row) ?? undefined} title={title(row)} /> };
}

const limitText = (limit: number, unit: string): string => (limit === 0 ? "unlimited" : `of ${limit.toLocaleString("en")} ${unit}`);

const COLUMNS: readonly Column<OrgUsage>[] = [
  { head: "organisation", kind: "name", order: ({ name }) => name, cell: ({ name }) => name },
  { head: "signal", order: ({ signal }) => signal, cell: ({ signal }) => signal },
  { head: "data", kind: "number", order: ({ bytes }) => bytes, cell: ({ bytes }) => bytesText(bytes) },
  { head: "records", kind: "number", order: ({ records }) => records, cell: ({ records }) => records.toLocaleString("en") },
  {
    head: "of all",
    kind: "number",
    order: ({ share_of_all: of }) => of,
    cell: ({ share_of_all: of }) => <Share of={of} isLimit={false} />,
  },
  share(
    "of bytes limit",
    ({ bytes_share: of }) => of,
    ({ limits }) => limitText(limits.bytes_per_second, "bytes per second"),
  ),
  share(
    "of records limit",
    ({ records_share: of }) => of,
    ({ limits }) => limitText(limits.records_per_second, "records per second"),
  ),
  share(
    "of series limit",
    ({ series_share: of }) => of,
    ({ limits }) => limitText(limits.active_series, "active series"),
  ),
];
