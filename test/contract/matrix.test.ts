// The whole contract as a matrix: every endpoint × method × authentication case × body case, with the status and error code of each, for
// two tenants, on a real backend with embedded engines. The rows of matrix/ have the cases that do not follow from a route's declaration.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { sign } from "../../common/protocol/signature.ts";
import { declaredRoutes } from "../../hack/openapi.ts";
import { type Answer, call, eventually, ROOT } from "../fixtures/processes.ts";
import { ACCOUNT_ROWS } from "./matrix/account-rows.ts";
import { authCases } from "./matrix/authentication-cases.ts";
import { answers, asUser, type Row, row, withId } from "./matrix/case.ts";
import { authOf, derivedRow } from "./matrix/derived-rows.ts";
import { ENROLMENT_ROWS } from "./matrix/enrolment-rows.ts";
import { SAVED_ROWS } from "./matrix/saved-rows.ts";
import { logsBody, spansBody, TELEMETRY_ROWS } from "./matrix/telemetry-rows.ts";
import { OTLP_ROWS } from "./matrix/otlp-rows.ts";
import { ASKED, backend, blue, newCookie, operator, readTokens, red, viewer } from "./matrix/tenants.ts";

const BY_HAND: Row[] = [
  ...TELEMETRY_ROWS,
  ...OTLP_ROWS,
  ...ENROLMENT_ROWS,
  ...ACCOUNT_ROWS,
  ...SAVED_ROWS,
  row("GET", "/openapi.json", "none", () => [answers("served", (url) => call("GET", url), 200)]),
  row("POST", "/alerting/rules/validate", "viewer", () => [
    asUser("an expression", "POST", () => viewer, 200, { name: "rule", severity: "warning", expr: "up == 0" }),
  ]),
  row("POST", "/alerting/routes/test", "viewer", () => [
    asUser("invented labels", "POST", () => viewer, 200, { labels: { severity: "critical" } }),
  ]),
];

const nameOf = ({ method, path }: Pick<Row, "method" | "path">): string => `${method} ${path}`;
const DECLARED = await declaredRoutes();
const handWritten = new Set(BY_HAND.map(nameOf));
const MATRIX = [...BY_HAND, ...DECLARED.filter((route) => !handWritten.has(nameOf(route))).map(derivedRow)];
/** As on the alerting service's own port. */
const ALERTING = MATRIX.flatMap((row) => (row.path.startsWith("/alerting/") ? [{ ...row, path: row.path.slice("/alerting".length) }] : []));

test("each manual row matches the declaration of its route", () => {
  const declared = new Map(DECLARED.map((route) => [nameOf(route), authOf(route.access)]));
  // The description itself is the only route that createApp() adds.
  for (const row of BY_HAND.filter(({ path }) => path !== "/openapi.json"))
    expect([nameOf(row), row.auth]).toEqual([nameOf(row), declared.get(nameOf(row))]);
});

describe.each(MATRIX.map((row) => [`${row.method} ${row.path}`, row] as const))("%s", (_title, row) => {
  test.each([...authCases(row), ...row.cases()].map((item) => [item.name, item.status, item] as const))(
    "%s: %i",
    async (_name, status, item) => {
      const answer = await item.send(`${backend.apiUrl}${withId(row.path)}`);
      expect([answer.status, answer.json?.error], answer.text).toEqual([status, item.error]);
      expect(status < 400 || /\w/.test(answer.json.message)).toBe(true);
      expect(status !== 204 || answer.text === "").toBe(true);
      expect(answer.headers.get("x-request-id")).toBeTruthy();
    },
  );
});

const withToken = (token: string): string[] => [`Bearer ${token}`, `Basic ${Buffer.from(`grafana:${token}`).toString("base64")}`];

test("a read token, as a bearer or as a password, gets what a session gets where it may read, and 403 where a role is required", async () => {
  const check = async (origin: string, rows: readonly Row[]): Promise<void> => {
    for (const row of rows.filter(({ auth }) => !["none", "signed", "install token", "ingest token"].includes(auth))) {
      const path = `${withId(row.path)}${row.neverEnds ? "?no=parameter" : ""}`;
      const body = row.method === "GET" || row.method === "DELETE" || row.auth === "reader" ? undefined : {};
      const session = row.auth === "reader" ? await call(row.method, `${origin}${path}`, { bearer: red.token }) : undefined;
      for (const authorization of withToken(readTokens[0])) {
        const answer = await call(row.method, `${origin}${path}`, { body, headers: { authorization } });
        const expected = session ? [session.status, session.json?.error] : [403, "forbidden"];
        expect([row.method, path, answer.status, answer.json?.error]).toEqual([row.method, path, ...expected]);
      }
      expect(session?.status).not.toBe(401);
    }
  };
  await check(backend.apiUrl, MATRIX);
  await check(backend.alertingUrl, ALERTING);
});

