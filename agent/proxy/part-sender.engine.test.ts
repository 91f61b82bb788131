// Batches that the backend refuses because of their size, checked with the backend's own decoder, and through a running proxy.
import { decodeWithHash } from "../../backend/ingest/otlp/otlp-body.fixture.ts";
import { gunzipSync, gzipSync } from "node:zlib";
import { afterEach, describe, expect, it, test } from "vitest";
import { ApiError } from "../../backend/errors.ts";
import type { ForwardResult } from "./forward.ts";
import { PartSender, splitBatch } from "./part-sender.ts";
import { accept, closeAll, errorAnswer, isSignedWith, post, type Received, startBackend, startWith } from "./proxy.fixture.ts";
import { BodyError } from "../../common/otlp-metrics/document.ts";

afterEach(closeAll);

const TOO_LARGE: ForwardResult = { kind: "refused", status: 413, code: "batch_too_large", message: "send smaller batches" };
const ACCEPTED: ForwardResult = { kind: "accepted" };
const NOW_MS = Date.now();
const CONTEXT = { orgId: "o", hostId: "h", node: "n", receivedAtMs: NOW_MS, firstId: "1", bodyHash: "1", retentionDays: 30 };

const record = (index: number, rest: object = {}) => ({ timeUnixNano: String(BigInt(NOW_MS) * 1_000_000n + BigInt(index)), ...rest });

function logs(logRecords: object[], argument = ""): Buffer {
  const attributes = [{ key: "process.command_args", value: { arrayValue: { values: [{ stringValue: argument }] } } }];
  return Buffer.from(JSON.stringify({ resourceLogs: [{ resource: { attributes }, scopeLogs: [{ logRecords }] }] }));
}

/** Responds like the backend, and counts records. */
function backend() {
  const taken = { records: 0, bodies: [] as string[] };
  const send = async (body: Buffer): Promise<ForwardResult> => {
    try {
      taken.records += decodeWithHash({ signal: "logs", body, context: CONTEXT }).accepted;
      taken.bodies.push(body.toString());
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
  return { dropped, parts: new PartSender((signal, count, why) => dropped.push([signal, count, why])) };
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
  expect(dropped).toEqual([["logs", 1, expect.stringContaining("batch_too_large: ")]]);
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
    sent.push(body.toString());
    return sent.length === 3 ? { kind: "retry", reason: "away", retryAfterS: 1 } : ACCEPTED;
  };
  expect(await parts.send("logs", batch, TOO_LARGE, failing)).toMatchObject({ kind: "retry" });
  expect(await parts.send("logs", batch, TOO_LARGE, failing)).toEqual(ACCEPTED);
  expect(sent).toEqual(all.taken.bodies.toSpliced(3, 0, all.taken.bodies[2] ?? ""));
});

test("a part that is rejected for its content is final, and is reported after the rest is stored", async () => {
  const { taken, send } = backend();
  const wrong = record(5, { severityText: 5 });
  const batch = logs([...Array.from({ length: 3000 }, (_, index) => record(index)), wrong], "x".repeat(64_000));
  expect(await sender().parts.send("logs", batch, TOO_LARGE, send)).toMatchObject({
    kind: "refused",
    status: 400,
    code: "invalid_payload",
  });
  expect(taken.records).toBeGreaterThan(2000);
});

test("a batch that cannot be split keeps the rejection", async () => {
  const { send } = backend();
  expect(await sender().parts.send("logs", Buffer.from("{}"), TOO_LARGE, send)).toEqual(TOO_LARGE);
});

