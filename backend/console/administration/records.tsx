// Shows what the organisation sent, its limits, and who changed what.
import type { ApiResponses } from "../../client/api.ts";
import { useLoaded } from "../state/loaded.ts";
import { moment } from "../state/time.ts";
import { Foreign, Status, Table } from "../parts/common.tsx";
import { visible } from "../parts/text.ts";
import { call, page } from "../state/api.ts";

type Used = ApiResponses["GET /api/usage"][number];

type Limits = ApiResponses["GET /api/limits"];

type Change = ApiResponses["GET /api/audit"][number];

export function Usage() {
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
          Limits: {amount(limits.bytes_per_second, "bytes")} and {amount(limits.records_per_second, "records")} per second and replica,{" "}
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

export function Audit() {
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
