// GET /query/traces/search on the real engine: which traces are found, in which order, for which organisation, and their pages.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openTracesApp, type TracesApp, type TracesOrg } from "../../../test/fixtures/traces-app.ts";
import { nanosecondsOf, span, stringAttribute } from "../../ingest/otlp/otlp-body.fixture.ts";

const MS = 1_000_000n;
const HOUR = 3_600_000n * MS;
const now = new Date();
const nowNs = nanosecondsOf(now) - 60_000n * MS;
let count = 0;
const newTrace = () => (count++).toString(16).padStart(32, "b");

interface Made {
  at?: bigint;
  ms?: bigint;
  parent?: string;
  name?: string;
  rest?: object;
}
/** A span that starts `at` nanoseconds after `nowNs`. */
const made = (trace: string, id: number, { at = 0n, ms = 1n, parent = "", name = "GET /", rest = {} }: Made = {}) =>
  span(nowNs + at, trace, id.toString(16).padStart(16, "0"), {
    parentSpanId: parent,
    name,
    endTimeUnixNano: String(nowNs + at + ms * MS),
    ...rest,
  });
const ERROR = { status: { code: 2 } };

let app: TracesApp;
let red: TracesOrg;
beforeAll(async () => {
  app = await openTracesApp();
  red = await app.org();
});
afterAll(() => app?.[Symbol.asyncDispose]());

const search = async (org: TracesOrg, query = "") => (await org.pages(`/query/traces/search?${query}`)).rows;
const idsOf = (rows: readonly Record<string, unknown>[]) => rows.map((row) => String(row["trace_id"]));
const iso = (at: bigint) => new Date(Number((nowNs + at) / MS)).toISOString().replace("Z", "000000Z");

