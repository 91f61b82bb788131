// The requests of `atherops logs`, `tail` and `metrics` to the backend's real routes, and how they print the responses; only the store is a
// stand-in. Invariant: a filter that the routes do not know would be answered 400.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { Guards } from "../http/request-identity.ts";
import { ResponseBudget } from "../http/response-budget.ts";
import { createApp } from "../http/app.ts";
import type { RecordFilter } from "../storage/logs/filter.ts";
import { registerLogRoutes } from "../query/native/log-routes.ts";
import { registerMetricsRoutes } from "../query/prometheus/promql-routes.ts";
import { createLog } from "../log.ts";
import { type Ran, runClient, type RunOptions } from "./run-client.fixture.ts";

const folder = mkdtempSync(join(tmpdir(), "atherops-client-"));
const sessionFile = join(folder, "config", "atherops", "session.json");
const guards: Guards = {
  signed: () => async () => undefined,
  user: () => async () => undefined,
  reader: () => async (request) => void (request.user = { userId: "u", orgId: "o", email: "a@b", role: "viewer", labelLimits: undefined }),
};
const FILTERS =
  "--source shop --level error --word whole --grep one --grep two --not-grep three --regex ^a+ --not-regex b$ --label k=v --label k=w " +
  "--not-label x=y=z --host-id h --node n --trace-id ABababababababababababababababab";
const READ_AS = {
  source: "shop",
  level: "error",
  words: ["whole"],
  q: ["one", "two"],
  notQ: ["three"],
  regex: ["^a+"],
  notRegex: ["b$"],
  hostId: "h",
  node: "n",
  traceId: "ab".repeat(16),
  labels: [
    ["k", "v"],
    ["k", "w"],
  ],
  notLabels: [["x", "y=z"]],
};
const STRETCH = { start: "2026-11-22T10:00:00.000Z", end: "2026-11-22T10:02:00.000Z", counts: { info: 3, error: 1 } };
const FIELDS = [
  { name: "level", values: [{ value: "error", count: 7 }] },
  {
    name: "label.path",
    values: [
      { value: "\u001b[2J", count: 2 },
      { value: "/", count: 1 },
    ],
  },
];

let asked: { what: string; filter: RecordFilter & { range?: unknown }; buckets?: number }[] = [];
let queries: URLSearchParams[] = [];
let fields: object[] = FIELDS;
let data: object = { resultType: "vector", result: [] };
let app: Awaited<ReturnType<typeof createApp>>;
let url: string;

const json = (value: unknown) => Buffer.from(JSON.stringify(value));
const store = {
  query: async (_orgId: string, filter: RecordFilter) => (asked.push({ what: "rows", filter }), { json: json([]), next: undefined }),
  histogram: async (_orgId: string, filter: RecordFilter, buckets: number) => (
    asked.push({ what: "histogram", filter, buckets }),
    json([STRETCH])
  ),
  fields: async (_orgId: string, filter: RecordFilter) => (asked.push({ what: "fields", filter }), json(fields)),
};
const metrics = {
  query: async (_orgId: string, endpoint: string, params: URLSearchParams) => {
    queries.push(new URLSearchParams([...params, ["endpoint", endpoint]]));
    return { status: 200, pieces: [json({ status: "success", data })] };
  },
};

beforeAll(async () => {
  app = await createApp({ log: createLog("silent") });
  registerLogRoutes(app, { store, answers: new ResponseBudget(), guards } as never);
  registerMetricsRoutes(app, { store: metrics, answers: new ResponseBudget(), guards } as never);
  url = await app.listen({ host: "127.0.0.1", port: 0 });
  mkdirSync(dirname(sessionFile), { recursive: true });
  writeFileSync(sessionFile, JSON.stringify({ url, email: "a@b", token: "none" }));
});
afterAll(async () => {
  await app?.close();
  rmSync(folder, { recursive: true, force: true });
});
beforeEach(() => {
  [asked, queries, fields] = [[], [], FIELDS];
});

const atherops = async (args: string, options: Partial<RunOptions> = {}): Promise<Ran> =>
  await runClient(args, { url, sessionFile, ...options });

test("sends every filter to the backend, for logs, their histogram and their fields", async () => {
  for (const [option, what] of [
    ["", "rows"],
    [" --histogram", "histogram"],
    [" --field", "fields"],
  ]) {
    expect((await atherops(`logs ${FILTERS}${option}`)).code).toBe(0);
    expect(asked.at(-1)).toMatchObject({ what, filter: READ_AS });
  }
  expect(asked).toHaveLength(3);
});

test("arguments of a command are a query, and an invalid one is reported with its column", async () => {
  expect((await atherops("logs level:error AND lock")).code).toBe(0);
  expect(asked.at(-1)).toMatchObject({ what: "rows", filter: { level: "error", q: ["lock"] } });
  const wrong = await atherops("logs (lock");
  expect([wrong.code, wrong.err]).toEqual([
    2,
    expect.stringContaining("query: column 1: this ( is not closed; for example (error OR warn)"),
  ]);
});

test("prints a histogram as lines with bars or JSON lines, fields likewise, and both together", async () => {
  const drawn = await atherops("logs --histogram --since 24h --buckets 12");
  expect([drawn.code, drawn.err, drawn.out.split("\n")]).toEqual([
    0,
    "",
    [
      "4 records, 2m a line (UTC), ▒ error and fatal",
      expect.stringMatching(/^2026-11-22 10:00:00 {2}4 {2}▒{19}█{57}$/),
      "info 3, error 1",
      "",
    ],
  ]);
  expect(asked[0]?.buckets).toBe(12);
  const table = "FIELD       COUNT  VALUE\nlevel       7      error\nlabel.path  2      \\u001b[2J\nlabel.path  1      /\n";
  expect(await atherops("logs --field")).toEqual({ code: 0, err: "", out: table });
  expect((await atherops("logs --field label.path")).out.split("\n")).toHaveLength(4);
  expect((await atherops("logs --histogram --field level")).out).toMatch(/^4 records[^]*FIELD/);
  const lines = (await atherops("--json logs --histogram --field level")).out.trim().split("\n");
  expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([STRETCH, FIELDS[0]]);
});

