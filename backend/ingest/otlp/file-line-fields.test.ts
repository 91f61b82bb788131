// Lines of the usual logging libraries, marked by the agent as lines of a container or of a host's file, become rows with level, time and trace
// ids, and their text does not change. The kernel and the slow path store the same rows.
import { describe, expect, test } from "vitest";
import { CONTEXT } from "./decoded-rows.fixture.ts";
import { CONTAINER_LINES, containerLine, LINES, storedLine, WRITTEN_NS } from "./file-lines.fixture.ts";

/** The application's time. */
const SAID_MS = CONTEXT.receivedAtMs - 7_235_123;
const said = new Date(SAID_MS).toISOString();
const READ_NS = String(BigInt(CONTEXT.receivedAtMs) * 1_000_000n);
const TRACE = "0af7651916cd43dd8448eb211c80319c";
const SPAN = "b7ad6b7169203331";
const klogTime = `${said.slice(5, 7)}${said.slice(8, 10)} ${said.slice(11, 23)}456`;
const nginxTime = said.slice(0, 19).replaceAll("-", "/").replace("T", " ");
const commaTime = said.slice(0, 23).replace("T", " ").replace(".", ",");

interface Row {
  readonly line: string;
  /** Default: none, which is stored as info. */
  readonly level?: "trace" | "debug" | "info" | "warn" | "error" | "fatal";
  /** Nanoseconds; default: when the line was written or read. */
  readonly time?: string;
  readonly trace?: string;
  readonly span?: string;
}

const time = `${SAID_MS}000000`;
const traced = { time, trace: TRACE, span: SPAN };
const ids = { trace: TRACE, span: SPAN };
const json = (value: object): string => JSON.stringify(value);
const indented = (value: object): string => `\t  ${JSON.stringify(value, undefined, 2)}\n`;

