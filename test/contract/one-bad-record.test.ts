// One bad record among a thousand costs one record on every route for programs with an ingest token, and the whole body on signed routes: what
// is stored is read back from the engines, and the response names the record. The tests next to each decoder have every kind of fault.
import { randomUUID } from "node:crypto";
import { Client, credentials, Metadata } from "@grpc/grpc-js";
import { afterAll, beforeAll, expect, test } from "vitest";
import { BAD_RECORDS, jsonBody, protobufBody } from "../../backend/ingest/otlp/bad-records.fixture.ts";
import { bytesField, encodeProtobuf } from "../../backend/ingest/otlp/protobuf/encode.fixture.ts";
import { encodePush, type PushStream } from "../../backend/ingest/loki/push.fixture.ts";
import { encodeWrite, type TestSeries } from "../../backend/ingest/remote-write/write-request.fixture.ts";
import { compressSnappy } from "../../backend/ingest/snappy.fixture.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { sign } from "../../common/protocol/signature.ts";
import { allRows, call, freePorts } from "../fixtures/processes.ts";

const GOOD = 999;
const BAD_AT = 500;
const JSON_TYPE = "application/json";
const PROTOBUF = "application/x-protobuf";
const SECOND = `${PROTOBUF};proto=io.prometheus.write.v2.Request`;
const [grpcPort] = await freePorts(1);
const backend = backendOfFile({ JWT_TTL: "2h", INGEST_TOKENS: "true", OTLP_GRPC_LISTEN: `127.0.0.1:${grpcPort}` });
const client = new Client(`127.0.0.1:${grpcPort}`, credentials.createInsecure());
const nowMs = Date.now() - 60_000;
let bearer = "";
let token = "";
let apiKey = "";

beforeAll(async () => {
  bearer = await backend.operator();
  token = (await call("POST", `${backend.apiUrl}/api/ingest-tokens`, { bearer, body: { name: "bad" } })).json.token;
  apiKey = (await call("POST", `${backend.apiUrl}/api/keys`, { bearer, body: { name: "bad" } })).json.api_key;
});
afterAll(() => client.close());

interface Sent {
  readonly status: number;
  readonly text: string;
}

async function post(path: string, contentType: string, body: Uint8Array): Promise<Sent> {
  const headers = { "x-api-key": token, "content-type": contentType };
  return await call("POST", `${backend.apiUrl}${path}`, { body, headers });
}

const SIGNED = { logs: "/ingest/logs/otlp", traces: "/ingest/traces", metrics: "/ingest" } as const;

async function postSigned(signal: keyof typeof SIGNED, contentType: string, body: Uint8Array): Promise<Sent> {
  const headers = { ...sign(apiKey, "POST", SIGNED[signal], Date.now() / 1000), "content-type": contentType };
  return await call("POST", `${backend.apiUrl}${SIGNED[signal]}`, { body, headers });
}

const SERVICES = { logs: "logs.v1.LogsService", traces: "trace.v1.TraceService", metrics: "metrics.v1.MetricsService" };

async function callGrpc(signal: keyof typeof SERVICES, message: Buffer): Promise<Sent> {
  const metadata = new Metadata();
  metadata.set("authorization", `Bearer ${token}`);
  const same = (bytes: Buffer): Buffer => bytes;
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const path = `/opentelemetry.proto.collector.${SERVICES[signal]}/Export`;
  client.makeUnaryRequest(path, same, same, message, metadata, (error, answer) =>
    error ? reject(error) : resolve(answer ?? Buffer.alloc(0)),
  );
  return { status: 200, text: (await promise).toString("latin1") };
}

const countRows = async (path: string): Promise<number> => (await allRows(`${backend.apiUrl}${path}`, bearer)).length;

/** Their number; undefined if there are none. */
async function seriesOf(job: string): Promise<unknown> {
  const path = `/query/prometheus/api/v1/query?query=${encodeURIComponent(`count({job="${job}"})`)}`;
  return (await call("GET", `${backend.apiUrl}${path}`, { bearer })).json?.data?.result?.[0]?.value?.[1];
}

