// The rows of ingest and of queries.
import { gzipSync, zstdCompressSync } from "node:zlib";
import { expect } from "vitest";
import { bytesField, encodeProtobuf } from "../../../backend/ingest/otlp/protobuf/encode.fixture.ts";
import { sign } from "../../../common/protocol/signature.ts";
import { call } from "../../fixtures/processes.ts";
import { answers, asUser, type Case, found, invalidBody, invalidQuery, type Row, row } from "./case.ts";
import { backend, blue, red } from "./tenants.ts";

const nowNs = (): string => `${Date.now()}000000`;
const ofService = (name: string): object => ({ attributes: [{ key: "service.name", value: { stringValue: name } }] });
export const logsBody = (message: string, service = "matrix"): object => ({
  resourceLogs: [
    { resource: ofService(service), scopeLogs: [{ logRecords: [{ timeUnixNano: nowNs(), body: { stringValue: message } }] }] },
  ],
});
export const spansBody = (service = "matrix"): object => ({
  resourceSpans: [
    {
      resource: ofService(service),
      scopeSpans: [
        { spans: [{ traceId: "a".repeat(32), spanId: "b".repeat(16), name: "x", startTimeUnixNano: nowNs(), endTimeUnixNano: nowNs() }] },
      ],
    },
  ],
});

export const metricsBody = (aggregationTemporality = 2): object => ({
  resourceMetrics: [
    {
      scopeMetrics: [
        {
          metrics: [
            {
              name: "otlp_matrix",
              sum: { aggregationTemporality, isMonotonic: true, dataPoints: [{ timeUnixNano: nowNs(), asInt: "7" }] },
            },
          ],
        },
      ],
    },
  ],
});
type Signal = "logs" | "traces" | "metrics";
export const BODIES: Readonly<Record<Signal, () => object>> = {
  logs: () => logsBody("otlp"),
  traces: () => spansBody(),
  metrics: () => metricsBody(),
};

const MCP_HEADERS = { accept: "application/json, text/event-stream" };
const FORM = { "content-type": "application/x-www-form-urlencoded" };
const formCase = (query: string, path?: string): Case =>
  answers(
    "a form",
    (url) => call("POST", path === undefined ? url : `${backend.apiUrl}${path}`, { bearer: red.token, body: query, headers: FORM }),
    200,
  );

/** A body to a signed path by a key of red. */
const signedCase = (
  name: string,
  path: string,
  body: string | Uint8Array,
  status: number,
  error?: string,
  headers: Record<string, string> = {},
): Case =>
  answers(
    name,
    (url) => call("POST", url, { body, headers: { ...sign(red.apiKey, "POST", path, Date.now() / 1000), ...headers } }),
    status,
    error,
  );

const PROTOBUF = { "content-type": "application/x-protobuf" };

function protobufCases(path: string, signal: Signal): Case[] {
  const sent = (name: string, body: Uint8Array, status: number, error?: string, headers = {}): Case =>
    signedCase(`protobuf: ${name}`, path, body, status, error, { ...PROTOBUF, ...headers });
  const good = (): Buffer<ArrayBuffer> => encodeProtobuf(signal, BODIES[signal]());
  // A resource, a scope, and a record with a field that ends after the body.
  const badRecord = bytesField(1, bytesField(2, bytesField(2, Buffer.from([0x0a, 0x7f]))));
  return [
    sent("a good body", good(), 204),
    sent("gzip", gzipSync(good()), 204, undefined, { "content-encoding": "gzip" }),
    sent("zstd", zstdCompressSync(good()), 204, undefined, { "content-encoding": "zstd" }),
    sent("two bodies joined", Buffer.concat([good(), good()]), 204),
    sent("no record", Buffer.from([0x0a, 0x00]), 204),
    sent("an invalid record", Buffer.concat([good(), badRecord]), 400, "invalid_payload"),
    sent("a malformed body", Buffer.from([0x0a, 0x7f]), 400, "malformed_body"),
    sent("more than 32 MiB", Buffer.alloc(32 * 1024 * 1024 + 1, 0x0a), 413, "body_too_large"),
  ];
}