const ROWS: Readonly<Record<string, Row>> = {
  pino: {
    line: json({ level: 50, time: SAID_MS, pid: 1, hostname: "h", trace_id: TRACE, span_id: SPAN, msg: "a" }),
    level: "error",
    ...traced,
  },
  bunyan: { line: json({ level: 60.0, time: said, v: 0, msg: "a" }), level: "fatal", time },
  zap: { line: json({ level: "warn", ts: SAID_MS / 1000, caller: "a/b.go:1", msg: "a" }), level: "warn", time },
  "zap, nanoseconds": { line: `{"level":"dpanic","ts":${SAID_MS}123456,"msg":"a"}`, level: "fatal", time: `${SAID_MS}123456` },
  "zap, exponent": { line: `{"level":"debug","ts":${SAID_MS / 1e12}e9}`, level: "debug", time },
  "seconds with nine digits": { line: `{"ts":${Math.floor(SAID_MS / 1000)}.123456789}`, time: `${Math.floor(SAID_MS / 1000)}123456789` },
  microseconds: { line: `{"timestamp":${SAID_MS}001}`, time: `${SAID_MS}001000` },
  "logrus, JSON": { line: json({ level: "warning", msg: "a", time: said.replace("Z", "+00:00") }), level: "warn", time },
  "logrus, text": { line: `time="${said}" level=fatal msg="a b" trace_id=${TRACE} span_id=${SPAN}`, level: "fatal", ...traced },
  "logrus, coloured": { line: "\u001b[31mERRO\u001b[0m[0007] a b                     \u001b[31mx\u001b[0m=y", level: "error" },
  "log4j2, ECS": {
    line: json({ "@timestamp": said, "log.level": "ERROR", message: "a", "trace.id": TRACE, "span.id": SPAN }),
    level: "error",
    ...traced,
  },
  "log4j2, JSON": {
    line: json({
      instant: { epochSecond: Math.floor(SAID_MS / 1000), nanoOfSecond: 0 },
      level: "FATAL",
      contextMap: { trace_id: TRACE, span_id: SPAN },
    }),
    level: "fatal",
    ...traced,
    time: `${Math.floor(SAID_MS / 1000)}000000000`,
  },
  "log4j2, pattern": { line: `${commaTime} [main] ERROR com.example.App - a`, level: "error" },
  "spring boot": { line: `${said.slice(0, 23)}+02:00  WARN 1 --- [nio-8080-exec-1] c.e.App  : a`, level: "warn" },
  "python logging": { line: `${commaTime} - root - CRITICAL - a`, level: "fatal" },
  "python basic": { line: "WARNING:root:a", level: "warn" },
  ECS: { line: json({ "@timestamp": said, log: { level: "debug" }, trace: { id: TRACE }, span: { id: SPAN } }), level: "debug", ...traced },
  serilog: { line: json({ "@t": said, "@l": "Warning", "@tr": TRACE, "@sp": SPAN, "@m": "a" }), level: "warn", ...traced },
  "java util logging": { line: json({ timestamp: said.replace("Z", "+0000"), level: "FINEST" }), level: "trace", time },
  "attributes, nested": { line: json({ attributes: { trace_id: TRACE, span_id: SPAN }, time: said, level: "info" }), ...traced },
  "attributes, dotted": { line: json({ "attributes.trace_id": TRACE, "attributes.span_id": SPAN, time: said }), ...traced },
  "otel, nested": { line: json({ otel: { trace_id: TRACE, span_id: SPAN }, time: said }), ...traced },
  "otel, dotted": { line: json({ "otel.trace_id": TRACE, "otel.span_id": SPAN, time: said }), ...traced },
  "datadog, nested": { line: json({ dd: { trace_id: TRACE, span_id: SPAN }, time: said }), ...traced },
  "datadog, dotted": { line: json({ "dd.trace_id": TRACE, "dd.span_id": SPAN, time: said }), ...traced },
  "datadog, logfmt": { line: `level=warn dd.trace_id=${TRACE} dd.span_id=${SPAN} time=${said}`, level: "warn", ...traced },
  "context map, camel case": { line: json({ contextMap: { traceId: TRACE.toUpperCase(), spanId: SPAN } }), ...ids },
  "google cloud": {
    line: json({ "logging.googleapis.com/trace": `projects/p/traces/${TRACE}`, "logging.googleapis.com/spanId": SPAN, severity: "NOTICE" }),
    ...ids,
  },
  klog: { line: `E${klogTime}       1 leader.go:12] "a" err="b"`, level: "error" },
  "klog, another time": { line: 'W0101 00:00:00.123456       1 leader.go:12] "a"', level: "warn" },
  logfmt: {
    line: `ts=${said} caller=main.go:1 level=debug traceID=${TRACE} msg="level=error of another"`,
    level: "debug",
    time,
    trace: TRACE,
  },
  "logfmt, the level in a quoted text": { line: 'msg="a level=error b" level=warn', level: "warn" },
  "nginx, error log": { line: `${nginxTime} [crit] 31#31: *1 open() failed`, level: "fatal" },
  "nginx, access log": { line: '10.0.0.1 - - [22/Nov/2026:10:00:00 +0000] "GET /error HTTP/1.1" 500 12 "-" "curl"' },
  "rust, coloured": { line: `\u001b[2m${said}\u001b[0m \u001b[33m WARN\u001b[0m \u001b[2mapp\u001b[0m: a`, level: "warn" },
  "JSON, coloured at every letter": {
    line: `{"msg":"${"\u001b[1;31mx".repeat(3000)}","level":"error","ts":${SAID_MS}}`,
    level: "error",
    time,
  },
  "JSON, level after 500 values": { line: json({ a: Array.from({ length: 500 }, (_, i) => i), level: "error" }), level: "error" },
  "JSON, level after 600 values": { line: json({ a: Array.from({ length: 600 }, (_, i) => i), level: "error" }) },
  "JSON, numbers of an array": { line: '{"a":[1,2.5,3e5,4 ,-5,[6,7]],"level":"error"}', level: "error" },
  "JSON, an array without its end": { line: '{"level":"error","a":[1,2,3' },
  "logfmt, level after 250 pairs": { line: `${"a=b ".repeat(250)}level=error`, level: "error" },
  "logfmt, level after 300 pairs": { line: `${"a=b ".repeat(300)}level=error` },
  "incomplete colour codes before a complete one": { line: "level=error \u001b[\u001b[\u001b[31mx", level: "error" },
  "microseconds, exponent": { line: `{"ts":${SAID_MS / 1e9}e12}`, time },
  "nanoseconds, negative exponent": { line: `{"ts":${SAID_MS}000e-3}`, time },
  "JSON, coloured": { line: `\u001b[32m${json({ level: "error", msg: "a" })}\u001b[0m`, level: "error" },
  "JSON, long": {
    line: json({ msg: "ä".repeat(10_000), level: "error", time: said, trace_id: TRACE, span_id: SPAN }),
    level: "error",
    ...traced,
  },
  "JSON, escapes": { line: json({ msg: '\\"\n\t\u0001{[:,'.repeat(50), level: "warn" }), level: "warn" },
  "text, long": { line: `${said.slice(0, 19)} ERROR ${"x".repeat(20_000)}`, level: "error" },
  // Indented lines, which the collector did not parse.
  "JSON, indented": {
    line: indented({ a: { level: "fatal" }, level: "error", time: said, trace_id: TRACE, span_id: SPAN }),
    level: "error",
    ...traced,
  },
  "klog, indented": { line: `  E${klogTime}       1 leader.go:12] "a"`, level: "error" },
  "logfmt, indented": { line: `\t ts=${said} level=error`, level: "error", time },
  "date, indented": { line: ` ${commaTime} ERROR a`, level: "error" },
  // Only the beginning of a line that is too long is parsed.
  "JSON, too long": {
    line: json({ level: "error", time: said, trace_id: TRACE, span_id: SPAN, msg: "x".repeat(70_000) }),
    level: "error",
    ...traced,
  },
  "JSON, its level too far": { line: json({ msg: "x".repeat(70_000), level: "error" }) },
  "JSON, its beginning broken and too long": { line: `{"level":"error",,${'"x":1,'.repeat(12_000)}}` },
  "JSON, the number too long": { line: `{"level":"error","n":${"7".repeat(70_000)}}`, level: "error" },
  // Text that is not a level, time or trace.
  "JSON, broken": { line: '{"level":"error","msg":"a' },
  "JSON, other types": { line: json({ level: { is: "error" }, time: [1], trace_id: 7, span_id: null, trace: "x", instant: 3, log: "x" }) },
  "JSON, a level within": { line: json({ msg: '"level":"error"', request: { level: "error", trace_id: TRACE } }) },
  "JSON, an unknown level": { line: json({ level: "42", msg: "a" }) },
  "JSON, another day": { line: json({ level: "warn", time: "2001-01-01T00:00:00Z" }), level: "warn" },
  "JSON, no such day": { line: json({ level: "warn", time: "2026-11-31T00:00:00Z" }), level: "warn" },
  "JSON, ahead": { line: json({ level: "warn", time: new Date(CONTEXT.receivedAtMs + 3_600_000).toISOString() }), level: "warn" },
  "JSON, without a zone": { line: json({ level: "warn", time: said.slice(0, -1) }), level: "warn" },
  "JSON, followed by text": { line: `${json({ level: "error" })} a` },
  "JSON, a trailing comma": { line: '{"level":"error",}' },
  "JSON, no trace": { line: json({ trace_id: "0".repeat(32), span_id: SPAN }) },
  "JSON, only a span": { line: json({ span_id: SPAN }) },
  "JSON, deep": { line: `${'{"a":'.repeat(12_000)}1${"}".repeat(12_000)}` },
  "free text": { line: "the level=error of the river, ERROR or not" },
  "a level in a word": { line: "ERRORS are fine" },
  "odd logfmt": { line: 'level="high" msg="unbalanced' },
  escape: { line: "\u001b[" },
  brace: { line: "{" },
  bracket: { line: "[" },
  empty: { line: "" },
  blank: { line: "   " },
  "NUL bytes": { line: "\0{\0" },
};

