// Parses what the evaluator posts: a JSON array of alerts, of one or several rules. Invariants: an alert's organisation and rule come from
// labels that our own rule groups set last, so that no tenant can forge them; stored text is limited here.
import { createHash } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import { REVISION_ANNOTATION } from "../../alerting/rule.ts";
import { ApiError } from "../../errors.ts";
import {
  MAX_ALERT_ANNOTATIONS,
  MAX_ALERT_ANNOTATION_LENGTH,
  MAX_ALERT_BYTES,
  MAX_ALERT_LABELS,
  MAX_ALERT_LABEL_LENGTH,
} from "../limits.ts";

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
const PIECE_BYTES = 64 * 1024;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
/** Labels that the server sets; they are not shown. */
const OWN_LABELS = new Set(["org_id", "rule_id", "alertgroup"]);

/** Labels that most routes use: if there are too many labels, these are kept. */
const NEEDED = new Set(["alertname", "severity"]);

/** Includes all characters below it. */
const SPACE = 0x20;
const [QUOTE, BACKSLASH, OPEN, CLOSE, OPEN_ARRAY] = Array.from('"\\{}[', (sign) => sign.charCodeAt(0));

/** The objects of a JSON array, in steps; between steps, other requests are processed. Throws ApiError `malformed_body`. */
export async function* splitAlerts(body: Buffer): AsyncGenerator<unknown[]> {
  let at = 0;
  while ((body[at] ?? 0) <= SPACE && at < body.length) at += 1;
  if (body[at] !== OPEN_ARRAY) throw malformed("an array of alerts is expected");
  let [depth, first, last, isText] = [0, -1, 0, false];
  for (at += 1; at < body.length; at += 1) {
    const sign = body[at];
    if (isText) {
      if (sign === BACKSLASH) at += 1;
      else if (sign === QUOTE) isText = false;
    } else if (sign === QUOTE) isText = true;
    else if (sign === OPEN && depth++ === 0 && first < 0) first = at;
    else if (sign === CLOSE && --depth === 0) {
      last = at + 1;
      if (last - first < PIECE_BYTES) continue;
      yield parse(body, first, last);
      first = -1;
      await nextTurn();
    }
    if (first >= 0 && at - Math.max(first, last) > MAX_ALERT_BYTES) throw malformed("an alert is too large");
  }
  if (depth !== 0) throw malformed("it ends too early");
  if (first >= 0) yield parse(body, first, last);
}

function parse(body: Buffer, from: number, to: number): unknown[] {
  try {
    return JSON.parse(`[${body.toString("utf8", from, to)}]`) as unknown[];
  } catch (cause) {
    throw new ApiError("malformed_body", "it is not JSON", { cause });
  }
}

function malformed(reason: string): ApiError {
  return new ApiError("malformed_body", reason);
}

/** Undefined if it is not an alert of one of our rules. */
export function readAlert(value: unknown): PostedAlert | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { labels, annotations, startsAt, endsAt } = value as Record<string, unknown>;
  const named = textsOf(labels);
  const { org_id: orgId = "", rule_id: ruleId = "" } = named;
  const started = dateOf(startsAt);
  if (!UUID.test(orgId) || !UUID.test(ruleId) || !started) return undefined;
  const shown = Object.entries(named)
    .filter(([name]) => !OWN_LABELS.has(name))
    .toSorted(([one], [other]) => Number(NEEDED.has(other)) - Number(NEEDED.has(one)) || (one < other ? -1 : 1));
  const fingerprint = createHash("sha256")
    .update(JSON.stringify([ruleId, shown]))
    .digest("hex")
    .slice(0, 16);
  const texts = Object.entries(textsOf(annotations)).filter(([name]) => name !== REVISION_ANNOTATION);
  const kept = {
    labels: limitLabels(shown, MAX_ALERT_LABELS, MAX_ALERT_LABEL_LENGTH),
    annotations: limitLabels(texts, MAX_ALERT_ANNOTATIONS, MAX_ALERT_ANNOTATION_LENGTH),
  };
  return { orgId, ruleId, fingerprint, ...kept, bytes: Buffer.byteLength(JSON.stringify(kept)), startsAt: started, endsAt: dateOf(endsAt) };
}

function textsOf(value: unknown): Record<string, string> {
  if (typeof value !== "object" || value === null) return {};
  return Object.fromEntries(Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === "string"));
}

/** Truncates longer texts, with a mark. Removes characters that PostgreSQL's JSON does not accept. */
function limitLabels(entries: readonly (readonly [string, string])[], most: number, mostCharacters: number): Record<string, string> {
  return Object.fromEntries(entries.slice(0, most).map(([name, text]) => [clean(name, 128), clean(text, mostCharacters)]));
}

function clean(text: string, most: number): string {
  const short = text.length > most ? `${text.slice(0, most - 1)}…` : text;
  return short.replaceAll("\0", "").toWellFormed();
}

function dateOf(value: unknown): Date | undefined {
  const date = typeof value === "string" ? new Date(value) : undefined;
  // Go's zero time means that there is no time.
  return date && date.getTime() > 0 ? date : undefined;
}
