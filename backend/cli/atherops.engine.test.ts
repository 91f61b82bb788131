// The admin client as its users run it, against the real routes over HTTP; queries against a store in memory that pages as the
// contract says.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { accountsApp, OPERATOR, registerCluster, registerHost, type AccountsApp } from "../../test/fixtures/accounts-app.ts";
import { freePorts } from "../../test/fixtures/processes.ts";
import { relationalEngines, type OpenedEngine } from "../../test/fixtures/postgres.ts";
import { createLog } from "../observability/log.ts";
import { createApp } from "../http/app.ts";
import { follow } from "./follow.ts";
import { Client } from "./client.ts";
import type { World } from "./io.ts";
import { run } from "./program.ts";
import { table, visible, type Row } from "./table.ts";

const folder = mkdtempSync(join(tmpdir(), "atherops-client-"));
const sessionFile = join(folder, "config", "atherops", "session.json");
let opened: OpenedEngine | undefined;
let backend: AccountsApp;
let url: string;
/** Newest first, as the query answers. */
let stored: Row[] = [];
let asked: string[] = [];
let queries: Awaited<ReturnType<typeof createApp>>;
let queryUrl: string;

beforeAll(async () => {
  opened = await (relationalEngines.findLast((engine) => engine.available) ?? relationalEngines[0])?.open();
  if (!opened) throw new Error("no engine");
  backend = await accountsApp(opened.database, { clock: { ms: Date.now() } });
  await backend.app.listen({ host: "127.0.0.1", port: 0 });
  url = `http://127.0.0.1:${(backend.app.server.address() as AddressInfo).port}`;
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
    if (request.query.query === "(") return await reply.code(422).send({ status: "error", errorType: "422", error: "missing )" });
    return {
      status: "success",
      data: {
        resultType: "vector",
        result: request.query.query === "none" ? [] : [{ metric: { __name__: "up", job: "a" }, value: [1, "0.5"] }],
      },
    };
  });
  await queries.listen({ host: "127.0.0.1", port: 0 });
  queryUrl = `http://127.0.0.1:${(queries.server.address() as AddressInfo).port}`;
});
afterAll(async () => {
  await backend?.[Symbol.asyncDispose]();
  await queries?.close();
  await opened?.end();
  rmSync(folder, { recursive: true, force: true });
});
beforeEach(() => {
  stored = [];
  asked = [];
});

interface Ran {
  code: number;
  out: string;
  err: string;
}

async function atherops(
  args: string,
  options: { input?: string; passwordFile?: string; url?: string; signal?: AbortSignal; sessionFile?: string } = {},
): Promise<Ran> {
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
  stdin.end(options.input ?? "");
  const settings = { url: options.url ?? url, passwordFile: options.passwordFile, sessionFile: options.sessionFile ?? sessionFile };
  const world: World = { settings, stdin: stdin as unknown as NodeJS.ReadStream, stdout, stderr, signal: options.signal };
  const code = await run(args.split(" "), world);
  return { code, out: String(stdout.read() ?? ""), err: String(stderr.read() ?? "") };
}

/** A session at the query server, whose routes ask for none. */
function sessionAtQueries(): void {
  writeFileSync(sessionFile, JSON.stringify({ url: queryUrl, email: "a@b", token: "none" }));
}

async function loggedIn(): Promise<void> {
  const done = await atherops(`login --email ${OPERATOR.email}`, { input: `${OPERATOR.password}\n` });
  expect(done).toEqual({ code: 0, out: "", err: `logged in to ${url} as ${OPERATOR.email}\n` });
}

test("login takes the password from a pipe or a file and keeps the session where only its owner reads it", async () => {
  await loggedIn();
  expect((statSync(sessionFile).mode & 0o777).toString(8)).toBe("600");
  expect(readFileSync(sessionFile, "utf8")).not.toContain(OPERATOR.password);
  const passwordFile = join(folder, "password");
  writeFileSync(passwordFile, OPERATOR.password, { mode: 0o600 });
  expect((await atherops("login", { passwordFile })).code).toBe(0);
  const wrong = await atherops("login", { input: "wrong" });
  expect([wrong.code, wrong.err]).toEqual([1, "atherops: unknown e-mail or wrong password [401 invalid_credentials]\n"]);
  expect((await atherops("login", { input: "" })).err).toContain("the password is empty");
  expect((await atherops("logout")).code).toBe(0);
  expect((await atherops("clusters")).err).toContain("not logged in: run `atherops login");
});