describe.each([
  ["of a container", CONTAINER_LINES, WRITTEN_NS],
  ["of a host's file", LINES, READ_NS],
])("a line %s", (_, scope, otherwise) => {
  test.each(Object.keys(ROWS))("%s", (name) => {
    const { line, level = "info", time: expected = otherwise, trace = "", span = "" } = ROWS[name] as Row;
    const stored = storedLine(scope, scope === LINES ? line : containerLine(line));
    expect(stored).toEqual({
      message: line,
      level,
      severity: expect.any(String) as string,
      time: expected,
      traceId: trace,
      spanId: span,
      scope: "",
      labels: scope === LINES ? {} : { "log.iostream": "stdout" },
    });
  });
});

test("klog's time is that of the line if it is UTC", () => {
  const near = new Date(CONTEXT.receivedAtMs - 60_000).toISOString();
  const line = `I${near.slice(5, 7)}${near.slice(8, 10)} ${near.slice(11, 23)}456 1 a.go:1] a`;
  expect(storedLine(LINES, line).time).toBe(`${CONTEXT.receivedAtMs - 60_000}456000`);
});

test.each([
  ["1231 23:59:59.000000", "2027-01-01T00:00:01Z", "2026-12-31T23:59:59Z"],
  ["0101 00:00:01.000000", "2026-12-31T23:59:59Z", "2027-01-01T00:00:01Z"],
  ["0229 10:00:00.000000", "2028-02-29T10:00:01Z", "2028-02-29T10:00:00Z"],
])("klog's %s, written at %s, is %s", (klog, written, expected) => {
  const context = { readsLines: true, receivedAtMs: Date.parse(written) };
  const row = storedLine(CONTAINER_LINES, `${written} stderr F I${klog} 1 a.go:1] a`, {}, context);
  expect(row.time).toBe(`${Date.parse(expected)}000000`);
});