function ingestCases(path: string, signal: Signal, good: () => string, malformed: string, malformedCode: string): Case[] {
  const huge = Buffer.alloc(32 * 1024 * 1024 + 1, 0x20);
  return [
    signedCase("a good body", path, good(), 204),
    signedCase("an empty body", path, "", 204),
    signedCase("gzip", path, gzipSync(good()), 204, undefined, { "content-encoding": "gzip" }),
    signedCase("zstd", path, zstdCompressSync(Buffer.from(good())), 204, undefined, { "content-encoding": "zstd" }),
    signedCase("any content type", path, good(), 204, undefined, { "content-type": "application/x-protobuf" }),
    signedCase("a query string is ignored", path, good(), 204),
    signedCase("an unknown encoding", path, good(), 415, "unsupported_encoding", { "content-encoding": "br" }),
    signedCase("broken gzip", path, "not gzip", 400, "malformed_body", { "content-encoding": "gzip" }),
    signedCase("a malformed body", path, malformed, 400, malformedCode),
    signedCase("protobuf without its content type", path, Buffer.from([0x0a, 0x02, 0x12, 0x00, 0x01]), 400, "invalid_payload"),
    ...protobufCases(path, signal),
    signedCase("more than 32 MiB", path, huge, 413, "body_too_large"),
    signedCase("more than 32 MiB decompressed", path, gzipSync(huge), 413, "body_too_large", { "content-encoding": "gzip" }),
  ];
}

const EVERY_FILTER = `source=s&level=info&host_id=h&node=n&trace_id=${"a".repeat(32)}&words=a%20b&q=a&q=b&not_q=c&regex=d&not_regex=e&label.f=g&not_label.h=i`;
const EVERY_COMPARISON = "service=s&operation=o&error=true&where=a%3E%3D1&label.b=c";
const WRONG_FILTERS = ["regex=(", "not_regex=(%5CpL)%7B4%7D", "words=-", "trace_id=xyz", "org_id=x"];
const WRONG_PAGES = ["limit=0", "limit=ten", "start=yesterday", "end=1"];

/** A route of our own query API, with queries that it accepts and that it refuses. */
const native = (path: string, wrong: readonly string[], right: readonly string[] = []): Row =>
  row("GET", path, "reader", () => [
    found("answered"),
    ...right.map((query) => found(query, `${path}?${query}`)),
    ...wrong.map((query) => invalidQuery(query, `${path}?${query}`)),
  ]);

const NATIVE_ROWS: Row[] = [
  native("/query/changes", [
    "compare_with=yesterday&start=2026-01-01T00:00:00Z&end=2026-01-03T00:00:00Z",
    "start=2026-01-01T00:00:00Z&end=2026-01-01T00:05:00Z",
    "compare_with=tomorrow",
    "servce=x",
  ]),
  native("/query/kubernetes", ["kind=planet", "time=yesterday", "pod=x"]),
  native("/query/problems", ["pod=x"]),
  native("/query/traces", [...WRONG_PAGES, "trace_id=xyz"], ["limit=100000"]),
  native("/query/traces/search", [...WRONG_PAGES, "servcie=x"], ["limit=100000"]),
  ...["facets", "heatmap", "differences"].map((name) => native(`/query/traces/${name}`, ["where=%3E1", "org_id=x"], [EVERY_COMPARISON])),
  native("/query/services/graph", ["end=1", "org_id=x"]),
  ...["", "/{service}/operations", "/{service}/timeseries"].map((rest) =>
    native(`/query/services${rest}`, ["start=yesterday", "kind=none", "org_id=x"]),
  ),
  ...["histogram", "fields", "patterns"].map((name) =>
    native(`/query/logs/${name}`, ["start=yesterday", ...WRONG_FILTERS], [EVERY_FILTER]),
  ),
  native("/query/logs", [...WRONG_PAGES, ...WRONG_FILTERS, "order=up"], ["limit=100000", "order=oldest", EVERY_FILTER]),
];