test("a place where no session can be kept is said before a password is sent", async () => {
  const file = join(folder, "a-file");
  writeFileSync(file, "");
  mkdirSync(join(folder, "a-folder"), { recursive: true });
  for (const [place, code] of [
    ["/proc/atherops/config/session.json", "ENOENT"],
    [join(file, "session.json"), "EEXIST"],
  ] as const) {
    const refused = await atherops("login", { input: "wrong", sessionFile: place });
    expect([refused.code, refused.err]).toEqual([
      1,
      `atherops: the session cannot be kept in ${place}: ${code}; set XDG_CONFIG_HOME to a folder that you may write\n`,
    ]);
    expect((await atherops("logout", { sessionFile: place })).code).toBe(0);
    expect((await atherops("keys", { sessionFile: place })).err).toContain("not logged in");
  }
  expect((await atherops("keys", { sessionFile: join(folder, "a-folder") })).err).toMatch(/^atherops: the session in .* EISDIR; set XDG_/);
});

test("a session file that holds no session is as none", async () => {
  for (const text of ["", "nonsense", '{"token":5}', '{"url":"x","email":"a@b","token":"t"}']) {
    writeFileSync(sessionFile, text);
    expect((await atherops("keys")).err, text).toContain("not logged in: run `atherops login");
  }
  await loggedIn();
});

test("a configuration that cannot be read is one sentence", async () => {
  await loggedIn();
  for (const [file, code] of [
    ["/nope.json", "ENOENT"],
    ["/", "EISDIR"],
  ] as const)
    expect(await atherops(`hosts configure x ${file}`)).toMatchObject({
      code: 1,
      err: `atherops: the configuration ${file} cannot be read: ${code}\n`,
    });
});

/** A terminal as far as the client sees one: what happens on it, in order. */
function terminal(): { stdin: NodeJS.ReadStream & PassThrough; stderr: PassThrough; happened: string[] } {
  const happened: string[] = [];
  const stdin = Object.assign(new PassThrough(), { isTTY: true, setRawMode: (on: boolean) => happened.push(`echo ${on ? "off" : "on"}`) });
  const stderr = new PassThrough();
  stderr.on("data", (text: Buffer) => happened.push(text.toString()));
  return { stdin: stdin as unknown as NodeJS.ReadStream & PassThrough, stderr, happened };
}

test("the echo is off before the password is asked for, and on again after it", async () => {
  const { stdin, stderr, happened } = terminal();
  const settings = { url, passwordFile: undefined, sessionFile };
  const ended = run(["login", "--email", OPERATOR.email], { settings, stdin, stdout: new PassThrough(), stderr });
  await expect.poll(() => happened).toContain("Password: ");
  stdin.write(`${OPERATOR.password}\r`);
  expect(await ended).toBe(0);
  expect(happened).toEqual(["echo off", "Password: ", "echo on", "\n", expect.stringContaining("logged in")]);
});

test.each([
  ["Ctrl-C", "\u0003"],
  ["Ctrl-D", "\u0004"],
])("%s at the password prompt is one sentence", async (_name, key) => {
  const { stdin, stderr, happened } = terminal();
  const settings = { url, passwordFile: undefined, sessionFile };
  const ended = run(["login"], { settings, stdin, stdout: new PassThrough(), stderr });
  await expect.poll(() => happened).toContain("Password: ");
  stdin.write(key);
  expect(await ended).toBe(1);
  expect(happened.at(-1)).toBe("atherops: no password was typed, nothing was done\n");
});

test("the version is told; --since and --start do not go together; the default of --limit is a number", async () => {
  expect((await atherops("--version")).out).toMatch(/^\d+\.\d+\.\d+\n$/);
  expect(await atherops("logs --since 1h --start 2026-11-21T00:00:00Z")).toMatchObject({ code: 2 });
  expect((await atherops("logs --help")).out).toContain("(default: 100)");
});

