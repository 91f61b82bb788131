// The texts of a message: the default ones, which each kind of channel escapes in its own way, and an organisation's own templates with
// placeholders, `{{ labels.team }}`, and a part repeated for each alert, `{{#alerts}} … {{/alerts}}`. Invariants: a value becomes one line
// without control characters, of limited length, and is never parsed as a template; a character is never cut in half; a template is data
// and can only name existing fields; the result is limited. Template libraries were rejected: they read any path of an object, include
// other templates, call functions, and have no limits.
import { alertAddress, type AlertIdentity } from "../../client/alert-address.ts";
import { consoleAddress } from "../../client/console-address.ts";
import {
  MAX_MESSAGE_TEXT_LENGTH,
  MAX_MESSAGE_VALUE_LENGTH,
  MAX_TEMPLATE_PLACEHOLDERS,
  MAX_TEMPLATE_VALUE_LENGTH,
} from "../notification-limits.ts";
import type { Message, MessageAlert } from "../model/message.ts";

/** Limits of every text for people; the webhook contains all alerts and labels. */
export const SHOWN_ALERTS = 10;
export const SHOWN_LABELS = 40;
/** Characters that receivers do not show, or that change the text around them: controls, and characters that change the direction. */
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]+/g;

/** Converts to one line of at most `maxLength` characters. */
export function oneLine(text: string, maxLength: number): string {
  return truncate(text.replace(UNPRINTABLE, " ").toWellFormed().trim(), maxLength);
}

/** The beginning of the text, with an ellipsis if it has more than `maxLength` characters. A link at its end is left out. */
export function truncate(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text;
  const cut = text.slice(0, maxLength - 1);
  return `${withoutLastLink(cut.isWellFormed() ? cut : cut.slice(0, -1))}…`;
}

/** Removes a link at the end of a text that was cut: the link may be incomplete, and an ellipsis would become part of it. */
export function withoutLastLink(text: string): string {
  const [link = ""] = /https?:\/\/\S*$/.exec(text.slice(Math.max(0, text.lastIndexOf("://") - "https".length))) ?? [];
  return text.slice(0, text.length - link.length);
}

/** Such as `[FIRING:2] HighLoad (team=web)`; at most `maxLength` characters. */
export function defaultTitle(message: Message, maxLength = 200): string {
  const { purpose, status, alerts, truncatedAlerts, groupLabels, commonLabels, org, receiver } = message;
  if (purpose === "heartbeat") return oneLine(`[ALIVE] Alerting of ${org.name} is alive`, maxLength);
  const firing = alerts.filter((alert) => alert.status === "firing").length + truncatedAlerts;
  const head = purpose === "test" ? "[TEST]" : status === "firing" ? `[FIRING:${firing}]` : "[RESOLVED]";
  const name = commonLabels["alertname"] ?? groupLabels["alertname"] ?? `Alerts of ${org.name}`;
  const others = Object.entries(groupLabels).filter(([label]) => label !== "alertname" && label !== "rule_id");
  const labels = others.length === 0 ? "" : ` (${others.map(([label, value]) => `${label}=${value}`).join(", ")})`;
  return oneLine(`${head} ${purpose === "test" ? `Test of the channel ${receiver}` : name}${labels}`, maxLength);
}

/** Texts of one alert: its summary, or otherwise its name; the labels that not all alerts share; its description. */
export function alertTexts(alert: MessageAlert, { commonLabels }: Message): { summary: string; labels: string; description: string } {
  const { labels, annotations } = alert;
  const differing = Object.entries(labels).filter(([label, value]) => label !== "alertname" && commonLabels[label] !== value);
  return {
    summary: oneLine(annotations["summary"] ?? labels["alertname"] ?? "alert", MAX_MESSAGE_VALUE_LENGTH),
    labels: oneLine(differing.map(([label, value]) => `${label}=${value}`).join(", "), MAX_MESSAGE_VALUE_LENGTH),
    description: oneLine(annotations["description"] ?? "", MAX_MESSAGE_VALUE_LENGTH),
  };
}

/** A paragraph for each alert of the default text, and the number of omitted alerts. */
export function alertParagraphs(message: Message): string[] {
  const shown = message.alerts.slice(0, SHOWN_ALERTS).map((alert) => {
    const { summary, labels, description } = alertTexts(alert, message);
    const head = message.status === "firing" && alert.status === "resolved" ? `resolved: ${summary}` : summary;
    return [head, labels, description].filter(Boolean).join("\n");
  });
  const remainder = remainderText(message);
  return remainder === undefined ? shown : [...shown, remainder];
}