const prometheus = (endpoint: string, query: string): Case[] => [found("a query", `/query/prometheus/api/v1/${endpoint}?${query}`)];

const METADATA = "/query/prometheus/api/v1/metadata";
const EXEMPLARS = "/query/prometheus/api/v1/query_exemplars";

export const TELEMETRY_ROWS: Row[] = [
  ...NATIVE_ROWS,
  row(
    "POST",
    "/ingest",
    "signed",
    () =>
      ingestCases("/ingest", "metrics", () => `matrix_metric{a="b"} 1 ${Date.now()}\n`, "ok 1\nnot exposition text {\n", "invalid_payload"),
    { kinds: ["cluster", "host", "direct"] },
  ),
  row(
    "POST",
    "/ingest/traces",
    "signed",
    () => [
      ...ingestCases("/ingest/traces", "traces", () => JSON.stringify(spansBody()), "{", "malformed_body"),
      signedCase("zero records", "/ingest/traces", "{}", 204),
      signedCase(
        "a mistyped field",
        "/ingest/traces",
        '{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":7}]}]}]}',
        400,
        "invalid_payload",
      ),
    ],
    { kinds: ["cluster", "host", "direct"] },
  ),
  row(
    "POST",
    "/ingest/logs/otlp",
    "signed",
    () => [
      ...ingestCases("/ingest/logs/otlp", "logs", () => JSON.stringify(logsBody("matrix")), "[]]", "malformed_body"),
      signedCase("zero records", "/ingest/logs/otlp", '{"resourceLogs":[]}', 204),
      signedCase("a mistyped field", "/ingest/logs/otlp", '{"resourceLogs":{}}', 400, "invalid_payload"),
    ],
    { kinds: ["cluster", "host", "direct"] },
  ),
  row("POST", "/mcp", "reader", () => [
    answers(
      "tools",
      (url) => call("POST", url, { bearer: red.token, headers: MCP_HEADERS, body: { jsonrpc: "2.0", id: 1, method: "tools/list" } }),
      200,
    ),
  ]),
  row("GET", "/query/traces/{trace_id}", "reader", () => [
    answers(
      "its own, for its own organisation alone",
      async (url) => {
        const path = "/ingest/traces";
        const headers = sign(red.apiKey, "POST", path, Date.now() / 1000);
        await call("POST", `${backend.apiUrl}${path}`, { body: JSON.stringify(spansBody()), headers });
        const own = await call("GET", url.replace("{trace_id}", "A".repeat(32)), { bearer: red.token });
        expect(own.json).toContainEqual(expect.objectContaining({ SpanID: "b".repeat(16), Kind: "UNSPECIFIED", Events: [] }));
        return await call("GET", url.replace("{trace_id}", "a".repeat(32)), { bearer: blue.token });
      },
      404,
      "not_found",
    ),
    invalidQuery("not hex", "/query/traces/xyz"),
  ]),
  ...["services", "services/{service}/operations", "traces", "dependencies", "v3/services", "v3/operations"].map((endpoint): Row => {
    const path = `/query/jaeger/api/${endpoint}`;
    return row("GET", path, "reader", () => [found("answered")]);
  }),
  ...["v3/traces", "v3/trace-summaries", "metrics/calls", "metrics/errors", "metrics/latencies"].map((endpoint): Row => {
    const path = `/query/jaeger/api/${endpoint}`;
    const incomplete = invalidQuery("without a parameter");
    return row("GET", path, "reader", () => [incomplete]);
  }),
  ...["traces/{trace_id}", "v3/traces/{trace_id}"].map((endpoint): Row => {
    const path = `/query/jaeger/api/${endpoint}`;
    return row("GET", path, "reader", () => [
      asUser("no such trace", "GET", () => red.token, 404, undefined, "not_found", path.replace("{trace_id}", "1234")),
      invalidQuery("not hex", path.replace("{trace_id}", "xyz")),
    ]);
  }),
  ...[
    ["query", "query=vector(1)%2Bvector(1)"],
    ["query_range", "query=%7Bservice_name%3D~%22.%2B%22%7D"],
    ["labels", ""],
    ["label/{name}/values", ""],
    ["series", "match%5B%5D=%7Bservice_name%3D~%22.%2B%22%7D"],
    ["index/stats", ""],
    ["index/volume", "targetLabels=service_name"],
    ["index/volume_range", "targetLabels=service_name&step=60"],
    ["detected_labels", ""],
    ["detected_fields", "query=%7Bservice_name%3D~%22.%2B%22%7D"],
    ["detected_field/{name}/values", "query=%7Bservice_name%3D~%22.%2B%22%7D"],
    ["patterns", "query=%7Bservice_name%3D~%22.%2B%22%7D"],
    ["format_query", "query=%7Bservice_name%3D~%22.%2B%22%7D"],
  ].flatMap(([endpoint = "", query = ""]): Row[] => {
    const path = `/query/loki/loki/api/v1/${endpoint}`;
    const own = path.replace("{name}", "service_name");
    const post: Row = row("POST", path, "reader", () => [formCase(query, own)]);
    const get: Row = row("GET", path, "reader", () => [
      found("answered", `${own}?${query}`),
      found("an unknown parameter is ignored", `${own}?${query}&org_id=x`),
      invalidQuery("no LogQL", `${own}?${endpoint === "series" ? "match%5B%5D" : "query"}=%7B`),
    ]);
    return [get, post];
  }),
  row("GET", "/query/loki/loki/api/v1/tail", "reader", () => [
    invalidQuery("no WebSocket", "/query/loki/loki/api/v1/tail?query=%7Ba%3D%22b%22%7D"),
  ]),
  row(
    "GET",
    "/query/logs/tail",
    "reader",
    () => [
      invalidQuery("an unknown parameter", "/query/logs/tail?limit=1"),
      invalidQuery("no regular expression", "/query/logs/tail?regex=("),
    ],
    { neverEnds: true },
  ),
  ...(["GET", "POST"] as const).flatMap((method): Row[] =>
    [
      ["query", "query=up"],
      ["query_range", "query=up&start=1&end=2&step=1"],
      ["series", "match[]=up"],
      ["labels", ""],
    ].map(([endpoint = "", query = ""]) =>
      row(method, `/query/prometheus/api/v1/${endpoint}`, "reader", () =>
        method === "GET" ? prometheus(endpoint, query) : [formCase(query)],
      ),
    ),
  ),
  ...(["GET", "POST"] as const).map((method): Row =>
    row(method, EXEMPLARS, "reader", () => [
      asUser("of no series", method, () => red.token, 200, undefined, undefined, `${EXEMPLARS}?query=none`),
      asUser("of spans", method, () => red.token, 200, undefined, undefined, `${EXEMPLARS}?query=traces_spanmetrics_latency_bucket`),
      asUser(
        "start not a time",
        method,
        () => red.token,
        400,
        undefined,
        "start: must be seconds since 1970, or RFC 3339, such as 2026-01-31T12:00:00Z",
        `${EXEMPLARS}?query=up&start=yesterday`,
      ),
      asUser(
        "end before start",
        method,
        () => red.token,
        400,
        undefined,
        "end: must not be before start",
        `${EXEMPLARS}?query=up&start=2&end=1`,
      ),
    ]),
  ),
  row("GET", METADATA, "reader", () => [
    found("of the metrics"),
    found("of one metric, with a limit", `${METADATA}?metric=up&limit=5`),
    asUser("limit not a number", "GET", () => red.token, 400, undefined, "limit: must be a number", `${METADATA}?limit=x`),
    asUser("no name of a metric", "GET", () => red.token, 400, undefined, "metric: not a metric name", `${METADATA}?metric=%00`),
  ]),
  row("POST", "/mcp", "reader", () => [invalidBody("no JSON-RPC", {})]),
  row("GET", "/query/prometheus/api/v1/label/{name}/values", "reader", () => prometheus("label/job/values", "")),
];