test("a password goes to another machine over https only", async () => {
  for (const address of ["http://telemetry.example.com", "http://10.0.0.1:8080", "http://127.0.0.1.example.com"])
    expect((await atherops("login", { url: address, input: "secret" })).err).toContain("would carry the password in clear text");
});

test("what cannot be reached or is no backend is one sentence", async () => {
  const [port] = await freePorts(1);
  const away = await atherops("login", { url: `http://127.0.0.1:${port}`, input: "secret" });
  expect([away.code, away.err]).toEqual([1, `atherops: http://127.0.0.1:${port} cannot be reached: ECONNREFUSED\n`]);
  expect((await atherops("login", { url: "nonsense", input: "secret" })).err).toContain("is not a URL");
  await loggedIn();
  expect((await atherops("clusters", { url: queryUrl })).err).toContain(`the session belongs to ${url}`);
});

test("an ended session says so, and is renewed by itself where a password file is set", async () => {
  await loggedIn();
  writeFileSync(sessionFile, JSON.stringify({ url, email: OPERATOR.email, token: "a.b.c" }));
  expect((await atherops("keys")).err).toBe("atherops: the session has ended: run `atherops login`\n");
  expect((await atherops("keys", { passwordFile: join(folder, "password") })).code).toBe(0);
  expect((await atherops("keys")).code).toBe(0);
});

test("wrong usage is exit code 2 with a suggestion, help is 0 and shows examples for every level", async () => {
  const typo = await atherops("cluster");
  expect([typo.code, typo.err]).toEqual([2, expect.stringContaining("Did you mean clusters?")]);
  expect((await atherops("users role a@b king")).code).toBe(2);
  for (const command of [
    "",
    "login ",
    "orgs create ",
    "tokens create ",
    "read-tokens create ",
    "hosts configure ",
    "logs ",
    "traces ",
    "metrics ",
  ]) {
    const help = await atherops(`${command}--help`);
    expect(help.code, command).toBe(0);
    expect(help.out, command).toMatch(/Example/);
  }
});

test("organisations and users: created, listed, changed, removed", async () => {
  await loggedIn();
  const made = await atherops("orgs create shop --admin-email admin@shop.example", { input: "long enough" });
  expect([made.code, made.out]).toEqual([0, expect.stringMatching(/^[0-9a-f-]{36}\n$/)]);
  expect((await atherops("orgs")).out).toMatch(/^NAME +ORG_ID +CREATED_AT\n[^]*shop +[0-9a-f-]{36} /);
  expect((await atherops("orgs create shop --admin-email b@shop.example", { input: "long enough" })).err).toContain("[409 conflict]");
  await atherops("users add new@example.com --role admin", { input: "long enough" });
  expect((await atherops("users role new@example.com viewer")).err).toBe("new@example.com is viewer now\n");
  expect((await atherops("users password NEW@example.com", { input: "another one" })).code).toBe(0);
  const listed = JSON.parse((await atherops("users --json")).out) as Row[];
  expect(listed.find((user) => user["email"] === "new@example.com")).toMatchObject({ role: "viewer" });
  expect((await atherops("users remove new@example.com")).code).toBe(0);
  expect((await atherops("users remove new@example.com")).err).toContain("there is no user new@example.com");
});

test("tokens and keys: the secret alone is on stdout, and the lists do not show it", async () => {
  await loggedIn();
  for (const [create, list, form] of [
    ["tokens create --ttl 1h", "tokens --json", /^it_[\w-]{43}\n$/],
    ["keys create loader", "keys --json", /^ak_[\w-]{43}\n$/],
    ["read-tokens create grafana --ttl 1y", "read-tokens --json", /^eyJ[\w-]+\.[\w-]+\.[\w-]{43}\n$/],
  ] as const) {
    const made = await atherops(create);
    expect(made.out).toMatch(form);
    expect(made.err).toContain("not shown again");
    const listed = JSON.parse((await atherops(list)).out) as Row[];
    expect(JSON.stringify(listed)).not.toContain(made.out.trim());
    const id = listed[0]?.["id"] ?? listed[0]?.["key_id"];
    expect((await atherops(`${create.split(" ")[0]} remove ${String(id)}`)).code).toBe(0);
  }
  expect(JSON.parse((await atherops("tokens create --json")).out)).toMatchObject({ token: expect.stringMatching(/^it_/) });
  expect((await atherops("tokens create --ttl soon")).err).toContain("ttl");
});