test("a browser's session gets what its user's token gets, of the Loki, Jaeger and Prometheus routes too, and nothing without its header", async () => {
  const cookie = await newCookie();
  const seen = (answer: Answer): unknown[] => [answer.status, answer.json?.error];
  for (const row of MATRIX.filter(({ auth }) => ["reader", "viewer", "admin", "operator"].includes(auth))) {
    const url = `${backend.apiUrl}${withId(row.path)}${row.neverEnds ? "?no=parameter" : ""}`;
    const body = row.method === "GET" || row.method === "DELETE" || row.auth === "reader" ? undefined : {};
    const [token, browser] = [
      await call(row.method, url, { bearer: viewer, body }),
      await call(row.method, url, { body, headers: { ...cookie, ...ASKED } }),
    ];
    expect([url, ...seen(browser)]).toEqual([url, ...seen(token)]);
    const bare = await call(row.method, url, { body, headers: cookie });
    expect([url, ...seen(bare)]).toEqual([url, 401, "invalid_token"]);
  }
});

test("a browser's session reads its own organisation's data by the Loki, Jaeger and Prometheus routes", async () => {
  const name = `only-red-${randomUUID()}`;
  const send = async (path: string, body: string): Promise<void> => {
    const sent = await call("POST", `${backend.apiUrl}${path}`, { body, headers: sign(red.apiKey, "POST", path, Date.now() / 1000) });
    expect(sent.status, sent.text).toBe(204);
  };
  await send("/ingest", `${name.replaceAll("-", "_")} 1 ${Date.now()}\n`);
  await send("/ingest/logs/otlp", JSON.stringify(logsBody("matrix", name)));
  await send("/ingest/traces", JSON.stringify(spansBody(name)));
  const headers = { ...ASKED, ...(await newCookie()) };
  const paths = {
    "/query/loki/loki/api/v1/label/service_name/values": name,
    "/query/jaeger/api/services": name,
    "/query/prometheus/api/v1/label/__name__/values": name.replaceAll("-", "_"),
  };
  for (const [path, own] of Object.entries(paths)) {
    await backend.shows(`${path} has it`, async () => (await call("GET", `${backend.apiUrl}${path}`, { headers })).json.data.includes(own));
    expect((await call("GET", `${backend.apiUrl}${path}`, { bearer: blue.token })).json.data).not.toContain(own);
  }
});

test("a sender of a large body receives the rejection, not a reset", async () => {
  const body = Buffer.alloc(20 * 1024 * 1024, 0x20);
  const answer = await call("POST", `${backend.apiUrl}/ingest`, {
    body,
    headers: sign("ak_unknown", "POST", "/ingest", Date.now() / 1000),
  });
  expect([answer.status, answer.json.error]).toEqual([401, "unknown_key"]);
});

test("returns 405 with Allow for other methods, on every path of both ports, with any body", async () => {
  const form = { "content-type": "application/x-www-form-urlencoded" };
  const check = async (origin: string, rows: readonly Row[]): Promise<void> => {
    const paths = new Map<string, Set<string>>();
    for (const row of rows) paths.set(row.path, (paths.get(row.path) ?? new Set()).add(row.method));
    for (const [path, methods] of paths) {
      for (const method of ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"].filter((name) => !methods.has(name))) {
        const body = method === "GET" || method === "HEAD" ? {} : { body: "a=b", headers: form };
        for (const ask of [{}, body]) {
          const answer = await call(method, `${origin}${withId(path)}`, { bearer: red.token, ...ask });
          expect([path, method, answer.status]).toEqual([path, method, 405]);
          expect(answer.headers.get("allow")?.split(", ").sort()).toEqual([...methods].sort());
        }
      }
    }
  };
  await check(backend.apiUrl, MATRIX);
  await check(backend.alertingUrl, ALERTING);
});

test("returns what one tenant sent to that tenant alone", async () => {
  const secret = `only-red-${randomUUID()}`;
  const path = "/ingest/logs/otlp";
  const sent = await call("POST", `${backend.apiUrl}${path}`, {
    body: JSON.stringify(logsBody(secret)),
    headers: sign(red.apiKey, "POST", path, Date.now() / 1000),
  });
  expect(sent.status).toBe(204);
  const read = async (bearer: string): Promise<unknown[]> =>
    (await call("GET", `${backend.apiUrl}/query/logs?q=${secret}`, { bearer })).json;
  await eventually("red reads it", async () => (await read(red.token)).length === 1);
  expect(await read(blue.token)).toEqual([]);
  expect(await read(operator)).toEqual([]);
  const [ofRed = [], ofBlue = []] = readTokens.map(withToken);
  for (const authorization of [...ofRed, ...ofBlue]) {
    const rows = (await call("GET", `${backend.apiUrl}/query/logs?q=${secret}`, { headers: { authorization } })).json;
    expect(rows).toHaveLength(ofRed.includes(authorization) ? 1 : 0);
  }
});