describe("a search for traces", () => {
  it("returns one row per trace, newest first, to its own organisation", async () => {
    const [org, other] = [await app.org(), await app.org()];
    const [one, two, foreign] = [newTrace(), newTrace(), newTrace()];
    await org.send([made(one, 2, { at: 5n * MS, ms: 300n, parent: "1".padStart(16, "0"), name: "SELECT", rest: ERROR })], "database");
    await org.send([made(one, 1, { ms: 100n, name: "POST /pay" })], "shop");
    await org.send([made(two, 1, { at: 20n * MS, ms: 2n })], "shop");
    await other.send([made(foreign, 1), made(one, 7, { name: "not yours" })], "shop");
    expect(await search(org)).toEqual([
      {
        trace_id: two,
        root_service: "shop",
        root_operation: "GET /",
        start: iso(20n * MS),
        duration_ms: 2,
        spans: 1,
        errors: 0,
        services: ["shop"],
      },
      {
        trace_id: one,
        root_service: "shop",
        root_operation: "POST /pay",
        start: iso(0n),
        duration_ms: 305,
        spans: 2,
        errors: 1,
        services: ["database", "shop"],
      },
    ]);
    expect(new Set(idsOf(await search(other)))).toEqual(new Set([one, foreign]));
    expect(await search(await app.org())).toEqual([]);
  });

  it("finds traces where one span matches all conditions, and whole traces by duration", async () => {
    const org = await app.org();
    const [slow, quick, mixed] = [newTrace(), newTrace(), newTrace()];
    const labelled = (value: string) => ({ attributes: [stringAttribute("k'ey", value), stringAttribute("empty", "")] });
    await org.send([made(slow, 1, { ms: 900n, name: "pay", rest: { ...ERROR, ...labelled("it's") } })], "shop");
    await org.send([made(quick, 1, { at: 1n, ms: 3n, name: "pay" })], "shop");
    await org.send(
      [made(mixed, 1, { at: 2n, ms: 50n, name: "pay" }), made(mixed, 2, { at: 2n, name: "list", rest: labelled("b") })],
      "shop",
    );
    await org.send([made(mixed, 3, { at: 3n, name: "x", rest: ERROR })], "database");
    for (const [query, found] of [
      ["service=shop", [mixed, quick, slow]],
      ["service=database", [mixed]],
      ["operation=pay", [mixed, quick, slow]],
      ["service=database&operation=pay", []],
      ["error=true", [mixed, slow]],
      ["error=false", [mixed, quick, slow]],
      ["service=shop&error=true", [slow]],
      [`label.k'ey=${encodeURIComponent("it's")}`, [slow]],
      ["label.empty=", [mixed, slow]],
      ["label.empty=&label.k'ey=b&operation=list", [mixed]],
      ["label.empty=&operation=pay&error=false&service=shop&label.k'ey=b", []],
      ["label.missing=", []],
      ["min_duration_ms=50", [mixed, slow]],
      ["min_duration_ms=50.000001", [slow]],
      ["max_duration_ms=50", [mixed, quick]],
      ["max_duration_ms=2.999999", []],
      ["min_duration_ms=4&max_duration_ms=899&service=database", [mixed]],
      ["service='%20OR%201=1--", []],
      ["operation=%25", []],
      ["service=%00%5C'", []],
      ["label.%5C')%20OR%20(1=1", []],
    ] as const) {
      expect([query, idsOf(await search(org, query))]).toEqual([query, found]);
    }
  });

  it("is limited to the range, and returns the whole of a trace that began before it", async () => {
    const org = await app.org();
    const [old, long] = [newTrace(), newTrace()];
    await org.send([made(old, 1, { at: -2n * HOUR })]);
    await org.send([made(long, 1, { at: -2n * HOUR, ms: 7_200_000n, name: "root" }), made(long, 2, { parent: "1".padStart(16, "0") })]);
    expect(await search(org)).toEqual([
      expect.objectContaining({ trace_id: long, root_operation: "root", spans: 2, duration_ms: 7_200_001 }),
    ]);
    const range = `start=${new Date(Number(nowNs / MS) - 3 * 3_600_000).toISOString()}&end=${new Date(Number(nowNs / MS) - 3_600_000).toISOString()}`;
    expect(new Set(idsOf(await search(org, range)))).toEqual(new Set([old, long]));
  });

  it("starts a trace without a root at its earliest span, and no sum of its times overflows", async () => {
    const org = await app.org();
    const trace = newTrace();
    const rest = { endTimeUnixNano: "18446744073709551615" };
    await org.send([
      made(trace, 2, { at: 2n, parent: "9".padStart(16, "0"), name: "later", rest }),
      made(trace, 1, { parent: "9".padStart(16, "0"), name: "first" }),
    ]);
    expect(await search(org, "min_duration_ms=1000000")).toEqual([expect.objectContaining({ root_operation: "first", spans: 2 })]);
    expect((await search(org))[0]?.["duration_ms"]).toBeGreaterThan(1e9);
  });

  it("is split into pages that neither repeat nor omit a trace, also for equal starts and with every filter", async () => {
    const org = await app.org();
    const traces = Array.from({ length: 40 }, (_, n) => ({ trace: newTrace(), at: BigInt(n % 4) * MS }));
    for (const { trace, at } of traces)
      await org.send([made(trace, 1, { at, ms: 5n }), made(trace, 2, { at: at + 3n * MS, ms: 9n, parent: "1".padStart(16, "0") })]);
    for (const filter of ["", "min_duration_ms=12", "service=shop&min_duration_ms=1&max_duration_ms=12", "operation=GET%20/"]) {
      const whole = await search(org, filter);
      expect(new Set(idsOf(whole)).size).toBe(40);
      const starts = whole.map((row) => String(row["start"]));
      expect(starts).toEqual(starts.toSorted((a, b) => (a < b ? 1 : -1)));
      for (const limit of [7, 39, 40]) expect(idsOf(await search(org, `${filter}&limit=${limit}`))).toEqual(idsOf(whole));
    }
  });

  it.each([
    ["min_duration_ms=-1", "min_duration_ms"],
    ["min_duration_ms=1e3", "min_duration_ms"],
    ["min_duration_ms=", "min_duration_ms"],
    ["max_duration_ms=0x10", "max_duration_ms"],
    ["max_duration_ms=1.0000001", "max_duration_ms"],
    ["min_duration_ms=2&max_duration_ms=1", "min_duration_ms: must not be above"],
    ["cursor=x", "cursor"],
    ["trace_id=x", "trace_id: no such parameter"],
    ["org_id=x", "org_id: no such parameter"],
  ])("rejects %s by name", async (query, name) => {
    const answer = await red.get(`/query/traces/search?${query}`);
    expect([answer.statusCode, answer.json()]).toEqual([400, { error: "invalid_parameter", message: expect.stringContaining(name) }]);
  });
});
