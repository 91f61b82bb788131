// A minimal backend for tests of the collector and of the whole agent: it accepts every signed request, records the log lines, and can be
// unavailable or refuse requests.
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { gunzipSync, zstdDecompressSync } from "node:zlib";
import { otlpToJson } from "../../../common/protobuf/to-json.ts";
import type { HostConfig } from "../../../common/protocol/enrolment.ts";

const SIGNALS = ["logs", "metrics", "traces"] as const;

export interface SinkRecord {
  readonly timeUnixNano: string | undefined;
  readonly body: string;
  readonly severityText: string | undefined;
  readonly severityNumber: number | undefined;
  /** Empty: none. */
  readonly traceId: string;
  readonly spanId: string;
  /** Strings only. */
  readonly attributes: Readonly<Record<string, string>>;
  readonly resource: Readonly<Record<string, string>>;
  /** Name and version of the scope. */
  readonly scope: string;
}

interface OtlpAttributes {
  readonly attributes?: readonly { key: string; value: { stringValue?: string } }[];
}

interface OtlpLogRecord extends OtlpAttributes {
  readonly timeUnixNano?: string;
  readonly body: { stringValue: string };
  readonly severityText?: string;
  readonly severityNumber?: number;
  readonly traceId?: string;
  readonly spanId?: string;
}

interface OtlpResourceLogs {
  readonly resource: OtlpAttributes;
  readonly scopeLogs: { scope?: { name?: string; version?: string }; logRecords: OtlpLogRecord[] }[];
}

/** A point of a sum or a gauge. */
export interface SinkPoint {
  readonly metric: string;
  readonly resource: Readonly<Record<string, string>>;
  readonly attributes: Readonly<Record<string, string>>;
  readonly value: number;
}

interface OtlpPoints {
  readonly dataPoints: readonly (OtlpAttributes & { readonly asDouble?: number; readonly asInt?: string })[];
}

interface OtlpResourceMetrics {
  readonly resource: OtlpAttributes;
  readonly scopeMetrics: readonly { metrics: readonly { name: string; sum?: OtlpPoints; gauge?: OtlpPoints }[] }[];
}

function fields(attributes: OtlpAttributes["attributes"] = []): Record<string, string> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue ?? ""]));
}

function recordOf(
  { timeUnixNano, body, severityText, severityNumber, traceId, spanId, attributes }: OtlpLogRecord,
  of: OtlpAttributes,
  scope: string,
): SinkRecord {
  const ids = { traceId: traceId ?? "", spanId: spanId ?? "" };
  const own = { timeUnixNano, body: body.stringValue, severityText, severityNumber, ...ids };
  return { ...own, attributes: fields(attributes), resource: fields(of.attributes), scope };
}

const CRI_PART = /^(\S+) (stdout|stderr) \S+ ?/;

/** Like the backend: removes the container runtime's prefix, and joins the parts of a long line. */
function withoutRuntimeFormat(record: SinkRecord): SinkRecord {
  if (!record.scope.startsWith("atherops/cri-lines")) return record;
  const [, time = "", stream = ""] = CRI_PART.exec(record.body) ?? [];
  if (stream === "") return record;
  const body = record.body
    .split("\n")
    .map((part) => part.replace(CRI_PART, ""))
    .join("");
  const timeUnixNano = String(BigInt(Date.parse(time)) * 1_000_000n);
  return { ...record, body, timeUnixNano, attributes: { ...record.attributes, "log.iostream": stream } };
}

export class Sink implements AsyncDisposable {
  /** Log bodies in order of arrival. */
  readonly lines: string[] = [];
  /** The same lines with their attributes. */
  readonly records: SinkRecord[] = [];
  /** Bodies of metrics and of traces. */
  readonly metrics: string[] = [];
  readonly traces: string[] = [];
  /** Received bodies: identical bodies are stored once, as in the backend. */
  readonly #bodies = new Set<string>();
  repeatedBodies = 0;
  /** Counts requests with telemetry only, because agents poll their configuration independently. */
  requests = 0;
  /** The backend's parser of raw lines; without it, only the container runtime's format is removed. */
  parseLine: ((record: object, scope: object) => object) | undefined;
  /** The remote configuration; without one, no agent asks for more than an empty answer. */
  config: { readonly version: string; readonly config: HostConfig } | undefined;
  /** Answers 503 to telemetry while true. */
  away = false;
  #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(port = 0): Promise<Sink> {
    const server = createServer();
    const sink = new Sink(server);
    server.on("request", (request, response) => void sink.#serve(request, response));
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
    return sink;
  }