test("contains every existing route, and no other", async () => {
  const document = (await call("GET", `${backend.apiUrl}/openapi.json`)).json;
  const served = Object.entries(document.paths as Record<string, object>).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  expect(served.sort()).toEqual(
    MATRIX.map((row) => `${row.method} ${row.path}`)
      .concat("GET /openapi.json")
      .filter((item, at, all) => all.indexOf(item) === at)
      .sort(),
  );
});

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly schema: { readonly format?: string; readonly enum?: readonly string[] };
}

const TIMES = new Set("start end time ts endTs lookback since step interval cursor".split(" "));
/** Times that a person or a program can write but no engine takes: before 1970, in the year 9999, numbers without end. */
const HOSTILE_TIMES =
  "0030-12-01T14:19:42.98Z 0970-06-01T08:55:32Z 1969-12-31T23:59:59Z 9999-12-31T23:59:59Z -1 0 1e300 99999999999999999999".split(" ");

test("no time that a reader asks for is an internal error", { timeout: 180_000 }, async () => {
  const errors = (): number => backend.log.split('"level":"error"').length;
  const before = errors();
  const bearer = red.token;
  const rule = await call("POST", `${backend.apiUrl}/alerting/rules`, { bearer, body: { name: "r", severity: "info", expr: "up > 0" } });
  const { paths } = JSON.parse(readFileSync(join(ROOT, "docs/openapi.json"), "utf8")) as {
    paths: Record<string, { get?: { parameters?: readonly Parameter[] } }>;
  };
  const failed: string[] = [];
  let asked = 0;
  for (const [path, { get }] of Object.entries(paths)) {
    // The response of a tail never ends.
    if (path.endsWith("/tail")) continue;
    const parameters = (get?.parameters ?? []).filter((parameter) => parameter.in === "query");
    const required = parameters.flatMap(({ name, schema, ...each }) => (each.required ? [[name, schema.enum?.[0] ?? "x"] as const] : []));
    for (const { name } of parameters.filter(({ name, schema }) => schema.format === "date-time" || TIMES.has(name))) {
      for (const value of HOSTILE_TIMES) {
        const query = new URLSearchParams({ ...Object.fromEntries(required), [name]: value });
        // A start before its end.
        if (name === "start" && parameters.some((other) => other.name === "end")) query.set("end", value);
        const url = `${path.replace("{id}", rule.json.id).replaceAll(/\{\w+\}/g, "x")}?${query.toString()}`;
        const { status, text } = await call("GET", backend.apiUrl + url, { bearer });
        asked += 1;
        if (status >= 500) failed.push(`${status} ${url}: ${text.slice(0, 200)}`);
      }
    }
  }
  expect(failed).toEqual([]);
  expect(asked).toBeGreaterThan(500);
  expect(errors()).toBe(before);
});

test("serves docs/openapi.json and docs/openapi-alerting.json", async () => {
  const page = (name: string) => JSON.parse(readFileSync(join(ROOT, "docs", name), "utf8"));
  expect((await call("GET", `${backend.apiUrl}/openapi.json`)).json).toEqual(page("openapi.json"));
  expect((await call("GET", `${backend.alertingUrl}/openapi.json`)).json).toEqual(page("openapi-alerting.json"));
});

test("exports the metrics of docs/reference/backend-metrics.md", async () => {
  const page = readFileSync(join(ROOT, "docs/reference/backend-metrics.md"), "utf8");
  // This backend makes no backups by itself.
  const always = page.split("\n").filter((row) => !row.includes("Only with BACKUP_EVERY"));
  const documented = [...always.join("\n").matchAll(/^\| `(atherops_\w+)` \| (\w+) /gm)].map(([, name, type]) => `${name} ${type}`);
  const counted = (text: string) => [...text.matchAll(/^# TYPE (atherops_\w+ \w+)$/gm)].map(([, line = ""]) => line);
  const { text } = await call("GET", `${backend.healthUrl}/metrics`);
  expect(counted(text).sort()).toEqual(documented.sort());
});

test("the alerting service describes its own routes on its own port", async () => {
  const document = (await call("GET", `${backend.alertingUrl}/openapi.json`)).json;
  const served = Object.entries(document.paths as Record<string, object>).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  expect(served.sort()).toEqual([...ALERTING.map((row) => `${row.method} ${row.path}`), "GET /openapi.json"].sort());
});

test("the alerting service returns the same on its own port as under the prefix", async () => {
  for (const row of ALERTING) {
    const path = withId(row.path);
    for (const bearer of [red.token, viewer, readTokens[0], "abc"]) {
      const body = row.method === "GET" || row.method === "DELETE" ? undefined : {};
      const direct = await call(row.method, `${backend.alertingUrl}${path}`, { bearer, body });
      const forwarded = await call(row.method, `${backend.apiUrl}/alerting${path}`, { bearer, body });
      expect([row.method, path, forwarded.status, forwarded.text]).toEqual([row.method, path, direct.status, direct.text]);
    }
  }
});
