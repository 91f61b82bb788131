// What is stored of unanswered requests, and for how long; their purpose is tested in proxy/file-lines.test.ts.
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import type { BatchId } from "./file-batch.ts";
import { UnansweredRequests } from "./unanswered-requests.ts";

let folder: string;
let nowMs: number;
let unanswered: UnansweredRequests;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "atherops-unanswered-"));
  nowMs = Date.now();
  unanswered = open();
});
afterEach(() => rmSync(folder, { recursive: true }));

function open(): UnansweredRequests {
  return new UnansweredRequests(folder, () => nowMs);
}

function batch(id: string): BatchId {
  return { id, start: 1, readAtMs: nowMs, lines: [] };
}

/** Requests with one of these batches. */
function find(from: UnansweredRequests, ids: readonly string[], body: string): string[] {
  return from.find((batches) => batches.some(({ id }) => ids.includes(id)), Buffer.from(body)).map(({ id }) => id);
}

function begin(...keys: string[]): string {
  return unanswered.begin(keys.map(batch), Buffer.from(keys.join()));
}

function kept(): string[] {
  return readdirSync(join(folder, "unanswered"));
}

test("finds a request by each of its batches until it is answered, even after a restart of the agent", () => {
  const id = begin("a", "b");
  for (const one of [unanswered, open()]) {
    expect(find(one, ["x", "b"], "x,b")).toEqual([id]);
    expect(find(one, ["x"], "x")).toEqual([]);
    expect(one.readBody(id)?.toString()).toBe("a,b");
  }
  expect(find(unanswered, ["a", "b"], "a,b"), "the request itself").toEqual([]);
  unanswered.end(id);
  expect([find(unanswered, ["b"], "b"), kept()]).toEqual([[], []]);
});

test("stores requests with mode 0600, limited in number, and deletes them when the backend has forgotten them", () => {
  for (let i = 0; i < 70; i++) begin(`a${i}`, `b${i}`);
  expect(kept()).toHaveLength(64);
  expect(statSync(join(folder, "unanswered", kept()[0] ?? "")).mode & 0o777).toBe(0o600);
  expect(find(open(), ["a69"], "a69")).toHaveLength(1);
  nowMs += 601_000;
  expect(find(unanswered, ["a69"], "a69")).toEqual([]);
  expect(kept()).toEqual([]);
});

test("ignores and removes a request of an earlier agent, which wrote no lines", () => {
  const id = begin("a");
  const file = join(folder, "unanswered", id);
  writeFileSync(file, `${JSON.stringify([{ key: "a", readAtMs: 1 }])}\na`);
  expect(find(open(), ["a"], "b")).toEqual([]);
  expect(kept()).toEqual([]);
});

test("ignores and removes a request whose write was interrupted by a kill", () => {
  const id = begin("a", "b");
  const file = join(folder, "unanswered", id);
  truncateSync(file, statSync(file).size - 1);
  expect(unanswered.readBody(id)).toBeUndefined();
  expect(find(open(), ["a"], "a")).toEqual([]);
  expect(kept()).toEqual([]);
});

test("is no obstacle if the file of an answered request cannot be removed", () => {
  const id = begin("a", "b");
  rmSync(join(folder, "unanswered", id));
  mkdirSync(join(folder, "unanswered", id));
  expect(() => unanswered.end(id)).not.toThrow();
  expect(find(open(), ["a"], "a")).toEqual([]);
});

test("finds a request although the clock was set forward by an hour since", () => {
  const first = new UnansweredRequests(folder);
  const id = first.begin([batch("a"), batch("b")], Buffer.from("a,b"));
  vi.setSystemTime(Date.now() + 3_600_000);
  onTestFinished(() => void vi.useRealTimers());
  for (const one of [first, new UnansweredRequests(folder)]) expect(find(one, ["b"], "b")).toEqual([id]);
});

test("keeps a request in memory that the disk does not take, until it is repeated and the disk takes it", () => {
  writeFileSync(join(folder, "unanswered"), "");
  const id = begin("a", "b");
  expect([find(unanswered, ["b"], "b"), unanswered.readBody(id)?.toString()]).toEqual([[id], "a,b"]);
  expect(find(open(), ["b"], "b")).toEqual([]);
  rmSync(join(folder, "unanswered"));
  expect(begin("a", "b")).toBe(id);
  expect(find(open(), ["b"], "b")).toEqual([id]);
});
