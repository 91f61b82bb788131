// A message as Alertmanager's webhook has it, version 4, which receivers of alerts know, and our own fields. Invariant: what
// Alertmanager's documents say of a field is so.
import { linkTo, ruleOf } from "./message-text.ts";
import type { Message } from "../model/message.ts";

/** Go's zero time: Alertmanager's word for an alert that has not ended. */
const NOT_YET = "0001-01-01T00:00:00Z";

export function webhookBody(message: Message): string {
  const { org, purpose, receiver, status, groupKey, groupLabels, commonLabels, commonAnnotations, truncatedAlerts, externalUrl } = message;
  const rule = ruleOf(message);
  return JSON.stringify({
    version: "4",
    groupKey,
    truncatedAlerts,
    status,
    receiver,
    groupLabels,
    commonLabels,
    commonAnnotations,
    externalURL: externalUrl,
    alerts: message.alerts.map(({ status: state, labels, annotations, startsAt, endsAt, fingerprint, ruleId }) => ({
      status: state,
      labels,
      annotations,
      startsAt,
      endsAt: endsAt ?? NOT_YET,
      generatorURL: linkTo(message, ruleId) ?? "",
      fingerprint,
    })),
    atherops: { purpose, org, rule_id: rule ?? null, url: linkTo(message, rule) ?? null },
  });
}
