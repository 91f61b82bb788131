// The alerts that fire now, and the line at the top of the page of a service, host or pod that lists those about it.
import type { ApiResponses } from "../../client/api.ts";
import { visible } from "../parts/text.ts";
import { call } from "../state/api.ts";
import { address } from "../state/route.ts";

type Alerts = ApiResponses["GET /query/prometheus/api/v1/alerts"];
export type FiringAlert = Alerts["data"]["alerts"][number];

export async function readFiring(signal: AbortSignal): Promise<FiringAlert[]> {
  const { data } = await call<Alerts>("/query/prometheus/api/v1/alerts", { signal });
  return data.alerts.filter(({ state }) => state === "firing");
}

export function FiringLinks({ alerts }: { alerts: readonly FiringAlert[] }) {
  if (alerts.length === 0) return null;
  return (
    <p role="status">
      <strong class="level is-error">Firing: </strong>
      {alerts.map(({ labels }, at) => (
        <a href={address("alerts", { view: "firing" })} key={at}>
          <bdi>{visible(labels["alertname"] ?? "alert")}</bdi>{" "}
        </a>
      ))}
    </p>
  );
}