async function expectSeries(job: string, count: number): Promise<void> {
  await backend.shows(`${count} series of ${job}`, async () => (await seriesOf(job)) === String(count));
}

const attribute = (key: string, stringValue: string) => ({ key, value: { stringValue } });
const timeOf = (index: number): string => `${nowMs}${String(index).padStart(6, "0")}`;
const withBad = <T>(good: (index: number) => T, bad: T): T[] =>
  Array.from({ length: GOOD + 1 }, (_, index) => (index === BAD_AT ? bad : good(index)));

function otlpRecord(signal: "logs" | "traces", index: number, fields: object = {}): object {
  if (signal === "logs") return { timeUnixNano: timeOf(index), body: { stringValue: `line ${index}` }, ...fields };
  const ids = { traceId: "ab".repeat(16), spanId: (index + 1).toString(16).padStart(16, "0") };
  return { ...ids, name: "work", startTimeUnixNano: timeOf(index), endTimeUnixNano: timeOf(index), ...fields };
}

function otlpDocument(signal: "logs" | "traces" | "metrics", service: string, records: readonly unknown[]): object {
  const [resources, scopes, list] = {
    logs: ["resourceLogs", "scopeLogs", "logRecords"],
    traces: ["resourceSpans", "scopeSpans", "spans"],
    metrics: ["resourceMetrics", "scopeMetrics", "metrics"],
  }[signal] as [string, string, string];
  return { [resources]: [{ resource: { attributes: [attribute("service.name", service)] }, [scopes]: [{ [list]: records }] }] };
}

const gauge = (index: number, point: object = {}) => ({
  name: "bad_record",
  gauge: { dataPoints: [{ timeUnixNano: timeOf(0), asDouble: index, attributes: [attribute("n", String(index))], ...point }] },
});

const OTLP = (["logs", "traces"] as const).flatMap((signal) =>
  BAD_RECORDS[signal]
    .filter(({ name }) => ["text that is not UTF-8", "a span id of 7 bytes"].includes(name))
    .flatMap((bad) => (["JSON", "protobuf", "gRPC"] as const).map((way) => ({ ...bad, signal, way }))),
);

test.each(OTLP)("$signal, $way: $name", async ({ signal, way, fields, named, isKept }) => {
  const service = randomUUID();
  const document = otlpDocument(
    signal,
    service,
    withBad((index) => otlpRecord(signal, index), otlpRecord(signal, BAD_AT, fields)),
  );
  const protobuf = way === "JSON" ? Buffer.alloc(0) : protobufBody(signal, document);
  const answer =
    way === "JSON"
      ? await post(`/v1/${signal}`, JSON_TYPE, jsonBody(document))
      : way === "protobuf"
        ? await post(`/v1/${signal}`, PROTOBUF, protobuf)
        : await callGrpc(signal, protobuf);
  expect([answer.status, answer.text]).toEqual([200, expect.stringContaining(`[${BAD_AT}]${named}`)]);
  expect(answer.text).toContain(isKept ? "1 stored without an invalid id" : "not stored: 1 invalid_record");
  const path = signal === "logs" ? "/query/logs?source=" : "/query/traces?service=";
  expect(await countRows(`${path}${service}&limit=500`)).toBe(isKept ? GOOD + 1 : GOOD);
});

const SIGNED_OTLP = OTLP.filter(({ way }) => way !== "gRPC");
test.each(SIGNED_OTLP)("signed $signal, $way: $name costs the body", async ({ signal, way, fields, named }) => {
  const service = randomUUID();
  const records = withBad((index) => otlpRecord(signal, index), otlpRecord(signal, BAD_AT, fields));
  const document = otlpDocument(signal, service, records);
  const isJson = way === "JSON";
  const answer = await postSigned(signal, isJson ? JSON_TYPE : PROTOBUF, isJson ? jsonBody(document) : protobufBody(signal, document));
  // JSON that is not UTF-8 is not JSON.
  const text = isJson && named.includes("UTF-8") ? "the body is not UTF-8" : `[${BAD_AT}]${named}`;
  expect([answer.status, answer.text]).toEqual([400, expect.stringContaining(text)]);
  expect(await countRows(`${signal === "logs" ? "/query/logs?source=" : "/query/traces?service="}${service}&limit=500`)).toBe(0);
});

