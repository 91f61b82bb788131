// The rows of OTLP over HTTP, Loki push and remote write with ingest tokens: encodings, and the statuses by which clients decide whether to
// retry.
import { answers, row } from "./case.ts";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { expect } from "vitest";
import { pushBody, type PushStream } from "../../../backend/ingest/loki/push.fixture.ts";
import { encodeProtobuf } from "../../../backend/ingest/otlp/protobuf/encode.fixture.ts";
import { type TestSeries, writeBody } from "../../../backend/ingest/remote-write/write-request.fixture.ts";
import { call } from "../../fixtures/processes.ts";
import type { Case, Row } from "./case.ts";
import { BODIES, metricsBody } from "./telemetry-rows.ts";
import { backend, blue, ingestToken, made } from "./tenants.ts";

const SIGNALS = ["logs", "traces", "metrics"] as const;
type Signal = (typeof SIGNALS)[number];
const PROTOBUF = { "content-type": "application/x-protobuf" };
const JSON_TYPE = { "content-type": "application/json; charset=utf-8" };

interface Sent {
  readonly body?: string | Uint8Array;
  readonly headers?: Record<string, string>;
  /** Default red's. */
  readonly token?: () => string | Promise<string>;
}

const sent = (name: string, status: number, { body = "", headers = {}, token = () => ingestToken }: Sent, error?: string): Case => ({
  name,
  send: async (url) => await call("POST", url, { body, headers: { ...JSON_TYPE, authorization: `Bearer ${await token()}`, ...headers } }),
  status,
  ...(error !== undefined && { error }),
});

function cases(signal: Signal): Case[] {
  const body = BODIES[signal];
  const json = (): string => JSON.stringify(body());
  const protobuf = (): Buffer<ArrayBuffer> => encodeProtobuf(signal, body());
  const huge = Buffer.alloc(32 * 1024 * 1024 + 1, 0x20);
  return [
    sent("JSON", 200, { body: json() }),
    sent("protobuf", 200, { body: protobuf(), headers: PROTOBUF }),
    sent("protobuf, gzip", 200, { body: gzipSync(protobuf()), headers: { ...PROTOBUF, "content-encoding": "gzip" } }),
    sent("JSON, zstd", 200, { body: zstdCompressSync(Buffer.from(json())), headers: { "content-encoding": "zstd" } }),
    sent("an empty request", 200, {}),
    sent("an empty request of protobuf", 200, { headers: PROTOBUF }),
    sent("another content type", 415, { body: json(), headers: { "content-type": "text/plain" } }, "unsupported_encoding"),
    sent("another encoding", 415, { body: json(), headers: { "content-encoding": "br" } }, "unsupported_encoding"),
    sent("broken gzip", 400, { body: "not gzip", headers: { "content-encoding": "gzip" } }, "malformed_body"),
    sent("a document of another form", 400, { body: '{"resourceLogs":7,"resourceSpans":7,"resourceMetrics":7}' }, "invalid_payload"),
    sent("more than 32 MiB", 413, { body: huge }, "body_too_large"),
    ...credentialCases(Buffer.from(json()), {}, signal),
    answers(
      "errors of protobuf are a Status of protobuf",
      async (url) => {
        const headers = { ...PROTOBUF, authorization: `Bearer ${ingestToken}` };
        const response = await fetch(url, { method: "POST", headers, body: Buffer.from([0x0a, 0x7f]) });
        const bytes = Buffer.from(await response.arrayBuffer());
        expect([response.status, response.headers.get("content-type")]).toEqual([400, PROTOBUF["content-type"]]);
        // Code 3, then the message.
        expect([...bytes.subarray(0, 3)]).toEqual([0x08, 0x03, 0x12]);
        return await call("GET", `${backend.apiUrl}/openapi.json`);
      },
      200,
    ),
  ];
}

const partial: Case = answers(
  "delta temporality is rejected in part",
  async (url) => {
    const answer = await call("POST", url, { body: JSON.stringify(metricsBody(1)), headers: { ...JSON_TYPE, "x-api-key": ingestToken } });
    const errorMessage =
      "not stored: 1 delta: set the sender's temporality to cumulative, or add the processor deltatocumulative to its collector (resourceMetrics[0].scopeMetrics[0].metrics[0])";
    expect(answer.json).toEqual({ partialSuccess: { rejectedDataPoints: "1", errorMessage } });
    return answer;
  },
  200,
);

const SNAPPY = { ...PROTOBUF, "content-encoding": "snappy" };
const hugeBlock = Buffer.from([0xff, 0xff, 0xff, 0xff, 0x0f]);
const tokenFor = (wanted: object) => () => made(blue, "/api/ingest-tokens", { name: "matrix", ...wanted }, "token");

