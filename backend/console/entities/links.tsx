// Links pages about one resource: from a field of a record or span to the page of the pod, node or service that it names, and from that
// page to the firing alerts about it.
import { address, route, call, type AddressRange } from "../state/index.ts";
import { type Entity, entityAddress } from "./entity.ts";
import { alertAddress } from "../../client/alert-address.ts";
import type { ApiResponses } from "../../client/api.ts";
import { visible } from "../parts/text.ts";

export function EntityLink({ entity }: { entity: Entity | undefined }) {
  return entity ? <PageLink kind={entity.kind} name={entity.name} hrefIn={(range) => entityAddress(entity, range)} /> : null;
}

export function ServiceLink({ service }: { service: string }) {
  return <PageLink kind="service" name={service} hrefIn={(range) => address("services", range, service)} />;
}

/** The page shows the same range. */
function PageLink({ kind, name, hrefIn }: { kind: string; name: string; hrefIn: (range: AddressRange) => string }) {
  const { from, to } = Object.fromEntries(route.value.query);
  return (
    <a class="only" href={hrefIn({ from, to })} aria-label={`Open ${kind} ${name.slice(0, 60)}`}>
      {kind}
    </a>
  );
}

type Alerts = ApiResponses["GET /query/prometheus/api/v1/alerts"];
export type FiringAlert = Alerts["data"]["alerts"][number];

export async function readFiringAlerts(signal: AbortSignal): Promise<FiringAlert[]> {
  const { data } = await call<Alerts>("/query/prometheus/api/v1/alerts", { signal });
  return data.alerts.filter(({ state }) => state === "firing");
}

export function FiringLinks({ alerts }: { alerts: readonly FiringAlert[] }) {
  if (alerts.length === 0) return null;
  return (
    <p role="status">
      <strong class="level is-error">Firing: </strong>
      {alerts.map(({ rule_id: ruleId, labels, activeAt }, at) => (
        <a href={alertAddress({ ruleId, labels, startsAt: activeAt })} key={at}>
          <bdi>{visible(labels["alertname"] ?? "alert")}</bdi>{" "}
        </a>
      ))}
    </p>
  );
}
