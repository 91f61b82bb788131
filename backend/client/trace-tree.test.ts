import { expect, test } from "vitest";
import { buildTree, type Span } from "./trace-tree.ts";

function span(id: string, parent: string, startMs: number, endMs: number, extra: Partial<Span> = {}): Span {
  return {
    Timestamp: new Date(1_700_000_000_000 + startMs).toISOString(),
    TraceID: "t",
    SpanID: id,
    ParentSpanID: parent,
    Service: "s",
    Operation: id,
    DurationMs: endMs - startMs,
    StatusCode: "UNSET",
    Error: false,
    Kind: "INTERNAL",
    StatusMessage: "",
    Attributes: {},
    Events: [],
    Links: [],
    Scope: { Name: "", Version: "" },
    ...extra,
  };
}

const shape = (spans: Span[]): string[] => buildTree(spans).all.map(({ span: { SpanID }, depth }) => `${" ".repeat(depth)}${SpanID}`);

test("places children under their parent in the order of their starts", () => {
  const spans = [span("c", "a", 6, 9), span("b", "a", 1, 5), span("a", "", 0, 10), span("d", "b", 2, 3)];
  expect(shape(spans)).toEqual(["a", " b", "  d", " c"]);
});

test("contains every span once: without its parent, its own parent, in a cycle, with a duplicate id", () => {
  const spans = [
    span("a", "", 0, 10),
    span("b", "gone", 1, 2),
    span("c", "c", 2, 3),
    span("d", "e", 3, 4),
    span("e", "f", 4, 5),
    span("f", "d", 5, 6),
    span("a", "a", 6, 7),
  ];
  expect(
    buildTree(spans)
      .all.map(({ span: { SpanID } }) => SpanID)
      .sort(),
  ).toEqual(["a", "a", "b", "c", "d", "e", "f"]);
});

test("the critical path goes back from the end through the spans that were waited for", () => {
  const spans = [
    span("a", "", 0, 100),
    span("short", "a", 0, 20),
    span("long", "a", 0, 60),
    span("last", "a", 62, 95),
    span("within", "last", 70, 90),
    span("unwaited", "a", 90, 300),
  ];
  const critical = buildTree(spans).all.filter(({ isCritical }) => isCritical);
  expect(critical.map(({ span: { SpanID } }) => SpanID)).toEqual(["a", "long", "last", "within"]);
});

test("lays out a chain of 20,000 spans and 130,000 children of one", () => {
  const chain = Array.from({ length: 20_000 }, (_, at) => span(`${at}`, at === 0 ? "" : `${at - 1}`, at, 20_000));
  expect(buildTree(chain).all.at(-1)?.depth).toBe(19_999);
  const star = Array.from({ length: 130_000 }, (_, at) => span(`${at}`, at === 0 ? "" : "0", at, 130_000));
  expect(buildTree(star).roots[0]?.below).toBe(129_999);
});

test("reports errors in collapsed subtrees, and keeps microseconds", () => {
  const spans = [
    span("a", "", 0, 10),
    span("b", "a", 1, 5),
    span("c", "b", 2, 3, { Error: true, Timestamp: "2023-11-14T22:13:20.002345678Z" }),
  ];
  const [a, b, c] = buildTree(spans).all;
  expect([a?.hasErrorBelow, b?.hasErrorBelow, c?.hasErrorBelow]).toEqual([true, true, false]);
  expect(c?.startMs).toBeCloseTo(2.345678, 6);
});
