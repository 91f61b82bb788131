// Parses level, time and trace from log lines: JSON, logfmt, klog, and lines that begin with a date or a level. Invariants: the body does
// not change; no line is dropped, whatever it contains; a field is set only if it is certain. Each line costs a few comparisons of its
// beginning; one that looks structured is parsed once, up to MAX_PARSED_LINE_BYTES. JSON is parsed by Go's own parser (fromJSON of the
// expression language), because no line must be able to crash the collector.
import { MAX_PARSED_LINE_BYTES } from "../../../limits.ts";

/** Level names per severity, in lower case; the stored level is the group's name. Numbers are those of pino and bunyan. */
const LEVELS: Readonly<Record<string, readonly string[]>> = {
  trace: ["trace", "trac", "trc", "verbose", "finest", "10"],
  debug: ["debug", "debu", "dbg", "fine", "20"],
  info: ["info", "inf", "information", "informational", "notice", "30"],
  warn: ["warn", "wrn", "warning", "40"],
  error: ["error", "erro", "err", "severe", "50"],
  fatal: ["fatal", "fata", "ftl", "critical", "crit", "alert", "emerg", "emergency", "panic", "pani", "dpanic", "60"],
};
const KNOWN = list(Object.values(LEVELS).flat());
const WORDS = list(
  Object.values(LEVELS)
    .flat()
    .filter((word) => !/\d/.test(word)),
);

/** Only this many leading characters of unstructured lines are searched. */
const LOOKED_AT = 2048;

/** Keys that logging libraries use: pino, zap, logrus, log4j2 (ECS and JsonLayout), Serilog, Python, Google and OpenTelemetry. */
const LEVEL_KEYS = ["level", "severity", "lvl", "log.level", "levelname", "loglevel", "log_level", "severity_text", "severityText", "@l"];
const TIME_KEYS = ["time", "ts", "timestamp", "@timestamp", "@t", "timeMillis", "datetime"];
const TRACE_KEYS = ["trace_id", "traceId", "traceID", "TraceId", "trace.id", "otelTraceID", "@tr"];
const SPAN_KEYS = ["span_id", "spanId", "spanID", "SpanId", "span.id", "otelSpanID", "@sp"];

const PLAIN = 'attributes["atherops.plain"]';
const FOUND = 'attributes["atherops.found"]';
/** The line without colour codes. */
const LINE = `(${PLAIN} ?? body)`;

const KLOG = String.raw`^[IWEF][0-9]{4} [0-9:.]{15} `;
const LOGFMT = String.raw`^[A-Za-z_][A-Za-z0-9_.@/-]*=`;
const NGINX = String.raw`^[0-9]{4}/[0-9]{2}/[0-9]{2} [0-9:]{8} \[[a-z]+\] `;
const DATED = String.raw`^\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}`;
const LEVEL_FIRST = String.raw`^[\[<]?(TRACE|TRAC|DEBUG|DEBU|INFO|NOTICE|WARN|WARNING|ERROR|ERRO|FATAL|FATA|PANIC|PANI|CRITICAL)([^A-Za-z0-9_=-]|$)`;
const OTHER_FORMATS = [KLOG, LOGFMT, NGINX, DATED, LEVEL_FIRST];

export interface LogFieldsInput {
  /** True if the container runtime stamps each line; otherwise, a line's time is compared with the current time. */
  readonly hasRuntimeTime: boolean;
  /** A line with an older time keeps the time at which it was written or read, because the backend refuses data that is too old. */
  readonly maxAgeMs: number;
}

/** How far a clock may be ahead. */
const AHEAD_MS = 5 * 60_000;
/** A time without a zone counts only if it is this close to now, so that it can only be UTC. */
const WITHOUT_ZONE_MS = 10 * 60_000;

export function logFields(input: LogFieldsInput): object[] {
  return [
    { type: "copy", id: "fields-colours", from: "body", to: PLAIN, if: 'body contains "\\u001b[" and len(body) < 65536' },
    { type: "regex_replace", id: "fields-plain", regex_name: "ansi_control_sequences", field: PLAIN, if: `${PLAIN} != nil` },
    find("fields-json", `${LINE} startsWith "{" and len(body) < ${MAX_PARSED_LINE_BYTES}`, ofJson(input)),
    find("fields-text", OTHER_FORMATS.map((format) => matches(LINE, format)).join(" or "), ofText(input)),
    {
      type: "severity_parser",
      parse_from: `${FOUND}.level`,
      preset: "none",
      mapping: LEVELS,
      // The stored level is `level`: info, not 30 or Information.
      overwrite_text: true,
      if: `${FOUND}?.level != nil`,
      on_error: "send_quiet",
    },
    {
      type: "time_parser",
      parse_from: `${FOUND}.time`,
      layout_type: "epoch",
      layout: "ns",
      if: `${FOUND}?.time != nil`,
      on_error: "send_quiet",
    },
    {
      type: "trace_parser",
      trace_id: { parse_from: `${FOUND}.trace` },
      span_id: { parse_from: `${FOUND}.span` },
      if: `${FOUND}?.trace != nil`,
      on_error: "send_quiet",
    },
    { type: "remove", id: "fields-found", field: FOUND, if: `${FOUND} != nil` },
    { type: "remove", id: "fields-uncoloured", field: PLAIN, if: `${PLAIN} != nil` },
  ];
}

