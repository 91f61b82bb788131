// Requests with lines of files, through the proxy to a backend that keeps what reaches it. The tests report starts of the collector and
// re-read lines themselves; test/faults/agent-killed.test.ts does it with a real collector.
import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, it, test, vi } from "vitest";
import { encodeProtobuf } from "../../backend/ingest/otlp/protobuf/encode.fixture.ts";
import { protobufToJson } from "../../backend/ingest/otlp/protobuf/to-json.ts";
import { FILES_HEADER, parseFileRequest, START_ATTRIBUTE } from "../collector/files/file-batch.ts";
import { StoredBatches } from "../collector/files/stored-batches.ts";
import { accept, type Answer, closeAll, errorAnswer, open, post, type Received, startBackend, startWith } from "./proxy.fixture.ts";
import type { Proxy } from "./server.ts";

/** Without it, a 400 is that of a backend that reads only JSON. */
const KNOWS_PROTOBUF = { "accept-post": "application/x-protobuf" };

let folder: string;
let nowMs: number;
let start: number;
let storedBatches: StoredBatches;
let backend: Awaited<ReturnType<typeof startBackend>>;
let proxy: Proxy;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "atherops-file-lines-"));
  nowMs = 1_763_714_400_000;
  storedBatches = new StoredBatches({ folder, log: pino({ level: "silent" }), nowMs: () => nowMs });
  start = storedBatches.collectorStarts();
  nowMs += 1000;
  backend = await startBackend();
  proxy = await startWith(backend.url, { storedBatches, compression: "gzip" });
});
afterEach(async () => {
  await closeAll();
  storedBatches[Symbol.dispose]();
  rmSync(folder, { recursive: true });
});

/** Lines of one file, as the running collector sends them. */
function lines(...texts: string[]): string {
  return bodyWith((attributes) => attributes, texts);
}

/** The same lines with their attributes in another order, as when the collector reads them again. */
function turned(...texts: string[]): string {
  return bodyWith((attributes) => attributes.toReversed(), texts);
}

function bodyWith(order: (attributes: object[]) => object[], texts: string[]): string {
  const logRecords = texts.map((text, i) => ({
    observedTimeUnixNano: `${nowMs}000000`,
    body: { stringValue: text },
    attributes: order([
      { key: "log.file.record_offset", value: { intValue: String(i * 100) } },
      { key: "log.file.path", value: { stringValue: "/var/log/x.log" } },
      { key: "log.file.name", value: { stringValue: "x.log" } },
    ]),
  }));
  const attributes = [{ key: START_ATTRIBUTE, value: { intValue: String(start) } }];
  return JSON.stringify({ resourceLogs: [{ resource: { attributes }, scopeLogs: [{ scope: {}, logRecords }] }] });
}

function send(body: string | Buffer, headers: Record<string, string> = {}, to: Proxy = proxy): ReturnType<typeof post> {
  const encoded = typeof body === "string" ? encode(body) : body;
  return post(to, "/v1/logs", encoded, { ...PROTOBUF, [FILES_HEADER]: storedBatches.token, ...headers });
}

const PROTOBUF = { "content-type": "application/x-protobuf" };

function encode(json: string): Buffer {
  return encodeProtobuf("logs", JSON.parse(json) as object);
}

/** Another run of the agent. */
async function agentOn(stateFolder: string): Promise<Proxy> {
  const stored = new StoredBatches({ folder: stateFolder, log: pino({ level: "silent" }), nowMs: () => nowMs });
  open.push({ [Symbol.asyncDispose]: async () => Promise.resolve(stored[Symbol.dispose]()) });
  start = stored.collectorStarts();
  nowMs += 1000;
  return await startWith(backend.url, { storedBatches: stored, compression: "gzip" });
}

function killCollector(): void {
  nowMs += 1000;
  start = storedBatches.collectorStarts();
  nowMs += 1000;
}

/** Batches of several files in one request, as the collector combines them, read at different milliseconds. */
function together(...bodies: string[]): string {
  return `{"resourceLogs":[${bodies.map((body) => body.slice('{"resourceLogs":['.length, -2)).join(",")}]}`;
}

