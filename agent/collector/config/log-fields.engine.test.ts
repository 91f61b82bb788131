// Parses a line of each common format with the real collector and the configuration that the agents render: level, time and trace ids are
// parsed, by the backend or, for a condition on a level, by the collector, and the body does not change. The cluster agent has `multilineStart` set, although most of these pods do not write such lines.
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startCollector } from "../../../test/fixtures/collector.ts";
import { eventually, freeAddresses, temporaryFolder } from "../../../test/fixtures/processes.ts";
import { startLogFiles } from "./render.fixture.ts";
import { markOf, withLine } from "../../../backend/ingest/otlp/file-lines.ts";
import type { Json } from "../../../backend/ingest/json-message.ts";
import { readSettings } from "../../settings.ts";
import { configFromSettings } from "./config-from-settings.ts";
import { Sink, type SinkRecord } from "../supervision/sink.fixture.ts";

const NOW_MS = Date.now();
/** The container runtime's time of a line, and the application's. */
const WRITTEN_MS = NOW_MS - 60_000;
const SAID_MS = NOW_MS - 95_123;
const said = new Date(SAID_MS).toISOString();
const TRACE = "0af7651916cd43dd8448eb211c80319c";
const SPAN = "b7ad6b7169203331";
const klogTime = `${said.slice(5, 7)}${said.slice(8, 10)} ${said.slice(11, 23)}456`;
const nginxTime = new Date(WRITTEN_MS).toISOString().slice(0, 19).replaceAll("-", "/").replace("T", " ");

interface Row {
  readonly line: string;
  readonly level?: "TRACE" | "DEBUG" | "INFO" | "WARN" | "ERROR" | "FATAL";
  /** Else the runtime's. */
  readonly timeMs?: number;
  readonly traceId?: string;
  readonly spanId?: string;
}

const traced = { timeMs: SAID_MS, traceId: TRACE, spanId: SPAN };
const json = (value: object): string => JSON.stringify(value);

