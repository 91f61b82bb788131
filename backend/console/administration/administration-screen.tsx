// Settings: users, credentials, usage with the limits, the audit log, and organisations for an operator. Each part is a table, with a form
// if the role may write.
import { Bar, Card, Status, type Column, Table, Tabs, Select } from "../parts/index.ts";
import type { ApiResponses } from "../../client/api.ts";
import { bytesText } from "../../client/text.ts";
import { call, page, useLoaded, choose, route, isOperator, mayWrite, user, timestampText } from "../state/index.ts";
import { Organisations, OwnPassword, Users } from "./accounts.tsx";
import { Credentials } from "./credentials.tsx";
import { Issuers } from "./issuers.tsx";
import { limitsText } from "./label-limits.tsx";
import { Share } from "../entities/object-list.tsx";

export function Administration() {
  const parts = [
    ["users", "Users", Users, true],
    ["credentials", "Keys and tokens", Credentials, true],
    ["issuers", "Trusted issuers", Issuers, true],
    ["usage", "Usage", Usage, true],
    ["audit", "Audit", Audit, mayWrite.value],
    ["organisations", "Organisations", Organisations, isOperator.value],
    ["usage-of-all", "Usage of all", UsageOfAll, isOperator.value],
  ] as const;
  const shown = parts.filter(([, , , isShown]) => isShown);
  const chosen = shown.find(([name]) => name === route.value.query.get("part")) ?? shown[0];
  const Part = chosen?.[2] ?? Users;
  const limits = user.value?.label_limits;
  if (limits)
    return (
      <section class="screen" aria-labelledby="title">
        <Bar title="Settings" />
        <p class="quiet">
          You can read telemetry with {limitsText(limits)}. The settings of the organisation need an account without limits.
        </p>
        <OwnPassword />
      </section>
    );
  return (
    <section class="screen" aria-labelledby="title">
      <Bar title="Settings">
        <Tabs label="Sections" tabs={shown} chosen={chosen?.[0]} onChoose={(part) => choose({ part })} />
      </Bar>
      {!mayWrite.value && <p class="quiet">You can read these settings. To change them, you need the role admin.</p>}
      <Part />
    </section>
  );
}

type DayUsage = ApiResponses["GET /api/usage"][number];
type Limits = ApiResponses["GET /api/limits"];
type Change = ApiResponses["GET /api/audit"][number];

function Usage() {
  const loaded = useLoaded("usage", async (signal) => {
    const [used, limits] = await Promise.all([call<DayUsage[]>("/api/usage", { signal }), call<Limits>("/api/limits", { signal })]);
    return { used, limits };
  });
  const { used = [], limits } = loaded.value.value ?? {};
  return (
    <Card title="Usage by day" label="Usage">
      {limits && (
        <p class="quiet">
          Limits: {amount(limits.bytes_per_second, "bytes")} and {amount(limits.records_per_second, "records")} per second,{" "}
          {amount(limits.active_series, "active series")}.
        </p>
      )}
      <Status of={loaded} empty={used.length === 0 && "No data stored yet."}>
        <Table title="Usage" rows={used} columns={USAGE_COLUMNS} />
      </Status>
    </Card>
  );
}

const USAGE_COLUMNS: readonly Column<DayUsage>[] = [
  { head: "day", cell: ({ day }) => day },
  { head: "signal", cell: ({ signal }) => signal },
  { head: "data", kind: "number", order: ({ bytes }) => bytes, cell: ({ bytes }) => bytesText(bytes) },
  { head: "records", kind: "number", order: ({ records }) => records, cell: ({ records }) => records.toLocaleString("en") },
  {
    head: "peak active series",
    kind: "number",
    order: ({ active_series: series }) => series,
    cell: ({ active_series: series }) => series?.toLocaleString("en") ?? "–",
  },
];

function amount(limit: number, unit: string): string {
  return limit === 0 ? `unlimited ${unit}` : `${limit.toLocaleString("en")} ${unit}`;
}

function Audit() {
  const loaded = useLoaded("audit", async (signal) => (await page<Change[]>("/api/audit", { signal })).body);
  const changes = loaded.value.value ?? [];
  return (
    <Card title="Audit log" label="Audit">
      <Status of={loaded} empty={changes.length === 0 && "No changes yet."}>
        <Table title="Changes, newest first" rows={changes} columns={AUDIT_COLUMNS} />
      </Status>
    </Card>
  );
}

const AUDIT_COLUMNS: readonly Column<Change>[] = [
  { head: "time", kind: "timestamp", cell: ({ at }) => timestampText(at) },
  { head: "user", cell: ({ actor }) => actor ?? "–" },
  { head: "action", cell: ({ action }) => action },
  { head: "details", class: "details", cell: ({ subject }) => detailsText(subject) },
  { head: "client address", cell: ({ address }) => address ?? "" },
];

function detailsText(subject: Change["subject"]): string {
  return Object.entries(subject)
    .map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)] as const)
    .map(([name, text]) => [name, text && name.endsWith("_at") ? timestampText(text) : text])
    .filter(([, text]) => !["", "null", "[]"].includes(text ?? ""))
    .map((pair) => pair.join(" "))
    .join(", ");
}

type OrgUsage = ApiResponses["GET /api/orgs/usage"][number];

const DAYS = [
  ["1", "today"],
  ["7", "7 days"],
  ["30", "30 days"],
  ["90", "90 days"],
] as const;

function UsageOfAll() {
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

function share(
  head: string,
  of: "bytes_share" | "records_share" | "series_share",
  limit: keyof OrgUsage["limits"],
  unit: string,
): Column<OrgUsage> {
  const title = ({ limits }: OrgUsage): string => (limits[limit] === 0 ? "unlimited" : `of ${limits[limit].toLocaleString("en")} ${unit}`);
  return { head, kind: "number", order: (row) => row[of], cell: (row) => <Share of={row[of] ?? undefined} title={title(row)} /> };
}

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
  share("of bytes limit", "bytes_share", "bytes_per_second", "bytes per second"),
  share("of records limit", "records_share", "records_per_second", "records per second"),
  share("of series limit", "series_share", "active_series", "active series"),
];
