import { expect, test } from "vitest";
import { buildTree, selfMs, type Span } from "../../client/trace-tree.ts";
import { flameFrames, operationTimes } from "./flame.ts";

const span = (id: string, parent: string, name: string, fromMs: number, toMs: number): Span => ({
  Timestamp: `2026-11-25T10:00:00.${String(fromMs).padStart(3, "0")}000000Z`,
  TraceID: "t",
  SpanID: id,
  ParentSpanID: parent,
  Service: "s",
  Operation: name,
  DurationMs: toMs - fromMs,
  StatusCode: "UNSET",
  Error: false,
  Attributes: {},
  Kind: "INTERNAL",
  StatusMessage: "",
  Events: [],
  Links: [],
  Scope: { Name: "", Version: "" },
});

// Two concurrent calls, which overlap from 20 to 60, and one that ends after its parent.
const TREE = buildTree([
  span("a", "", "root", 0, 100),
  span("b", "a", "query", 10, 60),
  span("c", "a", "query", 20, 80),
  span("d", "a", "after", 90, 120),
]);

test("self time of a span subtracts the time of its children once, without their time after its end", () => {
  expect(TREE.roots.map(selfMs)).toEqual([20]);
  expect(operationTimes(TREE).map(({ operation, count, selfMs: ms, minMs, maxMs }) => [operation, count, ms, minMs, maxMs])).toEqual([
    ["query", 2, 110, 50, 60],
    ["after", 1, 30, 30, 30],
    ["root", 1, 20, 100, 100],
  ]);
});

test("merges spans of one operation below the same caller into one frame, within their caller's frame", () => {
  const frames = flameFrames(TREE);
  expect(frames.map(({ operation, depth, count }) => [operation, depth, count])).toEqual([
    ["root", 0, 1],
    ["query", 1, 2],
    ["after", 1, 1],
  ]);
  const [root, query, after] = frames;
  expect(root).toMatchObject({ left: 0, width: 1 });
  expect([query?.left, query?.width]).toEqual([0, 110 / 160]);
  expect([after?.left, after?.width]).toEqual([110 / 160, 30 / 160]);
});

test("terminates for spans that are each other's parents, and for very deep traces", () => {
  expect(flameFrames(buildTree([span("a", "b", "x", 0, 10), span("b", "a", "y", 0, 10)])).length).toBeGreaterThan(0);
  const deep = Array.from({ length: 20_000 }, (_, at) => span(`${at}`, at === 0 ? "" : `${at - 1}`, `op ${at}`, 0, 100));
  expect(flameFrames(buildTree(deep)).length).toBeGreaterThan(0);
});