/** Texts of the lines of a request. */
function linesOf(received: Received): string[] {
  return [...textOf(received).matchAll(/"body":\{"stringValue":"([^"]*)"/g)].map(([, text = ""]) => text);
}

/** The backend refuses a request when `refusalFor` returns a refusal for its lines. Returns the lines that it accepted. */
function takenUnless(refusalFor: (texts: readonly string[]) => Answer | undefined): string[] {
  const taken: string[] = [];
  backend.answer = (received, response) => {
    const texts = linesOf(received);
    const refusal = refusalFor(texts);
    if (!refusal) taken.push(...texts);
    (refusal ?? accept)(received, response);
  };
  return taken;
}

function textOf({ body }: Received): string {
  return protobufToJson("logs", gunzipSync(body)).toString();
}

test("batches that are too large for a proxy before the backend only together are sent one by one", async () => {
  const tooLarge: Answer = (_, response) => response.writeHead(413).end("<html>nginx</html>");
  const taken = takenUnless((texts) => (texts.length > 2 ? tooLarge : undefined));
  const first = lines("a", "b");
  nowMs += 10;
  expect(await send(together(first, lines("c", "d")))).toMatchObject({ status: 200 });
  expect(taken).toEqual(["a", "b", "c", "d"]);
  expect(readdirSync(join(folder, "unanswered"))).toEqual([]);
});

test("records of NUL bytes are counted instead of sent, and a request of nothing else is accepted", async () => {
  const hole = "\0".repeat(1_048_576);
  expect(await send(lines(hole, hole))).toMatchObject({ status: 200 });
  expect(backend.received).toEqual([]);
  expect(await send(lines("before", hole, `${hole.slice(9)}after`))).toMatchObject({ status: 200 });
  expect(backend.received).toHaveLength(1);
  expect(gunzipSync(backend.received[0]?.body ?? "").length).toBeLessThan(500);
  expect(proxy.status().logs).toMatchObject({ accepted: 2, droppedPoints: { nul_bytes: 3 }, splitLines: 0 });
});

describe("lines of files", () => {
  it.each([0, 1])("are not sent again after an upgrade if the former agent delivered their batch (form %i of its key)", async (form) => {
    const key = parseFileRequest(encode(lines("a", "b")))[0]
      ?.formerKeys()
      .of(2)[form];
    writeFileSync(join(folder, "stored-batches"), `token former\nstart 1\nbatch ${nowMs} ${key}\n`);
    for (let run = 0; run < 2; run += 1) {
      storedBatches[Symbol.dispose]();
      storedBatches = new StoredBatches({ folder, log: pino({ level: "silent" }), nowMs: () => nowMs });
      killCollector();
    }
    const upgraded = await startWith(backend.url, { storedBatches, compression: "gzip" });
    for (const texts of [["a", "b"], ["a"], ["a", "b", "c"]]) {
      nowMs += 1000;
      expect(await send(lines(...texts), {}, upgraded)).toMatchObject({ status: 200 });
    }
    expect(backend.received.flatMap((request) => linesOf(request))).toEqual(["a", "c"]);
  });

  it("are sent without their offsets and source, compressed as configured", async () => {
    const body = lines('a "b"', "ü");
    expect(await send(body)).toMatchObject({ status: 200, body: "{}" });
    expect(await send(gzipSync(encode(lines("c"))), { "content-encoding": "gzip" })).toMatchObject({ status: 200 });
    const [first, second] = backend.received as [Received, Received];
    expect(first.url).toBe("/ingest/logs/otlp");
    expect(first.headers).toMatchObject({ "content-encoding": "gzip" });
    expect(first.headers[FILES_HEADER]).toBeUndefined();
    const withoutStart = body.replace(/\{"key":"atherops.collector_start","value":\{"intValue":"\d+"\}\}/, "");
    const withoutOffsets = withoutStart.replaceAll(/\{"key":"log.file.record_offset","value":\{"intValue":"\d+"\}\},/g, "");
    expect(gunzipSync(first.body)).toEqual(encode(withoutOffsets));
    expect(first.headers).toMatchObject({ "content-type": "application/x-protobuf" });
    expect(textOf(second)).toContain('"stringValue":"c"');
  });

  it("are byte-identical if the request is repeated, so that the backend stores it once", async () => {
    backend.answer = errorAnswer(503, "unavailable");
    const body = lines("a");
    expect(await send(body)).toMatchObject({ status: 503 });
    backend.answer = accept;
    expect(await send(body)).toMatchObject({ status: 200 });
    expect(backend.received[1]?.body).toEqual(backend.received[0]?.body);
  });

  it("that a new collector reads again are not sent again", async () => {
    await send(lines("a", "b"));
    killCollector();
    expect(await send(lines("a", "b"))).toMatchObject({ status: 200, body: "{}" });
    expect(backend.received).toHaveLength(1);
    await send(lines("a", "b", "c"));
    expect(backend.received.map(linesOf)).toEqual([["a", "b"], ["c"]]);
  });

  it.each([
    ["has no room", errorAnswer(503, "unavailable")],
    ["asks to wait", errorAnswer(429, "over_quota")],
    ["refuses them", errorAnswer(400, "malformed_body", KNOWS_PROTOBUF)],
    ["breaks off", (_: Received, response: { destroy(): void }) => response.destroy()],
  ])("are sent again if the backend %s, without those that it accepted", async (_, answer) => {
    backend.answer = answer;
    await send(lines("a"));
    backend.answer = accept;
    killCollector();
    await send(lines("a"));
    expect(backend.received).toHaveLength(2);
  });

  it("that are read twice are sent in sequence, and once", async () => {
    const body = lines("a");
    killCollector();
    const answered = Promise.withResolvers<void>();
    backend.answer = (received, response) => void answered.promise.then(() => accept(received, response));
    const both = [send(body), send(lines("a"))];
    while (backend.received.length === 0) await new Promise((done) => setImmediate(done));
    answered.resolve();
    expect((await Promise.all(both)).map(({ status }) => status)).toEqual([200, 200]);
    expect(backend.received).toHaveLength(1);
  });

  it("are deduplicated by file after the collector was killed, whatever request contains them", async () => {
    const [a, b] = [lines("a"), lines("b")];
    expect(await send(together(a, b))).toMatchObject({ status: 200 });
    killCollector();
    expect(await send(together(a, lines("b"), lines("c")))).toMatchObject({ status: 200 });
    expect(await send(together(lines("c"), b))).toMatchObject({ status: 200 });
    expect(backend.received.map(linesOf)).toEqual([["a", "b"], ["c"]]);
  });

  it("that are in the queue and were read again are sent once if one request contains both", async () => {
    const a = lines("a");
    killCollector();
    expect(await send(together(a, lines("b"), lines("a")))).toMatchObject({ status: 200 });
    expect(backend.received.map(linesOf)).toEqual([["a", "b"]]);
  });

  it("that are twice in one request are sent once", async () => {
    const a = lines("a");
    expect(await send(together(a, lines("b"), a))).toMatchObject({ status: 200 });
    expect(backend.received.map(linesOf)).toEqual([["a", "b"]]);
  });

  it("are recognised if the collector was killed before the response", async () => {
    const answered = Promise.withResolvers<void>();
    backend.answer = (received, response) => void answered.promise.then(() => accept(received, response));
    const [a, b] = [lines("a"), lines("b")];
    const gone = new AbortController();
    const headers = { ...PROTOBUF, [FILES_HEADER]: storedBatches.token };
    const first = fetch(`http://127.0.0.1:${proxy.port}/v1/logs`, {
      method: "POST",
      headers,
      body: new Uint8Array(encode(together(a, b))),
      signal: gone.signal,
    });
    while (backend.received.length === 0) await new Promise((done) => setImmediate(done));
    gone.abort();
    await expect(first).rejects.toThrow("aborted");
    killCollector();
    const second = send(together(lines("c"), a));
    answered.resolve();
    expect(await second).toMatchObject({ status: 200 });
    expect(backend.received.map(linesOf)).toEqual([["a", "b"], ["c"]]);
  });

  it("without a response before the agent was killed are repeated byte for byte, whatever batch contains them", async () => {
    const came = Promise.withResolvers<{ destroy(): void }>();
    backend.answer = (_, response) => came.resolve(response);
    const [a, b] = [lines("a"), lines("b")];
    const lost = send(together(a, b));
    const unanswered = await came.promise;
    // What the next agent finds on the disk.
    const next = await agentOn(folder);
    backend.answer = accept;
    expect(await send(together(lines("c"), b), {}, next)).toMatchObject({ status: 200 });
    expect(await send(together(a, lines("d")), {}, next)).toMatchObject({ status: 200 });
    expect(backend.received.map(linesOf)).toEqual([["a", "b"], ["a", "b"], ["c"], ["d"]]);
    expect(backend.received[1]?.body).toEqual(backend.received[0]?.body);
    expect(readdirSync(join(folder, "unanswered"))).toHaveLength(0);
    unanswered.destroy();
    expect((await lost).status).toBe(503);
  });

  it("without a response before a kill are stored once if the next collector orders their attributes differently", async () => {
    const came = Promise.withResolvers<{ destroy(): void }>();
    backend.answer = (_, response) => came.resolve(response);
    const lost = send(lines("a", "b"));
    const unanswered = await came.promise;
    const next = await agentOn(folder);
    backend.answer = accept;
    expect(await send(turned("a", "b"), {}, next)).toMatchObject({ status: 200 });
    expect(backend.received).toHaveLength(2);
    expect(backend.received[1]?.body).toEqual(backend.received[0]?.body);
    expect(readdirSync(join(folder, "unanswered"))).toHaveLength(0);
    unanswered.destroy();
    expect((await lost).status).toBe(503);
  });

  it("without a response before a kill wait while the backend is away, and are sent alone if it rejects them", async () => {
    backend.answer = errorAnswer(503, "unavailable");
    const [a, bad] = [lines("a"), lines("bad")];
    expect((await send(together(a, bad))).status).toBe(503);
    const next = await agentOn(folder);
    expect((await send(together(a, lines("c")), {}, next)).status).toBe(503);
    expect(backend.received.map(linesOf)).toEqual([
      ["a", "bad"],
      ["a", "bad"],
    ]);
    const taken = takenUnless((texts) => (texts.includes("bad") ? errorAnswer(400, "malformed_body", KNOWS_PROTOBUF) : undefined));
    expect((await send(together(a, lines("c")), {}, next)).status).toBe(200);
    expect(taken).toEqual(["a", "c"]);
  });

  it("are recorded as stored before their request is removed, because the agent may be killed in between", async () => {
    const { unanswered } = storedBatches;
    const recorded: string[] = [];
    vi.spyOn(unanswered, "end").mockImplementation(() => void recorded.push(readFileSync(join(folder, "stored-batches"), "utf8")));
    expect((await send(together(lines("a"), lines("b")))).status).toBe(200);
    expect(recorded.map((text) => text.match(/"lines":\[\d/g)?.length)).toEqual([2]);
  });

  it("are sent if the record of sent lines cannot be written, or is damaged", async () => {
    backend.answer = errorAnswer(503, "unavailable");
    const [a, b] = [lines("a"), lines("b")];
    await send(together(a, b));
    for (const name of readdirSync(join(folder, "unanswered"))) truncateSync(join(folder, "unanswered", name), 100);
    backend.answer = accept;
    const next = await agentOn(folder);
    rmSync(join(folder, "unanswered"), { recursive: true });
    writeFileSync(join(folder, "unanswered"), "");
    expect((await send(together(b, lines("c"), a), {}, next)).status).toBe(200);
    expect(linesOf(backend.received.at(-1) as Received)).toEqual(["b", "c", "a"]);
  });

  it.each([
    [400, "malformed_body"],
    [413, "batch_too_large"],
  ])("of one file that the backend rejects (%i) take no other file's lines with them", async (status, code) => {
    const taken = takenUnless((texts) => (texts.includes("bad") ? errorAnswer(status, code, KNOWS_PROTOBUF) : undefined));
    expect((await send(together(lines("a"), lines("bad"), lines("b")))).status).toBe(status === 400 ? 400 : 200);
    expect(taken).toEqual(["a", "b"]);
  });

  it("are sent alone once if the backend fails in the middle", async () => {
    const [a, bad, b] = [lines("a"), lines("bad"), lines("b")];
    let isAway = true;
    const taken = takenUnless((texts) => {
      if (texts.includes("bad")) return errorAnswer(400, "malformed_body", KNOWS_PROTOBUF);
      return isAway && texts.includes("b") ? errorAnswer(503, "unavailable") : undefined;
    });
    expect((await send(together(a, bad, b))).status).toBe(503);
    isAway = false;
    expect((await send(together(a, bad, b))).status).toBe(400);
    expect(taken).toEqual(["a", "b"]);
  });

  it("are deduplicated only if the collector reports them as read again", async () => {
    await send(lines("a"));
    killCollector();
    for (const token of ["", "x", "x".repeat(storedBatches.token.length)]) await send(lines("a"), { [FILES_HEADER]: token });
    await post(proxy, "/v1/logs", encode(lines("a")), PROTOBUF);
    expect(backend.received).toHaveLength(5);
    expect(textOf(backend.received[4] as Received)).toContain("log.file.record_offset");
  });

  it("cannot be marked as sent by another client", async () => {
    await send(lines("a"), { [FILES_HEADER]: "x".repeat(storedBatches.token.length) });
    killCollector();
    await send(lines("a"));
    expect(backend.received).toHaveLength(2);
  });

  it("are sent in parts if they exceed one body, and are recognised afterwards", async () => {
    const whole = lines("a", "b");
    backend.answer = (received, response) =>
      textOf(received).includes('"stringValue":"a"') && textOf(received).includes('"stringValue":"b"')
        ? errorAnswer(413, "batch_too_large")(received, response)
        : accept(received, response);
    expect(await send(whole)).toMatchObject({ status: 200 });
    const { length } = backend.received;
    killCollector();
    await send(lines("a", "b"));
    expect(backend.received).toHaveLength(length);
  });
});