/** The sentence at the end of a message that does not show all alerts. */
export function remainderText({ alerts, truncatedAlerts }: Message): string | undefined {
  const more = Math.max(0, alerts.length - SHOWN_ALERTS) + truncatedAlerts;
  return more > 0 ? `and ${more} more` : undefined;
}

/** Link to the page of an alert, or to all alerts; undefined if the address of the console is not configured. */
export function alertLink({ externalUrl }: Pick<Message, "externalUrl">, alert: AlertIdentity | undefined): string | undefined {
  if (externalUrl === "") return undefined;
  return `${externalUrl.replace(/\/+$/, "")}/${alert ? alertAddress(alert) : "#/alerts"}`;
}

/** Link to the page of the alerts of a message, if they share a rule; otherwise to all alerts. */
export function consoleLink(message: Message): string | undefined {
  const ruleId = commonRule(message);
  const startsAt = message.alerts.map((alert) => alert.startsAt).toSorted()[0] ?? "";
  return alertLink(message, ruleId === undefined ? undefined : { ruleId, labels: message.commonLabels, startsAt });
}

/** Link to what changed in the hour around the start of the first alert; undefined without alerts, or if the address is not configured. */
export function changesLink({ externalUrl, purpose, alerts }: Pick<Message, "externalUrl" | "purpose" | "alerts">): string | undefined {
  const startMs = Math.min(...alerts.map(({ startsAt }) => Date.parse(startsAt)));
  if (externalUrl === "" || purpose !== "alerts" || !Number.isFinite(startMs)) return undefined;
  const [from, to] = [startMs - 50 * 60_000, startMs + 10 * 60_000].map((ms) => new Date(ms).toISOString());
  return `${externalUrl.replace(/\/+$/, "")}/${consoleAddress("changes", { from, to })}`;
}

/** Both links with their texts; none if the address of the console is not configured. */
export function consoleLinks(message: Message): { readonly href: string; readonly text: string }[] {
  const [console, changes] = [consoleLink(message), changesLink(message)];
  return [
    ...(console === undefined ? [] : [{ href: console, text: "Console" }]),
    ...(changes === undefined ? [] : [{ href: changes, text: "What changed" }]),
  ];
}

/** The rule of all alerts of the message, if they share one. */
export function commonRule({ alerts }: Message): string | undefined {
  const rules = new Set(alerts.map(({ ruleId }) => ruleId));
  return rules.size === 1 ? [...rules][0] : undefined;
}

/** The highest severity of its firing alerts; if none fires, of all alerts. */
export function highestSeverity({ alerts }: Message): "critical" | "warning" | "info" {
  const firing = alerts.filter(({ status }) => status === "firing");
  const severities = new Set((firing.length > 0 ? firing : alerts).map(({ labels }) => labels["severity"]));
  return severities.has("critical") ? "critical" : severities.has("warning") ? "warning" : "info";
}

/** Texts that replace a channel's default ones. */
export interface CustomTexts {
  readonly title?: string | undefined;
  readonly text?: string | undefined;
}

type Texts = Readonly<Record<string, string>>;
/** Values of a message, or of one of its alerts. */
interface Scope {
  readonly values: Texts;
  readonly labels: Texts;
  readonly annotations: Texts;
}
type Part = string | { readonly name: string } | { readonly each: readonly Part[] };

const LINK_VALUES = ["url", "changes_url"];
const MESSAGE_VALUES = ["status", "count", "title", "organisation", "channel", ...LINK_VALUES];
const ALERT_VALUES = ["status", "starts_at", "ends_at"];
const NAMED = /^(?:labels|annotations)\.[a-zA-Z_][a-zA-Z0-9_]*$/;
/** Controls except tab and line feed, and characters that change the direction of text; a template must not contain them. */
const NOT_ALLOWED = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/;

/** Why it is not a valid template for a title or a text; undefined if it is. */
export function findTemplateProblem(template: string, field: "title" | "text"): string | undefined {
  const read = parseTemplate(template, field);
  return typeof read === "string" ? read : undefined;
}

/** Renders a channel's own templates. Undefined for heartbeats, and for a template that cannot be parsed. */
export function renderTemplates({ title, text }: Readonly<Record<string, unknown>>, message: Message): CustomTexts {
  if (message.purpose === "heartbeat") return {};
  const render = (template: unknown, field: "title" | "text"): string | undefined => {
    const read = typeof template === "string" ? parseTemplate(template, field) : undefined;
    // An empty text, for example because labels are missing, is useless, and PagerDuty refuses it.
    return read === undefined || typeof read === "string" ? undefined : renderParts(read, message) || undefined;
  };
  const customTitle = render(title, "title");
  // The prefix shows readers that nothing is wrong.
  return {
    title: customTitle !== undefined && message.purpose === "test" ? `[TEST] ${customTitle}` : customTitle,
    text: render(text, "text"),
  };
}

