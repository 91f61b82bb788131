// Firing and pending alerts: since when, which channels are notified, and which silence mutes them. Invariant: firing alerts are listed
// whether or not a channel is notified.
import type { ApiResponses } from "../../client/api.ts";
import { useLoaded } from "../state/loaded.ts";
import { address } from "../state/route.ts";
import { ago } from "../state/time.ts";
import { type Channel, channelsNow } from "./resources.ts";
import { labelsKey, matchersOf, matchersWritten } from "./matcher.ts";
import { STANDING_ALERTS, type StandingAlert } from "./matchers.tsx";
import { Foreign, Problem, Status, Table } from "../parts/common.tsx";
import { visible } from "../parts/text.ts";
import { call } from "../state/api.ts";
import { mayWrite } from "../state/session.ts";

const EVERY_MS = 10_000;
const MOST_SHOWN = 500;

type Alert = ApiResponses["GET /alerting/prometheus/api/v1/alerts"]["data"]["alerts"][number];

interface Shown {
  readonly alerts: readonly Alert[];
  readonly warnings: readonly string[];
  /** By labelsKey. */
  readonly standing: ReadonlyMap<string, StandingAlert>;
  readonly hasChannel: boolean;
  readonly atMs: number;
}

export function Firing() {
  const found = useLoaded("firing", alertsShown, { everyMs: EVERY_MS });
  const { alerts = [], warnings = [], hasChannel = true } = found.value.value ?? {};
  const firing = alerts.filter(({ state }) => state === "firing").length;
  return (
    <>
      <div class="bar">
        <p role="status">
          <strong class={firing > 0 ? "level is-error" : ""}>{firing} firing</strong>, {alerts.length - firing} pending
        </p>
        {!hasChannel && (
          <p class="is-warn">
            No one is notified: <a href={address("alerts", { view: "channels" })}>add a channel</a>.
          </p>
        )}
      </div>
      <Problem words={warnings.join("; ")} />
      <Status of={found} empty={alerts.length === 0 && <p>No alert fires.</p>}>
        {found.value.value && alerts.length > 0 && <AlertTable {...found.value.value} />}
        {alerts.length > MOST_SHOWN && <Problem words={`The first ${MOST_SHOWN} of ${alerts.length} alerts are shown.`} />}
      </Status>
    </>
  );
}

function AlertTable({ alerts, standing, atMs }: Shown) {
  return (
    <Table title="Alerts" heads={["state", "alert", "since", "notified", "labels"]}>
      {alerts.slice(0, MOST_SHOWN).map((alert) => (
        <AlertRow key={labelsKey(alert.labels)} alert={alert} standing={standing.get(labelsKey(alert.labels))} atMs={atMs} />
      ))}
    </Table>
  );
}

function AlertRow({ alert, standing, atMs }: { alert: Alert; standing: StandingAlert | undefined; atMs: number }) {
  const { alertname = "", ...labels } = alert.labels;
  const silence = { view: "silences", silence: "new", matchers: matchersWritten(matchersOf(alert.labels)) };
  return (
    <tr>
      <td>
        <span class={`level ${alert.state === "firing" ? "is-error" : "is-warn"}`}>{alert.state}</span>
      </td>
      <th scope="row">
        <Foreign text={alertname} />
        {mayWrite.value && !standing?.status.silencedBy.length && (
          <>
            {" "}
            <a class="button small" href={address("alerts", silence)} aria-label={`Silence ${visible(alertname)}`}>
              Silence
            </a>
          </>
        )}
        {alert.annotations["summary"] && (
          <p class="quiet">
            <Foreign text={alert.annotations["summary"]} />
          </p>
        )}
      </th>
      <td class="moment">{ago(alert.activeAt, atMs)}</td>
      <td>
        <NotifiedChannels alert={alert} standing={standing} />
      </td>
      <td>
        <ul class="matchers">
          {Object.entries(labels).map(([name, value]) => (
            <li key={name}>
              <bdi>
                {visible(name)}={visible(value)}
              </bdi>
            </li>
          ))}
        </ul>
      </td>
    </tr>
  );
}

function NotifiedChannels({ alert, standing }: { alert: Alert; standing: StandingAlert | undefined }) {
  if (!standing) return <span class="quiet">{alert.state === "pending" ? "when it fires" : "–"}</span>;
  const [silencedBy] = standing.status.silencedBy;
  if (silencedBy !== undefined)
    return (
      <>
        no one: <a href={address("alerts", { view: "silences", silence: silencedBy })}>silenced</a>
      </>
    );
  if (standing.receivers.length === 0)
    return (
      <span class="is-warn">
        no one: <a href={address("alerts", { view: "routes" })}>its route</a> has no channel
      </span>
    );
  return <Foreign text={standing.receivers.map(({ name }) => name).join(", ")} />;
}

/** Firing before pending alerts, each with the latest first. */
async function alertsShown(signal: AbortSignal): Promise<Shown> {
  const [{ data, warnings = [] }, standing, channels] = await Promise.all([
    call<{ data: { alerts: Alert[] }; warnings?: string[] }>("/query/prometheus/api/v1/alerts", { signal }),
    call<StandingAlert[]>(STANDING_ALERTS, { signal }),
    channelsNow(signal),
  ]);
  const rank = ({ state }: Alert): number => (state === "firing" ? 0 : 1);
  return {
    alerts: data.alerts.toSorted((a, b) => rank(a) - rank(b) || Date.parse(b.activeAt) - Date.parse(a.activeAt)),
    warnings,
    standing: new Map(standing.map((alert) => [labelsKey(alert.labels), alert])),
    hasChannel: channels.some(({ enabled }: Channel) => enabled),
    atMs: Date.now(),
  };
}