const ROWS: Readonly<Record<string, Row>> = {
  pino: {
    line: json({ level: 50, time: SAID_MS, pid: 1, hostname: "h", trace_id: TRACE, span_id: SPAN, msg: "a" }),
    level: "ERROR",
    ...traced,
  },
  zap: { line: json({ level: "warn", ts: SAID_MS / 1000, caller: "a/b.go:1", msg: "a" }), level: "WARN", timeMs: SAID_MS },
  "logrus-json": { line: json({ level: "warning", msg: "a", time: said.replace("Z", "+00:00") }), level: "WARN", timeMs: SAID_MS },
  "logrus-text": { line: `time="${said}" level=fatal msg="a b" trace_id=${TRACE} span_id=${SPAN}`, level: "FATAL", ...traced },
  "logrus-coloured": { line: "\u001b[31mERRO\u001b[0m[0007] a b                     \u001b[31mx\u001b[0m=y", level: "ERROR" },
  "log4j2-ecs": {
    line: json({ "@timestamp": said, "log.level": "ERROR", message: "a", "trace.id": TRACE, "span.id": SPAN }),
    level: "ERROR",
    ...traced,
  },
  "log4j2-json": {
    line: json({
      instant: { epochSecond: Math.floor(SAID_MS / 1000), nanoOfSecond: 0 },
      level: "FATAL",
      loggerName: "x",
      contextMap: { trace_id: TRACE, span_id: SPAN },
    }),
    level: "FATAL",
    ...traced,
    timeMs: Math.floor(SAID_MS / 1000) * 1000,
  },
  "log4j2-pattern": { line: `${said.slice(0, 23).replace("T", " ").replace(".", ",")} [main] ERROR com.example.App - a`, level: "ERROR" },
  "spring-boot": { line: `${said.slice(0, 23)}+02:00  WARN 1 --- [nio-8080-exec-1] c.e.App  : a`, level: "WARN" },
  "python-logging": { line: `${said.slice(0, 23).replace("T", " ").replace(".", ",")} - root - CRITICAL - a`, level: "FATAL" },
  "python-basic": { line: "WARNING:root:a", level: "WARN" },
  ecs: { line: json({ "@timestamp": said, log: { level: "debug" }, trace: { id: TRACE }, span: { id: SPAN } }), level: "DEBUG", ...traced },
  "opentelemetry-attributes": {
    line: json({ attributes: { trace_id: TRACE, span_id: SPAN }, time: said, level: "info" }),
    level: "INFO",
    ...traced,
  },
  "opentelemetry-nested": { line: json({ otel: { trace_id: TRACE, span_id: SPAN }, time: said, level: "info" }), level: "INFO", ...traced },
  datadog: { line: json({ "dd.trace_id": TRACE, "dd.span_id": SPAN, time: said, level: "info" }), level: "INFO", ...traced },
  "google-cloud": {
    line: json({
      "logging.googleapis.com/trace": `projects/p/traces/${TRACE}`,
      "logging.googleapis.com/spanId": SPAN,
      time: said,
      severity: "INFO",
    }),
    level: "INFO",
    ...traced,
  },
  klog: { line: `E${klogTime}       1 leader.go:12] "a" err="b"`, level: "ERROR", timeMs: SAID_MS },
  "klog-elsewhere": { line: 'I0101 00:00:00.123456       1 leader.go:12] "a"', level: "INFO" },
  logfmt: {
    line: `ts=${said} caller=main.go:1 level=debug traceID=${TRACE} msg="level=error of another"`,
    level: "DEBUG",
    ...traced,
    spanId: "",
  },
  "nginx-error": { line: `${nginxTime} [crit] 31#31: *1 open() failed`, level: "FATAL" },
  "nginx-access": { line: '10.0.0.1 - - [22/Nov/2026:10:00:00 +0000] "GET /error HTTP/1.1" 500 12 "-" "curl"' },
  "rust-coloured": { line: `\u001b[2m${said}\u001b[0m \u001b[33m WARN\u001b[0m \u001b[2mapp\u001b[0m: a`, level: "WARN" },
  "coloured-json": { line: `\u001b[32m${json({ level: "error", msg: "a" })}\u001b[0m`, level: "ERROR" },
  "long-json": {
    line: json({ msg: "ä".repeat(10_000), level: "error", time: said, trace_id: TRACE, span_id: SPAN }),
    level: "ERROR",
    ...traced,
  },
  "too-long-json": { line: json({ msg: "x".repeat(70_000), level: "error" }) },
  "long-text": { line: `${said.slice(0, 19)} ERROR ${"x".repeat(20_000)}`, level: "ERROR" },
  // What must not be taken for something else.
  "broken-json": { line: '{"level":"error","msg":"a' },
  "json-of-other-types": {
    line: json({ level: { is: "error" }, time: [1], trace_id: 7, span_id: null, trace: "x", instant: 3, log: "x" }),
  },
  "level-within": { line: json({ msg: '"level":"error"', request: { level: "error", trace_id: TRACE } }) },
  "unknown-level": { line: json({ level: "42", msg: "a" }) },
  "time-of-another-day": { line: json({ level: "info", time: "2001-01-01T00:00:00Z" }), level: "INFO" },
  "time-ahead": { line: json({ level: "info", time: new Date(NOW_MS + 3_600_000).toISOString() }), level: "INFO" },
  "time-without-zone": { line: json({ level: "info", time: "2026-11-22 10:00:00" }), level: "INFO" },
  "no-trace": { line: json({ trace_id: "0".repeat(32), span_id: "x" }) },
  "deep-json": { line: `${'{"a":'.repeat(12_000)}1${"}".repeat(12_000)}` },
  "free-text": { line: "the level=error of the river, ERROR or not" },
  "odd-logfmt": { line: 'level="high" msg="unbalanced' },
  escape: { line: "\u001b[" },
  brace: { line: "{" },
};