function find(id: string, condition: string, expression: string): object {
  return { type: "add", id, field: FOUND, value: `EXPR(${expression})`, if: condition, on_error: "send_quiet" };
}

function ofJson(input: LogFieldsInput): string {
  const seconds = 'type(line.instant) == "map" ? line.instant.epochSecond : nil';
  return `let line = fromJSON(${LINE});
let said = ${first(LEVEL_KEYS, inside("log", "level"))};
let level = lower(type(said) == "string" ? trim(said) : type(said) == "float" ? string(int(said)) : "");
let when = ${first(TIME_KEYS, `(${seconds})`)};
let trace = ${first(TRACE_KEYS, inside("trace", "id"), inside("contextMap", "trace_id"), inside("contextMap", "traceId"))};
let span = ${first(SPAN_KEYS, inside("span", "id"), inside("contextMap", "span_id"), inside("contextMap", "spanId"))};
let ns = type(when) == "float" ? ${ofNumber("when")} : ${ofString("when")};
${selectValidFields(input)}`;
}

function ofText(input: LogFieldsInput): string {
  const plausible = (ns: string): string => `abs(${ns} - ${reference(input)}) < ${WITHOUT_ZONE_MS}000000`;
  const words = 'split(replace(head[0:160], "\\t", " "), " ")[0:8]';
  const word = 'split(split(trim(#, "[]<>:,|-"), "[")[0], ":")[0]';
  return `let head = ${LINE}[0:${LOOKED_AT}];
let line = " " + head;
let isKlog = ${matches("head", KLOG)};
let isLogfmt = ${matches("head", LOGFMT)};
let level = isKlog ? {"I": "info", "W": "warn", "E": "error", "F": "fatal"}[head[0:1]]
  : isLogfmt ? lower(${valueOfAny(["level", "lvl", "severity"])} ?? "")
  : ${matches("head", NGINX)} ? split(split(head, "[")[1], "]")[0]
  : lower(find(map(${words}, ${word}), upper(#) == # and lower(#) in ${WORDS}) ?? "");
let when = isLogfmt ? ${valueOfAny(["time", "ts", "timestamp", "t"])} : nil;
let trace = isLogfmt ? ${valueOfAny(["trace_id", "traceID", "traceId", "trace.id"])} : nil;
let span = isLogfmt ? ${valueOfAny(["span_id", "spanID", "spanId", "span.id"])} : nil;
let local = isKlog ? date(string(now().UTC().Year()) + head[1:21], "20060102 15:04:05.000000").UnixNano() : nil;
let ns = isKlog ? (${plausible("local")} ? local : nil) : ${ofString("when")};
${selectValidFields(input)}`;
}

function first(keys: readonly string[], ...others: string[]): string {
  return [...keys.map((key) => `line[${JSON.stringify(key)}]`), ...others].join(" ?? ");
}

function inside(parent: string, key: string): string {
  return `(type(line.${parent}) == "map" ? line.${parent}.${key} : nil)`;
}

function valueOfAny(keys: readonly string[]): string {
  return keys.map((key) => valueOf(key)).join(" ?? ");
}

/** Value of logfmt's `key=value` or `key="value"`. A value with spaces yields its first word, which matches none of the searched words. */
function valueOf(key: string): string {
  const start = `indexOf(line, " ${key}=")`;
  const from = key.length + 2;
  return `(${start} >= 0 ? trim(split(line[${start} + ${from} : ${start} + ${from + 80}], " ")[0], "\\"") : nil)`;
}

/**
 * Converts seconds, milliseconds, microseconds or nanoseconds since 1970 to nanoseconds. A JSON number can represent the current time in
 * microseconds.
 */
function ofNumber(when: string): string {
  return `(${when} < 1e11 ? int(${when} * 1e6) * 1000 : ${when} < 1e14 ? int(${when} * 1e3) * 1000 : ${when} < 1e17 ? int(${when}) * 1000 : int(${when}))`;
}

/** Only times with a zone; a fraction may have any length, after a point or a comma. */
function ofString(when: string): string {
  const shape = String.raw`^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}([.,][0-9]{1,9})?(Z|[+-][0-9]{2}:?[0-9]{2})$`;
  const zone = `(${when} matches "[0-9]{2}[+-][0-9]{4}$" ? "Z0700" : "Z07:00")`;
  return `(type(${when}) == "string" and ${matches(when, shape)} ? date(replace(${when}, " ", "T"), "2006-01-02T15:04:05" + ${zone}).UnixNano() : nil)`;
}

function reference({ hasRuntimeTime }: LogFieldsInput): string {
  return hasRuntimeTime ? "(timestamp.Year() > 1970 ? timestamp : now()).UnixNano()" : "now().UnixNano()";
}

/** Builds a map of `level`, `ns`, `trace` and `span`, in which invalid values are nil. */
function selectValidFields(input: LogFieldsInput): string {
  return `{
  "level": level in ${KNOWN} ? level : nil,
  "time": ns != nil and ns - ${reference(input)} < ${AHEAD_MS}000000 and ${reference(input)} - ns < ${input.maxAgeMs}000000 ? ns : nil,
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

function list(words: readonly string[]): string {
  return `[${words.map((word) => JSON.stringify(word)).join(", ")}]`;
}
