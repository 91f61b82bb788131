// Batches that the backend refuses because of their size, checked with the backend's own decoder, and through a running proxy.
import { decodeWithHash } from "../../backend/ingest/otlp/otlp-body.fixture.ts";
import { encodeProtobuf } from "../../backend/ingest/otlp/protobuf/encode.fixture.ts";
import { protobufToJson } from "../../backend/ingest/otlp/protobuf/to-json.ts";
import { gunzipSync, gzipSync } from "node:zlib";
import { afterEach, describe, expect, it, test } from "vitest";
import { asJson } from "../../backend/ingest/otlp/decode-body.ts";
import { convertMetrics } from "../../backend/ingest/otlp/metrics/convert-metrics.ts";
import { ApiError } from "../../backend/errors.ts";
import type { ForwardResult } from "./forward.ts";
import { PartSender, splitBatch } from "./part-sender.ts";
import { accept, closeAll, errorAnswer, isSignedWith, post, type Received, startBackend, startWith } from "./proxy.fixture.ts";
import { BodyError } from "../../common/otlp-metrics/document.ts";

afterEach(closeAll);

const TOO_LARGE = { kind: "refused", status: 413, code: "batch_too_large", message: "send smaller batches" } as const;
const ACCEPTED: ForwardResult = { kind: "accepted" };
const NOW_MS = Date.now();
const CONTEXT = { orgId: "o", hostId: "h", node: "n", receivedAtMs: NOW_MS, firstId: "1", bodyHash: "1", retentionDays: 30 };

const record = (index: number, rest: object = {}) => ({ timeUnixNano: String(BigInt(NOW_MS) * 1_000_000n + BigInt(index)), ...rest });

function logs(logRecords: object[], argument = ""): Buffer {
  const attributes = [{ key: "process.command_args", value: { arrayValue: { values: [{ stringValue: argument }] } } }];
  return encodeProtobuf("logs", { resourceLogs: [{ resource: { attributes }, scopeLogs: [{ logRecords }] }] });
}

/** Responds like the backend, and counts records. */
function backend() {
  const taken = { records: 0, bodies: [] as string[] };
  const send = async (body: Buffer): Promise<ForwardResult> => {
    try {
      taken.records += decodeWithHash({
        ...asJson({ signal: "logs", encoding: "protobuf", body, context: CONTEXT }),
        context: CONTEXT,
      }).accepted;
      taken.bodies.push(body.toString("latin1"));
      return ACCEPTED;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      return { kind: "refused", status: error.status, code: error.code, message: error.message };
    }
  };
  return { taken, send };
}

function sender() {
  const dropped: [string, number, string][] = [];
  return { dropped, parts: new PartSender((signal, reason, count, why) => dropped.push([`${signal} ${reason}`, count, why])) };
}

test("sends thousands of JVM records with long arguments, which expand to gigabytes when stored", async () => {
  const { taken, send } = backend();
  const { parts, dropped } = sender();
  const batch = logs(
    Array.from({ length: 9000 }, (_, index) => record(index, { body: { stringValue: `line ${index}` } })),
    "-Dx=y ".repeat(10_700),
  );
  expect(await send(batch)).toMatchObject({ status: 413, code: "batch_too_large" });
  expect(await parts.send("logs", batch, TOO_LARGE, send)).toEqual(ACCEPTED);
  expect(taken.records).toBe(9000);
  expect(taken.bodies.length).toBeLessThan(15);
  expect(dropped).toEqual([]);
});

test("leaves out and counts a record that is too large, and sends the rest", async () => {
  const { taken, send } = backend();
  const { parts, dropped } = sender();
  const huge = record(3, { body: { arrayValue: { values: Array.from({ length: 140_000 }, () => ({})) } } });
  const batch = logs([
    ...Array.from({ length: 500 }, (_, index) => record(index)),
    huge,
    ...Array.from({ length: 500 }, (_, index) => record(index)),
  ]);
  expect(await send(batch)).toMatchObject({ status: 413 });
  expect(await parts.send("logs", batch, TOO_LARGE, send)).toEqual(ACCEPTED);
  expect(taken.records).toBe(1000);
  expect(dropped).toEqual([["logs too_large", 1, expect.stringContaining("batch_too_large: ")]]);
});

