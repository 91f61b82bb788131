// Bodies of metrics that are converted on a thread become what small ones become on the event loop, and hostile ones fail alone.
import { afterAll, expect, test } from "vitest";
import { encodeProtobuf } from "../protobuf/encode.fixture.ts";
import { convertMetrics, type ConvertedMetrics, type MetricsTask } from "./convert-metrics.ts";
import { MetricsThreads } from "./metrics-threads.ts";

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

test("a large body becomes the same text on a thread, in both encodings, one after the other", async () => {
  const document = gauge(20_000);
  const json = Buffer.from(JSON.stringify(document));
  const expected = text(convertMetrics({ body: json }));
  const protobuf = encodeProtobuf("metrics", document);
  expect(protobuf.length).toBeGreaterThan(500_000);
  const results = await Promise.all([convert({ body: json }), convert({ body: protobuf, encoding: "protobuf" })]);
  expect(results).toEqual([expected, expected]);
});

test("a large body that cannot be read is refused with its code, and the thread goes on", async () => {
  const body = Buffer.alloc(300_000, 0xff);
  await expect(convert({ body, encoding: "protobuf" })).rejects.toMatchObject({ code: "malformed_body" });
  await expect(convert({ body })).rejects.toMatchObject({ code: "invalid_payload" });
  expect(await convert({ body: Buffer.from(JSON.stringify(gauge(5000))) })).toEqual(
    text(convertMetrics({ body: Buffer.from(JSON.stringify(gauge(5000))) })),
  );
});
