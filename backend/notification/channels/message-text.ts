// What people read of a message, in plain words that each kind of channel escapes in its own way. Invariants: a text is one line without
// control characters and has a bound, so that no value of a label adds a header, a paragraph or a megabyte; a character is never halved.
import { MAX_MESSAGE_VALUE_LENGTH } from "../limits.ts";
import type { Message, MessageAlert } from "../model/message.ts";

/** Of all that people are shown; who wants everything takes the webhook. */
export const SHOWN_ALERTS = 10;
export const SHOWN_LABELS = 40;
/** A receiver of these shows none, or other text than it holds: controls, and what turns the direction of writing round. */
const UNFIT = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]+/g;

/** One line of at most `most` characters. */
export function oneLine(text: string, most: number): string {
  const line = text.replace(UNFIT, " ").toWellFormed().trim();
  if (line.length <= most) return line;
  const cut = line.slice(0, most - 1);
  return `${cut.isWellFormed() ? cut : cut.slice(0, -1)}…`;
}

/** As `[FIRING:2] HighLoad (team=web)`; at most `most` characters. */
export function titleOf(message: Message, most = 200): string {
  const { purpose, status, alerts, truncatedAlerts, groupLabels, commonLabels, org, receiver } = message;
  if (purpose === "heartbeat") return oneLine(`[ALIVE] Alerting of ${org.name} is alive`, most);
  const firing = alerts.filter((alert) => alert.status === "firing").length + truncatedAlerts;
  const head = purpose === "test" ? "[TEST]" : status === "firing" ? `[FIRING:${firing}]` : "[RESOLVED]";
  const name = commonLabels["alertname"] ?? groupLabels["alertname"] ?? `Alerts of ${org.name}`;
  const others = Object.entries(groupLabels).filter(([label]) => label !== "alertname" && label !== "rule_id");
  const labels = others.length === 0 ? "" : ` (${others.map(([label, value]) => `${label}=${value}`).join(", ")})`;
  return oneLine(`${head} ${purpose === "test" ? `Test of the channel ${receiver}` : name}${labels}`, most);
}

/** What is said of one alert: its own sentence, else its name; then labels that not all others have too. */
export function linesOf(alert: MessageAlert, { commonLabels }: Message): { summary: string; labels: string; description: string } {
  const { labels, annotations } = alert;
  const own = Object.entries(labels).filter(([label, value]) => label !== "alertname" && commonLabels[label] !== value);
  return {
    summary: oneLine(annotations["summary"] ?? labels["alertname"] ?? "alert", MAX_MESSAGE_VALUE_LENGTH),
    labels: oneLine(own.map(([label, value]) => `${label}=${value}`).join(", "), MAX_MESSAGE_VALUE_LENGTH),
    description: oneLine(annotations["description"] ?? "", MAX_MESSAGE_VALUE_LENGTH),
  };
}

/** The sentence below a message that shows not all. */
export function leftOut({ alerts, truncatedAlerts }: Message): string | undefined {
  const more = Math.max(0, alerts.length - SHOWN_ALERTS) + truncatedAlerts;
  return more > 0 ? `and ${more} more` : undefined;
}

/** The address in the console; undefined if the address of the console is not configured. */
export function linkTo({ externalUrl }: Pick<Message, "externalUrl">, ruleId?: string): string | undefined {
  if (externalUrl === "") return undefined;
  return `${externalUrl.replace(/\/+$/, "")}/#/alerts${ruleId === undefined ? "" : `?rule=${encodeURIComponent(ruleId)}`}`;
}

/** The rule of all alerts of the message, where it is one. */
export function ruleOf({ alerts }: Message): string | undefined {
  const rules = new Set(alerts.map(({ ruleId }) => ruleId));
  return rules.size === 1 ? [...rules][0] : undefined;
}

/** The highest of its firing alerts, else of all. */
export function severityOf({ alerts }: Message): "critical" | "warning" | "info" {
  const firing = alerts.filter(({ status }) => status === "firing");
  const severities = new Set((firing.length > 0 ? firing : alerts).map(({ labels }) => labels["severity"]));
  return severities.has("critical") ? "critical" : severities.has("warning") ? "warning" : "info";
}
