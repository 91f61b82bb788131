// A message to a channel, and what became of it.
import type { ApiResponses } from "../../client/api.ts";
import { visible } from "../parts/text.ts";

export const DELIVERIES = "/alerting/deliveries";

export type Delivery = ApiResponses["GET /alerting/deliveries"][number];

export const STATES = ["delivered", "pending", "failed"] as const;

const COLOUR = { delivered: "is-good", pending: "is-warn", failed: "is-error" } as const;

export function DeliveryState({ of: { status } }: { of: Pick<Delivery, "status"> }) {
  return <span class={`level ${COLOUR[status]}`}>{status}</span>;
}

/** What the receiver said at the last attempt, where that was no success. */
export function DeliveryError({ of: { error } }: { of: Pick<Delivery, "error"> }) {
  if (!error) return null;
  return (
    <span class="problem">
      <bdi>{visible(error)}</bdi>
    </span>
  );
}