/** The parts of a template, or why it is invalid. */
function parseTemplate(template: string, field: "title" | "text"): readonly Part[] | string {
  if (NOT_ALLOWED.test(template) || !template.isWellFormed()) return "contains a control character";
  const pieces = template.split(/\{\{([^{}]*)\}\}/);
  if (pieces.length > 2 * MAX_TEMPLATE_PLACEHOLDERS + 1) return `has more than ${MAX_TEMPLATE_PLACEHOLDERS} placeholders`;
  const all: Part[] = [];
  let each: Part[] | undefined;
  for (const [index, piece] of pieces.entries()) {
    const into = each ?? all;
    if (index % 2 === 0) {
      if (/\{\{|\}\}/.test(piece)) return "has {{ or }} without the other: write {{ labels.team }}";
      into.push(piece);
      continue;
    }
    const name = piece.trim();
    if (name === "#alerts") {
      if (field === "title") return "{{#alerts}} is allowed only in the text";
      if (each) return "has {{#alerts}} in {{#alerts}}";
      each = [];
    } else if (name === "/alerts") {
      if (!each) return "has {{/alerts}} without {{#alerts}}";
      all.push({ each });
      each = undefined;
    } else {
      const known = each ? ALERT_VALUES : MESSAGE_VALUES;
      if (!known.includes(name) && !NAMED.test(name)) return describeUnknown(name, known, each !== undefined);
      into.push({ name });
    }
  }
  return each ? "has {{#alerts}} without {{/alerts}}" : all;
}

function describeUnknown(name: string, known: readonly string[], isInList: boolean): string {
  const where = isInList ? " in {{#alerts}}" : "";
  return `unknown placeholder {{ ${oneLine(name, 60)} }}${where}: use ${known.join(", ")}, labels.<name> or annotations.<name>`;
}

function renderParts(read: readonly Part[], message: Message): string {
  const shown = message.alerts.slice(0, SHOWN_ALERTS).map(alertScope);
  const common = messageScope(message);
  let text = "";
  const add = (part: string | { readonly name: string }, scope: Scope): void => {
    // Values are read only while there is space, because a template may refer to 100 values of each alert.
    if (text.length <= MAX_MESSAGE_TEXT_LENGTH) text += typeof part === "string" ? part : valueOf(part.name, scope);
  };
  for (const part of read) {
    if (!isList(part)) add(part, common);
    else for (const alert of shown) for (const inner of part.each) if (!isList(inner)) add(inner, alert);
  }
  return text.length <= MAX_MESSAGE_TEXT_LENGTH ? text.trim() : truncate(text, MAX_MESSAGE_TEXT_LENGTH);
}

function isList(part: Part): part is { readonly each: readonly Part[] } {
  return typeof part === "object" && "each" in part;
}

/** Returns an empty string if the value is missing. */
function valueOf(name: string, { values, labels, annotations }: Scope): string {
  const [first = "", ...rest] = name.split(".");
  const from = rest.length === 0 ? values : first === "labels" ? labels : annotations;
  const key = rest.length === 0 ? first : rest.join(".");
  const maxLength = LINK_VALUES.includes(name) ? Number.POSITIVE_INFINITY : MAX_TEMPLATE_VALUE_LENGTH;
  return Object.hasOwn(from, key) ? oneLine(from[key] ?? "", maxLength) : "";
}

/** Labels and annotations that all alerts of the message share. */
function messageScope(message: Message): Scope {
  const { status, alerts, truncatedAlerts, org, receiver, commonLabels, commonAnnotations } = message;
  const same = alerts.filter((alert) => alert.status === status).length;
  const values = {
    status,
    count: String(same + truncatedAlerts),
    title: defaultTitle(message),
    organisation: org.name,
    channel: receiver,
    url: consoleLink(message) ?? "",
    changes_url: changesLink(message) ?? "",
  };
  return { values, labels: commonLabels, annotations: commonAnnotations };
}

function alertScope({ status, startsAt, endsAt, labels, annotations }: MessageAlert): Scope {
  return { values: { status, starts_at: startsAt, ends_at: endsAt ?? "" }, labels, annotations };
}