describe("batches through the proxy", () => {
  it.each(["logs", "traces"])("that are too large: %s are sent in parts, in the same compression, each signed", async (signal) => {
    const backend = await startBackend(({ body }, response) =>
      gunzipSync(body).length > 3000 ? errorAnswer(413, "batch_too_large")({ body } as Received, response) : response.writeHead(204).end(),
    );
    const proxy = await startWith(backend.url, { compression: "zstd" });
    const [resources, scopes, list] =
      signal === "logs" ? (["resourceLogs", "scopeLogs", "logRecords"] as const) : (["resourceSpans", "scopeSpans", "spans"] as const);
    const records = Array.from({ length: 100 }, (_, index) => ({ name: `${index} ${"x".repeat(60)}` }));
    const json = JSON.stringify({ [resources]: [{ [scopes]: [{ [list]: records }] }] });
    const answer = await post(proxy, `/v1/${signal}`, gzipSync(json), { "content-encoding": "gzip" });
    expect(answer).toMatchObject({ status: 200, body: "{}" });
    const stored = backend.received.map(({ body }) => gunzipSync(body).toString()).filter((text) => text.length <= 3000);
    const names = stored.flatMap((text) => {
      const document = JSON.parse(text) as Record<string, Record<string, Record<string, object[]>[]>[]>;
      return document[resources]?.[0]?.[scopes]?.[0]?.[list] ?? [];
    });
    expect(names).toEqual(records);
    for (const each of backend.received) expect(isSignedWith("ak_first", each)).toBe(true);
    expect(proxy.status()[signal as "logs"]).toMatchObject({ accepted: 1, retried: 0, refused: 0 });
  });

  it("with one record that is too large are sent without it, and it is counted and logged", async () => {
    const backend = await startBackend((received, response) =>
      received.body.includes("huge") ? errorAnswer(413, "batch_too_large")(received, response) : accept(received, response),
    );
    const proxy = await startWith(backend.url);
    const logRecords = ["a", "huge", "b"].map((stringValue) => ({ body: { stringValue } }));
    expect(await post(proxy, "/v1/logs", JSON.stringify({ resourceLogs: [{ scopeLogs: [{ logRecords }] }] }))).toMatchObject({
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
  future: 1,
  resourceLogs: [
    {
      resource: resource("a"),
      schemaUrl: "u",
      scopeLogs: [{ scope: { name: "s" }, logRecords: [0, 1, 2, 3].map((index) => recordOf(index)) }, {}],
    },
    { resource: resource("empty") },
    {
      resource: resource("b"),
      scopeLogs: [{ scope: { name: "t" }, logRecords: null }, { logRecords: [recordOf(4), recordOf(5, "y".repeat(5000)), recordOf(6)] }],
    },
  ],
};
const json = Buffer.from(JSON.stringify(document));

interface Parsed {
  resourceLogs: { resource: object; schemaUrl?: string; scopeLogs: { scope?: object; logRecords: object[] }[] }[];
}

function parts(limits: { storedBytes?: number; sentBytes?: number }) {
  return [...splitBatch("logs", json, { storedBytes: 1e9, sentBytes: 1e9, ...limits })];
}

function flat(body: Buffer): object[] {
  const { resourceLogs } = JSON.parse(body.toString()) as Parsed;
  return resourceLogs.flatMap(({ resource: of, schemaUrl, scopeLogs }) =>
    scopeLogs.flatMap(({ scope, logRecords }) => logRecords.map((each) => ({ of, schemaUrl, scope, each }))),
  );
}

test.each([{ storedBytes: 1 }, { storedBytes: 900 }, { storedBytes: 3000 }, { sentBytes: 400 }, {}])(
  "within %j each record is sent once, in order, with its resource and scope, and the same bytes each time",
  (limits) => {
    const found = parts(limits);
    expect(found.flatMap(({ body }) => flat(body))).toEqual(expectedRecords());
    expect(found.map(({ records }) => records)).toEqual(found.map(({ body }) => flat(body).length));
    expect(parts(limits)).toEqual(found);
    for (const { body } of found) expect(JSON.parse(body.toString())).toMatchObject({ future: 1 });
  },
);

test("parts are as large as the limit allows, and a record that is too large gets its own part", () => {
  expect(parts({ storedBytes: 1 }).map(({ records }) => records)).toEqual([1, 1, 1, 1, 1, 1, 1]);
  expect(parts({}).map(({ records }) => records)).toEqual([7]);
  expect(parts({ storedBytes: 3000 }).map(({ records }) => records)).toEqual([5, 1, 1]);
  for (const { body, records } of parts({ sentBytes: 600 })) expect(records === 1 || body.length < 800).toBe(true);
});

test("splits spans likewise, returns no part for an empty document, and rejects malformed ones", () => {
  const spans = Buffer.from(JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans: [{ name: "1" }, { name: "2" }] }] }] }));
  expect([...splitBatch("traces", spans, { storedBytes: 1, sentBytes: 1 })].map(({ body }) => body.toString())).toEqual(
    ["1", "2"].map((name) => `{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"${name}"}]}]}]}`),
  );
  const split = (text: string) => [...splitBatch("logs", Buffer.from(text), { storedBytes: 1, sentBytes: 1 })];
  expect(split("{}")).toEqual([]);
  for (const text of ["", "[", "null", '{"resourceLogs":{}}', '{"resourceLogs":[null]}']) expect(() => split(text)).toThrow(BodyError);
});

function expectedRecords(): object[] {
  const [a, , b] = document.resourceLogs;
  const of = (at: typeof a, scope: object | undefined, records: object[]) =>
    records.map((each) => ({ of: at?.resource, schemaUrl: at?.schemaUrl, scope, each }));
  return [
    ...of(
      a,
      { name: "s" },
      [0, 1, 2, 3].map((index) => recordOf(index)),
    ),
    ...of(b, undefined, [recordOf(4), recordOf(5, "y".repeat(5000)), recordOf(6)]),
  ];
}

test("reports a document of millions of empty objects as too large only", () => {
  const hostile = Buffer.from(`{"resourceLogs":[${"{},".repeat(3_100_000)}{}]}`);
  const split = (): unknown => [...splitBatch("logs", hostile, { storedBytes: 1 << 20, sentBytes: 1 << 20 })];
  expect(split).toThrow(expect.objectContaining({ name: "BodyError", kind: "too_large" }));
});
