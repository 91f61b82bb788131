// Exemplars of remote write on the real engine: they are returned in Prometheus' format, only to their organisation, once, and within the
// limits.
import { afterAll, beforeAll, expect, test } from "vitest";
import { openTracesApp, type TracesApp } from "../../../test/fixtures/traces-app.ts";
import type { Sender } from "../../http/request-identity.ts";
import { ApiError } from "../../errors.ts";
import { createExemplarIngest, type ExemplarIngest } from "./exemplar-ingest.ts";
import type { Exemplar } from "./exemplar-list.ts";

const NOW = Date.now();
const SERIES = [
  ["__name__", "request_seconds_bucket"],
  ["le", "0.5"],
] as const;
const exemplar = (timeMs: number, rest: Partial<Exemplar> = {}): Exemplar => ({
  series: SERIES,
  labels: [["trace_id", `t${timeMs}`]],
  value: "0.25",
  timeMs,
  ...rest,
});
const senderOf = (orgId: string): Sender => ({ keyId: "k", kind: "direct", orgId, hostId: "h", node: "ci", createdAt: new Date() });

let app: TracesApp;
let ingest: ExemplarIngest;
beforeAll(async () => {
  app = await openTracesApp();
  ingest = createExemplarIngest({ store: app.stores.spans, retentionDays: () => 7 });
});
afterAll(() => app?.[Symbol.asyncDispose]());

async function read(orgId: string, value = "request_seconds_bucket"): Promise<unknown> {
  const range = { start: BigInt(NOW - 3_600_000) * 1_000_000n, end: BigInt(NOW + 3_600_000) * 1_000_000n };
  const found = await app.stores.spans.exemplars(orgId, [[{ label: "__name__", operator: "=", value }]], range);
  return JSON.parse(found.toString("utf8"));
}

test("returns stored exemplars to their own organisation, once", async () => {
  const [orgId, other] = [(await app.org()).orgId, (await app.org()).orgId];
  const sent = [exemplar(NOW - 1000, { value: "+Inf" }), exemplar(NOW - 2000), exemplar(NOW, { series: [["__name__", "up"]] })];
  for (const org of [orgId, orgId, other]) expect(await ingest(senderOf(org), sent, NOW)).toEqual({ stored: 3, dropped: {} });
  const seriesLabels = { __name__: "request_seconds_bucket", le: "0.5", host_id: "h", node: "ci" };
  expect(await read(orgId)).toEqual([
    {
      seriesLabels,
      exemplars: [
        { labels: { trace_id: `t${NOW - 2000}` }, value: "0.25", timestamp: (NOW - 2000) / 1000 },
        { labels: { trace_id: `t${NOW - 1000}` }, value: "+Inf", timestamp: (NOW - 1000) / 1000 },
      ],
    },
  ]);
  expect(await read(orgId, "up")).toMatchObject([{ seriesLabels: { __name__: "up", node: "ci" } }]);
  expect(await read((await app.org()).orgId)).toEqual([]);
});

test("returns the newest hundred of a series, and limits how many an organisation stores per minute", async () => {
  const { orgId } = await app.org();
  const sent = Array.from({ length: 1000 }, (_, index) => exemplar(NOW - 1000 + index));
  for (const timeMs of [0, 1000, 2000])
    await ingest(
      senderOf(orgId),
      sent.map((each) => ({ ...each, timeMs: each.timeMs - timeMs })),
      NOW,
    );
  const [series] = (await read(orgId)) as { exemplars: { timestamp: number }[] }[];
  expect(series?.exemplars.map(({ timestamp }) => timestamp)).toEqual(
    Array.from({ length: 100 }, (_, index) => (NOW - 100 + index) / 1000),
  );
  expect(await ingest(senderOf(orgId), [exemplar(NOW)], NOW)).toEqual({ stored: 0, dropped: { exemplar_limit: 1 } });
  const { orgId: neighbour } = await app.org();
  expect(await ingest(senderOf(neighbour), [exemplar(NOW)], NOW)).toEqual({ stored: 1, dropped: {} });
  expect(await ingest(senderOf(orgId), [exemplar(NOW)], NOW + 60_000)).toEqual({ stored: 1, dropped: {} });
});

test("counts exemplars outside the retention, or without a store", async () => {
  const { orgId } = await app.org();
  const sent = [exemplar(NOW - 8 * 86_400_000), exemplar(NOW + 2 * 86_400_000), exemplar(-5)];
  expect(await ingest(senderOf(orgId), sent, NOW)).toEqual({ stored: 0, dropped: { exemplar_too_old: 2, exemplar_too_far_ahead: 1 } });
  const unavailable = { insertExemplars: () => Promise.reject(new ApiError("storage_unavailable", "away")) };
  const without = createExemplarIngest({ store: unavailable, retentionDays: () => 7 });
  expect(await without(senderOf(orgId), [exemplar(NOW)], NOW)).toEqual({ stored: 0, dropped: { exemplar_store_unavailable: 1 } });
});
