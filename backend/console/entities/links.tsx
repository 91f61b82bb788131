// Links pages about one resource: from a field of a record or span to the page of the pod, node or service that it names, and from that
// page to the firing alerts about it.
import { address, route } from "../state/route.ts";
import { type Entity, entityAddress } from "./entity.ts";
import { alertAddress } from "../../client/alert-address.ts";
import type { ApiResponses } from "../../client/api.ts";
import { visible } from "../parts/text.ts";
import { call } from "../state/api.ts";

export function EntityLink({ entity }: { entity: Entity | undefined }) {
  if (!entity) return null;
  const { from, to } = Object.fromEntries(route.value.query);
  return (
    <a class="only" href={entityAddress(entity, { from, to })} aria-label={`Open ${entity.kind} ${entity.name.slice(0, 60)}`}>
      {entity.kind}
    </a>
  );
}

export function ServiceLink({ service }: { service: string }) {
  const { from, to } = Object.fromEntries(route.value.query);
  return (
    <a class="only" href={address("services", { from, to }, service)} aria-label={`Open service ${service.slice(0, 60)}`}>
      service
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
