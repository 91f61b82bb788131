// When the engine of logs and spans is opened. The engine is a fake, because a real one cannot be made to fail; with the real one:
// test/contract/unused-engine.test.ts.
import { expect, test } from "vitest";
import type { OtlpBatch } from "./ingest/otlp/decoded-rows.ts";
import { type OpenTelemetry, TelemetryAtFirstUse } from "./telemetry.ts";
import { stub } from "../test/fixtures/stub.ts";

const BATCH = {} as OtlpBatch;

const notAsked = async (): Promise<never> => await Promise.reject(new Error("not asked here"));

const NOTHING_ASKED = {
  query: notAsked,
  trace: notAsked,
  search: notAsked,
  red: notAsked,
  operationPoints: notAsked,
  events: notAsked,
  graph: notAsked,
  exemplars: notAsked,
  insertExemplars: notAsked,
  statistics: notAsked,
  versionCounts: notAsked,
  serviceNames: notAsked,
  operationNames: notAsked,
  jaegerTrace: notAsked,
  jaegerSearch: notAsked,
  operationKinds: notAsked,
  jaegerSummaries: notAsked,
  metricFamily: notAsked,
};

function telemetry() {
  const calls: string[] = [];
  let isBroken = false;
  let nowMs = 0;
  const engine: OpenTelemetry = {
    clickhouse: stub<OpenTelemetry["clickhouse"]>({ ping: async () => void calls.push("ping"), reads: { running: 1, waiting: 2 } }),
    logStore: {
      insert: async () => void calls.push("logs"),
      query: notAsked,
      histogram: notAsked,
      patterns: notAsked,
      fields: notAsked,
      comparePatterns: notAsked,
      tail: notAsked,
    },
    spanStore: { ...NOTHING_ASKED, insert: async () => void calls.push("spans") },
    [Symbol.asyncDispose]: async () => void calls.push("closed"),
  };
  const opened = new TelemetryAtFirstUse(
    async () => {
      calls.push("opened");
      if (isBroken) throw new Error("no room");
      return engine;
    },
    () => nowMs,
  );
  return { opened, calls, break: (broken: boolean) => (isBroken = broken), pass: (ms: number) => (nowMs += ms) };
}

test("the log engine is not opened until it is needed, counts no query until then, and is not reported as unavailable", async () => {
  const { opened, calls } = telemetry();
  await opened.clickhouse.ping();
  expect(opened.clickhouse.reads).toEqual({ running: 0, waiting: 0 });
  await opened[Symbol.asyncDispose]();
  expect(calls).toEqual([]);
});

test("the log engine is opened once by many concurrent requests, and closes with the backend", async () => {
  const { opened, calls } = telemetry();
  await Promise.all([opened.logStore.insert(BATCH), opened.spanStore.insert(BATCH), opened.logStore.insert(BATCH)]);
  await opened.clickhouse.ping();
  expect(calls).toEqual(["opened", "logs", "spans", "logs", "ping"]);
  expect(opened.clickhouse.reads).toEqual({ running: 1, waiting: 2 });
  await opened[Symbol.asyncDispose]();
  expect(calls.at(-1)).toBe("closed");
});

test("a log engine that cannot be opened is storage_unavailable, for readiness too, and is tried again after five seconds, not before", async () => {
  const { opened, calls, ...world } = telemetry();
  world.break(true);
  const refusal = { code: "storage_unavailable", retryAfterS: 5, cause: new Error("no room") };
  await expect(opened.logStore.insert(BATCH)).rejects.toMatchObject(refusal);
  await expect(opened.spanStore.insert(BATCH)).rejects.toMatchObject(refusal);
  await expect(opened.clickhouse.ping()).rejects.toMatchObject(refusal);
  expect(calls).toEqual(["opened"]);
  world.break(false);
  world.pass(4999);
  await expect(opened.clickhouse.ping()).rejects.toMatchObject(refusal);
  world.pass(1);
  await opened.clickhouse.ping();
  await opened.logStore.insert(BATCH);
  expect(calls).toEqual(["opened", "opened", "ping", "logs"]);
});

test("the log engine is not opened by a backend that stops", async () => {
  const { opened, calls } = telemetry();
  await opened[Symbol.asyncDispose]();
  await expect(opened.logStore.insert(BATCH)).rejects.toMatchObject({ code: "unavailable" });
  expect(calls).toEqual([]);
});
