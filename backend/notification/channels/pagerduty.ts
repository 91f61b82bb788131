// Formats a message as an event of PagerDuty's Events API v2. Invariants: all events of a group have the same `dedup_key`, so that a
// resolved message closes the incident that the firing one opened; a heartbeat is sent as a change event, which pages no one.
import { createHash } from "node:crypto";
import { MAX_DEDUP_KEY_LENGTH, MAX_SUMMARY_LENGTH } from "../notification-limits.ts";
import {
  remainderText,
  alertTexts,
  consoleLinks,
  oneLine,
  type CustomTexts,
  highestSeverity,
  SHOWN_ALERTS,
  SHOWN_LABELS,
  defaultTitle,
} from "./message-template.ts";
import type { Message } from "../model/message.ts";

export interface PagerDutyChannel {
  readonly routingKey: string;
  readonly region: "us" | "eu";
  readonly custom?: CustomTexts;
}

export function pagerDutyEvent(
  message: Message,
  { routingKey, region, custom = {} }: PagerDutyChannel,
): { readonly url: URL; readonly body: string } {
  const origin = region === "eu" ? "https://events.eu.pagerduty.com" : "https://events.pagerduty.com";
  const summary = custom.title === undefined ? defaultTitle(message, MAX_SUMMARY_LENGTH) : oneLine(custom.title, MAX_SUMMARY_LENGTH);
  const source = oneLine(message.org.name, 200) || "atherops";
  const links = consoleLinks(message);
  if (message.purpose === "heartbeat") {
    const body = { routing_key: routingKey, payload: { summary, source }, links };
    return { url: new URL("/v2/change/enqueue", origin), body: JSON.stringify(body) };
  }
  const isFiring = message.status === "firing";
  const body = {
    routing_key: routingKey,
    event_action: isFiring ? "trigger" : "resolve",
    dedup_key: toDedupKey(message.groupKey),
    ...(isFiring && {
      payload: buildPayload(message, { summary, source, text: custom.text }),
      client: "AtherOps",
      client_url: links[0]?.href,
      links,
    }),
  };
  return { url: new URL("/v2/enqueue", origin), body: JSON.stringify(body) };
}

function buildPayload(message: Message, { summary, source, text }: { summary: string; source: string; text: string | undefined }): object {
  const alerts = message.alerts.slice(0, SHOWN_ALERTS).map((alert) => {
    const { summary: alertSummary, labels, description } = alertTexts(alert, message);
    return { status: alert.status, summary: alertSummary, labels, description };
  });
  return {
    summary,
    source,
    severity: highestSeverity(message),
    timestamp: message.alerts[0]?.startsAt,
    group: oneLine(message.groupKey, 200),
    custom_details: { text, labels: shortenLabels(message.commonLabels), alerts, more: remainderText(message) },
  };
}

function shortenLabels(labels: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(labels)
      .slice(0, SHOWN_LABELS)
      .map(([name, value]) => [oneLine(name, 200), oneLine(value, 300)]),
  );
}

function toDedupKey(groupKey: string): string {
  return groupKey.length <= MAX_DEDUP_KEY_LENGTH ? groupKey : createHash("sha256").update(groupKey).digest("hex");
}
