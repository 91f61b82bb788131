// Lines of the usual logging libraries, and what is read from them: by the backend, and by the collector for conditions that name a level.

export interface LogLine {
  readonly line: string;
  /** Default: none, which is stored as info. */
  readonly level?: "trace" | "debug" | "info" | "warn" | "error" | "fatal";
  /** Nanoseconds; default: when the line was written or read. */
  readonly time?: string;
  readonly trace?: string;
  readonly span?: string;
}

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const SPAN = "b7ad6b7169203331";
const json = (value: object): string => JSON.stringify(value);
const indented = (value: object): string => `\t  ${JSON.stringify(value, undefined, 2)}\n`;

/** `nowMs`: when the line is read. The application's time is two hours before, so that it is not the time of a format without a zone. */
export function logLines(nowMs: number): Readonly<Record<string, LogLine>> {
  const saidMs = nowMs - 7_235_123;
  const said = new Date(saidMs).toISOString();
  const klogTime = `${said.slice(5, 7)}${said.slice(8, 10)} ${said.slice(11, 23)}456`;
  const nginxTime = said.slice(0, 19).replaceAll("-", "/").replace("T", " ");
  const commaTime = said.slice(0, 23).replace("T", " ").replace(".", ",");
  const time = `${saidMs}000000`;
  const traced = { time, trace: TRACE, span: SPAN };
  const ids = { trace: TRACE, span: SPAN };
  return {
    pino: {
      line: json({ level: 50, time: saidMs, pid: 1, hostname: "h", trace_id: TRACE, span_id: SPAN, msg: "a" }),
      level: "error",
      ...traced,
    },
    bunyan: { line: json({ level: 60.0, time: said, v: 0, msg: "a" }), level: "fatal", time },
    zap: { line: json({ level: "warn", ts: saidMs / 1000, caller: "a/b.go:1", msg: "a" }), level: "warn", time },
    "zap, nanoseconds": { line: `{"level":"dpanic","ts":${saidMs}123456,"msg":"a"}`, level: "fatal", time: `${saidMs}123456` },
    "zap, exponent": { line: `{"level":"debug","ts":${saidMs / 1e12}e9}`, level: "debug", time },
    "seconds with nine digits": { line: `{"ts":${Math.floor(saidMs / 1000)}.123456789}`, time: `${Math.floor(saidMs / 1000)}123456789` },
    microseconds: { line: `{"timestamp":${saidMs}001}`, time: `${saidMs}001000` },
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
        instant: { epochSecond: Math.floor(saidMs / 1000), nanoOfSecond: 0 },
        level: "FATAL",
        contextMap: { trace_id: TRACE, span_id: SPAN },
      }),
      level: "fatal",
      ...traced,
      time: `${Math.floor(saidMs / 1000)}000000000`,
    },
    "log4j2, pattern": { line: `${commaTime} [main] ERROR com.example.App - a`, level: "error" },
    "spring boot": { line: `${said.slice(0, 23)}+02:00  WARN 1 --- [nio-8080-exec-1] c.e.App  : a`, level: "warn" },
    "python logging": { line: `${commaTime} - root - CRITICAL - a`, level: "fatal" },
    "python basic": { line: "WARNING:root:a", level: "warn" },
    ECS: {
      line: json({ "@timestamp": said, log: { level: "debug" }, trace: { id: TRACE }, span: { id: SPAN } }),
      level: "debug",
      ...traced,
    },
    serilog: { line: json({ "@t": said, "@l": "Warning", "@tr": TRACE, "@sp": SPAN, "@m": "a" }), level: "warn", ...traced },
    "java util logging": { line: json({ timestamp: said.replace("Z", "+0000"), level: "FINEST" }), level: "trace", time },
    "attributes, nested": {
      line: json({ attributes: { trace_id: TRACE, span_id: SPAN }, time: said, level: "info" }),
      level: "info",
      ...traced,
    },
    "attributes, dotted": { line: json({ "attributes.trace_id": TRACE, "attributes.span_id": SPAN, time: said }), ...traced },
    "otel, nested": { line: json({ otel: { trace_id: TRACE, span_id: SPAN }, time: said }), ...traced },
    "otel, dotted": { line: json({ "otel.trace_id": TRACE, "otel.span_id": SPAN, time: said }), ...traced },
    "datadog, nested": { line: json({ dd: { trace_id: TRACE, span_id: SPAN }, time: said }), ...traced },
    "datadog, dotted": { line: json({ "dd.trace_id": TRACE, "dd.span_id": SPAN, time: said }), ...traced },
    "datadog, logfmt": { line: `level=warn dd.trace_id=${TRACE} dd.span_id=${SPAN} time=${said}`, level: "warn", ...traced },
    "context map, camel case": { line: json({ contextMap: { traceId: TRACE.toUpperCase(), spanId: SPAN } }), ...ids },
    "google cloud": {
      line: json({
        "logging.googleapis.com/trace": `projects/p/traces/${TRACE}`,
        "logging.googleapis.com/spanId": SPAN,
        severity: "NOTICE",
      }),
      level: "info",
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
      line: `{"msg":"${"\u001b[1;31mx".repeat(3000)}","level":"error","ts":${saidMs}}`,
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
    "microseconds, exponent": { line: `{"ts":${saidMs / 1e9}e12}`, time },
    "nanoseconds, negative exponent": { line: `{"ts":${saidMs}000e-3}`, time },
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
    "JSON, other types": {
      line: json({ level: { is: "error" }, time: [1], trace_id: 7, span_id: null, trace: "x", instant: 3, log: "x" }),
    },
    "JSON, a level within": { line: json({ msg: '"level":"error"', request: { level: "error", trace_id: TRACE } }) },
    "JSON, an unknown level": { line: json({ level: "42", msg: "a" }) },
    "JSON, another day": { line: json({ level: "warn", time: "2001-01-01T00:00:00Z" }), level: "warn" },
    "JSON, no such day": { line: json({ level: "warn", time: "2026-11-31T00:00:00Z" }), level: "warn" },
    "JSON, ahead": { line: json({ level: "warn", time: new Date(nowMs + 3_600_000).toISOString() }), level: "warn" },
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
}