  /** Points of all metrics that arrived as OTLP/JSON. */
  get points(): SinkPoint[] {
    const bodies = this.metrics.map((body) => JSON.parse(body) as { resourceMetrics: OtlpResourceMetrics[] });
    return bodies.flatMap(({ resourceMetrics }) =>
      resourceMetrics.flatMap(({ resource, scopeMetrics }) =>
        scopeMetrics.flatMap(({ metrics }) =>
          metrics.flatMap(({ name, sum, gauge }) =>
            ((sum ?? gauge)?.dataPoints ?? []).map(({ attributes, asDouble, asInt }) => ({
              metric: name,
              resource: fields(resource.attributes),
              attributes: fields(attributes),
              value: Number(asDouble ?? asInt),
            })),
          ),
        ),
      ),
    );
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // A sender that is killed breaks off.
    const raw = await buffer(request).catch(() => undefined);
    if (!raw) return;
    const encoding = request.headers["content-encoding"];
    const body = encoding === "zstd" ? zstdDecompressSync(raw) : encoding === "gzip" ? gunzipSync(raw) : raw;
    const path = request.url ?? "";
    if (path.endsWith("/register")) {
      const answer = {
        agent_id: "0b5a3c1e-0000-4000-8000-000000000001",
        api_key: "ak_test_key_of_the_sink",
        key_created_at: new Date().toISOString(),
      };
      response.writeHead(201, { "content-type": "application/json" }).end(JSON.stringify(answer));
      return;
    }
    if (path.endsWith("heartbeat")) return void response.writeHead(204, { "x-key-age-days": "0" }).end();
    if (this.config && path.endsWith("/config")) {
      const headers = { "content-type": "application/json", etag: `"${this.config.version}"` };
      return void response.writeHead(200, headers).end(JSON.stringify(this.config));
    }
    if (/logs|metrics|traces/.test(path)) this.requests++;
    if (this.away) return void response.writeHead(503, { "retry-after": "1" }).end();
    const signal = SIGNALS.find((name) => path.includes(name));
    // Metrics that the agent's proxy sends are only accepted.
    if (!signal) return void response.writeHead(204).end();
    const isProtobuf = request.headers["content-type"]?.includes("protobuf");
    const json = (isProtobuf ? otlpToJson(signal, body, { readsLines: this.parseLine !== undefined }) : body).toString("utf8");
    if (path.includes("logs")) this.#take(json);
    if (path.endsWith("metrics")) this.metrics.push(json);
    if (path.endsWith("traces")) this.traces.push(json);
    response.writeHead(204).end();
  }

  #take(body: string): void {
    if (this.#bodies.has(body)) {
      this.repeatedBodies++;
      return;
    }
    this.#bodies.add(body);
    const { resourceLogs = [] } = JSON.parse(body) as { resourceLogs?: OtlpResourceLogs[] };
    for (const { resource, scopeLogs } of resourceLogs) {
      for (const { scope, logRecords } of scopeLogs) {
        for (const each of logRecords) {
          const name = `${scope?.name ?? ""} ${scope?.version ?? ""}`.trim();
          const record = this.parseLine
            ? recordOf(this.parseLine(each, scope ?? {}) as OtlpLogRecord, resource, name)
            : withoutRuntimeFormat(recordOf(each, resource, name));
          this.lines.push(record.body);
          this.records.push(record);
        }
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }
}

/** Which of `line 0` … `line <count - 1>` are missing, and which are duplicated. */
export function compareLines(lines: readonly string[], count: number): { missing: number; doubled: number } {
  const seen = new Map<string, number>();
  for (const line of lines) seen.set(line, (seen.get(line) ?? 0) + 1);
  const expected = Array.from({ length: count }, (_, i) => `line ${i}`);
  return {
    missing: expected.filter((line) => !seen.has(line)).length,
    doubled: expected.reduce((sum, line) => sum + Math.max(0, (seen.get(line) ?? 0) - 1), 0),
  };
}
