// Queries of the command-line client as users run them: over HTTP, with a store in memory whose pages follow the contract.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createLog } from "../log.ts";
import { createApp } from "../http/app.ts";
import { follow } from "./query-rows.ts";
import { Client } from "./api-client.ts";
import type { World } from "./settings.ts";
import { type Ran, runClient, type RunOptions } from "./run-client.fixture.ts";
import { table, visible, type Row } from "./text-table.ts";

const folder = mkdtempSync(join(tmpdir(), "atherops-client-"));
const sessionFile = join(folder, "config", "atherops", "session.json");
/** Newest first, as the query answers. */
let stored: Row[] = [];
let asked: string[] = [];
let queries: Awaited<ReturnType<typeof createApp>>;
let queryUrl: string;

beforeAll(async () => {
  queries = await createApp({ log: createLog("silent") });
  queries.get<{ Params: { id: string } }>("/query/traces/:id", async (request, reply) => {
    asked.push(request.url);
    if (stored.length === 0) return await reply.code(404).send({ error: "not_found", message: "there is no span of this trace" });
    if (!request.url.includes("cursor")) void reply.header("link", `<${request.url}?cursor=2>; rel="next"`);
    return request.url.includes("cursor") ? stored.slice(2) : stored.slice(0, 2);
  });
  queries.get("/query/traces/search", async (request) => {
    asked.push(request.url);
    return stored;
  });
  queries.get("/query/services", async () => stored);
  let tokens: Row[] = [];
  queries.get("/api/ingest-tokens", async () => tokens);
  queries.post<{ Body: Row }>("/api/ingest-tokens", async (request) => {
    const token = { ...request.body, id: `id-${tokens.length}`, expires_at: null, token: "secret" };
    tokens = [...tokens, token];
    asked.push(JSON.stringify(request.body));
    return token;
  });
  for (const path of ["/query/logs", "/query/traces"])
    queries.get<{ Querystring: { start?: string; limit: string; cursor?: string } }>(path, async (request, reply) => {
      asked.push(request.url);
      const { start = "", limit, cursor = "0" } = request.query;
      const rows = stored.filter((row) => String(row["timestamp"] ?? row["Timestamp"]) >= start);
      const end = Number(cursor) + Number(limit);
      if (end < rows.length) void reply.header("link", `<${path}?start=${start}&limit=${limit}&cursor=${end}>; rel="next"`);
      return rows.slice(Number(cursor), end);
    });
  queries.get<{ Querystring: { query: string } }>("/query/prometheus/api/v1/query", async (request, reply) => {
    if (request.query.query === "sum(")
      return await reply.code(400).send({ status: "error", errorType: "bad_data", error: "unexpected token" });
    if (request.query.query === "(") return await reply.code(422).send({ status: "error", errorType: "422", error: "missing )" });
    return {
      status: "success",
      data: {
        resultType: "vector",
        result: request.query.query === "none" ? [] : [{ metric: { __name__: "up", job: "a" }, value: [1, "0.5"] }],
      },
    };
  });
  queryUrl = await queries.listen({ host: "127.0.0.1", port: 0 });
  // The routes of the query server need no session.
  mkdirSync(dirname(sessionFile), { recursive: true });
  writeFileSync(sessionFile, JSON.stringify({ url: queryUrl, email: "a@b", token: "none" }));
});
afterAll(async () => {
  await queries?.close();
  rmSync(folder, { recursive: true, force: true });
});
beforeEach(() => {
  stored = [];
  asked = [];
});

async function atherops(args: string, options: Partial<RunOptions> = {}): Promise<Ran> {
  return await runClient(args, { url: queryUrl, sessionFile, ...options });
}

const logRow = (second: number, message: string, change: Row = {}): Row => ({
  timestamp: `2026-11-21T09:00:${String(second).padStart(2, "0")}.123456789Z`,
  level: "info",
  source: "checkout",
  message,
  labels: {},
  host_id: "h",
  node: "web-1",
  ...change,
});

test("prints logs in order of time, over as many pages as the limit needs, without terminal control sequences", async () => {
  stored = Array.from({ length: 1200 }, (_, index) => logRow(0, `line ${1200 - index}`));
  const many = await atherops("logs --limit 1100 --level error --label a=b=c --label a=d");
  const lines = many.out.trim().split("\n");
  expect([lines.length, lines[0], lines.at(-1)]).toEqual([
    1100,
    "2026-11-21T09:00:00.123Z  info   web-1/checkout  line 101",
    "2026-11-21T09:00:00.123Z  info   web-1/checkout  line 1200",
  ]);
  expect(asked[0]).toContain("level=error&label.a=b%3Dc&label.a=d");
  stored = [logRow(1, "\u001b[2J\u202egone\nnext")];
  expect((await atherops("logs")).out).toContain("\\u001b[2J\\u202egone\\nnext");
  expect(JSON.parse((await atherops("logs --json")).out)).toEqual(stored[0]);
  stored = [];
  expect(await atherops("logs")).toMatchObject({
    code: 0,
    out: "",
    err: expect.stringContaining("nothing in this time range"),
  });
  for (const wrong of ["--since yesterday", "--limit 0", "--label nonsense"]) expect((await atherops(`logs ${wrong}`)).code, wrong).toBe(2);
});

