// Order, comparisons, facets, heatmap and differences on the real engine, each equal to the result calculated from the sent spans.
import { afterAll, beforeAll, expect, it } from "vitest";
import { openTracesApp, type TracesApp, type TracesOrg } from "../../../test/fixtures/traces-app.ts";
import { nanosecondsOf, span, stringAttribute } from "../../ingest/otlp/otlp-body.fixture.ts";

const TRACES = 120;
const now = new Date();
const firstMs = Math.floor(now.getTime() / 60_000) * 60_000 - 30 * 60_000;
const range = `start=${new Date(firstMs).toISOString()}&end=${new Date(firstMs + 30 * 60_000 - 1).toISOString()}`;

interface Made {
  readonly traceId: string;
  readonly atMs: number;
  readonly durationMs: number;
  readonly spans: number;
  readonly status: number | undefined;
}

/** One in ten is slow and fails, on pod b with status 500; every seventh has no status code. */
const made = Array.from({ length: TRACES }, (_, index): Made => {
  const isSlow = index % 10 === 3;
  return {
    traceId: (index + 1).toString(16).padStart(32, "0"),
    atMs: firstMs + ((index * 7919) % 1800) * 1000,
    durationMs: isSlow ? 1000 + index : 1 + index,
    spans: 1 + (index % 4),
    status: index % 7 === 0 ? undefined : isSlow ? 500 : 99,
  };
});

let app: TracesApp;
let org: TracesOrg;
let other: TracesOrg;
beforeAll(async () => {
  app = await openTracesApp();
  [org, other] = [await app.org(), await app.org()];
  const spans = made.flatMap(({ traceId, atMs, durationMs, spans: count, status }) => {
    const start = nanosecondsOf(new Date(atMs));
    const end = String(start + BigInt(durationMs) * 1_000_000n);
    return Array.from({ length: count }, (_, index) =>
      span(start, traceId, (index + 1).toString(16).padStart(16, "0"), {
        kind: 2,
        endTimeUnixNano: end,
        ...(index > 0 && { parentSpanId: "1".padStart(16, "0") }),
        ...(durationMs >= 1000 && { status: { code: 2 } }),
        attributes: [
          stringAttribute("pod", durationMs >= 1000 ? "b" : "a"),
          ...(status === undefined
            ? [stringAttribute('user.name with space=x"y\\z', "v w")]
            : [{ key: "http.response.status_code", value: { intValue: String(status) } }]),
        ],
      }),
    );
  });
  await org.send(spans);
  await other.send([span(nanosecondsOf(new Date(firstMs)), "f".repeat(32), "e".repeat(16), { name: "secret" })]);
});
afterAll(() => app?.[Symbol.asyncDispose]());

const get = async <Row>(path: string, from = org): Promise<Row[]> => {
  const answer = await from.get(path);
  expect([answer.statusCode, answer.statusCode === 200 ? "" : answer.body]).toEqual([200, ""]);
  return answer.json();
};
const isErrors = ({ durationMs, spans }: Made): number => (durationMs >= 1000 ? spans : 0);

it.each([
  ["duration", ({ durationMs }: Made) => durationMs],
  ["errors", isErrors],
  ["spans", ({ spans }: Made) => spans],
  ["time", ({ atMs }: Made) => atMs],
] as const)("orders traces by %s over the whole range, page by page", async (order, rankOf) => {
  const { rows } = await org.pages(`/query/traces/search?${range}&order=${order}&limit=50`);
  const byId = new Map(made.map((one) => [one.traceId, one]));
  const ranks = rows.map((row) => rankOf(byId.get(String(row["trace_id"])) as Made));
  expect(new Set(rows.map((row) => row["trace_id"])).size).toBe(TRACES);
  expect(ranks).toEqual(ranks.toSorted((one, two) => two - one));
});

