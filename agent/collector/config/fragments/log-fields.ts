// Parses level, time and trace from log lines: JSON, logfmt, klog, Redis, and the level in the head of others. Invariants: the body does not
// change; no line is dropped; a field is set only if it is certain. The beginning of each line is compared with the formats, and only a line
// that looks structured is parsed, up to MAX_PARSED_LINE_BYTES. JSON is parsed by Go's own parser (fromJSON of the expression language), so
// that no line can crash the collector.
import { MAX_PARSED_LINE_BYTES } from "../../../agent-limits.ts";
import { DOTNET_LEVELS, headExpressions, MAX_HEAD_CHARACTERS } from "./level-of-head.ts";

/** Level names per severity, in lower case; the stored level is the group's name. Numbers are those of pino and bunyan. */
const LEVELS: Readonly<Record<string, readonly string[]>> = {
  trace: ["trace", "trac", "trc", "verbose", "finest", "10"],
  debug: ["debug", "debu", "dbg", "fine", "20"],
  info: ["info", "inf", "information", "informational", "notice", "30"],
  warn: ["warn", "wrn", "warning", "40"],
  error: ["error", "erro", "err", "severe", "50"],
  fatal: ["fatal", "fata", "ftl", "critical", "crit", "alert", "emerg", "emergency", "panic", "pani", "dpanic", "60"],
};
const LEVEL_NAMES = stringList(Object.values(LEVELS).flat());
const HEAD_EXPRESSIONS = headExpressions(
  Object.values(LEVELS)
    .flat()
    .filter((word) => !/\d/.test(word)),
);
const HEAD_LEVELS = Object.fromEntries(
  Object.entries(LEVELS).map(([level, words]) => {
    const word = DOTNET_LEVELS[level];
    return [level, word === undefined ? words : [...words, word]];
  }),
);

/** Only the beginning of unstructured lines is searched, up to this length. */
const MAX_SEARCHED_CHARACTERS = 2048;

/** Keys that logging libraries use: pino, zap, logrus, log4j2 (ECS and JsonLayout), Serilog, Python, Google and OpenTelemetry. */
const LEVEL_KEYS = ["level", "severity", "lvl", "log.level", "levelname", "loglevel", "log_level", "severity_text", "severityText", "@l"];
const TIME_KEYS = ["time", "ts", "timestamp", "@timestamp", "@t", "timeMillis", "datetime"];
const TRACE_KEYS = ["trace_id", "traceId", "traceID", "TraceId", "trace.id", "otelTraceID", "otel.trace_id", "dd.trace_id", "@tr"];
const SPAN_KEYS = ["span_id", "spanId", "spanID", "SpanId", "span.id", "otelSpanID", "otel.span_id", "dd.span_id", "@sp"];

const PLAIN = 'attributes["atherops.plain"]';
const FIELDS = 'attributes["atherops.found"]';
/** The beginning of a line in no other format, as `text`, and what the expressions find in it. */
const HEAD = 'attributes["atherops.head"]';
/** The line without colour codes. */
const LINE = `(${PLAIN} ?? body)`;

const KLOG = String.raw`^[IWEF][0-9]{4} [0-9:.]{15} `;
const LOGFMT = String.raw`^[A-Za-z_][A-Za-z0-9_.@/-]*=`;
const REDIS = String.raw`^[0-9]+:[XCSM] [0-9]{2} [^ ]{3} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{3} . `;

export interface LogFieldsInput {
  /** True if the container runtime stamps each line; otherwise, a line's time is compared with the current time. */
  readonly hasRuntimeTime: boolean;
  /** A line with an older time keeps the time at which it was written or read, because the backend refuses data that is too old. */
  readonly maxAgeMs: number;
}

/** A time that is further ahead of the reference time is ignored. */
const MAX_AHEAD_MS = 5 * 60_000;
/** A time without a zone counts only if it is this close to now, so that it can only be UTC. */
const MAX_ZONELESS_SKEW_MS = 10 * 60_000;

