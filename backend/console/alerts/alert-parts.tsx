// The parts of an alert's page: its labels and the resource that they name, who was notified, other alerts of the rule, and logs and traces.
import { Card, Chip, Facts, NameLink, SenderText, Table, visible } from "../parts/index.ts";
import type { ApiResponses } from "../../client/api.ts";
import { alertAddress } from "../../client/alert-address.ts";
import { LogList, TraceList } from "../dashboards/panel.tsx";
import { entityAddress, findAlertEntity, logQuery, traceQuery } from "../entities/entity.ts";
import { formatTerm } from "../logs/query-line.ts";
import { DeliveryError, DeliveryState } from "../notification/deliveries.tsx";
import { labelsKey } from "../notification/matcher.ts";
import type { RoutedAlert } from "../notification/matchers.tsx";
import type { Delivery } from "../notification/resources.ts";
import { address, type AddressRange, ago, timestampText } from "../state/index.ts";
import { formatAttribute } from "../traces/search.ts";
import type { Rule } from "./console-rule.ts";

export type Alert = ApiResponses["GET /alerting/prometheus/api/v1/alerts"]["data"]["alerts"][number];
export type Labels = Readonly<Record<string, string>>;

const MAX_DELIVERIES = 20;

export interface AlertData {
  readonly rule: Rule;
  /** Alerts of the rule now that have the labels of the address. */
  readonly alerts: readonly Alert[];
  readonly routed: readonly RoutedAlert[];
  readonly deliveries: readonly Delivery[];
  /** Id → name. */
  readonly channels: ReadonlyMap<string, string>;
  readonly atMs: number;
}

export function commonLabels([first, ...others]: readonly Alert[]): Labels | undefined {
  return (
    first &&
    Object.fromEntries(Object.entries(first.labels).filter(([name, value]) => others.every(({ labels }) => labels[name] === value)))
  );
}

interface RangeProps {
  readonly labels: Labels;
  readonly range: AddressRange;
}

export function LabelFacts({ labels, alerts, range }: RangeProps & { alerts: readonly Alert[] }) {
  const entity = findAlertEntity(labels);
  return (
    <Card title="Labels">
      <Facts
        of={[
          entity && [entity.kind, <NameLink href={entityAddress(entity, range)} text={entity.name} />],
          alerts.length === 1 && ["value", visible(alerts[0]?.value ?? "")],
          ...Object.entries(labels)
            .filter(([name]) => name !== "alertname")
            .map(([name, value]) => [visible(name), <SenderText text={value} />] as const),
        ]}
      />
    </Card>
  );
}

export function Notified({ data: { alerts, routed, deliveries, channels } }: { data: AlertData }) {
  const receivers = [...new Set(routed.flatMap((alert) => alert.receivers.map(({ name }) => name)))];
  return (
    <Card title="Notified">
      <p>
        {receivers.length > 0 ? (
          <SenderText text={receivers.join(", ")} />
        ) : alerts.length > 0 ? (
          <span class="is-warn">
            No channel: <a href={address("alerts", { view: "routes" })}>open the routes</a>
          </span>
        ) : (
          <span class="quiet">The alert has ended.</span>
        )}
      </p>
      {deliveries.length > 0 && (
        <Table
          title="Messages about this rule, newest first"
          rows={deliveries.slice(0, MAX_DELIVERIES)}
          columns={[
            { head: "time", kind: "timestamp", cell: ({ created_at: at }) => timestampText(at) },
            { head: "channel", cell: ({ channel_id: id }) => channels.get(id) ?? "removed channel" },
            {
              head: "state",
              cell: (delivery) => (
                <>
                  <DeliveryState of={delivery} /> <DeliveryError of={delivery} />
                </>
              ),
            },
          ]}
        />
      )}
    </Card>
  );
}

export function SameRule({ alerts, atMs }: { alerts: readonly Alert[]; atMs: number }) {
  const common = commonLabels(alerts) ?? {};
  const differing = ({ labels }: Alert): string =>
    Object.entries(labels)
      .filter(([name]) => common[name] === undefined)
      .map(([name, value]) => `${name}=${value}`)
      .join(", ");
  return (
    <Card title="Alerts of this rule">
      <Table
        title="Alerts of this rule"
        rows={alerts}
        keyOf={({ labels }) => labelsKey(labels)}
        columns={[
          {
            head: "alert",
            kind: "name",
            cell: (alert) => (
              <NameLink
                href={alertAddress({ ruleId: alert.rule_id, labels: alert.labels, startsAt: alert.activeAt })}
                text={differing(alert) || alert.labels["alertname"] || "alert"}
              />
            ),
          },
          { head: "state", cell: ({ state }) => <Chip tone={state === "firing" ? "error" : "warn"} text={state} /> },
          { head: "value", kind: "number", cell: ({ value }) => Number(Number(value).toPrecision(4)).toLocaleString("en") },
          { head: "since", kind: "timestamp", cell: ({ activeAt }) => ago(activeAt, atMs) },
        ]}
      />
    </Card>
  );
}

export function Evidence({ rule, labels, requestKey, range }: RangeProps & { rule: Rule; requestKey: string }) {
  const entity = findAlertEntity(labels);
  const service = labels["service_name"] ?? labels["service"] ?? labels["source"];
  const counted = rule.logs?.filter?.query;
  const logs = counted || (entity ? logQuery(entity) : service && formatTerm({ not: false, name: "source", value: service }));
  const traces = entity ? traceQuery(entity) : service && formatAttribute("service.name", service);
  if (!logs && !traces) return <p class="quiet">The labels name no service, pod, node or host, so there are no logs to show.</p>;
  return (
    <>
      {logs && (
        <Card title="Logs of that time" label="Logs" href={address("logs", { q: logs, ...range })}>
          <LogList query={logs} requestKey={`${requestKey} ${logs}`} />
        </Card>
      )}
      {traces && (
        <Card
          title="Slowest traces of that time"
          label="Traces"
          href={address("traces", { attributes: traces, sort: "slowest", ...range })}
        >
          <TraceList query={traces} requestKey={`${requestKey} ${traces}`} />
        </Card>
      )}
    </>
  );
}