it.each([
  ["http.response.status_code>=500", ({ status }: Made) => (status ?? 0) >= 500],
  ["http.response.status_code<100", ({ status }: Made) => status !== undefined && status < 100],
  ["http.response.status_code>99.5", ({ status }: Made) => status !== undefined && status > 99.5],
  ["http.response.status_code<=99", ({ status }: Made) => status !== undefined && status <= 99],
  ["http.response.status_code=500", ({ status }: Made) => status === 500],
  ["http.response.status_code!=500", ({ status }: Made) => status !== 500],
  ["http.response.status_code", ({ status }: Made) => status !== undefined],
  ["!http.response.status_code", ({ status }: Made) => status === undefined],
  ["pod=it's", () => false],
  ['"http.response.status_code">=500', ({ status }: Made) => (status ?? 0) >= 500],
  [String.raw`"user.name with space=x\"y\\z"=v w`, ({ status }: Made) => status === undefined],
  [String.raw`!"user.name with space=x\"y\\z"`, ({ status }: Made) => status !== undefined],
])("a comparison %s keeps the traces that it matches", async (where, holds) => {
  const { rows } = await org.pages(`/query/traces/search?${range}&limit=500&where=${encodeURIComponent(where)}`);
  expect(new Set(rows.map((row) => row["trace_id"]))).toEqual(new Set(made.filter(holds).map(({ traceId }) => traceId)));
});

it.each([">5", "!a=b", "a>b", "a>=", "", "a b=c", '"a=b', '"a"b=c', 'a"b c"=d'])(
  "rejects a comparison %j with an example",
  async (where) => {
    const answer = await org.get(`/query/traces/search?where=${encodeURIComponent(where)}`);
    expect([answer.statusCode, answer.json().error]).toEqual([400, "invalid_parameter"]);
    expect(answer.json().message).toMatch(/^where: .*(key>=500|500$)/);
  },
);

it("facets contain the values of matching spans by their counts", async () => {
  const facets = await get<{ name: string; values: object[] }>(`/query/traces/facets?${range}&where=pod%3Db`);
  const spans = made.reduce((sum, one) => sum + isErrors(one), 0);
  expect(facets.slice(0, 4).every(({ name }) => !name.startsWith("attribute."))).toBe(true);
  expect(facets.find(({ name }) => name === "attribute.pod")?.values).toEqual([{ value: "b", count: spans }]);
  expect(facets.find(({ name }) => name === "status")?.values).toEqual([{ value: "ERROR", count: spans }]);
  expect(JSON.stringify(await get(`/query/traces/facets?${range}`))).not.toContain("secret");
});

it("facets count the spans that have a field, also those whose values are not listed", async () => {
  const crowd = await app.org();
  const attributes = (index: number) => [
    stringAttribute("user", `u${index}`),
    stringAttribute("long", "x".repeat(index % 2 === 0 ? 300 : 3)),
  ];
  const start = nanosecondsOf(new Date(firstMs));
  const of = (index: number) => index.toString(16).padStart(16, "0");
  const spans = Array.from({ length: 50 }, (_, index) => span(start, "a".repeat(32), of(index + 1), { attributes: attributes(index) }));
  await crowd.send(spans);
  const facets = await get<{ name: string; spans: number; values: { value: string; count: number }[] }>(
    `/query/traces/facets?${range}`,
    crowd,
  );
  const found = Object.fromEntries(facets.map(({ name, spans: count, values }) => [name, [count, values.length]]));
  expect(found).toMatchObject({ service: [50, 1], "attribute.user": [50, 20], "attribute.long": [50, 1] });
});

it("the heatmap counts spans by time and duration, and has no gaps", async () => {
  type Point = { start: string; end: string; spans: number; errors: number; buckets: { max_ms: number; count: number }[] };
  const points = await get<Point>(`/query/traces/heatmap?${range}&points=10`);
  expect(points).toHaveLength(10);
  for (const { start, end, ...point } of points) {
    const within = made.filter(({ atMs }) => atMs >= Date.parse(start) && atMs < Date.parse(end));
    expect(point.spans).toBe(within.reduce((sum, { spans }) => sum + spans, 0));
    expect(point.errors).toBe(within.reduce((sum, one) => sum + isErrors(one), 0));
    const below500 = point.buckets.filter(({ max_ms }) => max_ms <= 512).reduce((sum, { count }) => sum + count, 0);
    expect(below500).toBe(within.filter(({ durationMs }) => durationMs <= 512).reduce((sum, { spans }) => sum + spans, 0));
  }
});

it("differences name what slow spans have and others do not", async () => {
  for (const query of ["", "&slower_than_ms=1000"]) {
    const [first, second] = await get<{ name: string; value: string; compared_share: number; others_share: number }>(
      `/query/traces/differences?${range}${query}&where=http.response.status_code`,
    );
    const named = [first, second].map((row) => row && `${row.name}=${row.value}`);
    expect(named).toContain("attribute.http.response.status_code=500");
    expect(new Set([first?.compared_share, first?.others_share])).toEqual(new Set([0, 1]));
  }
});
