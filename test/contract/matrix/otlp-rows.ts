// The rows of OTLP over HTTP with ingest tokens: both encodings, and the statuses by which clients decide what to send again.
import { gzipSync, zstdCompressSync } from "node:zlib";
import { expect } from "vitest";
import { encodeProtobuf } from "../../../backend/ingest/otlp/protobuf/encode.fixture.ts";
import { call } from "../../fixtures/processes.ts";
import type { Case, Row } from "./case.ts";
import { logsBody, spansBody } from "./telemetry-rows.ts";
import { backend, blue, ingestToken, made } from "./tenants.ts";

type Signal = "logs" | "traces" | "metrics";
const PROTOBUF = { "content-type": "application/x-protobuf" };
const JSON_TYPE = { "content-type": "application/json; charset=utf-8" };

const metricsBody = (aggregationTemporality = 2): object => ({
  resourceMetrics: [
    {
      scopeMetrics: [
        {
          metrics: [
            {
              name: "otlp_matrix",
              sum: { aggregationTemporality, isMonotonic: true, dataPoints: [{ timeUnixNano: `${Date.now()}000000`, asInt: "7" }] },
            },
          ],
        },
      ],
    },
  ],
});
const BODIES: Readonly<Record<Signal, () => object>> = {
  logs: () => logsBody("otlp"),
  traces: () => spansBody(),
  metrics: () => metricsBody(),
};

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
  const tokenFor = (wanted: object) => () => made(blue, "/api/ingest-tokens", { name: "matrix", ...wanted }, "token");
  const others = (["logs", "traces", "metrics"] as const).filter((other) => other !== signal);
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
    sent("a token for other signals", 403, { body: json(), token: tokenFor({ signals: others }) }, "forbidden"),
    sent("a token of another network", 403, { body: json(), token: tokenFor({ networks: ["192.0.2.0/24"] }) }, "forbidden"),
    sent("an unknown token", 401, { body: json(), token: () => `ig_${"a".repeat(43)}` }, "invalid_token"),
    sent("no token", 401, { body: json(), headers: { authorization: "" } }, "invalid_token"),
    {
      name: "errors of protobuf are a Status of protobuf",
      send: async (url) => {
        const headers = { ...PROTOBUF, authorization: `Bearer ${ingestToken}` };
        const response = await fetch(url, { method: "POST", headers, body: Buffer.from([0x0a, 0x7f]) });
        const bytes = Buffer.from(await response.arrayBuffer());
        expect([response.status, response.headers.get("content-type")]).toEqual([400, PROTOBUF["content-type"]]);
        // Code 3, then the message.
        expect([...bytes.subarray(0, 3)]).toEqual([0x08, 0x03, 0x12]);
        return await call("GET", `${backend.apiUrl}/openapi.json`);
      },
      status: 200,
    },
  ];
}

const partial: Case = {
  name: "delta temporality is rejected in part",
  send: async (url) => {
    const answer = await call("POST", url, { body: JSON.stringify(metricsBody(1)), headers: { ...JSON_TYPE, "x-api-key": ingestToken } });
    expect(answer.json).toEqual({
      partialSuccess: { rejectedDataPoints: "1", errorMessage: "not stored: 1 delta: set the sender's temporality to cumulative" },
    });
    return answer;
  },
  status: 200,
};

export const OTLP_ROWS: Row[] = (["logs", "traces", "metrics"] as const).map((signal) => ({
  method: "POST",
  path: `/v1/${signal}`,
  auth: "ingest token",
  cases: () => [...cases(signal), ...(signal === "metrics" ? [partial] : [])],
}));