test("continues after a failure with the failed part, and sends identical parts", async () => {
  const batch = logs(
    Array.from({ length: 4000 }, (_, index) => record(index)),
    "x".repeat(64_000),
  );
  const all = backend();
  await sender().parts.send("logs", batch, TOO_LARGE, all.send);
  expect(all.taken.bodies.length).toBeGreaterThan(3);
  const sent: string[] = [];
  const { parts } = sender();
  const failing = async (body: Buffer): Promise<ForwardResult> => {
    sent.push(body.toString("latin1"));
    return sent.length === 3 ? { kind: "retry", reason: "away", retryAfterS: 1 } : ACCEPTED;
  };
  expect(await parts.send("logs", batch, TOO_LARGE, failing)).toMatchObject({ kind: "retry" });
  expect(await parts.send("logs", batch, TOO_LARGE, failing)).toEqual(ACCEPTED);
  expect(sent).toEqual(all.taken.bodies.toSpliced(3, 0, all.taken.bodies[2] ?? ""));
});

describe("records that the backend refuses", () => {
  const notUtf8 = { attributes: [{ key: "user", value: { stringValue: Buffer.from([0x61, 0xff]) } }] };
  const wrongId = { traceId: "ab" };
  const records = (invalid: ReadonlyMap<number, object>, count = 3000): object[] =>
    Array.from({ length: count }, (_, index) => record(index, invalid.get(index) ?? {}));

  async function sendRefused(invalid: ReadonlyMap<number, object>, count?: number) {
    const { taken, send } = backend();
    const { parts, dropped } = sender();
    const batch = logs(records(invalid, count));
    const refusal = (await send(batch)) as typeof TOO_LARGE;
    expect(refusal).toMatchObject({ kind: "refused", status: 400 });
    return { result: await parts.send("logs", batch, refusal, send), stored: taken.records, dropped, requests: taken.bodies.length };
  }

  test.each<[string, object]>([
    ["an attribute that is not UTF-8", notUtf8],
    ["a trace id of the wrong length", wrongId],
  ])("are dropped and counted, and do not cost the others: %s", async (_, invalid) => {
    for (const at of [0, 1, 1499, 2999]) {
      const { result, stored, dropped } = await sendRefused(new Map([[at, invalid]]));
      expect(result).toEqual(ACCEPTED);
      expect(stored).toBe(2999);
      expect(dropped).toEqual([["logs invalid", 1, expect.stringMatching(/^(invalid_payload|malformed_body): /)]]);
    }
  });

  test("are dropped among large ones, in parts that were too large", async () => {
    const { taken, send } = backend();
    const { parts, dropped } = sender();
    const batch = logs(records(new Map([[5, wrongId]])), "x".repeat(64_000));
    expect(await parts.send("logs", batch, TOO_LARGE, send)).toEqual(ACCEPTED);
    expect(taken.records).toBe(2999);
    expect(dropped).toHaveLength(1);
  });

  test("are searched for only up to a limit: a batch of invalid records costs few requests", async () => {
    let requests = 0;
    const { parts, dropped } = sender();
    const refusal = { kind: "refused", status: 400, code: "invalid_payload", message: "all" } as const;
    const refuse = async (): Promise<ForwardResult> => (requests++, refusal);
    expect(await parts.send("logs", logs(records(new Map())), refusal, refuse)).toEqual(refusal);
    expect(dropped).toHaveLength(64);
    expect(requests).toBeLessThan(150);
  });

  test("keep the refusal if nothing would be left: the only record, and bytes that are no request", async () => {
    const { result, dropped, requests } = await sendRefused(new Map([[0, wrongId]]), 1);
    expect(result).toMatchObject({ kind: "refused", status: 400 });
    expect({ dropped, requests }).toEqual({ dropped: [], requests: 0 });
    const refusal = { kind: "refused", status: 400, code: "malformed_body", message: "no" } as const;
    expect(await sender().parts.send("logs", Buffer.from("no request"), refusal, backend().send)).toEqual(refusal);
  });
});

test("a batch that cannot be split keeps the rejection", async () => {
  const { send } = backend();
  expect(await sender().parts.send("logs", Buffer.alloc(0), TOO_LARGE, send)).toEqual(TOO_LARGE);
});

