// LogQL in the parameter `query` of the log routes, with a real embedded ClickHouse and a real sandbox: which records are listed over
// several pages, which are counted, and which queries are refused with a reason.
import { afterAll, beforeAll, expect, test } from "vitest";
import { type LogsApp, openLogsApp } from "../../../test/fixtures/logs-app.ts";
import { stringAttribute } from "../../ingest/otlp/otlp-body.fixture.ts";
import type { LogRow } from "../../storage/logs/log-store.ts";

let logs: LogsApp;
const startMs = Date.now() - 60_000;
const record = (at: number, severityText: string, body: string, attributes: Record<string, string> = {}): object => ({
  timeUnixNano: `${startMs + at}000000`,
  severityText,
  body: { stringValue: body },
  attributes: Object.entries(attributes).map(([key, value]) => stringAttribute(key, value)),
});

beforeAll(async () => {
  logs = await openLogsApp();
  const lines = Array.from({ length: 40 }, (_, at) =>
    record(at, at % 4 === 0 ? "ERROR" : "INFO", `{"n":${at},"status":${at % 10 === 0 ? 500 : 200}}`, {
      "http.route": at % 2 ? "/cart" : "/pay",
    }),
  );
  await logs.send("org", lines, [stringAttribute("service.name", "shop")]);
  await logs.send("org", [record(50, "WARN", "x lock wait"), record(51, "INFO", "y idle")], [stringAttribute("service.name", "stock")]);
  await logs.send("neighbour", [record(52, "ERROR", "secret lock")], [stringAttribute("service.name", "stock")]);
});
afterAll(async () => await logs?.[Symbol.asyncDispose]());

const ask = async (path: string, query: string, more: Record<string, string> = {}) =>
  await logs.get("org", `/query/logs${path}?${new URLSearchParams({ query, ...more }).toString()}`);

async function rows(query: string, more: Record<string, string> = {}): Promise<LogRow[]> {
  const answer = await ask("", query, more);
  expect([query, answer.statusCode, answer.statusCode === 200 ? "" : answer.json().message]).toEqual([query, 200, ""]);
  return answer.json();
}

test.each([
  ['{service_name="stock"}', 2],
  ['  { service_name = "stock" }', 2],
  ['{service_name=~"st.*"} |= "lock"', 1],
  ['{service_name="stock"} != "lock"', 1],
  ['{service_name="shop"} | http_route="/cart"', 20],
  ['{service_name="shop"} | level="error"', 10],
  ['{service_name="shop"} | json | status >= 500', 4],
  ['{service_name="shop"} | json | status="500" | n < 20', 2],
  ['{service_name="stock"} |> "<_> lock <_>"', 1],
  ['{service_name=~".+"}', 42],
])("%s lists %i records of the caller's organisation alone", async (query, count) => {
  const found = await rows(query, { limit: "100" });
  expect(found).toHaveLength(count);
  expect(JSON.stringify(found)).not.toContain("secret");
});

test("searches text that only starts with { as text", async () => {
  expect(await rows('{"n":7,')).toHaveLength(1);
  expect(await rows('"{n=7}"')).toHaveLength(0);
});

test("applies the other parameters as well", async () => {
  expect(await rows('{service_name="shop"} | json | status="500"', { "label.http.route": "/pay", level: "error" })).toHaveLength(2);
  expect(await rows('{service_name="shop"}', { "label.http.route": "/cart", q: '"n":7,' })).toHaveLength(1);
});

test("applies stages to the listed records, and a record keeps its own labels", async () => {
  const [record] = await rows('{service_name="shop"} | json | n="30" | line_format "number {{.n}}"');
  expect(record).toMatchObject({
    message: "number 30",
    source: "shop",
    level: "info",
    labels: { "http.route": "/pay", n: "30", status: "500" },
  });
  expect(record?.timestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$/);
  const [dropped] = await rows('{service_name="shop"} | json | n="30" | drop http_route, status');
  expect(dropped?.labels).toEqual({ n: "30" });
});

test.each(["newest", "oldest"])("pages of records that pass all stages are consecutive, %s first", async (order) => {
  const query = '{service_name="shop"} | json | n != "3"';
  const found: number[] = [];
  let url: string | undefined = `/query/logs?${new URLSearchParams({ query, limit: "7", order }).toString()}`;
  for (let pages = 0; url && pages < 20; pages += 1) {
    const answer = await logs.get("org", url);
    expect(answer.statusCode).toBe(200);
    const page = answer.json<LogRow[]>();
    expect(page.length).toBeLessThanOrEqual(7);
    found.push(...page.map(({ message }) => (JSON.parse(message) as { n: number }).n));
    url = /^<(.*)>; rel="next"$/.exec(String(answer.headers["link"] ?? ""))?.[1];
  }
  const expected = Array.from({ length: 40 }, (_, at) => at).filter((n) => n !== 3);
  expect(found).toEqual(order === "oldest" ? expected : expected.toReversed());
});

test.each([
  ['{service_name="shop"} | json | line_format "number {{.n}}"', "40"],
  ['{service_name="shop"} | json | n != "3"', "39"],
])("a page with all records of %s has no link to a next one", async (query, limit) => {
  const answer = await ask("", query, { limit });
  expect([answer.json<LogRow[]>().length, answer.headers["link"]]).toEqual([Number(limit), undefined]);
});

test("counts selectors, line filters and filters of stored labels", async () => {
  const query = '{service_name="shop"} |= "status" | http_route="/pay" | json';
  const histogram = (await ask("/histogram", query)).json<{ counts: Record<string, number> }[]>();
  const total = (level: string): number => histogram.reduce((sum, { counts }) => sum + (counts[level] ?? 0), 0);
  expect([total("error"), total("info")]).toEqual([10, 10]);
  const fields = (await ask("/fields", query)).json<{ name: string; values: object[] }[]>();
  expect(fields.find(({ name }) => name === "label.http.route")?.values).toEqual([{ value: "/pay", count: 20 }]);
  const patterns = (await ask("/patterns", query)).json<{ records: number }>();
  expect(patterns.records).toBe(20);
});

test.each([
  ["/histogram", '{service_name="shop"} | json | status="500"', /^query: records are counted by a selector/],
  ["/fields", '{service_name="shop"} | json | status="500"', /^query: records are counted by a selector/],
  ["/patterns", '{service_name="shop"} |> "a<_>"', /^query: records are counted by a selector/],
  ["/tail", '{service_name="shop"} | json', /^query: a tail has a selector/],
  ["", '{service_name="shop"} |= ', /^query: /],
  ["", '{service_name="shop"} | frobnicate', /^query: /],
  ["", '{service_name=~"("}', /^query: not a regular expression|^query: /],
  ["", 'sum by (level) (count_over_time({service_name="shop"}[5m]))', /^query: column 1: a metric query of LogQL is charted/],
])("%s rejects %s with the reason", async (path, query, reason) => {
  const answer = await ask(path, query);
  expect([answer.statusCode, answer.json().error]).toEqual([400, "invalid_parameter"]);
  expect(answer.json().message).toMatch(reason);
});

test("rejects regex next to LogQL", async () => {
  const answer = await ask("", '{service_name="shop"}', { regex: "a" });
  expect([answer.statusCode, answer.json().message]).toEqual([400, "regex: not next to LogQL, which has |~ and !~"]);
});