export function logFields(input: LogFieldsInput): object[] {
  return [
    { type: "copy", id: "fields-colours", from: "body", to: PLAIN, if: 'body contains "\\u001b[" and len(body) < 65536' },
    { type: "regex_replace", id: "fields-plain", regex_name: "ansi_control_sequences", field: PLAIN, if: `${PLAIN} != nil` },
    find("fields-json", `${LINE} startsWith "{" and len(body) < ${MAX_PARSED_LINE_BYTES}`, jsonExpression(input)),
    find("fields-text", [KLOG, LOGFMT, REDIS].map((format) => matches(LINE, format)).join(" or "), textExpression(input)),
    ...HEAD_OPERATORS,
    {
      type: "severity_parser",
      parse_from: `${FIELDS}.level`,
      preset: "none",
      mapping: HEAD_LEVELS,
      // The stored level is `level`: info, not 30 or Information.
      overwrite_text: true,
      if: `${FIELDS}?.level != nil`,
      on_error: "send_quiet",
    },
    {
      type: "time_parser",
      parse_from: `${FIELDS}.time`,
      layout_type: "epoch",
      layout: "ns",
      if: `${FIELDS}?.time != nil`,
      on_error: "send_quiet",
    },
    {
      type: "trace_parser",
      trace_id: { parse_from: `${FIELDS}.trace` },
      span_id: { parse_from: `${FIELDS}.span` },
      if: `${FIELDS}?.trace != nil`,
      on_error: "send_quiet",
    },
    { type: "remove", id: "fields-found", field: FIELDS, if: `${FIELDS} != nil` },
    { type: "remove", id: "fields-head-end", field: HEAD, if: `${HEAD} != nil` },
    { type: "remove", id: "fields-uncoloured", field: PLAIN, if: `${PLAIN} != nil` },
  ];
}

/** An indented line, such as a member of a printed object, says no level. */
const HEAD_OPERATORS: readonly object[] = [
  {
    type: "add",
    id: "fields-head",
    field: `${HEAD}.text`,
    value: `EXPR(${LINE}[0:${MAX_HEAD_CHARACTERS}])`,
    if: `${FIELDS} == nil and not (${LINE}[0:1] in ["", " ", "\\t", "\\n", "\\r", "{"])`,
    on_error: "send_quiet",
  },
  headParser("capitals", `${HEAD} != nil`),
  headParser("marked", `${HEAD} != nil`),
  headParser("message", `${HEAD} != nil and ${HEAD}.capitals == nil and ${HEAD}.marked == nil`),
  {
    type: "add",
    id: "fields-head-level",
    field: FIELDS,
    value: `EXPR(let found = ${HEAD};
{"level": found.capitals != nil and (found.marked == nil or len(found.capitals.before) <= len(found.marked.before)) ? found.capitals.level
  : (found.marked ?? found.message)?.level})`,
    if: `${HEAD} != nil`,
    on_error: "send_quiet",
  },
];

function headParser(name: keyof typeof HEAD_EXPRESSIONS, condition: string): object {
  return {
    type: "regex_parser",
    id: `fields-head-${name}`,
    parse_from: `${HEAD}.text`,
    parse_to: `${HEAD}.${name}`,
    regex: HEAD_EXPRESSIONS[name],
    if: condition,
    on_error: "send_quiet",
  };
}

function find(id: string, condition: string, expression: string): object {
  return { type: "add", id, field: FIELDS, value: `EXPR(${expression})`, if: condition, on_error: "send_quiet" };
}

function jsonExpression(input: LogFieldsInput): string {
  const seconds = 'type(line.instant) == "map" ? line.instant.epochSecond : nil';
  return `let line = fromJSON(${LINE});
let said = ${firstValue(LEVEL_KEYS, nestedValue("log", "level"))};
let level = lower(type(said) == "string" ? trim(said) : type(said) == "float" ? string(int(said)) : "");
let when = ${firstValue(TIME_KEYS, `(${seconds})`)};
let trace = ${firstValue(TRACE_KEYS, ...nestedIds("trace"), googleTrace())};
let span = ${firstValue(SPAN_KEYS, ...nestedIds("span"), 'line["logging.googleapis.com/spanId"]')};
let ns = type(when) == "float" ? ${numberToNs("when")} : ${stringToNs("when")};
${selectValidFields(input)}`;
}

function textExpression(input: LogFieldsInput): string {
  const plausible = (ns: string): string => `abs(${ns} - ${referenceTimeNs(input)}) < ${MAX_ZONELESS_SKEW_MS}000000`;
  return `let head = ${LINE}[0:${MAX_SEARCHED_CHARACTERS}];
let line = " " + head;
let isKlog = ${matches("head", KLOG)};
let isLogfmt = ${matches("head", LOGFMT)};
let level = isKlog ? {"I": "info", "W": "warn", "E": "error", "F": "fatal"}[head[0:1]]
  : isLogfmt ? lower(${logfmtValueOfAny(["level", "lvl", "severity"])} ?? "")
  : {"#": "warn", "*": "info", "-": "debug", ".": "debug"}[split(head, " ")[5]] ?? "";
let when = isLogfmt ? ${logfmtValueOfAny(["time", "ts", "timestamp", "t"])} : nil;
let trace = isLogfmt ? ${logfmtValueOfAny(["trace_id", "traceID", "traceId", "trace.id"])} : nil;
let span = isLogfmt ? ${logfmtValueOfAny(["span_id", "spanID", "spanId", "span.id"])} : nil;
let local = isKlog ? date(string(now().UTC().Year()) + head[1:21], "20060102 15:04:05.000000").UnixNano() : nil;
let ns = isKlog ? (${plausible("local")} ? local : nil) : ${stringToNs("when")};
${selectValidFields(input)}`;
}

