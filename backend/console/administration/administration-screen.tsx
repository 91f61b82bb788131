// Settings: users, credentials, usage with the limits, the audit log, and organisations for an operator. Each part is a table, with a form
// if the role may write.
import { Bar, Card } from "../parts/layout.tsx";
import type { ApiResponses } from "../../client/api.ts";
import { Status } from "../parts/common.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { Tabs } from "../parts/controls.tsx";
import { bytesText } from "../../client/text.ts";
import { call, page } from "../state/api.ts";
import { useLoaded } from "../state/loaded.ts";
import { choose, route } from "../state/route.ts";
import { isOperator, mayWrite, user } from "../state/session.ts";
import { timestampText } from "../state/time.ts";
import { Organisations, OwnPassword, Users } from "./accounts.tsx";
import { Credentials } from "./credentials.tsx";
import { Issuers } from "./issuers.tsx";
import { limitsText } from "./label-limits.tsx";
import { UsageOfAll } from "./usage-of-all.tsx";

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
      <section class="screen narrow" aria-labelledby="title">
        <Bar title="Settings" />
        <p class="quiet">
          You can read telemetry with {limitsText(limits)}. The settings of the organisation need an account without limits.
        </p>
        <OwnPassword />
      </section>
    );
  return (
    <section class="screen narrow" aria-labelledby="title">
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
  { head: "records", kind: "number", order: ({ records }) => records, cell: ({ records }) => records.toLocaleString("en") },
  { head: "bytes", kind: "number", order: ({ bytes }) => bytes, cell: ({ bytes }) => bytesText(bytes) },
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

/** Omits empty details. */
function detailsText(subject: Change["subject"]): string {
  return Object.entries(subject)
    .map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)])
    .filter(([, text]) => !["", "null", "[]"].includes(text ?? ""))
    .map((pair) => pair.join(" "))
    .join(", ");
}
