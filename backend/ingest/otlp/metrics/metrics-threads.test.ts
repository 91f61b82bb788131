// Bodies of metrics that are converted on a thread give the same result as small ones on the event loop, and a hostile one fails without
// affecting others.
import { afterAll, expect, test } from "vitest";
import { bytesField, encodeProtobuf } from "../protobuf/encode.fixture.ts";
import { convertMetrics, type ConvertedMetrics, type MetricsTask } from "./convert-metrics.ts";
import { compressSnappy } from "../../snappy.fixture.ts";
import { createOwnMetrics } from "../../../operations/own-metrics.ts";
import { IngestHandler, type IngestSignal, type IngestResult } from "../../ingest-handler.ts";
import { createOtlpMetricsIngest, MetricsThreads } from "./metrics-threads.ts";

const threads = new MetricsThreads();
afterAll(async () => await threads[Symbol.asyncDispose]());

function gauge(points: number): object {
  const dataPoints = Array.from({ length: points }, (_, index) => ({
    timeUnixNano: "1795262400123456789",
    asDouble: index / 3,
    attributes: [{ key: "index", value: { intValue: String(index) } }],
  }));
  return { resourceMetrics: [{ scopeMetrics: [{ metrics: [{ name: "load", gauge: { dataPoints } }] }] }] };
}

const text = ({ texts, dropped }: ConvertedMetrics): unknown[] => [Buffer.concat(texts).toString(), dropped];
const convert = async (task: MetricsTask): Promise<unknown[]> => await threads.convert("org", task, async (converted) => text(converted));

test("converts large bodies on a thread, in sequence, to the same text in both encodings", async () => {
  const document = gauge(20_000);
  const json = Buffer.from(JSON.stringify(document));
  const expected = text(convertMetrics({ body: json }));
  const protobuf = encodeProtobuf("metrics", document);
  expect(protobuf.length).toBeGreaterThan(500_000);
  const results = await Promise.all([convert({ body: json }), convert({ body: protobuf, encoding: "protobuf" })]);
  expect(results).toEqual([expected, expected]);
});

test("rejects a large unreadable body with its code, and the thread continues", async () => {
  const body = Buffer.alloc(300_000, 0xff);
  await expect(convert({ body, encoding: "protobuf" })).rejects.toMatchObject({ code: "malformed_body" });
  await expect(convert({ body })).rejects.toMatchObject({ code: "malformed_body" });
  expect(await convert({ body: Buffer.from(JSON.stringify(gauge(5000))) })).toEqual(
    text(convertMetrics({ body: Buffer.from(JSON.stringify(gauge(5000))) })),
  );
});

const KIB = 1024;

/** A small body: 30 labels of 1 KiB are repeated for each of the points. */
function expanding(points: number): Buffer {
  const attributes = Array.from({ length: 30 }, (_, index) => ({ key: `k${index}`, value: { stringValue: "v".repeat(KIB) } }));
  const dataPoints = Array.from({ length: points }, () => ({ asInt: "1" }));
  const metrics = [{ name: "m", gauge: { dataPoints } }];
  return Buffer.from(JSON.stringify({ resourceMetrics: [{ resource: { attributes }, scopeMetrics: [{ metrics }] }] }));
}

test("converts an organisation's small bodies that expand to much text in sequence", async () => {
  const body = expanding(1000);
  expect(body.length).toBeLessThan(50 * KIB);
  let [inUse, most] = [0, 0];
  const use = async ({ texts }: ConvertedMetrics): Promise<number> => {
    most = Math.max(most, ++inUse);
    // What another body of the organisation would need to be converted on this thread.
    await convertSmall();
    inUse -= 1;
    return Buffer.concat(texts).length;
  };
  const lengths = await Promise.all([1, 2, 3].map(async () => await threads.convert("org", { body }, use)));
  for (const length of lengths) expect(length).toBeGreaterThan(30_000_000);
  expect(most).toBe(1);
});

async function convertSmall(): Promise<void> {
  await threads.convert("org", { body: Buffer.from(JSON.stringify(gauge(1))) }, async () => {});
}

function openHandler(exposition: IngestSignal) {
  const limitsOf = () => ({ bytesPerSecond: 0, recordsPerSecond: 0 });
  const ownMetrics = createOwnMetrics({ defaults: false });
  const handler = new IngestHandler({ ownMetrics, memoryBytes: 128 * KIB * KIB, limitsOf, draining: () => false });
  const ingest = createOtlpMetricsIngest(
    threads,
    exposition,
    async () => ({ stored: 0, dropped: {} }),
    () => 1e13,
  );
  const sender = { orgId: "org", hostId: "host", node: "node", keyId: "key", kind: "direct", createdAt: new Date() } as const;
  const take = async (body: Buffer, isTolerant = true): Promise<IngestResult> =>
    await handler.handle({ sender, signal: "metrics", ingest, isTolerant, read: () => body });
  return { handler, take };
}

test.each([20, 1000])("counts the text of %i points as memory of the request until it is stored", async (points) => {
  let [heldBytes, textBytes] = [0, 0];
  const { handler, take } = openHandler(async (_, text) => {
    textBytes += text.length;
    heldBytes = handler.budget.heldBytes;
    return { accepted: 1, dropped: {} };
  });
  await take(expanding(points));
  expect(textBytes).toBeGreaterThan(points * 30_000);
  expect(heldBytes).toBe(textBytes);
  expect(handler.budget.heldBytes).toBe(0);
});

test("stores the good points of a body with an invalid list, and names the other metric", async () => {
  let stored = 0;
  const { take } = openHandler(async () => ({ accepted: ++stored, dropped: {} }));
  const bad = { name: "bad", sum: { aggregationTemporality: 1, dataPoints: { length: "x" } } };
  const good = { name: "good", gauge: { dataPoints: [{ asInt: "1" }] } };
  const body = JSON.stringify({ resourceMetrics: [{ scopeMetrics: [{ metrics: [good, bad] }] }] });
  await expect(take(Buffer.from(body), false)).rejects.toMatchObject({
    code: "invalid_payload",
    message: expect.stringContaining("metrics[1]"),
  });
  expect(stored).toBe(0);
  expect(await take(Buffer.from(body))).toMatchObject({
    accepted: 1,
    dropped: { invalid_record: 1 },
    faults: { first: ["resourceMetrics[0].scopeMetrics[0].metrics[1]: dataPoints must be a list"] },
  });
  expect(stored).toBe(1);
});

test("checks a small remote write request whose references repeat a long symbol on a thread", async () => {
  const symbols = ["", "__name__", "up", "v".repeat(6000)].map((text) => bytesField(4, Buffer.from(text)));
  const series = bytesField(5, bytesField(1, Buffer.from([1, 2, ...Array<number>(250).fill(3)])));
  const body = compressSnappy(Buffer.concat([...symbols, ...Array<Buffer>(38).fill(series)]));
  expect(body.length).toBeLessThan(1024);
  const limits = { maxLabels: 37, maxNameBytes: 256, maxValueBytes: 4096, maxLabelBytes: 8192, oldestMs: 0, newestMs: Date.now() };
  const before = process.threadCpuUsage();
  const refused = threads.checkWrite("org", { body, version: 2, limits }).catch((error: unknown) => error);
  const { user, system } = process.threadCpuUsage(before);
  expect((user + system) / 1000).toBeLessThan(8);
  expect(await refused).toMatchObject({ code: "batch_too_large" });
});
