// A backend of the previous release reads OTLP/JSON only: what it receives from the proxy, and when the proxy tries protobuf again.
import { gunzipSync } from "node:zlib";
import { afterEach, expect, test } from "vitest";
import { encodeProtobuf } from "../../backend/ingest/otlp/protobuf/encode.fixture.ts";
import { recordsToJson } from "./records-to-json.ts";
import { accept, closeAll, errorAnswer, post, type Received, startBackend, startWith } from "./proxy.fixture.ts";

afterEach(closeAll);

const PROTOBUF = { "content-type": "application/x-protobuf" };
const isJson = ({ headers }: Received): boolean => headers["content-type"] === "application/json";

test.each(["logs", "traces"] as const)(
  "%s are sent as JSON to a backend that reads no protobuf, until it may be upgraded",
  async (signal) => {
    let nowMs = 1_763_714_400_000;
    let isOld = true;
    const backend = await startBackend((received, response) =>
      (isOld && !isJson(received) ? errorAnswer(400, "malformed_body") : accept)(received, response),
    );
    const proxy = await startWith(backend.url, { compression: "gzip", nowMs: () => nowMs });
    const document =
      signal === "logs" ? { resourceLogs: [{ scopeLogs: [{ logRecords: [{ body: { stringValue: "a" } }] }] }] } : { resourceSpans: [] };
    const send = async () => post(proxy, `/v1/${signal}`, encodeProtobuf(signal, signal === "logs" ? document : SPANS), PROTOBUF);
    for (let count = 0; count < 2; count += 1) expect(await send()).toMatchObject({ status: 200 });
    expect(backend.received.map(isJson)).toEqual([false, true, true]);
    expect(JSON.parse(gunzipSync(backend.received[1]?.body ?? Buffer.alloc(0)).toString())).toEqual(signal === "logs" ? document : SPANS);
    isOld = false;
    nowMs += 300_001;
    for (let count = 0; count < 2; count += 1) expect(await send()).toMatchObject({ status: 200 });
    expect(backend.received.slice(3).map(isJson)).toEqual([false, false]);
  },
);

const SPANS = { resourceSpans: [{ scopeSpans: [{ spans: [{ name: "GET /" }] }] }] };

function linesOf(scope: object, ...bodies: string[]): unknown {
  const logRecords = bodies.map((body) => ({ observedTimeUnixNano: "5", body: { stringValue: body } }));
  const json = recordsToJson("logs", encodeProtobuf("logs", { resourceLogs: [{ scopeLogs: [{ scope, logRecords }] }] }));
  const { resourceLogs } = JSON.parse(json.toString()) as { resourceLogs: { scopeLogs: { scope: object; logRecords: object[] }[] }[] };
  expect(resourceLogs[0]?.scopeLogs[0]?.scope).toEqual({});
  return resourceLogs[0]?.scopeLogs[0]?.logRecords;
}

test("raw lines of containers become records with text, time and stream", () => {
  const long = "2026-11-29T10:00:00.5+01:00 stderr P one \n2026-11-29T09:00:00.6Z stderr F two";
  const docker = JSON.stringify({ log: "three\n", stream: "stdout", time: "2026-11-29T09:00:00.000000001Z" });
  const record = (stringValue: string, timeUnixNano: string, stream: string): object => ({
    timeUnixNano,
    observedTimeUnixNano: "5",
    body: { stringValue },
    attributes: [{ key: "log.iostream", value: { stringValue: stream } }],
  });
  const seconds = Date.parse("2026-11-29T09:00:00Z") / 1000;
  expect(linesOf({ name: "atherops/cri-lines" }, long, docker, "of no runtime", "2026-11-29T09:00:00Z stdout F ")).toEqual([
    record("one two", `${seconds}500000000`, "stderr"),
    record("three", `${seconds}000000001`, "stdout"),
    { observedTimeUnixNano: "5", body: { stringValue: "of no runtime" } },
    record("", `${seconds}000000000`, "stdout"),
  ]);
});

test("a character in two parts of a long line is joined, and other invalid bytes are replaced", () => {
  const [start, end] = [
    Buffer.from("2026-11-29T09:00:00Z stdout P \xc3", "latin1"),
    Buffer.from("\n2026-11-29T09:00:00Z stdout F \xbc\xff", "latin1"),
  ];
  const placeholder = "x".repeat(start.length + end.length);
  const body = encodeProtobuf("logs", {
    resourceLogs: [{ scopeLogs: [{ scope: { name: "atherops/cri-lines" }, logRecords: [{ body: { stringValue: placeholder } }] }] }],
  });
  Buffer.concat([start, end]).copy(body, body.indexOf(placeholder));
  expect(recordsToJson("logs", body).toString()).toContain('"stringValue":"ü\uFFFD"');
});

test("lines of hosts keep their text", () => {
  expect(linesOf({ name: "atherops/lines", version: "raw" }, "2026-11-29T09:00:00Z stdout F a")).toEqual([
    { observedTimeUnixNano: "5", body: { stringValue: "2026-11-29T09:00:00Z stdout F a" } },
  ]);
});
