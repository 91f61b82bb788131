import { describe, expect, it } from "vitest";
import { type TraceSpan, waterfall } from "./waterfall.ts";

const span = (id: string, parent: string, startMs: number, durationMs: number, rest: Partial<TraceSpan> = {}): TraceSpan => ({
  Timestamp: new Date(1_795_000_000_000 + startMs).toISOString().replace("Z", "000000Z"),
  TraceID: "a".repeat(32),
  SpanID: id,
  ParentSpanID: parent,
  Service: "shop",
  Operation: id,
  DurationMs: durationMs,
  Error: false,
  StatusMessage: "",
  ...rest,
});

describe("a waterfall", () => {
  it("prints each span under its parent, by start, with its bar, its duration and its error", () => {
    const spans = [
      span("GET /pay", "", 0, 100),
      span("late", "GET /pay", 75, 25, { Error: true, StatusMessage: "card\nrefused" }),
      span("early", "GET /pay", 25, 50),
      span("SELECT", "early", 50, 0.0004, { Service: "db" }),
    ];
    expect(waterfall(spans.toReversed(), 60)).toEqual([
      `${"a".repeat(32)}  2026-11-18T11:06:40.000000000Z  100.0 ms  4 spans, 2 services, 1 error`,
      "shop: GET /pay  ███████████████████████████  100.0 ms",
      "└ shop: early         ██████████████          50.0 ms",
      "  └ db: SELECT               █                   0 µs",
      "└ shop: late                        ▒▒▒▒▒▒▒   25.0 ms  ERROR",
      "  ! card\\nrefused",
    ]);
  });

  it("prints every span once, also those with missing or cyclic parents", () => {
    const spans = [
      span("orphan", "elsewhere", 5, 1),
      span("one", "other", 1, 1),
      span("other", "one", 2, 1),
      span("self", "self", 3, 1),
      span("twice", "orphan", 6, 1),
      span("twice", "orphan", 6, 1),
    ];
    const lines = waterfall(spans, 80).slice(1);
    const names = lines.map((line) => line.replace(/ *[█▒].*/, ""));
    expect(names).toEqual(["shop: other", "└ shop: one", "shop: self", "shop: orphan", "└ shop: twice", "└ shop: twice"]);
  });

  it("is no wider than the terminal, limited in depth, and without terminal control sequences", () => {
    const chain = Array.from({ length: 10_000 }, (_, n) => span(`${n}`, n === 0 ? "" : `${n - 1}`, n, 1));
    const hostile = span("x", "", 0, 1e15, {
      Operation: `\u001b[31m${"long ".repeat(100)}`,
      Error: true,
      StatusMessage: "\u001b]0;x\u0007".repeat(99),
    });
    const [head = "", ...lines] = waterfall([...chain, hostile], 72);
    expect(head).toContain("10001 spans, 1 service, 1 error");
    expect(lines).toHaveLength(10_002);
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(72);
    expect([head, ...lines].join("")).not.toContain("\u001b");
  });
});