test("a read token comes with what to enter into Grafana, and the list tells who made it", async () => {
  await loggedIn();
  const made = await atherops("read-tokens create grafana");
  expect(made.err).toContain(`  Prometheus server URL   ${url}/query/prometheus\n`);
  expect(made.err).toMatch(/Basic authentication\n +User +any, .*\n +Password +the token\n$/);
  expect(made.err).not.toContain(made.out.trim());
  expect((await atherops("read-tokens")).out).toMatch(new RegExp(`^NAME +EXPIRES_AT [^]*grafana +\\S+Z +${OPERATOR.email} `));
  expect((await atherops("read-tokens create grafana --ttl 2y")).err).toContain("ttl: must be a duration from 1m to 365d");
  expect((await atherops("read-tokens remove x")).err).toContain("[404 not_found]");
});

test("clusters, their nodes, hosts and their configuration", async () => {
  await loggedIn();
  const bearer = await backend.login();
  const cluster = await registerCluster(backend, bearer, { cluster_name: "prod-eu" });
  const body = { node: "node-1", agent_version: "1.2.3", collector: { state: "running", restarts: 1 } };
  await backend.call("POST", "/heartbeat", { key: cluster.api_key, body });
  expect((await atherops("clusters")).out).toMatch(/^NAME +ONLINE +NODES [^]*prod-eu +true +1 /);
  expect((await atherops("clusters nodes prod-eu")).out).toMatch(/node-1 +1\.2\.3 .*\{"state":"running","restarts":1\}/);
  const host = await registerHost(backend, bearer, { hostname: "web-7" });
  expect((await atherops("hosts")).out).toMatch(/web-7 +false +1\.0\.0 +- +- of 0/);
  const written = await atherops(`hosts configure ${host.agent_id} -`, { input: '{"signals":["logs"]}' });
  expect(written.err).toContain("version 1 written");
  expect((await atherops(`hosts configure ${host.agent_id} -`, { input: '{"exporters":{}}' })).err).toContain("exporters: unknown field");
  expect((await atherops(`hosts configure ${host.agent_id} -`, { input: "{" })).err).toContain("is not JSON");
  expect((await atherops(`hosts remove ${host.agent_id}`)).code).toBe(0);
  expect((await atherops(`clusters remove ${cluster.cluster_id}`)).code).toBe(0);
  expect((await atherops("clusters remove ../users")).err).toContain("[404 not_found]");
});

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

test("logs are printed in the order of their times, over as many pages as the limit takes, and cannot steer the terminal", async () => {
  sessionAtQueries();
  stored = Array.from({ length: 1200 }, (_, index) => logRow(0, `line ${1200 - index}`));
  const many = await atherops("logs --limit 1100 --level error --label a=b=c --label a=d", { url: queryUrl });
  const lines = many.out.trim().split("\n");
  expect([lines.length, lines[0], lines.at(-1)]).toEqual([
    1100,
    "2026-11-21T09:00:00.123Z  info   web-1/checkout  line 101",
    "2026-11-21T09:00:00.123Z  info   web-1/checkout  line 1200",
  ]);
  expect(asked[0]).toContain("level=error&label.a=b%3Dc&label.a=d");
  stored = [logRow(1, "\u001b[2J\u202egone\nnext")];
  expect((await atherops("logs", { url: queryUrl })).out).toContain("\\u001b[2J\\u202egone\\nnext");
  expect(JSON.parse((await atherops("logs --json", { url: queryUrl })).out)).toEqual(stored[0]);
  stored = [];
  expect(await atherops("logs", { url: queryUrl })).toMatchObject({
    code: 0,
    out: "",
    err: expect.stringContaining("nothing in this range"),
  });
  for (const wrong of ["--since yesterday", "--limit 0", "--label nonsense"])
    expect((await atherops(`logs ${wrong}`, { url: queryUrl })).code, wrong).toBe(1);
});

