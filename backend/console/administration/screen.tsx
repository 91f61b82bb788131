// Settings: users, credentials, usage with the limits, the audit log, and organisations for an operator. Each part is a table, with a form
// if the role may write.
import type { ApiResponses } from "../../client/api.ts";
import { Foreign, Status, Table, Tabs } from "../parts/common.tsx";
import { visible } from "../parts/text.ts";
import { call, page } from "../state/api.ts";
import { useLoaded } from "../state/loaded.ts";
import { choose, route } from "../state/route.ts";
import { isOperator, mayWrite } from "../state/session.ts";
import { moment } from "../state/time.ts";
import { Organisations, Users } from "./accounts.tsx";
import { Credentials } from "./credentials.tsx";

export function Administration() {
  const parts = [
    ["users", "Users", Users, true],
    ["credentials", "Keys and tokens", Credentials, true],
    ["usage", "Usage", Usage, true],
    ["audit", "Audit", Audit, mayWrite.value],
    ["organisations", "Organisations", Organisations, isOperator.value],
  ] as const;
  const shown = parts.filter(([, , , isShown]) => isShown);
  const chosen = shown.find(([name]) => name === route.value.query.get("part")) ?? shown[0];
  const Part = chosen?.[2] ?? Users;
  return (
    <section class="screen narrow" aria-labelledby="title">
      <h1 id="title">Settings</h1>
      <Tabs label="Parts" tabs={shown} chosen={chosen?.[0]} onChoose={(part) => choose({ part })} />
      {!mayWrite.value && <p class="quiet">You can read here; changes need the role admin.</p>}
      <Part />
    </section>
  );
}

type Used = ApiResponses["GET /api/usage"][number];

type Limits = ApiResponses["GET /api/limits"];

type Change = ApiResponses["GET /api/audit"][number];

function Usage() {
  const found = useLoaded("usage", async (signal) => {
    const [used, limits] = await Promise.all([call<Used[]>("/api/usage", { signal }), call<Limits>("/api/limits", { signal })]);
    return { used, limits };
  });
  const { used = [], limits } = found.value.value ?? {};
  return (
    <section class="card" aria-label="Usage">
      <h2>Usage by day</h2>
      {limits && (
        <p class="quiet">
          Limits: {amount(limits.bytes_per_second, "bytes")} and {amount(limits.records_per_second, "records")} per second,{" "}
          {amount(limits.active_series, "active series")}.
        </p>
      )}
      <Status of={found} empty={used.length === 0 && "Nothing was stored yet."}>
        {used.length > 0 && (
          <Table heads={["day", "signal", "records", "bytes", "peak active series"]} title="Usage">
            {used.map(({ day, signal, bytes, records, active_series: series }) => (
              <tr key={`${day} ${signal}`}>
                <td>{day}</td>
                <td>{signal}</td>
                <td class="number">{records.toLocaleString("en")}</td>
                <td class="number">{bytes.toLocaleString("en")}</td>
                <td class="number">{series?.toLocaleString("en") ?? "–"}</td>
              </tr>
            ))}
          </Table>
        )}
      </Status>
    </section>
  );
}

function amount(most: number, unit: string): string {
  return most === 0 ? `unlimited ${unit}` : `${most.toLocaleString("en")} ${unit}`;
}

function Audit() {
  const found = useLoaded("audit", async (signal) => (await page<Change[]>("/api/audit", { signal })).body);
  const changes = found.value.value ?? [];
  return (
    <section class="card" aria-label="Audit">
      <h2>Audit log</h2>
      <Status of={found} empty={changes.length === 0 && "Nothing was changed yet."}>
        {changes.length > 0 && (
          <Table heads={["time", "user", "action", "details", "client address"]} title="Changes, newest first">
            {changes.map((change) => (
              <tr key={change.id}>
                <td class="moment">{moment(change.at)}</td>
                <td>
                  <Foreign text={change.actor ?? "–"} />
                </td>
                <td>{visible(change.action)}</td>
                <td class="details">
                  <Foreign text={written(change.subject)} />
                </td>
                <td>{change.address ?? ""}</td>
              </tr>
            ))}
          </Table>
        )}
      </Status>
    </section>
  );
}

/** Empty details are omitted. */
function written(subject: Change["subject"]): string {
  return Object.entries(subject)
    .map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)])
    .filter(([, text]) => !["", "null", "[]"].includes(text ?? ""))
    .map((pair) => pair.join(" "))
    .join(", ");
}
