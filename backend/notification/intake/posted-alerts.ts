// Parses what the evaluator posts: a JSON array of alerts, of one or several rules. Invariants: an alert's organisation and rule come from
// labels that our own rule groups set last, so that no tenant can forge them; stored text is limited here.
import { hash } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import { shownAnnotations } from "../../alerting/alert-annotations.ts";
import { ApiError } from "../../errors.ts";
import {
  MAX_ALERT_ANNOTATIONS,
  MAX_ALERT_ANNOTATION_LENGTH,
  MAX_ALERT_BYTES,
  MAX_ALERT_LABELS,
  MAX_ALERT_LABEL_LENGTH,
} from "../notification-limits.ts";

export interface PostedAlert {
  readonly orgId: string;
  readonly ruleId: string;
  readonly fingerprint: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** Size of labels and annotations as JSON. */
  readonly bytes: number;
  readonly startsAt: Date;
  /** In the past: the alert has ended. In the future: it fires until then unless the evaluator sends it again. */
  readonly endsAt: Date | undefined;
}

/** Parsed in one step, during which other requests wait. */
const STEP_BYTES = 64 * 1024;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
/** Labels that the server sets; they are not shown. */
const OWN_LABELS = new Set(["org_id", "rule_id", "alertgroup"]);

/** Labels that most routes use: if there are too many labels, these are kept. */
const PRIORITY_LABELS = new Set(["alertname", "severity"]);

/** This and lower bytes are white space in JSON. */
const SPACE = 0x20;
const [QUOTE, BACKSLASH, OPEN, CLOSE, OPEN_ARRAY] = Array.from('"\\{}[', (character) => character.charCodeAt(0));

/** The objects of a JSON array, in steps; between steps, other requests are processed. Throws ApiError `malformed_body`. */
export async function* splitAlerts(body: Buffer): AsyncGenerator<unknown[]> {
  let at = 0;
  while ((body[at] ?? 0) <= SPACE && at < body.length) at += 1;
  if (body[at] !== OPEN_ARRAY) throw malformed("expected an array of alerts");
  let [depth, first, last, isText] = [0, -1, 0, false];
  for (at += 1; at < body.length; at += 1) {
    const byte = body[at];
    if (isText) {
      if (byte === BACKSLASH) at += 1;
      else if (byte === QUOTE) isText = false;
    } else if (byte === QUOTE) isText = true;
    else if (byte === OPEN && depth++ === 0 && first < 0) first = at;
    else if (byte === CLOSE && --depth === 0) {
      last = at + 1;
      if (last - first < STEP_BYTES) continue;
      yield parse(body, first, last);
      first = -1;
      await nextTurn();
    }
    if (first >= 0 && at - Math.max(first, last) > MAX_ALERT_BYTES) throw malformed("an alert is too large");
  }
  if (depth !== 0) throw malformed("the array of alerts is incomplete");
  if (first >= 0) yield parse(body, first, last);
}

function parse(body: Buffer, from: number, to: number): unknown[] {
  try {
    return JSON.parse(`[${body.toString("utf8", from, to)}]`) as unknown[];
  } catch (cause) {
    throw new ApiError("malformed_body", "the body is not JSON", { cause });
  }
}

function malformed(reason: string): ApiError {
  return new ApiError("malformed_body", reason);
}

/** Undefined if it is not an alert of one of our rules. */
export function readAlert(value: unknown): PostedAlert | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { labels, annotations, startsAt, endsAt } = value as Record<string, unknown>;
  const allLabels = readTexts(labels);
  const { org_id: orgId = "", rule_id: ruleId = "" } = allLabels;
  const started = parseTime(startsAt);
  if (!UUID.test(orgId) || !UUID.test(ruleId) || !started) return undefined;
  const shown = Object.entries(allLabels)
    .filter(([name]) => !OWN_LABELS.has(name))
    .toSorted(([a], [b]) => Number(PRIORITY_LABELS.has(b)) - Number(PRIORITY_LABELS.has(a)) || (a < b ? -1 : 1));
  const fingerprint = hash("sha256", JSON.stringify([ruleId, shown]), "hex").slice(0, 16);
  const texts = Object.entries(shownAnnotations(readTexts(annotations)));
  const stored = {
    labels: limitLabels(shown, MAX_ALERT_LABELS, MAX_ALERT_LABEL_LENGTH),
    annotations: limitLabels(texts, MAX_ALERT_ANNOTATIONS, MAX_ALERT_ANNOTATION_LENGTH),
  };
  return {
    orgId,
    ruleId,
    fingerprint,
    ...stored,
    bytes: Buffer.byteLength(JSON.stringify(stored)),
    startsAt: started,
    endsAt: parseTime(endsAt),
  };
}

function readTexts(value: unknown): Record<string, string> {
  if (typeof value !== "object" || value === null) return {};
  return Object.fromEntries(Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === "string"));
}

/** Truncates longer texts, with a mark. Removes characters that PostgreSQL's JSON does not accept. */
function limitLabels(entries: readonly (readonly [string, string])[], maxEntries: number, maxLength: number): Record<string, string> {
  return Object.fromEntries(entries.slice(0, maxEntries).map(([name, text]) => [clean(name, 128), clean(text, maxLength)]));
}

function clean(text: string, maxLength: number): string {
  const short = text.length > maxLength ? `${text.slice(0, maxLength - 1)}…` : text;
  return short.replaceAll("\0", "").toWellFormed();
}

function parseTime(value: unknown): Date | undefined {
  const date = typeof value === "string" ? new Date(value) : undefined;
  // Go's zero time means that there is no time.
  return date && date.getTime() > 0 ? date : undefined;
}