test("spans are a table, or one object a line", async () => {
  sessionAtQueries();
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
  const shown = await atherops("traces --error --trace-id AA", { url: queryUrl });
  expect(shown.out.split("\n")[1]).toBe("2026-11-21T09:00:00.000000000Z  shop     POST /pay  12.5        ERROR       aa       bb");
  expect(asked[0]).toContain("trace_id=AA");
  expect(asked[0]).toContain("error=true");
});

test("an expression's value now is a table, or an array", async () => {
  sessionAtQueries();
  expect((await atherops("metrics up{job='a'}", { url: queryUrl })).out).toBe('NAME  VALUE  LABELS\nup    0.5    {"job":"a"}\n');
  expect(JSON.parse((await atherops("metrics up --json", { url: queryUrl })).out)).toEqual([
    { name: "up", value: "0.5", labels: { job: "a" } },
  ]);
  expect((await atherops("metrics none", { url: queryUrl })).out).toBe("none\n");
  expect((await atherops("metrics (", { url: queryUrl })).err).toBe("atherops: missing ) [422 422]\n");
});

test("a live tail prints late rows and equal rows, each as often as it is stored, and ends quietly", async () => {
  sessionAtQueries();
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
    seen: stored,
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

test("a live tail that began later than its overlap does not print what was there before its beginning", async () => {
  sessionAtQueries();
  const stopping = new AbortController();
  const printed: string[] = [];
  const settings = { url: queryUrl, passwordFile: undefined, sessionFile };
  stored = [logRow(19, "between"), logRow(1, "old")];
  const tail = follow({
    client: new Client({ settings, signal: stopping.signal } as World, {}),
    path: "/query/logs",
    time: "timestamp",
    filters: {},
    seen: [],
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

test("a table is as wide as its cells, and shows what is missing as a dash", () => {
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

test("a trace is drawn from all its pages, as far as is wanted, or is lines of JSON", async () => {
  sessionAtQueries();
  const id = "5B8aa5a2d2c872e8321cf37308d69df2";
  const none = await atherops(`trace ${id}`, { url: queryUrl });
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
  const drawn = await atherops(`trace ${id}`, { url: queryUrl });
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
  const some = await atherops(`trace ${id} --limit 2 --json`, { url: queryUrl });
  expect(
    some.out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line).SpanID),
  ).toEqual(["1", "2"]);
  expect(some.err).toBe("only the first 2 spans; --limit shows more\n");
  const wrong = await atherops("trace 1234", { url: queryUrl });
  expect([wrong.code, wrong.err]).toEqual([1, "atherops: 1234: a trace has 32 hex digits; `atherops traces search` finds some\n"]);
});

test("traces are searched by what is given", async () => {
  sessionAtQueries();
  stored = [
    { trace_id: "a", root_service: "shop", root_operation: "GET /", start: "t", duration_ms: 5, spans: 2, errors: 1, services: ["shop"] },
  ];
  const found = await atherops(
    "traces search --service shop --error --label k=v --min-ms 2.5 --max-ms 9 --end 2026-11-21T10:00:00Z --limit 7",
    {
      url: queryUrl,
    },
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
  expect(JSON.parse((await atherops("traces search --json", { url: queryUrl })).out)).toEqual(stored[0]);
  expect((await atherops("traces search --follow", { url: queryUrl })).err).toContain("--follow: a search is not followed");
  expect((await atherops("traces search --min-ms 1 --bogus", { url: queryUrl })).code).toBe(2);
  stored = [];
  expect((await atherops("traces search", { url: queryUrl })).err).toBe("nothing in this range; --since 24h looks further back\n");
  // The command above it still lists spans.
  await atherops("traces --service x", { url: queryUrl });
  expect(asked.at(-1)).toMatch(/^\/query\/traces\?service=x&/);
});