test("signed metrics in protobuf: the series of a good body, and nothing of a body with a bad point", async () => {
  const [good, bad] = [randomUUID(), randomUUID()];
  const bodyOf = (job: string): Buffer =>
    encodeProtobuf(
      "metrics",
      otlpDocument(
        "metrics",
        job,
        [0, 1, 2].map((index) => gauge(index)),
      ),
    );
  const cutPoint = bytesField(2, Buffer.concat([bytesField(1, Buffer.from("cut")), bytesField(5, bytesField(1, Buffer.from([0x3a, 9])))]));
  const answer = await postSigned("metrics", PROTOBUF, Buffer.concat([bodyOf(bad), bytesField(1, bytesField(2, cutPoint))]));
  expect(answer).toMatchObject({
    status: 400,
    text: expect.stringMatching(/"invalid_payload".*resourceMetrics\[1\]\.scopeMetrics\[0\]\.metrics\[0\]\.dataPoints\[0\]: /),
  });
  expect(await postSigned("metrics", PROTOBUF, bodyOf(good))).toMatchObject({ status: 204 });
  await expectSeries(good, 3);
  expect(await seriesOf(bad)).toBeUndefined();
});

test("metrics, JSON: a point without a value", async () => {
  const job = randomUUID();
  const metrics = withBad(gauge, gauge(BAD_AT, { asDouble: "x" }));
  const answer = await post("/v1/metrics", JSON_TYPE, jsonBody(otlpDocument("metrics", job, metrics)));
  const named = `malformed_point (resourceMetrics[0].scopeMetrics[0].metrics[${BAD_AT}]`;
  expect([answer.status, answer.text]).toEqual([200, expect.stringContaining(named)]);
  expect(answer.text).toContain('"rejectedDataPoints":"1"');
  // With target_info, if the resource has more than a name.
  await expectSeries(job, GOOD);
});

test.each(["protobuf", "gRPC"] as const)("metrics, %s: a truncated point", async (way) => {
  const job = randomUUID();
  const good = encodeProtobuf(
    "metrics",
    otlpDocument(
      "metrics",
      job,
      Array.from({ length: GOOD }, (_, index) => gauge(index)),
    ),
  );
  const metric = bytesField(2, Buffer.concat([bytesField(1, Buffer.from("cut")), bytesField(5, bytesField(1, Buffer.from([0x3a, 9])))]));
  const body = Buffer.concat([good, bytesField(1, bytesField(2, metric))]);
  const answer = way === "gRPC" ? await callGrpc("metrics", body) : await post("/v1/metrics", PROTOBUF, body);
  expect([answer.status, answer.text]).toEqual([
    200,
    expect.stringContaining("resourceMetrics[1].scopeMetrics[0].metrics[0].dataPoints[0]: "),
  ]);
  await expectSeries(job, GOOD);
});

const sample: TestSeries["samples"] = [[1, nowMs]];
test.each<[string, 1 | 2, Buffer, string]>([
  ["without a metric name", 1, encodeWrite([{ labels: [["a", "b"]], samples: sample }]), "it has no metric name"],
  ["whose symbol is missing", 2, bytesField(5, bytesField(1, Buffer.from([1, 0x7f]))), "the symbol"],
])("remote write, a series %s (version %i)", async (_name, version, bad, named) => {
  const job = randomUUID();
  const series = (index: number): TestSeries => ({
    labels: [
      ["__name__", "bad_write"],
      ["job", job],
      ["n", String(index)],
    ],
    samples: sample,
  });
  const good = (from: number, to: number): Buffer =>
    encodeWrite(
      Array.from({ length: to - from }, (_, index) => series(from + index)),
      version,
    );
  const parts = version === 1 ? [good(0, BAD_AT), bad, good(BAD_AT, GOOD)] : [good(0, 30), bad];
  const answer = await post("/api/v1/write", version === 1 ? PROTOBUF : SECOND, compressSnappy(Buffer.concat(parts)));
  const at = version === 1 ? BAD_AT : 30;
  expect([answer.status, answer.text]).toEqual([400, expect.stringContaining(`1 invalid_record (timeseries[${at}]: ${named}`)]);
  expect(answer.text).toContain(`${version === 1 ? GOOD : 30} samples are stored`);
  await expectSeries(job, version === 1 ? GOOD : 30);
});