/** What each route of ingest tokens for one signal answers. */
const credentialCases = (body: Uint8Array, headers: Record<string, string>, signal: Signal): Case[] => [
  sent(
    "a token for other signals",
    403,
    { body, headers, token: tokenFor({ signals: SIGNALS.filter((other) => other !== signal) }) },
    "forbidden",
  ),
  sent("a token of another network", 403, { body, headers, token: tokenFor({ networks: ["192.0.2.0/24"] }) }, "forbidden"),
  sent("an unknown token", 401, { body, headers, token: () => `ig_${"a".repeat(43)}` }, "invalid_token"),
  sent("no token", 401, { body, headers: { ...headers, authorization: "" } }, "invalid_token"),
];

function lokiCases(): Case[] {
  const stream = (timeMs = Date.now()): PushStream => ({ stream: { job: "matrix" }, values: [[`${timeMs}000000`, "loki"]] });
  const json = (streams: unknown): string => JSON.stringify({ streams });
  const protobuf = pushBody([stream()]);
  return [
    sent("JSON", 204, { body: json([stream()]) }),
    sent("JSON, gzip", 204, { body: gzipSync(json([stream()])), headers: { "content-encoding": "gzip" } }),
    sent("protobuf", 204, { body: protobuf, headers: PROTOBUF }),
    sent("protobuf that names its compression", 204, { body: protobuf, headers: SNAPPY }),
    sent("an empty request", 204, {}),
    sent("another content type", 415, { body: "x", headers: { "content-type": "text/plain" } }, "unsupported_encoding"),
    sent("JSON of another form", 400, { body: json(7) }, "invalid_payload"),
    sent("no JSON", 400, { body: "{" }, "malformed_body"),
    sent("no Snappy", 400, { body: "not snappy", headers: PROTOBUF }, "malformed_body"),
    sent("more than 32 MiB when decompressed", 413, { body: hugeBlock, headers: PROTOBUF }, "body_too_large"),
    sent("an entry that is too old, and one that is not", 400, { body: json([stream(1000), stream()]) }, "invalid_payload"),
    ...credentialCases(protobuf, PROTOBUF, "logs"),
  ];
}

function writeCases(): Case[] {
  const series = (timeMs = Date.now()): TestSeries => ({ labels: [["__name__", "write_matrix"]], samples: [[1, timeMs]] });
  const second = { ...SNAPPY, "content-type": "application/x-protobuf;proto=io.prometheus.write.v2.Request" };
  const body = writeBody([series()]);
  return [
    sent("1.0", 204, { body, headers: SNAPPY }),
    sent("1.0 by its name", 204, { body, headers: { ...SNAPPY, "content-type": "application/x-protobuf;proto=prometheus.WriteRequest" } }),
    sent("2.0", 204, { body: writeBody([series()], 2), headers: second }),
    sent("an empty request", 204, { headers: SNAPPY }),
    sent(
      "a message of another name",
      415,
      { body, headers: { ...SNAPPY, "content-type": "application/x-protobuf;proto=x" } },
      "unsupported_encoding",
    ),
    sent("another content type", 415, { body, headers: { ...SNAPPY, "content-type": "text/plain" } }, "unsupported_encoding"),
    sent(
      "another compression",
      415,
      { body: gzipSync(body), headers: { ...PROTOBUF, "content-encoding": "gzip" } },
      "unsupported_encoding",
    ),
    sent("no Snappy", 400, { body: "not snappy", headers: SNAPPY }, "malformed_body"),
    sent(
      "a series without a name",
      400,
      { body: writeBody([{ labels: [["a", "b"]], samples: [[1, 1]] }]), headers: SNAPPY },
      "invalid_payload",
    ),
    sent(
      "a sample that is too old, and one that is not",
      400,
      { body: writeBody([series(1000), series()]), headers: SNAPPY },
      "invalid_payload",
    ),
    sent("a native histogram", 400, { body: writeBody([{ ...series(), histograms: 1 }]), headers: SNAPPY }, "invalid_payload"),
    sent("more than 32 MiB when decompressed", 413, { body: hugeBlock, headers: SNAPPY }, "body_too_large"),
    ...credentialCases(body, SNAPPY, "metrics"),
  ];
}

export const OTLP_ROWS: Row[] = [
  ...SIGNALS.map((signal): Row =>
    row("POST", `/v1/${signal}`, "ingest token", () => [...cases(signal), ...(signal === "metrics" ? [partial] : [])]),
  ),
  row("POST", "/loki/api/v1/push", "ingest token", lokiCases),
  row("POST", "/api/v1/write", "ingest token", writeCases),
];
