// The webhook of a channel: the body of Alertmanager's webhook, version 4, with our own fields, signed according to Standard Webhooks
// (https://www.standardwebhooks.com), so that a receiver can verify the sender and detect a repetition. Invariants: each field has the
// meaning of Alertmanager's documentation; a secret is random; while it is rotated, messages carry a signature of both secrets.
import { alertLink, changesLink, commonRule, consoleLink } from "./message-template.ts";
import type { Message } from "../model/message.ts";
import { createHmac, randomBytes } from "node:crypto";

/** Go's zero time: Alertmanager's value for an alert that has not ended. */
const NOT_YET = "0001-01-01T00:00:00Z";

export function webhookBody(message: Message): string {
  const { org, purpose, receiver, status, groupKey, groupLabels, commonLabels, commonAnnotations, truncatedAlerts, externalUrl } = message;
  const rule = commonRule(message);
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
      generatorURL: alertLink(message, { ruleId, labels, startsAt }) ?? "",
      fingerprint,
    })),
    atherops: { purpose, org, rule_id: rule ?? null, url: consoleLink(message) ?? null, changes_url: changesLink(message) ?? null },
  });
}

const PREFIX = "whsec_";
const SECRET_BYTES = 32;
/** Limits of the specification. */
const [MIN_SECRET_BYTES, MAX_SECRET_BYTES] = [24, 64];

/** `whsec_` and 32 random bytes in base64. */
export function newSigningSecret(): string {
  return PREFIX + randomBytes(SECRET_BYTES).toString("base64");
}

/** Headers of one attempt. `id` is the same for all attempts, so that a receiver can ignore repetitions. */
export function signatureHeaders(
  body: string,
  { id, secrets, atMs }: { id: string; secrets: readonly string[]; atMs: number },
): Record<string, string> {
  const timestamp = String(Math.floor(atMs / 1000));
  const signed = `${id}.${timestamp}.${body}`;
  const signatures = secrets.map((secret) => `v1,${createHmac("sha256", keyOf(secret)).update(signed).digest("base64")}`);
  return { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signatures.join(" ") };
}

function keyOf(secret: string): Buffer {
  const key = Buffer.from(secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : "", "base64");
  // A key of another length is not one of our secrets, and could be weak.
  if (key.length < MIN_SECRET_BYTES || key.length > MAX_SECRET_BYTES) throw new Error("not a signing secret");
  return key;
}