describe("batches through the proxy", () => {
  it.each(["logs", "traces"] as const)("that are too large: %s are sent in parts, in the same compression, each signed", async (signal) => {
    const backend = await startBackend(({ body }, response) =>
      gunzipSync(body).length > 3000 ? errorAnswer(413, "batch_too_large")({ body } as Received, response) : response.writeHead(204).end(),
    );
    const proxy = await startWith(backend.url, { compression: "zstd" });
    const [resources, scopes, list] =
      signal === "logs" ? (["resourceLogs", "scopeLogs", "logRecords"] as const) : (["resourceSpans", "scopeSpans", "spans"] as const);
    const records = Array.from({ length: 100 }, (_, index) => ({
      [signal === "logs" ? "severityText" : "name"]: `${index} ${"x".repeat(60)}`,
    }));
    const request = encodeProtobuf(signal, { [resources]: [{ [scopes]: [{ [list]: records }] }] });
    const answer = await post(proxy, `/v1/${signal}`, gzipSync(request), { ...PROTOBUF, "content-encoding": "gzip" });
    expect(answer).toMatchObject({ status: 200, body: "{}" });
    const stored = backend.received.map(({ body }) => gunzipSync(body)).filter(({ length }) => length <= 3000);
    const names = stored.flatMap((body) => {
      const document = JSON.parse(protobufToJson(signal, body).toString()) as Record<string, Record<string, Record<string, object[]>[]>[]>;
      return document[resources]?.[0]?.[scopes]?.[0]?.[list] ?? [];
    });
    expect(names).toEqual(records);
    for (const each of backend.received) expect(isSignedWith("ak_first", each)).toBe(true);
    expect(proxy.status()[signal as "logs"]).toMatchObject({ accepted: 1, retried: 0, refused: 0 });
  });

  it("that are too large for a proxy before the backend are sent in parts; a record that is, is kept", async () => {
    const limited = (bytes: number) =>
      startBackend(({ body }, response) =>
        body.length > bytes ? response.writeHead(413).end("<html>nginx</html>") : response.writeHead(204).end(),
      );
    const request = (texts: string[]) =>
      encodeProtobuf("logs", { resourceLogs: [{ scopeLogs: [{ logRecords: texts.map((stringValue) => ({ body: { stringValue } })) }] }] });
    const backend = await limited(3000);
    const proxy = await startWith(backend.url);
    const texts = Array.from({ length: 100 }, (_, index) => `${index} ${"x".repeat(60)}`);
    expect(await post(proxy, "/v1/logs", request(texts), PROTOBUF)).toMatchObject({ status: 200 });
    const stored = backend.received.filter(({ body }) => body.length <= 3000).map(({ body }) => protobufToJson("logs", body).toString());
    expect([...stored.join("").matchAll(/"stringValue":"([^"]*)"/g)].map(([, text]) => text)).toEqual(texts);
    expect(await post(proxy, "/v1/logs", request(["small", "x".repeat(4000)]), PROTOBUF)).toMatchObject({ status: 503 });
    expect(proxy.status().logs).toMatchObject({ accepted: 1, refused: 0, retried: 1, droppedPoints: {} });
    expect(proxy.logged()).toContain("answered 413 without an error code of the backend: a proxy may have responded");
  });

  it("with one record that is too large are sent without it, and it is counted and logged", async () => {
    const backend = await startBackend((received, response) =>
      received.body.includes("huge") ? errorAnswer(413, "batch_too_large")(received, response) : accept(received, response),
    );
    const proxy = await startWith(backend.url);
    const logRecords = ["a", "huge", "b"].map((stringValue) => ({ body: { stringValue } }));
    expect(
      await post(proxy, "/v1/logs", encodeProtobuf("logs", { resourceLogs: [{ scopeLogs: [{ logRecords }] }] }), PROTOBUF),
    ).toMatchObject({
      status: 200,
    });
    expect(proxy.status().logs).toMatchObject({ accepted: 1, refused: 0, droppedPoints: { too_large: 1 } });
    expect(proxy.logged()).toContain("dropping records of logs: too_large: batch_too_large: why");
  });
});

const recordOf = (index: number, text = "x") => ({
  timeUnixNano: String(1_700_000_000_000_000_000n + BigInt(index)),
  body: { stringValue: text },
});
const resource = (name: string) => ({ attributes: [{ key: "service.name", value: { stringValue: name } }] });
const document = {
  resourceLogs: [
    {
      resource: resource("a"),
      scopeLogs: [{ scope: { name: "s" }, logRecords: [0, 1, 2, 3].map((index) => recordOf(index)) }, {}],
    },
    { resource: resource("empty") },
    {
      resource: resource("b"),
      scopeLogs: [{ scope: { name: "t" }, logRecords: [] }, { logRecords: [recordOf(4), recordOf(5, "y".repeat(5000)), recordOf(6)] }],
    },
  ],
};
const request = encodeProtobuf("logs", document);
const PROTOBUF = { "content-type": "application/x-protobuf" };

interface Parsed {
  resourceLogs: { resource: object; scopeLogs: { scope?: object; logRecords: object[] }[] }[];
}

function parts(limits: { storedBytes?: number; sentBytes?: number }) {
  return [...splitBatch("logs", request, { storedBytes: 1e9, sentBytes: 1e9, ...limits })];
}

function flat(body: Buffer): object[] {
  const { resourceLogs } = JSON.parse(protobufToJson("logs", body).toString()) as Parsed;
  return resourceLogs.flatMap(({ resource: of, scopeLogs }) =>
    scopeLogs.flatMap(({ scope, logRecords }) => logRecords.map((each) => ({ of, scope, each }))),
  );
}

test.each([{ storedBytes: 1 }, { storedBytes: 900 }, { storedBytes: 3000 }, { sentBytes: 400 }, {}])(
  "within %j each record is sent once, in order, with its resource and scope, and the same bytes each time",
  (limits) => {
    const found = parts(limits);
    expect(found.flatMap(({ body }) => flat(body))).toEqual(expectedRecords());
    expect(found.map(({ records }) => records)).toEqual(found.map(({ body }) => flat(body).length));
    expect(parts(limits)).toEqual(found);
  },
);

test("parts are as large as the limit allows, and a record that is too large gets its own part", () => {
  expect(parts({ storedBytes: 1 }).map(({ records }) => records)).toEqual([1, 1, 1, 1, 1, 1, 1]);
  expect(parts({}).map(({ records }) => records)).toEqual([7]);
  expect(parts({ storedBytes: 3000 }).map(({ records }) => records)).toEqual([5, 1, 1]);
  for (const { body, records } of parts({ sentBytes: 600 })) expect(records === 1 || body.length < 800).toBe(true);
});

test("splits spans likewise, returns no part for an empty request, and rejects malformed ones", () => {
  const of = (...names: string[]) =>
    encodeProtobuf("traces", { resourceSpans: [{ scopeSpans: [{ spans: names.map((name) => ({ name })) }] }] });
  expect([...splitBatch("traces", of("1", "2"), { storedBytes: 1, sentBytes: 1 })].map(({ body }) => body)).toEqual([of("1"), of("2")]);
  const split = (bytes: Buffer) => [...splitBatch("logs", bytes, { storedBytes: 1, sentBytes: 1 })];
  expect(split(Buffer.alloc(0))).toEqual([]);
  for (const text of ["{}", "\n", "\n\x05a"]) expect(() => split(Buffer.from(text))).toThrow(BodyError);
});

function expectedRecords(): object[] {
  const [a, , b] = document.resourceLogs;
  const of = (at: typeof a, scope: object | undefined, records: object[]) => records.map((each) => ({ of: at?.resource, scope, each }));
  return [
    ...of(
      a,
      { name: "s" },
      [0, 1, 2, 3].map((index) => recordOf(index)),
    ),
    ...of(b, undefined, [recordOf(4), recordOf(5, "y".repeat(5000)), recordOf(6)]),
  ];
}

test("splits metrics at points, each with its metric, and all are stored", async () => {
  const attributes = (index: number) => [{ key: "index", value: { stringValue: String(index) } }];
  const timeUnixNano = `${NOW_MS}000000`;
  const points = Array.from({ length: 2000 }, (_, index) => ({ timeUnixNano, asInt: String(index), attributes: attributes(index) }));
  const metrics = [
    { name: "first", unit: "By", gauge: { dataPoints: points.slice(0, 2) } },
    { name: "empty" },
    { name: "large", sum: { aggregationTemporality: 2, isMonotonic: true, dataPoints: points } },
    {
      name: "last",
      histogram: {
        aggregationTemporality: 2,
        dataPoints: [{ timeUnixNano, count: "9", sum: 1.5, bucketCounts: ["4", "5"], explicitBounds: [-1], min: -3 }],
      },
    },
  ];
  const resource = { attributes: [{ key: "service.name", value: { stringValue: "shop" } }, ...attributes(7)] };
  const body = encodeProtobuf("metrics", { resourceMetrics: [{ resource, scopeMetrics: [{ scope: { name: "s" }, metrics }] }] });
  const linesOf = (part: Buffer, maxTextBytes?: number): string[] =>
    Buffer.concat(convertMetrics({ body: part, encoding: "protobuf" }, maxTextBytes).texts)
      .toString()
      .split("\n");
  const stored: string[] = [];
  const send = async (part: Buffer): Promise<ForwardResult> => {
    try {
      stored.push(...linesOf(part, 20_000));
      return ACCEPTED;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      return { kind: "refused", status: error.status, code: error.code, message: error.message };
    }
  };
  const { parts, dropped } = sender();
  expect(await parts.send("metrics", body, TOO_LARGE, send)).toEqual(ACCEPTED);
  expect(dropped).toEqual([]);
  // Each part has its target_info.
  const series = (lines: string[]): string[] => lines.filter((line) => line !== "" && !line.startsWith("target_info"));
  expect(series(stored)).toEqual(series(linesOf(body)));
});
