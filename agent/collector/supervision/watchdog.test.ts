import { pino } from "pino";
import { beforeEach, expect, test } from "vitest";
import { LogFilesWatchdog, type WatchdogOptions } from "./watchdog.ts";

let nowMs: number;
let metrics: string;
let restarts: number;
let open: number;
let files: { lastPassMs: number; lastCollectorPassMs: number; isFollowing: boolean };
let collector: { state: string; since: string };
let rejections: Map<string, { sinceMs: number; error: string }>;
let watchdog: LogFilesWatchdog;

beforeEach(() => {
  nowMs = 1_763_714_400_000;
  metrics = "";
  restarts = 0;
  open = 1;
  files = { lastPassMs: nowMs, lastCollectorPassMs: nowMs, isFollowing: true };
  collector = { state: "running", since: new Date(nowMs).toISOString() };
  rejections = new Map();
  const options: WatchdogOptions = {
    files: { status: () => ({ open, notRead: {}, ...files }) },
    receiver: "file_log/files",
    pauseMs: (openFiles) => (openFiles > 1 ? 20_000 : 1000),
    supervisor: {
      status: () => collector,
      metricsUrl: "http://127.0.0.1:1/metrics",
      get rejections() {
        return rejections;
      },
      killAndRestart: () => void restarts++,
    },
    log: pino({ level: "silent" }),
    nowMs: () => nowMs,
    readMetrics: async () => Promise.resolve(metrics),
    // Checks are made by the tests.
    everyMs: 3_600_000,
  };
  watchdog = new LogFilesWatchdog(options);
});

async function after(seconds: number): Promise<string[]> {
  nowMs += seconds * 1000;
  await watchdog.check();
  return watchdog.failing().map(({ signal, error }) => `${signal}: ${error}`);
}

test("reports logs as failing after 30 s without a finished pass over the files, until one finishes", async () => {
  files.lastPassMs = Number.POSITIVE_INFINITY;
  expect(await after(16)).toEqual([]);
  expect(await after(15)).toEqual(["logs: the collector has finished no pass over the log files for 30 s or longer"]);
  files.lastCollectorPassMs = nowMs;
  expect(await after(1)).toEqual([]);
});

test("with many files, does not count the collector's longer pause between passes", async () => {
  files.lastPassMs = Number.POSITIVE_INFINITY;
  open = 10_000;
  expect(await after(48)).toEqual([]);
  expect(await after(2)).toEqual(["logs: the collector has finished no pass over the log files for 30 s or longer"]);
});

test("does not report a failure while the collector has a backlog or is not running", async () => {
  files.lastPassMs = Number.POSITIVE_INFINITY;
  for (let records = 1; records < 10; records++) {
    metrics = `otelcol_receiver_accepted_log_records{receiver="file_log/files",transport=""} ${records * 1000}\n`;
    expect(await after(16)).toEqual([]);
  }
  collector.state = "waiting";
  expect(await after(600)).toEqual([]);
});

test("reports logs as failing if the agent finishes no pass, as on a hung file system, unless no logs are collected", async () => {
  files.lastCollectorPassMs = Number.POSITIVE_INFINITY;
  expect(await after(31)).toEqual([expect.stringContaining("the agent has finished no pass over LOG_PATHS")]);
  files.isFollowing = false;
  expect(await after(31)).toEqual([]);
});

test.each([
  [0, 1],
  [4096, 0],
])("reports a signal whose disk queue accepts no data; a queue of %i bytes causes %i restarts", async (bytes, expected) => {
  files = { ...files, lastPassMs: Number.POSITIVE_INFINITY, lastCollectorPassMs: Number.POSITIVE_INFINITY };
  metrics = `otelcol_exporter_queue_size{exporter="otlp_http/files"} ${bytes}\n`;
  rejections.set("logs", { sinceMs: nowMs, error: "no space left on device" });
  for (let check = 0; check < 10; check++) {
    expect(await after(10)).toEqual(["logs: the collector cannot write to its disk queue: no space left on device"]);
  }
  expect(restarts).toBe(expected);
});
