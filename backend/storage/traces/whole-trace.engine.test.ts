// GET /query/traces/{trace_id} on the real engine: all fields of each span, pages, and cost limits.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openTracesApp, type TracesApp, type TracesOrg } from "../../../test/fixtures/traces-app.ts";
import { nanosecondsOf, span, stringAttribute } from "../../ingest/otlp/otlp-body.fixture.ts";

const MIB = 1024 * 1024;
const now = new Date();
const nowNs = nanosecondsOf(now);
let count = 0;
const newTrace = () => (count++).toString(16).padStart(32, "a");
const spanId = (n: number) => (n + 1).toString(16).padStart(16, "0");

function expectOldestFirst(rows: Record<string, unknown>[]): void {
  const times = rows.map((row) => String(row["Timestamp"]));
  expect(times).toEqual(times.toSorted((a, b) => (a < b ? -1 : Number(a > b))));
}

let app: TracesApp;
let red: TracesOrg;
let blue: TracesOrg;

beforeAll(async () => {
  app = await openTracesApp();
  red = await app.org();
  blue = await app.org();
});
afterAll(() => app?.[Symbol.asyncDispose]());

describe("a whole trace", () => {
  it("has kind, status message, events, links and scope in addition to the ten fields, for its own organisation only", async () => {
    const trace = newTrace();
    const other = newTrace();
    const full = span(nowNs + 7n, trace.toUpperCase(), "B7AD6B7169203331", {
      parentSpanId: "00F067AA0BA902B7",
      kind: "SPAN_KIND_SERVER",
      status: { code: "STATUS_CODE_ERROR", message: "boom 'x'" },
      attributes: [stringAttribute("http.route", "/x")],
      events: [
        { timeUnixNano: String(nowNs + 8n), name: 'it\'s "here"', attributes: [stringAttribute("k\n", "v\\'\0")] },
        { name: "without a time" },
        { timeUnixNano: "18446744073709551615", name: "beyond" },
      ],
      links: [{ traceId: other, spanId: spanId(0), traceState: "a=b", attributes: [stringAttribute("l", "1")] }],
    });
    await red.send([full, span(nowNs, trace, spanId(1))], "cart");
    const answer = await red.get(`/query/traces/${trace.toUpperCase()}`);
    const at = (digits: string) => now.toISOString().replace("Z", `${digits}Z`);
    expect([answer.statusCode, answer.headers["link"]]).toEqual([200, undefined]);
    expect(answer.json()).toEqual([
      expect.objectContaining({ SpanID: spanId(1), Kind: "UNSPECIFIED", StatusMessage: "", Events: [], Links: [] }),
      {
        Timestamp: at("000007"),
        TraceID: trace,
        SpanID: "b7ad6b7169203331",
        ParentSpanID: "00f067aa0ba902b7",
        Service: "cart",
        Operation: "GET /",
        DurationMs: 1.5,
        StatusCode: "ERROR",
        Error: true,
        Attributes: { "http.route": "/x" },
        Kind: "SERVER",
        StatusMessage: "boom 'x'",
        Events: [
          { Timestamp: at("000008"), Name: 'it\'s "here"', Attributes: { "k\n": "v\\'\0" } },
          { Timestamp: "1970-01-01T00:00:00.000000000Z", Name: "without a time", Attributes: {} },
          { Timestamp: expect.stringMatching(/^2262-/), Name: "beyond", Attributes: {} },
        ],
        Links: [{ TraceID: other, SpanID: spanId(0), TraceState: "a=b", Attributes: { l: "1" } }],
        Scope: { Name: "tracer", Version: "1.2" },
      },
    ]);
    for (const [who, id] of [
      [blue, trace],
      [red, newTrace()],
    ] as const) {
      const none = await who.get(`/query/traces/${id}`);
      expect([none.statusCode, none.json().error]).toEqual([404, "not_found"]);
    }
  });

  it("is rejected by name for an invalid id, and for a cursor of another trace", async () => {
    for (const id of ["0af7651916cd43dd8448eb211c80319", "..%2f..", `${"a".repeat(32)}%00`])
      expect((await red.get(`/query/traces/${id}`)).json().message).toContain("trace_id: must be 32 hex digits");
    expect((await red.get(`/query/traces/${newTrace()}?cursor=x`)).json()).toMatchObject({ error: "invalid_parameter" });
  });

  it("of 5,000 spans is one response, oldest first, also for equal times", async () => {
    const trace = newTrace();
    const spans = Array.from({ length: 5000 }, (_, n) => span(nowNs + BigInt(n % 100), trace, spanId(n)));
    for (let from = 0; from < spans.length; from += 1000) await red.send(spans.slice(from, from + 1000));
    const { rows, bytes } = await red.pages(`/query/traces/${trace}`);
    expect(bytes).toHaveLength(1);
    expect(new Set(rows.map((row) => row["SpanID"])).size).toBe(5000);
    expectOldestFirst(rows);
  });

  it("of large spans is split into pages by bytes, without missing or repeated spans", async () => {
    const trace = newTrace();
    const large = { attributes: [stringAttribute("body", "x".repeat(20_000))] };
    const spans = Array.from({ length: 1500 }, (_, n) => span(nowNs + BigInt(n % 3), trace, spanId(n), large));
    for (let from = 0; from < spans.length; from += 500) await red.send(spans.slice(from, from + 500));
    const { rows, bytes } = await red.pages(`/query/traces/${trace}`);
    expect(bytes.length).toBeGreaterThan(3);
    expect(Math.max(...bytes)).toBeLessThan(9 * MIB);
    expect(rows).toHaveLength(1500);
    expect(new Set(rows.map((row) => row["SpanID"])).size).toBe(1500);
    expectOldestFirst(rows);
  });

  it("with more events than the engine can read at once is returned, and reports the omitted ones", async () => {
    const trace = newTrace();
    const events = (bytes: number) =>
      Array.from({ length: bytes / 1000 }, (_, n) => ({ timeUnixNano: String(nowNs), name: `${n}`.padEnd(960, "e"), attributes: [] }));
    await red.send([span(nowNs, trace, spanId(0), { events: events(8 * MIB) })]);
    for (const n of [1, 2, 3, 4, 5]) await red.send([span(nowNs + 1n, trace, spanId(n), { events: events(3 * MIB) })]);
    const { rows } = await red.pages(`/query/traces/${trace}`);
    const eventsOf = rows.map((row) => row["Events"] as { Name: string; Timestamp: string }[]);
    expect(eventsOf.map(({ length }) => length)).toEqual([1, ...Array.from({ length: 5 }, () => events(3 * MIB).length)]);
    expect(eventsOf[0]).toEqual([{ Name: expect.stringContaining("left out"), Timestamp: rows[0]?.["Timestamp"], Attributes: {} }]);
  });
});