function firstValue(keys: readonly string[], ...others: string[]): string {
  return [...keys.map((key) => `line[${JSON.stringify(key)}]`), ...others].join(" ?? ");
}

/** `kind`: `trace` or `span`. Objects that contain the id: ECS, log4j2, OpenTelemetry's and Datadog's libraries. */
function nestedIds(kind: string): string[] {
  const holders = ["contextMap", "attributes", "otel", "dd"].map((holder) => nestedValue(holder, `${kind}_id`));
  return [nestedValue(kind, "id"), ...holders, nestedValue("contextMap", `${kind}Id`)];
}

/** Google Cloud Logging writes `projects/PROJECT/traces/ID`. */
function googleTrace(): string {
  const value = 'line["logging.googleapis.com/trace"]';
  return `(type(${value}) == "string" ? last(split(${value}, "/")) : nil)`;
}

function nestedValue(parent: string, key: string): string {
  return `(type(line.${parent}) == "map" ? line.${parent}.${key} : nil)`;
}

function logfmtValueOfAny(keys: readonly string[]): string {
  return keys.map((key) => logfmtValue(key)).join(" ?? ");
}

/** Value of logfmt's `key=value` or `key="value"`. A value with spaces yields its first word, which matches none of the searched words. */
function logfmtValue(key: string): string {
  const start = `indexOf(line, " ${key}=")`;
  const from = key.length + 2;
  return `(${start} >= 0 ? trim(split(line[${start} + ${from} : ${start} + ${from + 80}], " ")[0], "\\"") : nil)`;
}

/**
 * Converts seconds, milliseconds, microseconds or nanoseconds since 1970 to nanoseconds. A JSON number can represent the current time in
 * microseconds.
 */
function numberToNs(when: string): string {
  return `(${when} < 1e11 ? int(${when} * 1e6) * 1000 : ${when} < 1e14 ? int(${when} * 1e3) * 1000 : ${when} < 1e17 ? int(${when}) * 1000 : int(${when}))`;
}

/** Only times with a zone; a fraction may have any length, after a point or a comma. */
function stringToNs(when: string): string {
  const shape = String.raw`^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}([.,][0-9]{1,9})?(Z|[+-][0-9]{2}:?[0-9]{2})$`;
  const zone = `(${when} matches "[0-9]{2}[+-][0-9]{4}$" ? "Z0700" : "Z07:00")`;
  return `(type(${when}) == "string" and ${matches(when, shape)} ? date(replace(${when}, " ", "T"), "2006-01-02T15:04:05" + ${zone}).UnixNano() : nil)`;
}

function referenceTimeNs({ hasRuntimeTime }: LogFieldsInput): string {
  return hasRuntimeTime ? "(timestamp.Year() > 1970 ? timestamp : now()).UnixNano()" : "now().UnixNano()";
}

/** Builds a map of `level`, `ns`, `trace` and `span`, in which invalid values are nil. */
function selectValidFields(input: LogFieldsInput): string {
  return `{
  "level": level in ${LEVEL_NAMES} ? level : nil,
  "time": ns != nil and ns - ${referenceTimeNs(input)} < ${MAX_AHEAD_MS}000000 and ${referenceTimeNs(input)} - ns < ${input.maxAgeMs}000000 ? ns : nil,
  "trace": ${isId("trace", 32)} ? trace : nil,
  "span": ${isId("span", 16)} ? span : nil
}`;
}

function isId(name: string, digits: number): string {
  return `type(${name}) == "string" and ${matches(name, `^[0-9a-fA-F]{${digits}}$`)} and not (${matches(name, "^0+$")})`;
}

function matches(text: string, expression: string): string {
  return `${text} matches ${JSON.stringify(expression)}`;
}

function stringList(words: readonly string[]): string {
  return `[${words.map((word) => JSON.stringify(word)).join(", ")}]`;
}
