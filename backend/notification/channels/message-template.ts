// Words of an organisation's own for a channel: a title and a text with places for values, `{{ labels.team }}`, and a part that is repeated
// for each alert, `{{#alerts}} … {{/alerts}}`. Invariants: a template is data, never code: it names what there is, and nothing else; a
// value is one line of bounded length, whatever is in it, and is never read as a template again; what is made has a bound.
// No library of templates: those that there are find values by any path of an object, include others, call what they find, and have no bound.
import { MAX_MESSAGE_TEXT_LENGTH, MAX_TEMPLATE_PLACEHOLDERS, MAX_TEMPLATE_VALUE_LENGTH } from "../limits.ts";
import { linkTo, oneLine, ruleOf, SHOWN_ALERTS, titleOf } from "./message-text.ts";
import type { Message, MessageAlert } from "../model/message.ts";

const CUT = "…";

/** What a channel says instead of the words that all have. */
export interface OwnWords {
  readonly title?: string | undefined;
  readonly text?: string | undefined;
}

type Texts = Readonly<Record<string, string>>;
/** Of a message, or of one of its alerts. */
interface Scope {
  readonly values: Texts;
  readonly labels: Texts;
  readonly annotations: Texts;
}
type Part = string | { readonly name: string } | { readonly each: readonly Part[] };

const OF_MESSAGE = ["status", "count", "title", "organisation", "channel", "url"];
const OF_ALERT = ["status", "starts_at", "ends_at"];
const NAMED = /^(?:labels|annotations)\.[a-zA-Z_][a-zA-Z0-9_]*$/;
/** Controls but for tab and line feed, and what turns the direction of writing round: of the template itself, too. */
const UNFIT = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/;

/** Why it cannot be a template of a title or a text; undefined where it can. */
export function whyNoTemplate(template: string, place: "title" | "text"): string | undefined {
  const read = parts(template, place);
  return typeof read === "string" ? read : undefined;
}

/** The message text of a channel's template. Undefined for heartbeats, and for a template that cannot be parsed. */
export function ownWords({ title, text }: Readonly<Record<string, unknown>>, message: Message): OwnWords {
  if (message.purpose === "heartbeat") return {};
  const made = (template: unknown, place: "title" | "text"): string | undefined => {
    const read = typeof template === "string" ? parts(template, place) : undefined;
    // An empty text, for example because labels are missing, says nothing, and PagerDuty refuses it.
    return read === undefined || typeof read === "string" ? undefined : rendered(read, message) || undefined;
  };
  const own = made(title, "title");
  // Readers must know that nothing is wrong.
  return { title: own !== undefined && message.purpose === "test" ? `[TEST] ${own}` : own, text: made(text, "text") };
}

/** Its parts, or why there are none. */
function parts(template: string, place: "title" | "text"): readonly Part[] | string {
  if (UNFIT.test(template) || !template.isWellFormed()) return "holds a character that is no text";
  const pieces = template.split(/\{\{([^{}]*)\}\}/);
  if (pieces.length > 2 * MAX_TEMPLATE_PLACEHOLDERS) return `has more than ${MAX_TEMPLATE_PLACEHOLDERS} places in {{ }}`;
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
      if (place === "title") return "is one line: {{#alerts}} is for a text";
      if (each) return "has {{#alerts}} in {{#alerts}}";
      each = [];
    } else if (name === "/alerts") {
      if (!each) return "has {{/alerts}} without {{#alerts}}";
      all.push({ each });
      each = undefined;
    } else {
      const known = each ? OF_ALERT : OF_MESSAGE;
      if (!known.includes(name) && !NAMED.test(name)) return whyUnknown(name, known, each !== undefined);
      into.push({ name });
    }
  }
  return each ? "has {{#alerts}} without {{/alerts}}" : all;
}

function whyUnknown(name: string, known: readonly string[], isInList: boolean): string {
  const where = isInList ? " in {{#alerts}}" : "";
  return `{{ ${oneLine(name, 60)} }} is nothing that there is${where}: ${known.join(", ")}, labels.<name>, annotations.<name>`;
}

function rendered(read: readonly Part[], message: Message): string {
  const shown = message.alerts.slice(0, SHOWN_ALERTS).map(ofAlert);
  const whole = ofMessage(message);
  let text = "";
  const add = (part: string | { readonly name: string }, scope: Scope): void => {
    // Values are read only while there is space: a template names up to 100 of each alert.
    if (text.length <= MAX_MESSAGE_TEXT_LENGTH) text += typeof part === "string" ? part : valueOf(part.name, scope);
  };
  for (const part of read) {
    if (!isList(part)) add(part, whole);
    else for (const alert of shown) for (const inner of part.each) if (!isList(inner)) add(inner, alert);
  }
  if (text.length <= MAX_MESSAGE_TEXT_LENGTH) return text.trim();
  const cut = text.slice(0, MAX_MESSAGE_TEXT_LENGTH - CUT.length);
  return `${cut.isWellFormed() ? cut : cut.slice(0, -1)}${CUT}`;
}

function isList(part: Part): part is { readonly each: readonly Part[] } {
  return typeof part === "object" && "each" in part;
}

/** Empty where there is none. */
function valueOf(name: string, { values, labels, annotations }: Scope): string {
  const [first = "", ...rest] = name.split(".");
  const from = rest.length === 0 ? values : first === "labels" ? labels : annotations;
  const key = rest.length === 0 ? first : rest.join(".");
  return Object.hasOwn(from, key) ? oneLine(from[key] ?? "", MAX_TEMPLATE_VALUE_LENGTH) : "";
}

/** Labels and annotations are those that all its alerts have. */
function ofMessage(message: Message): Scope {
  const { status, alerts, truncatedAlerts, org, receiver, commonLabels, commonAnnotations } = message;
  const same = alerts.filter((alert) => alert.status === status).length;
  const values = {
    status,
    count: String(same + truncatedAlerts),
    title: titleOf(message),
    organisation: org.name,
    channel: receiver,
    url: linkTo(message, ruleOf(message)) ?? "",
  };
  return { values, labels: commonLabels, annotations: commonAnnotations };
}

function ofAlert({ status, startsAt, endsAt, labels, annotations }: MessageAlert): Scope {
  return { values: { status, starts_at: startsAt, ends_at: endsAt ?? "" }, labels, annotations };
}