test("lists the existing fields for an unknown one, and prints nothing as text", async () => {
  expect(await atherops("logs --field label.pth")).toEqual({
    code: 0,
    out: "",
    err: "no label.pth in the newest matching records; fields: level, label.path\n",
  });
  fields = [];
  expect((await atherops("logs --field")).err).toBe("nothing in this time range; use --since 24h to look further back\n");
});

test.each([
  ["logs --regex .{60}", 2, /^atherops: --regex: .*400 invalid_parameter/],
  ["logs --buckets 0 --histogram", 2, /^atherops: --buckets: must be >= 1/],
  ["logs --histogram --follow", 2, /cannot be used with option '--follow'/],
  ["logs --field x --follow", 2, /cannot be used with option '--follow'/],
  ["logs --trace-id xyz", 2, /^atherops: --trace-id: must be 32 hex digits/],
  ["logs --start 2026", 2, /^atherops: --start: must be RFC 3339/],
  ["logs --not-label x", 2, /^atherops: --not-label x: write it as key=value, or "a=b"=value for the key a=b\n$/],
  ["logs --grep ", 2, /argument '' is invalid\. Must not be empty/],
  ["tail --regex .{60}", 2, /^atherops: --regex: .*400 invalid_parameter/],
  ["tail --since 1h", 2, /unknown option '--since'/],
  ["metrics up --step 5m", 2, /^atherops: --step: requires --since or --start\n$/],
  ["metrics up --end 2026-11-22T10:00:00Z", 2, /^atherops: --end: requires --since/],
  ["metrics up --since soon", 2, /--since soon: write it as 15m, 24h or 7d/],
  ["metrics up --start yesterday", 2, /--start yesterday: write it as 2026-/],
  ["metrics up --start 2026-02-30T10:00:00Z", 2, /write it as 2026-/],
  ["metrics up --start 2026-11-22T10:00:00Z --end 2026-11-22T09:00:00Z", 2, /the time range ends before it starts/],
  ["metrics up --since 1h --step 0", 2, /--step 0: write it as/],
  ["metrics up --since 1h --limit none", 2, /--limit none/],
] as const)("rejects %s in one sentence", async (args, code, words) => {
  const refused = await atherops(args);
  expect([refused.code, refused.out, refused.err]).toEqual([code, "", expect.stringMatching(words)]);
  expect(asked).toEqual([]);
});

test("help contains examples", async () => {
  for (const [command, example] of [
    ["logs", "atherops logs --histogram --since 24h"],
    ["tail", "atherops tail --source checkout --json"],
    ["metrics", "--since 1h"],
  ] as const)
    expect((await atherops(`${command} --help`)).out).toContain(example);
});

test("prints an expression over a range as a sparkline per series, or a JSON array", async () => {
  const values = Array.from({ length: 61 }, (_, at): [number, string] => [1000 + at * 60, String(at)]);
  data = { resultType: "matrix", result: ["a", "b", "c\u001b[2J"].map((job) => ({ metric: { __name__: "up", job }, values })) };
  const drawn = await atherops("metrics up --start 1970-01-01T00:16:40Z --end 1970-01-01T01:16:40Z --step 1m --limit 2");
  expect(drawn.err).toBe("only the first 2 of 3 series are shown; aggregate them, or use --limit to show more\n");
  expect(drawn.out).toMatch(/^all: up\nSERIES +MIN +MAX +LAST\n\{job="a"\} +▁+▂+▃+▄+▅+▆+▇+█+ +0 +60 +60\n\{job="b"\}.*\n$/);
  expect(Object.fromEntries(queries[0] ?? [])).toMatchObject({
    endpoint: "query_range",
    query: "up",
    start: "1000",
    end: "4600",
    step: "60s",
  });
  const [, , third] = JSON.parse((await atherops("metrics up --since 1h --step 5m --json")).out);
  expect(third).toMatchObject({
    name: "up",
    labels: { job: "c\u001b[2J" },
    values: expect.arrayContaining([["1970-01-01T00:16:40.000Z", "0"]]),
  });
  expect(queries[1]?.get("step")).toBe("300s");
  await atherops("metrics up --since 1d");
  expect(queries[2]?.get("step")).toBe("360s");
  data = { resultType: "matrix", result: [] };
  expect(await atherops("metrics none --since 1h")).toEqual({ code: 0, out: "", err: "no series in this time range\n" });
});

test("prints an instant value of any type", async () => {
  // The engine's answer, of which the backend makes a scalar.
  data = { resultType: "vector", result: [{ metric: {}, value: [1, "2"] }] };
  expect((await atherops("metrics scalar(x)")).out).toBe("NAME  VALUE  LABELS\n-     2      {}\n");
  data = {
    resultType: "matrix",
    result: [
      {
        metric: { a: "b" },
        values: [
          [1, "1"],
          [2, "9"],
        ],
      },
    ],
  };
  expect((await atherops("metrics x[5m]")).out).toMatch(/^SERIES.*\n\{a="b"\} +▁+█+ +1 +9 +9\n$/);
  data = { resultType: "matrix", result: [] };
  expect((await atherops("metrics x[5m]")).err).toBe("no series in this time range\n");
});