const entry = (index: number): PushStream["values"][number] => [timeOf(index), `line ${index}`];
const streamOf = (service: string, values: unknown[]) => ({ stream: { service_name: service }, values });

test.each(["JSON", "protobuf"])("Loki push, %s: one bad entry or stream", async (way) => {
  const service = randomUUID();
  const good = Array.from({ length: GOOD }, (_, index) => entry(index));
  const badStream = bytesField(1, Buffer.concat([bytesField(1, Buffer.from("{a=b")), bytesField(2, Buffer.alloc(0))]));
  const [type, body, named] =
    way === "JSON"
      ? [JSON_TYPE, jsonBody({ streams: [streamOf(service, withBad<unknown>(entry, ["zzz", "x"]))] }), `streams[0].values[${BAD_AT}][0]: `]
      : [
          PROTOBUF,
          compressSnappy(Buffer.concat([encodePush([{ stream: { service_name: service }, values: good }]), badStream])),
          "streams[1].labels: ",
        ];
  const answer = await post("/loki/api/v1/push", type, body);
  expect([answer.status, answer.text]).toEqual([400, expect.stringContaining(named)]);
  expect(answer.text).toContain(`${GOOD} entries are stored`);
  expect(await countRows(`/query/logs?source=${service}&limit=500`)).toBe(GOOD);
});

/** The list of a document's resources or streams, written twice. */
const twice = (document: object): Buffer => {
  const inner = JSON.stringify(document).slice(1, -1);
  return Buffer.from(`{${inner},${inner}}`);
};

test.each<[string, (service: string) => object, string]>([
  ["/v1/logs", (service) => otlpDocument("logs", service, [otlpRecord("logs", 0)]), "resourceLogs"],
  ["/v1/traces", (service) => otlpDocument("traces", service, [otlpRecord("traces", 0)]), "resourceSpans"],
  ["/v1/metrics", (service) => otlpDocument("metrics", service, [gauge(0)]), "resourceMetrics"],
  ["/loki/api/v1/push", (service) => ({ streams: [streamOf(service, [entry(0)])] }), "streams"],
  [SIGNED.logs, (service) => otlpDocument("logs", service, [otlpRecord("logs", 0)]), "resourceLogs"],
  [SIGNED.traces, (service) => otlpDocument("traces", service, [otlpRecord("traces", 0)]), "resourceSpans"],
])("%s rejects JSON with a list twice, of which only one could be stored", async (path, documentOf, list) => {
  const service = randomUUID();
  const body = twice(documentOf(service));
  const signal = path === SIGNED.logs ? "logs" : path === SIGNED.traces ? "traces" : undefined;
  const answer = signal ? await postSigned(signal, JSON_TYPE, body) : await post(path, JSON_TYPE, body);
  expect([answer.status, answer.text]).toEqual([400, expect.stringContaining(`${list}: is given twice`)]);
  expect(await countRows(`/query/logs?source=${service}`)).toBe(0);
  expect(await seriesOf(service)).toBeUndefined();
});

const ofLogs = encodeProtobuf("logs", otlpDocument("logs", "x", [otlpRecord("logs", 0)]));
test.each<[string, Uint8Array, string]>([
  ["/v1/logs", encodeProtobuf("traces", otlpDocument("traces", "x", [otlpRecord("traces", 0)])), "logRecords[0]"],
  ["/v1/traces", ofLogs, "spans[0]"],
  ["/v1/metrics", ofLogs, "metrics[0]"],
  ["/v1/traces", bytesField(9, Buffer.from("x")), "no field of this request"],
])("%s rejects a body of nothing but bad records, as of another signal: %#", async (path, body, named) => {
  const answer = await post(path, PROTOBUF, body);
  expect([answer.status, answer.text]).toEqual([400, expect.stringContaining(named)]);
});
