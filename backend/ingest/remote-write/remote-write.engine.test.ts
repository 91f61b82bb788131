// A real VictoriaMetrics stores what remote write passes on: under the labels of the sender, whatever the request claims; within the limit
// of series; and once, however often it is sent.
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestEngine, type TestEngine } from "../../../test/fixtures/metrics-engine.ts";
import { ActiveSeries } from "../../storage/metrics/active-series.ts";
import { VictoriaMetricsStore } from "../../storage/metrics/metric-store.ts";
import { createExpositionIngest } from "../exposition/exposition-ingest.ts";
import type { IngestResult, IngestSignal } from "../ingest-handler.ts";
import { MetricsThreads } from "../otlp/metrics/metrics-threads.ts";
import { createRemoteWriteIngest } from "./remote-write-ingest.ts";
import { type TestSeries, writeBody } from "./write-request.fixture.ts";
import type { WriteVersion } from "./write-request.ts";

let engine: TestEngine;
let store: VictoriaMetricsStore;
const threads = new MetricsThreads();
const retentionMs = () => 30 * 86_400_000;

beforeAll(async () => {
  engine = await startTestEngine();
  store = new VictoriaMetricsStore(engine);
});
afterAll(async () => {
  await threads[Symbol.asyncDispose]();
  await store[Symbol.asyncDispose]();
  await engine[Symbol.asyncDispose]();
});

const ingestOf = (limit = 0): IngestSignal =>
  createRemoteWriteIngest({
    threads,
    store,
    activeSeries: new ActiveSeries({ limitOf: () => limit }),
    storeExemplars: async () => ({ stored: 0, dropped: {} }),
    retentionMs,
  });

const senderOf = (orgId: string) =>
  ({ keyId: "k", kind: "direct", orgId, hostId: `host-of-${orgId}`, node: `node-of-${orgId}`, createdAt: new Date() }) as const;

async function send(orgId: string, series: readonly TestSeries[], version: WriteVersion = 1, ingest = ingestOf()): Promise<IngestResult> {
  const encoding = version === 2 ? "remote_write_2" : "remote_write";
  return await ingest(senderOf(orgId), writeBody(series, version), { receivedAt: new Date(), encoding });
}

async function query(orgId: string, expression: string): Promise<{ metric: object; value: [number, string] }[]> {
  await engine.flush();
  const { body } = await store.query(orgId, "query", new URLSearchParams({ query: expression }));
  return (JSON.parse(body.toString()) as { data: { result: { metric: object; value: [number, string] }[] } }).data.result;
}

const named = (name: string, labels: Readonly<Record<string, string>>, value = 1): TestSeries => ({
  labels: [["__name__", name], ...Object.entries(labels)],
  samples: [[value, Date.now() - 1000]],
});

test.each([1, 2] as const)("version %i: stores samples under the sender's labels, and renames its own ones", async (version) => {
  const orgId = `plain-${version}`;
  expect(await send(orgId, [named("up", { job: "a" }, 2.5), named("kube_node", { node: "n1", org_id: "victim" })], version)).toMatchObject({
    accepted: 2,
    dropped: {},
  });
  const own = { org_id: orgId, host_id: `host-of-${orgId}`, node: `node-of-${orgId}` };
  expect(await query(orgId, "up")).toMatchObject([{ metric: { __name__: "up", job: "a", ...own }, value: [expect.any(Number), "2.5"] }]);
  const [renamed] = await query(orgId, "kube_node");
  expect(renamed?.metric).toEqual({ __name__: "kube_node", exported_node: "n1", exported_org_id: "victim", ...own });
  expect(await query("victim", '{__name__!=""}')).toEqual([]);
});

test("no form of another tenant's labels stores a sample for that tenant", async () => {
  const claims = [
    ["__name__=claim", "org_id=victim", "org_id =victim"],
    ["org_id=victim", "__name__=claim"],
    ["__name__=claim", "org_id=victim\n"],
    ["__name__=claim", "org_id\u0000=victim"],
    ["__name__=org_id", "vm_account_id=7"],
    ["__name__=claim", "org_id="],
  ].map((pairs) => pairs.map((pair) => pair.split("=") as [string, string]));
  const samples = [[1, Date.now() - 1000]] as const;
  for (const version of [1, 2] as const) for (const labels of claims) await send("attacker", [{ labels, samples }], version);
  const repeated = {
    labels: [
      ["__name__", "claim"],
      ["org_id", "victim"],
      ["org_id", "victim"],
    ] as const,
    samples,
  };
  for (const version of [1, 2] as const)
    await expect(send("attacker", [repeated], version)).rejects.toThrow('the label "org_id" is given twice');
  await engine.flush();
  expect(await query("victim", '{__name__!=""}')).toEqual([]);
  expect((await query("attacker", '{__name__!=""}')).length).toBeGreaterThan(4);
});

test("checks a large request on a thread, and stores it once however often it is sent", async () => {
  const series = Array.from({ length: 5000 }, (_, index) => named("many", { index: `${index}`, text: "x".repeat(50) }));
  for (let time = 0; time < 3; time += 1) expect(await send("large", series)).toMatchObject({ accepted: 5000 });
  expect(await query("large", "sum(count_over_time(many[1h]))")).toMatchObject([{ value: [expect.any(Number), "5000"] }]);
});

test("a stale marker ends a series immediately", async () => {
  const labels = [["__name__", "ended"]] as const;
  const now = Date.now();
  await send("stale", [
    {
      labels,
      samples: [
        [1, now - 2000],
        [0x7ff0_0000_0000_0002n, now - 1000],
      ],
    },
  ]);
  expect(await query("stale", "ended")).toEqual([]);
  expect(await query("stale", "count_over_time(ended[1h])")).toMatchObject([{ value: [expect.any(Number), "1"] }]);
});

test("applies the limit of active series to a whole request", async () => {
  const ingest = ingestOf(100);
  const series = (from: number, count: number): TestSeries[] =>
    Array.from({ length: count }, (_, index) => named("limited", { index: `${from + index}` }));
  expect(await send("limited", series(0, 50), 1, ingest)).toMatchObject({ accepted: 50 });
  await expect(send("limited", series(50, 100), 2, ingest)).rejects.toMatchObject({ code: "over_quota" });
  const again = await send("limited", series(0, 50), 2, ingest);
  expect(again.activeSeries).toBeGreaterThan(40);
  expect(again.activeSeries).toBeLessThan(60);
  expect(await query("limited", "count(limited)")).toMatchObject([{ value: [expect.any(Number), "50"] }]);
});

test("the same samples by remote write and as exposition text become the same values", async () => {
  const at = Date.now() - 5000;
  const values = [0, -1.5, 1e300, 123_456_789.123, Number.POSITIVE_INFINITY];
  const series = values.map((value, index): TestSeries => ({
    labels: [
      ["__name__", "same"],
      ["index", `${index}`],
    ],
    samples: [[value, at]],
  }));
  await send("by-write", series);
  const text = values
    .map((value, index) => `same{index="${index}"} ${value === Number.POSITIVE_INFINITY ? "+Inf" : value} ${at}\n`)
    .join("");
  await createExpositionIngest(store, { retentionMs })(senderOf("by-text"), Buffer.from(text), { receivedAt: new Date() });
  const read = async (orgId: string) => (await query(orgId, 'sort_by_label(same, "index")')).map(({ value }) => value[1]);
  expect(await read("by-write")).toEqual(await read("by-text"));
  expect(await read("by-write")).toHaveLength(values.length);
});
