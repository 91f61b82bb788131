// Firing and pending alerts: since when, which channels are notified, and which silence mutes them. Invariant: firing alerts are listed
// whether or not a channel is notified.
import { ButtonLink, NameLink, SenderText, Problem, Status, type Column, Table, visible } from "../parts/index.ts";
import { alertAddress } from "../../client/alert-address.ts";
import type { ApiResponses } from "../../client/api.ts";
import { useLoaded, address, ago, call, mayWrite } from "../state/index.ts";
import { type Channel, listChannels } from "./resources.ts";
import { labelsKey, matchersOf, formatMatchers } from "./matcher.ts";
import { ROUTED_ALERTS, type RoutedAlert } from "./matchers.tsx";

const REFRESH_MS = 10_000;
const MAX_SHOWN = 500;

type Alert = ApiResponses["GET /alerting/prometheus/api/v1/alerts"]["data"]["alerts"][number];

interface FiringData {
  readonly alerts: readonly Alert[];
  readonly warnings: readonly string[];
  /** labelsKey of an alert → its channels and silences. */
  readonly routed: ReadonlyMap<string, RoutedAlert>;
  readonly hasChannel: boolean;
  readonly atMs: number;
}

export function Firing() {
  const loaded = useLoaded("firing", readFiringData, { refreshMs: REFRESH_MS });
  const { alerts = [], warnings = [], hasChannel = true } = loaded.value.value ?? {};
  const firing = alerts.filter(({ state }) => state === "firing").length;
  return (
    <>
      <div class="bar">
        <p role="status">
          {loaded.value.value && (
            <>
              <strong class={firing > 0 ? "level is-error" : ""}>{firing} firing</strong>, {alerts.length - firing} pending
            </>
          )}
        </p>
        {!hasChannel && (
          <p class="is-warn">
            No one is notified: <a href={address("alerts", { view: "channels" })}>create a channel</a>.
          </p>
        )}
      </div>
      <Problem message={warnings.join("; ")} />
      <Status of={loaded} empty={alerts.length === 0 && "No firing alerts."}>
        {loaded.value.value && (
          <Table
            title="Alerts"
            rows={alerts.slice(0, MAX_SHOWN)}
            columns={columnsFor(loaded.value.value)}
            keyOf={(alert) => labelsKey(alert.labels)}
          />
        )}
        {alerts.length > MAX_SHOWN && <Problem message={`The first ${MAX_SHOWN} of ${alerts.length} alerts are shown.`} />}
      </Status>
    </>
  );
}

function columnsFor({ routed, atMs }: FiringData): Column<Alert>[] {
  const routedAlert = ({ labels }: Alert): RoutedAlert | undefined => routed.get(labelsKey(labels));
  return [
    { head: "state", cell: ({ state }) => <span class={`level ${state === "firing" ? "is-error" : "is-warn"}`}>{state}</span> },
    {
      head: "alert",
      kind: "name",
      cell: (alert) => <AlertName alert={alert} isSilenced={Boolean(routedAlert(alert)?.status.silencedBy.length)} />,
    },
    { head: "since", kind: "timestamp", cell: ({ activeAt }) => ago(activeAt, atMs) },
    { head: "notified", cell: (alert) => <NotifiedChannels alert={alert} routed={routedAlert(alert)} /> },
    { head: "labels", cell: ({ labels: { alertname: _alertname, ...labels } }) => <Labels labels={labels} /> },
  ];
}

function AlertName({ alert: { rule_id: ruleId, labels, annotations, activeAt }, isSilenced }: { alert: Alert; isSilenced: boolean }) {
  const { alertname = "" } = labels;
  const silence = { view: "silences", silence: "new", matchers: formatMatchers(matchersOf(labels)) };
  return (
    <>
      <NameLink href={alertAddress({ ruleId, labels, startsAt: activeAt })} text={alertname} />{" "}
      {mayWrite.value && !isSilenced && (
        <ButtonLink class="small" href={address("alerts", silence)} aria-label={`Silence ${visible(alertname)}`} text="Silence" />
      )}
      {annotations["summary"] && (
        <p class="quiet">
          <SenderText text={annotations["summary"]} />
        </p>
      )}
    </>
  );
}

function Labels({ labels }: { labels: Readonly<Record<string, string>> }) {
  return (
    <ul class="matchers">
      {Object.entries(labels).map(([name, value]) => (
        <li key={name}>
          <bdi>
            {visible(name)}={visible(value)}
          </bdi>
        </li>
      ))}
    </ul>
  );
}

function NotifiedChannels({ alert, routed }: { alert: Alert; routed: RoutedAlert | undefined }) {
  if (!routed) return <span class="quiet">{alert.state === "pending" ? "once it fires" : "–"}</span>;
  const { silencedBy, inhibitedBy, mutedBy } = routed.status;
  const [silence] = silencedBy;
  if (silence !== undefined) return <NotNotified because="silenced" href={address("alerts", { view: "silences", silence })} />;
  if (inhibitedBy.length > 0) return <NotNotified because="inhibited" href={address("alerts", { view: "inhibition" })} />;
  if (mutedBy.length > 0)
    return <NotNotified because={`muted by ${mutedBy.map(visible).join(", ")}`} href={address("alerts", { view: "intervals" })} />;
  if (routed.receivers.length === 0)
    return (
      <span class="is-warn">
        none: <a href={address("alerts", { view: "routes" })}>its route</a> has no channel
      </span>
    );
  return <SenderText text={routed.receivers.map(({ name }) => name).join(", ")} />;
}

function NotNotified({ because, href }: { because: string; href: string }) {
  return (
    <>
      none: <a href={href}>{because}</a>
    </>
  );
}

/** Firing before pending alerts, each with the latest first. */
async function readFiringData(signal: AbortSignal): Promise<FiringData> {
  const [{ data, warnings = [] }, routed, channels] = await Promise.all([
    call<{ data: { alerts: Alert[] }; warnings?: string[] }>("/query/prometheus/api/v1/alerts", { signal }),
    call<RoutedAlert[]>(ROUTED_ALERTS, { signal }),
    listChannels(signal),
  ]);
  const rank = ({ state }: Alert): number => (state === "firing" ? 0 : 1);
  return {
    alerts: data.alerts.toSorted((a, b) => rank(a) - rank(b) || Date.parse(b.activeAt) - Date.parse(a.activeAt)),
    warnings,
    routed: new Map(routed.map((alert) => [labelsKey(alert.labels), alert])),
    hasChannel: channels.some(({ enabled }: Channel) => enabled),
    atMs: Date.now(),
  };
}
