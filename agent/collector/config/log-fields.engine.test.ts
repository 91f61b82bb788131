// Parses a line of each common format with the real collector and the configuration that the agents render: level, time and trace ids are
// parsed, by the backend or, for a condition on a level, by the collector, and the body does not change. The cluster agent has `multilineStart` set, although most of these pods do not write such lines.
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startCollector } from "../../../test/fixtures/collector.ts";
import { eventually, freeAddresses, temporaryFolder } from "../../../test/fixtures/processes.ts";
import { startLogFiles } from "./render.fixture.ts";
import { markOf, withLine } from "../../../backend/ingest/otlp/file-lines.ts";
import { type LogLine, logLines, PLAIN_LINES } from "../../../test/fixtures/log-lines.ts";
import type { Json } from "../../../backend/ingest/json-message.ts";
import { readSettings } from "../../settings.ts";
import { configFromSettings } from "./config-from-settings.ts";
import { Sink, type SinkRecord } from "../supervision/sink.fixture.ts";

const NOW_MS = Date.now();
/** The container runtime's time of a line. */
const WRITTEN_MS = NOW_MS - 60_000;
const near = new Date(NOW_MS - 95_123).toISOString();
const klogTime = `${near.slice(5, 7)}${near.slice(8, 10)} ${near.slice(11, 23)}456`;

/** The others are forms that only the backend reads. */
const NAMES = [
  "pino; zap; logrus, JSON; logrus, text; logrus, coloured; log4j2, ECS; log4j2, JSON; log4j2, pattern; spring boot",
  "python logging; python basic; ECS; attributes, nested; otel, nested; datadog, dotted; google cloud; klog, another time",
  "logfmt; nginx, error log; nginx, access log; rust, coloured; JSON, coloured; JSON, long; JSON, its level too far",
  "text, long; JSON, broken; JSON, other types; JSON, a level within; JSON, an unknown level; JSON, another day",
  "JSON, ahead; JSON, without a zone; JSON, no trace; JSON, deep; free text; odd logfmt; escape; brace",
].flatMap((names) => names.split("; "));
const all = logLines(NOW_MS);
/** One of four plain lines; level-of-head.test.ts compares all. */
const PLAIN = PLAIN_LINES.filter(([, line], index) => index % 4 === 0 && !line.includes("\n")).map(
  ([level, line], index): [string, LogLine] => [`plain-${index}`, level === "none" ? { line } : { line, level }],
);
const ROWS: Readonly<Record<string, LogLine>> = {
  ...Object.fromEntries(NAMES.map((name) => [name.toLowerCase().replaceAll(/\W+/g, "-"), all[name] as LogLine])),
  ...Object.fromEntries(PLAIN),
  klog: { line: `E${klogTime}       1 leader.go:12] "a" err="b"`, level: "error", time: `${Date.parse(near)}000000` },
};

const STACK_TRACE = [
  `${near.slice(0, 23).replace("T", " ")} [main] ERROR com.example.App - it broke`,
  "java.lang.IllegalStateException: broken",
  "\tat com.example.App.main(App.java:7)",
  "Caused by: java.io.IOException: disk",
  "\t... 1 more",
];

/** Lines of a pod that does not match `multilineStart`. */
const UNLIKE = ["klog", "pino", "nginx-access-log", "logrus-coloured", "free-text", "logfmt", "json-long"] as const;

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
  const unlike = UNLIKE.map((name) => (ROWS[name] as LogLine).line);
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
  return severityText?.toLowerCase() ?? ["trace", "debug", "info", "warn", "error", "fatal"][Math.floor((severityNumber - 1) / 4)];
}

describe.each(KINDS)("on a %s", (kind) => {
  test.each(Object.keys(ROWS))("%s", (name) => {
    const { line, level, time, trace = "", span = "" } = ROWS[name] as LogLine;
    const [record, ...others] = records[kind].get(name) ?? [];
    expect(others).toEqual([]);
    expect(record?.body).toBe(line);
    const saidMs = time === undefined ? (kind.startsWith("cluster") ? WRITTEN_MS : undefined) : Math.round(Number(time) / 1e6);
    expect({
      level: record && levelOf(record),
      timeMs: record?.timeUnixNano === undefined ? undefined : Math.round(Number(record.timeUnixNano) / 1e6),
      trace: record?.traceId,
      span: record?.spanId,
      attributes: Object.keys(record?.attributes ?? {}).filter((key) => key.startsWith("atherops")),
    }).toEqual({ level, timeMs: saidMs, trace, span, attributes: [] });
  });
});

test("DROP_LOGS can name the file of a line, which is an attribute of the resource", () => {
  expect(records.host.get("unwanted")).toHaveLength(1);
  expect(records["host-node"].get("unwanted")).toBeUndefined();
});

test("joins a stack trace into one record by multilineStart, with the level of its first line", () => {
  const traces = records.cluster.get("java") ?? [];
  expect(traces.map((record) => [record.body, levelOf(record)])).toEqual([
    [STACK_TRACE.join("\n"), "error"],
    [STACK_TRACE.join("\n"), "error"],
  ]);
});

test("keeps each line separate for a pod that writes no line that matches multilineStart", () => {
  const expected = UNLIKE.map((name) => {
    const { line, level, time = `${WRITTEN_MS}000000`, trace = "" } = ROWS[name] as LogLine;
    return { body: line, level, timeMs: Math.round(Number(time) / 1e6), trace };
  });
  const actual = (records.cluster.get("unlike") ?? []).map((record) => {
    const { body, timeUnixNano, traceId } = record;
    return { body, level: levelOf(record), timeMs: Math.round(Number(timeUnixNano) / 1e6), trace: traceId };
  });
  expect(actual).toEqual([...expected, ...expected]);
});