test("prints spans as a table or as JSON lines", async () => {
  stored = [
    {
      Timestamp: "2026-11-21T09:00:00.000000000Z",
      Service: "shop",
      Operation: "POST /pay",
      DurationMs: 12.5,
      StatusCode: "ERROR",
      TraceID: "aa",
      SpanID: "bb",
    },
  ];
  const shown = await atherops("traces --error --trace-id AA");
  expect(shown.out.split("\n").map((line) => line.split(/ {2,}/))).toEqual([
    ["TIMESTAMP", "SERVICE", "OPERATION", "DURATION_MS", "STATUS_CODE", "TRACE_ID", "SPAN_ID"],
    ["2026-11-21T09:00:00.000000000Z", "shop", "POST /pay", "12.5", "ERROR", "aa", "bb"],
    [""],
  ]);
  expect(asked[0]).toContain("trace_id=AA");
  expect(asked[0]).toContain("error=true");
});

test("prints an instant value as a table or a JSON array", async () => {
  expect((await atherops("metrics up{job='a'}")).out).toBe('NAME  VALUE  LABELS\nup    0.5    {"job":"a"}\n');
  expect(JSON.parse((await atherops("metrics up --json")).out)).toEqual([{ name: "up", value: "0.5", labels: { job: "a" } }]);
  expect((await atherops("metrics none")).out).toBe("none\n");
  expect(await atherops("metrics (")).toMatchObject({ code: 1, err: "atherops: missing ) [422]\n" });
  const wrong = await atherops("metrics sum(");
  expect(wrong.err).toBe("atherops: <expression>: a ) is missing at the end, for the ( at column 4\n");
});

test("a live tail prints late and equal rows, each as often as stored, and ends without an error", async () => {
  const stopping = new AbortController();
  const printed: string[] = [];
  const settings = { url: queryUrl, passwordFile: undefined, sessionFile };
  const world = { settings, signal: stopping.signal } as World;
  stored = [logRow(10, "before")];
  const tail = follow({
    client: new Client(world, {}),
    path: "/query/logs",
    time: "timestamp",
    filters: { level: "info" },
    printed: stored,
    print: (rows) => printed.push(...rows.map((row) => String(row["message"]))),
    signal: stopping.signal,
    now: () => Date.parse("2026-11-21T09:00:20Z"),
    pollMs: 5,
  });
  const arrives = async (rows: Row[], expected: string[]) => {
    stored = [...rows, ...stored].sort((one, two) => String(two["timestamp"]).localeCompare(String(one["timestamp"])));
    await expect.poll(() => printed).toEqual(expected);
  };
  await arrives([logRow(12, "new")], ["new"]);
  await arrives([logRow(5, "late")], ["new", "late"]);
  await arrives([logRow(12, "new"), logRow(12, "new")], ["new", "late", "new", "new"]);
  await arrives(Array.from({ length: 600 }, (_, index) => logRow(13, `${index}`)).toReversed(), [
    "new",
    "late",
    "new",
    "new",
    ...Array.from({ length: 600 }, (_, index) => `${index}`),
  ]);
  stopping.abort();
  await tail;
  expect(asked.every((one) => one.includes("start=2026-11-21T08%3A59%3A50") || one.includes("cursor="))).toBe(true);
});

test("a live tail that started later than its overlap does not print earlier rows", async () => {
  const stopping = new AbortController();
  const printed: string[] = [];
  const settings = { url: queryUrl, passwordFile: undefined, sessionFile };
  stored = [logRow(19, "between"), logRow(1, "old")];
  const tail = follow({
    client: new Client({ settings, signal: stopping.signal } as World, {}),
    path: "/query/logs",
    time: "timestamp",
    filters: {},
    printed: [],
    start: "2026-11-21T11:00:19+02:00",
    print: (rows) => printed.push(...rows.map((row) => String(row["message"]))),
    signal: stopping.signal,
    now: () => Date.parse("2026-11-21T09:00:20Z"),
    pollMs: 5,
  });
  await expect.poll(() => asked.length).toBeGreaterThan(2);
  stopping.abort();
  await tail;
  expect(printed).toEqual(["between"]);
});

test("fits a table to its cells, and prints a missing value as a dash", () => {
  expect(
    table(
      [
        { a: "x", b: null },
        { a: "longer", b: { c: 1 } },
      ],
      ["a", "b"],
    ),
  ).toBe('A       B\nx       -\nlonger  {"c":1}');
  expect(visible("é✓ \u0007\u009b\u2066")).toBe("é✓ \\u0007\\u009b\\u2066");
});

