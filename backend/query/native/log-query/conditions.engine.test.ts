// The log query language over a real embedded ClickHouse: what each construct selects, and that NOT selects exactly the rest.
import { afterAll, beforeAll, expect, test } from "vitest";
import { type LogsApp, openLogsApp } from "../../../../test/fixtures/logs-app.ts";

let logs: LogsApp;
const text = (stringValue: string) => ({ stringValue });
const record = (severityText: string, body: string, attributes: Record<string, string> = {}, more: object = {}): object => ({
  timeUnixNano: `${Date.now()}000000`,
  severityText,
  body: text(body),
  attributes: Object.entries(attributes).map(([key, value]) => ({ key, value: text(value) })),
  ...more,
});

beforeAll(async () => {
  logs = await openLogsApp();
  const service = (name: string) => [{ key: "service.name", value: text(name) }];
  await logs.send(
    "org",
    [
      record("ERROR", "a lock wait timeout", { duration_ms: "812.5", "http.route": "/cart", "order.id": "7" }),
      record("WARN", "b lock of item (3) held", { duration_ms: "400", "http.route": "/cart/items" }),
      record("INFO", "c GET /cart 200 in 12 ms", { duration_ms: "12", "http.route": "/cart" }),
    ],
    service("payments"),
  );
  await logs.send(
    "org",
    [
      record("FATAL", "d out of memory, Timeout 100%", { duration_ms: "n/a" }),
      record("", "e héllo WÖRLD it's \\ 'quoted'", {}, { traceId: "0af7651916cd43dd8448eb211c80319c", spanId: "00f067aa0ba902b7" }),
    ],
    service("stock"),
  );
});
afterAll(async () => await logs?.[Symbol.asyncDispose]());

async function found(query: string, more = ""): Promise<string> {
  const answer = await logs.get("org", `/query/logs?query=${encodeURIComponent(query)}${more}`);
  expect([query, answer.statusCode, answer.statusCode === 200 ? "" : answer.json().message]).toEqual([query, 200, ""]);
  return answer
    .json<{ message: string }[]>()
    .map(({ message }) => message.slice(0, 1))
    .sort()
    .join("");
}

test.each([
  ["", "abcde"],
  ["*", "abcde"],
  ["lock", "ab"],
  ["TIMEOUT", "ad"],
  ["lock AND wait", "a"],
  ["wait OR memory", "ad"],
  ["lock -wait", "b"],
  ["NOT (lock OR memory)", "ce"],
  ["level:error,warn", "ab"],
  ["level:ERROR OR level:fatal", "ad"],
  ["-level:info", "abd"],
  ["level>=warn", "abd"],
  ["level<warn", "ce"],
  ["level:*", "abcde"],
  ["-level:*", ""],
  ["source:payments", "abc"],
  ["service:stock", "de"],
  ["source:pay*", "abc"],
  ["source:Pay*", ""],
  ["source:(payments OR stock) level:info", "ce"],
  ["duration_ms>400", "a"],
  ["duration_ms>=400", "ab"],
  ["duration_ms:<400.5", "bc"],
  ["NOT duration_ms>400", "bcde"],
  ["duration_ms:*", "abcd"],
  ["-duration_ms:*", "e"],
  ["order.id=7", "a"],
  ["order.id:7,8", "a"],
  ["label.duration_ms:12", "c"],
  ["http.route:/cart", "ac"],
  ["http.route:/cart*", "abc"],
  ["http.route:/^.cart$/", "ac"],
  ["http.route!=/cart", "bde"],
  ["trace_id:*", "e"],
  ["trace_id:0AF7651916CD43DD8448EB211C80319C", "e"],
  ["span_id:00f067aa0ba902b7", "e"],
  ["lock*held", "b"],
  ["item\\ (3)", ""],
  ['"item (3)"', "b"],
  ["/wait|memory/", "ad"],
  ["message:/^c GET/", "c"],
  ["HÉLLO wörld", "e"],
  ["\"it's \\\\ 'quoted'\"", "e"],
  ["100%", "d"],
  ["(level:error AND lock) OR (source:stock AND -trace_id:*)", "ad"],
])("%s", async (query, expected) => {
  expect(await found(query)).toBe(expected);
  if (query.trim() === "") return;
  const rest = ["a", "b", "c", "d", "e"].filter((id) => !expected.includes(id)).join("");
  expect(await found(`NOT (${query})`)).toBe(rest);
  expect(await found(`(${query}) OR level:none`)).toBe(expected);
});

test("applies with the other parameters, to counts and fields, and to the own organisation only", async () => {
  expect(await found("level:error,warn", "&q=wait&source=payments")).toBe("a");
  expect(await found("level:error", "&level=warn")).toBe("");
  expect(await found("lock*", "&regex=wait")).toBe("a");
  const asked = encodeURIComponent("level:error,warn OR memory");
  const buckets = (await logs.get("org", `/query/logs/histogram?query=${asked}&buckets=1`)).json<{ counts: object }[]>();
  expect(buckets.map(({ counts }) => counts)).toEqual([{ error: 1, warn: 1, fatal: 1 }]);
  const exact = (await logs.get("org", "/query/logs/histogram?query=level:error,warn&buckets=2")).json<
    { counts: Record<string, number> }[]
  >();
  expect(exact.flatMap(({ counts }) => Object.values(counts)).reduce((sum, count) => sum + count, 0)).toBe(2);
  const fields = (await logs.get("org", `/query/logs/fields?query=${asked}`)).json<{ name: string; values: object[] }[]>();
  expect(fields.find(({ name }) => name === "source")?.values).toEqual([
    { value: "payments", count: 2 },
    { value: "stock", count: 1 },
  ]);
  expect((await logs.get("other", "/query/logs?query=*")).json()).toEqual([]);
});

test.each([
  ["level:(error", "query: column 1: the ( after level: is not closed"],
  ["level>=loud", "query: level>=loud: not a level; for example level>=warn"],
  ["/a(/", "query: not a regular expression of RE2"],
  ["NOT http.route:/[/", "query: not a regular expression of RE2"],
  [`/${"a?".repeat(200)}/`, "query:"],
])("rejects %s with a message", async (query, words) => {
  const answer = await logs.get("org", `/query/logs?query=${encodeURIComponent(query)}`);
  expect([answer.statusCode, answer.json().error]).toEqual([400, "invalid_parameter"]);
  expect(answer.json().message).toContain(words);
});