const STACK_TRACE = [
  `${said.slice(0, 23).replace("T", " ")} [main] ERROR com.example.App - it broke`,
  "java.lang.IllegalStateException: broken",
  "\tat com.example.App.main(App.java:7)",
  "Caused by: java.io.IOException: disk",
  "\t... 1 more",
];

/** Lines of a pod that does not match `multilineStart`. */
const UNLIKE = ["klog", "pino", "nginx-access", "logrus-coloured", "free-text", "logfmt", "long-json"] as const;

let folder: ReturnType<typeof temporaryFolder>;
const running: AsyncDisposable[] = [];
/** The two of `-node` parse fields in the collector; `cluster-raw` has no `LOG_MULTILINE_START`, so lines leave it in the runtime's format. */
const KINDS = ["cluster", "cluster-raw", "cluster-node", "host", "host-node"] as const;
type Kind = (typeof KINDS)[number];
const records = Object.fromEntries(KINDS.map((kind) => [kind, new Map()])) as Record<Kind, Map<string, SinkRecord[]>>;

beforeAll(async () => {
  folder = temporaryFolder();
  for (const [name, { line }] of Object.entries(ROWS)) {
    write(join("pods", `shop_${name}_0b5a3c1e-0000-4000-8000-000000000001`, "app", "0.log"), [line], true);
    write(join("files", `${name}.log`), [line], false);
  }
  write(join("pods", "shop_java_0b5a3c1e-0000-4000-8000-000000000001", "app", "0.log"), [...STACK_TRACE, ...STACK_TRACE], true);
  const unlike = UNLIKE.map((name) => (ROWS[name] as Row).line);
  write(join("pods", "shop_unlike_0b5a3c1e-0000-4000-8000-000000000001", "app", "0.log"), [...unlike, ...unlike], true);
  write(join("files", "unwanted.log"), ["of a file that DROP_LOGS names"], false);
  const rows = Object.keys(ROWS).length;
  const inPods = rows + 2 + 2 * UNLIKE.length;
  const counts = {
    cluster: inPods,
    "cluster-node": inPods,
    "cluster-raw": inPods + 2 * (STACK_TRACE.length - 1),
    host: rows + 1,
    "host-node": rows,
  };
  for (const kind of KINDS) await run(kind, counts[kind]);
}, 120_000);
afterAll(async () => {
  for (const one of running.toReversed()) await one[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

/** Splits lines like containerd: into parts of at most 16 KiB. */
function write(path: string, lines: readonly string[], asContainer: boolean): void {
  mkdirSync(dirname(join(folder.path, path)), { recursive: true });
  const time = new Date(WRITTEN_MS).toISOString();
  const text = lines.flatMap((line) => {
    if (!asContainer) return [line];
    const bytes = Buffer.from(line);
    const parts = Math.max(1, Math.ceil(bytes.length / 16_384));
    return Array.from({ length: parts }, (_, i) => {
      const part = bytes.subarray(i * 16_384, (i + 1) * 16_384).toString("latin1");
      return `${time} stdout ${i < parts - 1 ? "P" : "F"} ${part}`;
    });
  });
  writeFileSync(join(folder.path, path), `${text.join("\n")}\n`, asContainer ? "latin1" : "utf8");
}

async function run(kind: Kind, count: number): Promise<void> {
  const identity = kind.startsWith("cluster") ? "cluster" : "host";
  const sink = await Sink.start();
  sink.parseLine = (record, scope) => {
    const mark = markOf(scope as Json);
    return mark === undefined ? record : withLine(record as Json, mark, Date.now());
  };
  running.push(sink);
  const [grpc, http] = await freeAddresses(2);
  const overlay = join(folder.path, "overlay.yaml");
  writeFileSync(overlay, "processors: {k8s_attributes/files: null, k8s_attributes: null}\n");
  const { settings } = readSettings(identity, {
    BACKEND_URL: sink.url,
    CLUSTER_NAME: "test",
    NODE_NAME: "node-1",
    POD_NAMESPACE: "telemetry",
    POD_UID: "8a4f",
    KUBERNETES_SERVICE_HOST: "127.0.0.1",
    STATE_DIR: join(folder.path, kind),
    // The sink in place of the proxy records what the collector sends.
    PROXY_LISTEN: `127.0.0.1:${sink.port}`,
    OTLP_GRPC_LISTEN: grpc,
    OTLP_HTTP_LISTEN: http,
    SIGNALS: "logs",
    LOG_PATHS: join(folder.path, "files", "*.log"),
    ...(identity === "cluster" && { COLLECTOR_CONFIG_FILE: overlay }),
    ...(identity === "cluster" && kind !== "cluster-raw" && { LOG_MULTILINE_START: String.raw`^\d{4}-\d{2}-\d{2}` }),
    // A condition on a level, which no record has.
    ...(kind.endsWith("-node") && { DROP_LOGS: 'log.severity_text == "none"\nlog.attributes["log.file.name"] == "unwanted.log"' }),
  });
  const config = configFromSettings(settings).replaceAll("/var/log/pods", join(folder.path, "pods"));
  if (settings.host) running.push(await startLogFiles(settings));
  running.push(await startCollector(settings.stateDir, config));
  await eventually(`every line of ${kind} is there`, () => sink.records.length >= count, 60_000);
  for (const record of sink.records) {
    const name = record.resource["k8s.pod.name"] ?? record.resource["service.name"]?.replace(/\.log$/, "") ?? "";
    records[kind].set(name, [...(records[kind].get(name) ?? []), record]);
  }
}

/** The backend sets only the number. */
function levelOf({ severityText, severityNumber = 0 }: SinkRecord): string | undefined {
  return severityText ?? ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"][Math.floor((severityNumber - 1) / 4)];
}

describe.each(KINDS)("on a %s", (kind) => {
  test.each(Object.keys(ROWS))("%s", (name) => {
    const { line, level, timeMs, traceId = "", spanId = "" } = ROWS[name] as Row;
    const [record, ...others] = records[kind].get(name) ?? [];
    expect(others).toEqual([]);
    expect(record?.body).toBe(line);
    const saidMs = timeMs ?? (kind.startsWith("cluster") ? WRITTEN_MS : undefined);
    expect({
      level: record && levelOf(record),
      timeMs: record?.timeUnixNano === undefined ? undefined : Math.round(Number(record.timeUnixNano) / 1e6),
      traceId: record?.traceId,
      spanId: record?.spanId,
      attributes: Object.keys(record?.attributes ?? {}).filter((key) => key.startsWith("atherops")),
    }).toEqual({ level, timeMs: saidMs, traceId, spanId, attributes: [] });
  });
});

test("DROP_LOGS can name the file of a line, which is an attribute of the resource", () => {
  expect(records.host.get("unwanted")).toHaveLength(1);
  expect(records["host-node"].get("unwanted")).toBeUndefined();
});

test("joins a stack trace into one record by multilineStart, with the level of its first line", () => {
  const traces = records.cluster.get("java") ?? [];
  expect(traces.map((record) => [record.body, levelOf(record)])).toEqual([
    [STACK_TRACE.join("\n"), "ERROR"],
    [STACK_TRACE.join("\n"), "ERROR"],
  ]);
});

test("keeps each line separate for a pod that writes no line that matches multilineStart", () => {
  const expected = UNLIKE.map((name) => {
    const { line, level, timeMs = WRITTEN_MS, traceId = "" } = ROWS[name] as Row;
    return { body: line, level, timeMs, traceId };
  });
  const actual = (records.cluster.get("unlike") ?? []).map((record) => {
    const { body, timeUnixNano, traceId } = record;
    return { body, level: levelOf(record), timeMs: Math.round(Number(timeUnixNano) / 1e6), traceId };
  });
  expect(actual).toEqual([...expected, ...expected]);
});