test("draws a trace from all its pages up to the limit, or prints JSON lines", async () => {
  const id = "5B8aa5a2d2c872e8321cf37308d69df2";
  const none = await atherops(`trace ${id}`);
  expect([none.code, none.err]).toEqual([1, "atherops: there is no span of this trace [404 not_found]\n"]);
  stored = [1, 2, 3].map((n) => ({
    Timestamp: `2026-11-21T10:00:0${n}.000000000Z`,
    TraceID: id.toLowerCase(),
    SpanID: `${n}`,
    ParentSpanID: n === 1 ? "" : "1",
    Service: "shop",
    Operation: `op ${n}`,
    DurationMs: 1000,
    Error: n === 3,
    StatusMessage: n === 3 ? "boom" : "",
  }));
  const drawn = await atherops(`trace ${id}`);
  expect([drawn.code, drawn.err]).toEqual([0, ""]);
  expect(drawn.out.split("\n").map((line) => line.replace(/ {2,}.*/, ""))).toEqual([
    id.toLowerCase(),
    "shop: op 1",
    "└ shop: op 2",
    "└ shop: op 3",
    "",
    "",
  ]);
  expect(drawn.out).toContain("ERROR\n  ! boom\n");
  const some = await atherops(`trace ${id} --limit 2 --json`);
  expect(
    some.out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line).SpanID),
  ).toEqual(["1", "2"]);
  expect(some.err).toBe("only the first 2 spans are shown; use --limit to show more\n");
  const wrong = await atherops("trace 1234");
  expect([wrong.code, wrong.err]).toEqual([2, "atherops: 1234: a trace has 32 hex digits; `atherops traces search` finds some\n"]);
});

test("searches traces by the given filters", async () => {
  stored = [
    { trace_id: "a", root_service: "shop", root_operation: "GET /", start: "t", duration_ms: 5, spans: 2, errors: 1, services: ["shop"] },
  ];
  const found = await atherops(
    "traces search --service shop --error --label k=v --min-ms 2.5 --max-ms 9 --end 2026-11-21T10:00:00Z --limit 7",
  );
  expect(found.out).toBe(
    "START  DURATION_MS  SPANS  ERRORS  ROOT_SERVICE  ROOT_OPERATION  TRACE_ID\nt      5            2      1       shop          GET /           a\n",
  );
  const { pathname, searchParams } = new URL(asked[0] ?? "", queryUrl);
  expect([pathname, Object.fromEntries(searchParams)]).toEqual([
    "/query/traces/search",
    {
      service: "shop",
      error: "true",
      "label.k": "v",
      min_duration_ms: "2.5",
      max_duration_ms: "9",
      end: "2026-11-21T10:00:00Z",
      limit: "7",
    },
  ]);
  expect(JSON.parse((await atherops("traces search --json")).out)).toEqual(stored[0]);
  expect((await atherops("traces search --follow")).err).toContain("--follow: a search is not followed");
  expect((await atherops("traces search --min-ms 1 --bogus")).code).toBe(2);
  stored = [];
  expect((await atherops("traces search")).err).toBe("nothing in this time range; use --since 24h to look further back\n");
  const help = (await atherops("traces search --help")).out;
  expect(help.split("Global Options:")[1]).toContain("--profile");
  expect(help.split("Global Options:")[1]).not.toContain("--follow");
  // The command above it still lists spans.
  await atherops("traces --service x");
  expect(asked.at(-1)).toMatch(/^\/query\/traces\?service=x&/);
});

test("prints services with --json as an array, as the help says", async () => {
  stored = ["shop", "cart"].map((service) => ({ service, rate: 1, error_ratio: 0 }));
  const { out } = await atherops("services --json");
  expect((JSON.parse(out) as Row[]).map(({ service }) => service)).toEqual(["shop", "cart"]);
  stored = [];
  expect((await atherops("services --json")).out).toBe("[]\n");
});

test("creates ingest tokens that expire after 90 days unless asked otherwise, and names other tokens of the same name", async () => {
  expect((await atherops("ingest-tokens create ci")).err).not.toContain("other tokens");
  expect((await atherops("ingest-tokens create ci --ttl never")).err).toContain(
    "other tokens have the name ci, and their data the same node: id-0",
  );
  expect(asked.map((body) => JSON.parse(body))).toMatchObject([{ name: "ci", ttl: "90d" }, { name: "ci" }]);
  expect(asked[1]).not.toContain("ttl");
});

test("exits with 2 for wrong usage and 1 for failures, as the help documents", async () => {
  for (const typed of [
    "trace abc",
    "traces search --min-ms x --follow",
    "metrics up --step 5m",
    "silences add x --comment y",
    "export nothing",
  ])
    expect((await atherops(typed)).code, typed).toBe(2);
  for (const url of ["nowhere", "ftp://a.example", "http://a.example"]) expect((await atherops(`--url ${url} rules`)).code, url).toBe(2);
  const failed = [`trace ${"ab".repeat(16)}`, "hosts configure x /nope.json", "apply -f /nope.yaml", "--url http://127.0.0.1:1 rules"];
  for (const asked of failed) expect((await atherops(asked)).code, asked).toBe(1);
  expect((await atherops("--help")).out).toMatch(/^Exit codes: 0 success; 2 wrong usage/m);
});
