// The whole contract as a matrix: every endpoint × method × authentication case × body case, with status and error code of each, for
// two tenants, against the real backend with its embedded engines. A route that is not in the matrix fails the last test.
import { createHash, createHmac, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { beforeAll, describe, expect, test } from "vitest";
import { sign } from "../../agent/protocol/signature.ts";
import { login, type Tenant } from "../fixtures/backend-process.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { call, eventually, ROOT, type Answer } from "../fixtures/processes.ts";

const backend = backendOfFile({ JWT_TTL: "2h", EVALUATION_INTERVAL: "1s" });
let operator: string;
let red: Tenant;
let blue: Tenant;
let viewer: string;
/** Of red and of blue. */
let readTokens: [string, string];
let cluster: { id: string; key: string };
let host: { id: string; key: string };

beforeAll(async () => {
  operator = await backend.operator();
  red = await backend.tenant("red");
  blue = await backend.tenant("blue");
  const reader = { email: "viewer@red.example", password: randomUUID(), role: "viewer" };
  await call("POST", `${backend.apiUrl}/api/users`, { bearer: red.token, body: reader });
  viewer = await login(backend.apiUrl, reader.email, reader.password);
  readTokens = [await newReadToken(red), await newReadToken(blue)];
  cluster = await enrol("/api/clusters/register", { cluster_name: "north", cluster_uid: randomUUID(), agent_version: "1" }, "cluster_id");
  host = await enrol("/api/v1/agents/register", { hostname: "db-1", machine_id: randomUUID(), agent_version: "1" }, "agent_id");
});

async function installToken(tenant = red): Promise<string> {
  return await backend.installToken(tenant.token);
}

async function enrol(path: string, body: object, idField: string): Promise<{ id: string; key: string }> {
  const headers = { "idempotency-key": randomUUID() };
  const answer = await call("POST", `${backend.apiUrl}${path}`, { bearer: await installToken(), body, headers });
  if (answer.status !== 201) throw new Error(`${path}: ${answer.status} ${answer.text}`);
  return { id: answer.json[idField], key: answer.json.api_key };
}

// ── the matrix ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** `reader`: a session of any role, or a read token; a read token is 403 on what asks for a role. */
type Auth = "none" | "signed" | "reader" | "viewer" | "admin" | "operator" | "install token";
interface Case {
  name: string;
  send: (url: string) => Promise<Answer>;
  status: number;
  error?: string;
}
interface Row {
  method: string;
  /** As in /openapi.json; `{id}` is filled by the cases, and by a random UUID in the generic ones. */
  path: string;
  auth: Auth;
  /** Of a signed route: keys it takes. */
  kinds?: ("cluster" | "host" | "direct")[];
  cases: () => Case[];
}

const JSON_TYPE = { "content-type": "application/json" };
const nowNs = (): string => `${Date.now()}000000`;
const logsBody = (message: string): object => ({
  resourceLogs: [{ scopeLogs: [{ logRecords: [{ timeUnixNano: nowNs(), body: { stringValue: message } }] }] }],
});
const spansBody = (): object => ({
  resourceSpans: [
    {
      scopeSpans: [
        { spans: [{ traceId: "a".repeat(32), spanId: "b".repeat(16), name: "x", startTimeUnixNano: nowNs(), endTimeUnixNano: nowNs() }] },
      ],
    },
  ],
});

const asUser = (
  name: string,
  method: string,
  bearer: () => string,
  status: number,
  body?: unknown,
  error?: string,
  path?: string,
): Case => ({
  name,
  send: (url) => call(method, path === undefined ? url : `${backend.apiUrl}${path}`, { bearer: bearer(), body }),
  status,
  error,
});

/** A body to a signed path by a key of red. */
const signedCase = (
  name: string,
  path: string,
  body: string | Uint8Array,
  status: number,
  error?: string,
  headers: Record<string, string> = {},
): Case => ({
  name,
  send: (url) => call("POST", url, { body, headers: { ...sign(red.apiKey, "POST", path, Date.now() / 1000), ...headers } }),
  status,
  error,
});

function ingestCases(path: string, good: () => string, malformed: string, malformedCode: string): Case[] {
  const huge = Buffer.alloc(32 * 1024 * 1024 + 1, 0x20);
  return [
    signedCase("a good body", path, good(), 204),
    signedCase("an empty body", path, "", 204),
    signedCase("gzip", path, gzipSync(good()), 204, undefined, { "content-encoding": "gzip" }),
    signedCase("zstd", path, zstdCompressSync(Buffer.from(good())), 204, undefined, { "content-encoding": "zstd" }),
    signedCase("any content type", path, good(), 204, undefined, { "content-type": "application/x-protobuf" }),
    signedCase("a query string is ignored", path, good(), 204),
    signedCase("an unknown encoding", path, good(), 415, "unsupported_encoding", { "content-encoding": "br" }),
    signedCase("broken gzip", path, "not gzip", 400, "malformed_body", { "content-encoding": "gzip" }),
    signedCase("a malformed body", path, malformed, 400, malformedCode),
    signedCase("protobuf", path, Buffer.from([0x0a, 0x02, 0x12, 0x00, 0x01]), 400, "invalid_payload"),
    signedCase("more than 32 MiB", path, huge, 413, "body_too_large"),
    signedCase("more than 32 MiB decompressed", path, gzipSync(huge), 413, "body_too_large", { "content-encoding": "gzip" }),
  ];
}

const queryCases = (path: string): Case[] => [
  asUser("nothing stored yet, or something: an array", "GET", () => red.token, 200),
  asUser("limit above the cap", "GET", () => red.token, 200, undefined, undefined, `${path}?limit=100000`),
  asUser("limit 0", "GET", () => red.token, 400, undefined, "invalid_parameter", `${path}?limit=0`),
  asUser("limit not a number", "GET", () => red.token, 400, undefined, "invalid_parameter", `${path}?limit=ten`),
  asUser("start not a time", "GET", () => red.token, 400, undefined, "invalid_parameter", `${path}?start=yesterday`),
  asUser("end not a time", "GET", () => red.token, 400, undefined, "invalid_parameter", `${path}?end=1`),
];

const prometheus = (endpoint: string, query: string): Case[] => [
  asUser("a query", "GET", () => red.token, 200, undefined, undefined, `/query/prometheus/api/v1/${endpoint}?${query}`),
];
const withId = (path: string) => path.replace("{id}", randomUUID());
const missing = (method: string, path: string, body?: unknown): Case[] => [
  asUser("unknown id", method, () => red.token, 404, body, "not_found", withId(path)),
  asUser("malformed id", method, () => red.token, 404, body, "not_found", path.replace("{id}", "not-a-uuid")),
];
const rule = (): object => ({ name: `rule ${randomUUID()}`, severity: "warning", expr: "up == 0", for: "1m", enabled: false });
async function made(tenant: Tenant, path: string, body: object, idField: string): Promise<string> {
  const answer = await call("POST", `${backend.apiUrl}${path}`, { bearer: tenant.token, body });
  if (answer.status !== 201) throw new Error(`${path}: ${answer.status} ${answer.text}`);
  return answer.json[idField];
}
/** The other tenant's thing is not there: 404, and it is still there for its owner. */
const foreign = (method: string, path: string, create: () => Promise<string>, body?: unknown): Case => ({
  name: "another tenant's id",
  send: async () => call(method, `${backend.apiUrl}${path.replace("{id}", await create())}`, { bearer: red.token, body }),
  status: 404,
  error: "not_found",
});

function newReadToken(tenant: Tenant, idField = "token"): Promise<string> {
  return made(tenant, "/api/read-tokens", { name: "matrix" }, idField);
}

function newRule(tenant: Tenant): Promise<string> {
  return made(tenant, "/alerting/rules", rule(), "id");
}

function alertingRows(prefix: string): Row[] {
  return [
    { method: "GET", path: `${prefix}/rules`, auth: "reader", cases: () => [asUser("the org's rules", "GET", () => red.token, 200)] },
    {
      method: "POST",
      path: `${prefix}/rules`,
      auth: "admin",
      cases: () => [
        asUser("a good rule", "POST", () => red.token, 201, rule()),
        asUser("no name", "POST", () => red.token, 400, { ...rule(), name: undefined }, "invalid_field"),
        asUser("unknown severity", "POST", () => red.token, 400, { ...rule(), severity: "loud" }, "invalid_field"),
        asUser("unknown field", "POST", () => red.token, 400, { ...rule(), nmae: "x" }, "invalid_field"),
        asUser("not a comparison", "POST", () => red.token, 400, { ...rule(), expr: "up" }, "invalid_field"),
        asUser("not an expression", "POST", () => red.token, 400, { ...rule(), expr: "up == (" }, "invalid_field"),
        asUser("an unknown function", "POST", () => red.token, 400, { ...rule(), expr: "nosuchfunc(up) > 1" }, "invalid_field"),
        asUser("a negative duration", "POST", () => red.token, 400, { ...rule(), for: "-1m" }, "invalid_field"),
      ],
    },
    {
      method: "PUT",
      path: `${prefix}/rules/{id}`,
      auth: "admin",
      cases: () => [
        ...missing("PUT", `/alerting/rules/{id}`, rule()),
        foreign("PUT", "/alerting/rules/{id}", () => newRule(blue), rule()),
        {
          name: "replaced",
          send: async () => call("PUT", `${backend.apiUrl}/alerting/rules/${await newRule(red)}`, { bearer: red.token, body: rule() }),
          status: 200,
        },
      ],
    },
    {
      method: "DELETE",
      path: `${prefix}/rules/{id}`,
      auth: "admin",
      cases: () => [
        ...missing("DELETE", `/alerting/rules/{id}`),
        foreign("DELETE", "/alerting/rules/{id}", () => newRule(blue)),
        {
          name: "deleted",
          send: async () => call("DELETE", `${backend.apiUrl}/alerting/rules/${await newRule(red)}`, { bearer: red.token }),
          status: 204,
        },
      ],
    },
    {
      method: "GET",
      path: `${prefix}/rules/{id}/status`,
      auth: "reader",
      cases: () => [
        ...missing("GET", `/alerting/rules/{id}/status`),
        foreign("GET", "/alerting/rules/{id}/status", () => newRule(blue)),
        {
          name: "a disabled rule",
          send: async () => call("GET", `${backend.apiUrl}/alerting/rules/${await newRule(red)}/status`, { bearer: red.token }),
          status: 200,
        },
      ],
    },
    {
      method: "GET",
      path: `${prefix}/rules/{id}/history`,
      auth: "reader",
      cases: () => [...missing("GET", `/alerting/rules/{id}/history`), foreign("GET", "/alerting/rules/{id}/history", () => newRule(blue))],
    },
    {
      method: "POST",
      path: `${prefix}/rules/validate`,
      auth: "viewer",
      cases: () => [asUser("a good expression", "POST", () => red.token, 200, rule())],
    },
  ];
}

const MATRIX: Row[] = [
  {
    method: "POST",
    path: "/ingest",
    auth: "signed",
    kinds: ["cluster", "host", "direct"],
    cases: () => ingestCases("/ingest", () => `matrix_metric{a="b"} 1 ${Date.now()}\n`, "ok 1\nnot exposition text {\n", "invalid_payload"),
  },
  {
    method: "POST",
    path: "/ingest/traces",
    auth: "signed",
    kinds: ["cluster", "host", "direct"],
    cases: () => [
      ...ingestCases("/ingest/traces", () => JSON.stringify(spansBody()), "{", "malformed_body"),
      signedCase("zero records", "/ingest/traces", "{}", 204),
      signedCase(
        "a mistyped field",
        "/ingest/traces",
        '{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":7}]}]}]}',
        400,
        "invalid_payload",
      ),
    ],
  },
  {
    method: "POST",
    path: "/ingest/logs/otlp",
    auth: "signed",
    kinds: ["cluster", "host", "direct"],
    cases: () => [
      ...ingestCases("/ingest/logs/otlp", () => JSON.stringify(logsBody("matrix")), "[]]", "malformed_body"),
      signedCase("zero records", "/ingest/logs/otlp", '{"resourceLogs":[]}', 204),
      signedCase("a mistyped field", "/ingest/logs/otlp", '{"resourceLogs":{}}', 400, "invalid_payload"),
    ],
  },
  {
    method: "GET",
    path: "/query/traces",
    auth: "reader",
    cases: () => [
      ...queryCases("/query/traces"),
      asUser("trace_id not hex", "GET", () => red.token, 400, undefined, "invalid_parameter", "/query/traces?trace_id=xyz"),
    ],
  },
  {
    method: "GET",
    path: "/query/traces/{trace_id}",
    auth: "reader",
    cases: () => [
      {
        name: "its own, for its own organisation alone",
        send: async (url) => {
          const path = "/ingest/traces";
          const headers = sign(red.apiKey, "POST", path, Date.now() / 1000);
          await call("POST", `${backend.apiUrl}${path}`, { body: JSON.stringify(spansBody()), headers });
          const own = await call("GET", url.replace("{trace_id}", "A".repeat(32)), { bearer: red.token });
          expect(own.json).toContainEqual(expect.objectContaining({ SpanID: "b".repeat(16), Kind: "UNSPECIFIED", Events: [] }));
          return await call("GET", url.replace("{trace_id}", "a".repeat(32)), { bearer: blue.token });
        },
        status: 404,
        error: "not_found",
      },
      asUser("not hex", "GET", () => red.token, 400, undefined, "invalid_parameter", "/query/traces/xyz"),
    ],
  },
  { method: "GET", path: "/query/logs", auth: "reader", cases: () => queryCases("/query/logs") },
  ...(["GET", "POST"] as const).flatMap((method): Row[] =>
    [
      ["query", "query=up"],
      ["query_range", "query=up&start=1&end=2&step=1"],
      ["series", "match[]=up"],
      ["labels", ""],
    ].map(([endpoint = "", query = ""]) => ({
      method,
      path: `/query/prometheus/api/v1/${endpoint}`,
      auth: "reader",
      cases: () =>
        method === "GET"
          ? prometheus(endpoint, query)
          : [
              {
                name: "a form",
                send: (url) =>
                  call("POST", url, { bearer: red.token, body: query, headers: { "content-type": "application/x-www-form-urlencoded" } }),
                status: 200,
              },
            ],
    })),
  ),
  ...["GET status/buildinfo", "GET metadata", "GET query_exemplars", "POST query_exemplars"].map((operation): Row => {
    const [method = "", endpoint] = operation.split(" ");
    const path = `/query/prometheus/api/v1/${endpoint}`;
    return { method, path, auth: "reader", cases: () => [asUser("answered", method, () => red.token, 200)] };
  }),
  { method: "GET", path: "/query/prometheus/api/v1/label/{name}/values", auth: "reader", cases: () => prometheus("label/job/values", "") },
  {
    method: "POST",
    path: "/api/auth/login",
    auth: "none",
    cases: () => [
      {
        name: "wrong password",
        send: (url) => call("POST", url, { body: { email: "admin@red.example", password: "wrong-password" } }),
        status: 401,
        error: "invalid_credentials",
      },
      {
        name: "unknown user",
        send: (url) => call("POST", url, { body: { email: "nobody@red.example", password: "wrong-password" } }),
        status: 401,
        error: "invalid_credentials",
      },
      { name: "no password", send: (url) => call("POST", url, { body: { email: "a@b" } }), status: 400, error: "invalid_field" },
      { name: "not JSON", send: (url) => call("POST", url, { body: "{", headers: JSON_TYPE }), status: 400, error: "malformed_body" },
    ],
  },
  {
    method: "POST",
    path: "/api/clusters/register",
    auth: "install token",
    cases: () => enrolmentCases(() => ({ cluster_name: "c", cluster_uid: randomUUID(), agent_version: "1" })),
  },
  {
    method: "POST",
    path: "/api/v1/agents/register",
    auth: "install token",
    cases: () => enrolmentCases(() => ({ hostname: "h", machine_id: randomUUID(), agent_version: "1" })),
  },
  { method: "POST", path: "/heartbeat", auth: "signed", kinds: ["cluster"], cases: () => heartbeatCases("/heartbeat", () => cluster.key) },
  {
    method: "POST",
    path: "/ingest/agents/heartbeat",
    auth: "signed",
    kinds: ["host"],
    cases: () => heartbeatCases("/ingest/agents/heartbeat", () => host.key),
  },
  {
    method: "POST",
    path: "/api/clusters/rotate-key",
    auth: "signed",
    kinds: ["cluster"],
    cases: () => [
      {
        name: "no Idempotency-Key",
        send: (url) => call("POST", url, { headers: sign(cluster.key, "POST", "/api/clusters/rotate-key", Date.now() / 1000) }),
        status: 400,
        error: "missing_idempotency_key",
      },
    ],
  },
  {
    method: "GET",
    path: "/api/v1/agents/{id}/config",
    auth: "signed",
    kinds: ["host"],
    cases: () => [
      { name: "its own", send: () => signedGet(`/api/v1/agents/${host.id}/config`, host.key), status: 200 },
      { name: "another host's", send: () => signedGet(`/api/v1/agents/${randomUUID()}/config`, host.key), status: 404, error: "not_found" },
    ],
  },
  {
    method: "PUT",
    path: "/api/v1/agents/{id}/config",
    auth: "admin",
    cases: () => [
      ...missing("PUT", "/api/v1/agents/{id}/config", {}),
      {
        name: "written",
        send: () => call("PUT", `${backend.apiUrl}/api/v1/agents/${host.id}/config`, { bearer: red.token, body: { log_level: "warn" } }),
        status: 200,
      },
      {
        name: "an unknown field",
        send: () => call("PUT", `${backend.apiUrl}/api/v1/agents/${host.id}/config`, { bearer: red.token, body: { exporters: {} } }),
        status: 400,
        error: "invalid_field",
      },
      {
        name: "by another tenant",
        send: () => call("PUT", `${backend.apiUrl}/api/v1/agents/${host.id}/config`, { bearer: blue.token, body: {} }),
        status: 404,
        error: "not_found",
      },
    ],
  },
  { method: "GET", path: "/api/install-tokens", auth: "viewer", cases: () => [asUser("listed", "GET", () => red.token, 200)] },
  {
    method: "POST",
    path: "/api/install-tokens",
    auth: "admin",
    cases: () => [
      asUser("default lifetime", "POST", () => red.token, 201, {}),
      asUser("no body", "POST", () => red.token, 201),
      asUser("a wrong lifetime", "POST", () => red.token, 400, { ttl: "soon" }, "invalid_field"),
    ],
  },
  {
    method: "DELETE",
    path: "/api/install-tokens/{id}",
    auth: "admin",
    cases: () => [
      ...missing("DELETE", "/api/install-tokens/{id}"),
      foreign("DELETE", "/api/install-tokens/{id}", () => made(blue, "/api/install-tokens", {}, "id")),
    ],
  },
  { method: "GET", path: "/api/read-tokens", auth: "viewer", cases: () => [asUser("listed", "GET", () => red.token, 200)] },
  {
    method: "POST",
    path: "/api/read-tokens",
    auth: "admin",
    cases: () => [
      asUser("default lifetime", "POST", () => red.token, 201, { name: "grafana" }),
      asUser("a year", "POST", () => red.token, 201, { name: "grafana", ttl: "1y" }),
      asUser("more than a year", "POST", () => red.token, 400, { name: "grafana", ttl: "366d" }, "invalid_field"),
      asUser("no name", "POST", () => red.token, 400, {}, "invalid_field"),
      asUser("an unknown field", "POST", () => red.token, 400, { name: "x", role: "admin" }, "invalid_field"),
    ],
  },
  {
    method: "DELETE",
    path: "/api/read-tokens/{id}",
    auth: "admin",
    cases: () => [
      ...missing("DELETE", "/api/read-tokens/{id}"),
      foreign("DELETE", "/api/read-tokens/{id}", () => newReadToken(blue, "id")),
      {
        name: "removed",
        send: async () => call("DELETE", `${backend.apiUrl}/api/read-tokens/${await newReadToken(red, "id")}`, { bearer: red.token }),
        status: 204,
      },
    ],
  },
  { method: "GET", path: "/api/clusters", auth: "viewer", cases: () => [asUser("listed", "GET", () => red.token, 200)] },
  { method: "DELETE", path: "/api/clusters/{id}", auth: "admin", cases: () => missing("DELETE", "/api/clusters/{id}") },
  { method: "GET", path: "/api/v1/agents", auth: "viewer", cases: () => [asUser("listed", "GET", () => red.token, 200)] },
  { method: "DELETE", path: "/api/v1/agents/{id}", auth: "admin", cases: () => missing("DELETE", "/api/v1/agents/{id}") },
  { method: "GET", path: "/api/keys", auth: "viewer", cases: () => [asUser("listed", "GET", () => red.token, 200)] },
  {
    method: "POST",
    path: "/api/keys",
    auth: "admin",
    cases: () => [
      asUser("made", "POST", () => red.token, 201, { name: "pipeline" }),
      asUser("no name", "POST", () => red.token, 400, {}, "invalid_field"),
      asUser("an unknown field", "POST", () => red.token, 400, { name: "x", org_id: "y" }, "invalid_field"),
    ],
  },
  {
    method: "DELETE",
    path: "/api/keys/{id}",
    auth: "admin",
    cases: () => [
      ...missing("DELETE", "/api/keys/{id}"),
      foreign("DELETE", "/api/keys/{id}", () => made(blue, "/api/keys", { name: "k" }, "key_id")),
    ],
  },
  { method: "GET", path: "/api/users", auth: "viewer", cases: () => [asUser("listed", "GET", () => red.token, 200)] },
  {
    method: "POST",
    path: "/api/users",
    auth: "admin",
    cases: () => [
      asUser("made", "POST", () => red.token, 201, { email: `${randomUUID()}@red.example`, password: randomUUID(), role: "admin" }),
      asUser(
        "an admin grants operator",
        "POST",
        () => red.token,
        403,
        { email: `${randomUUID()}@red.example`, password: randomUUID(), role: "operator" },
        "forbidden",
      ),
      asUser("taken", "POST", () => red.token, 409, { email: "viewer@red.example", password: randomUUID(), role: "viewer" }, "conflict"),
      asUser(
        "a short password",
        "POST",
        () => red.token,
        400,
        { email: "x@red.example", password: "short", role: "viewer" },
        "invalid_field",
      ),
      asUser(
        "an unknown role",
        "POST",
        () => red.token,
        400,
        { email: "x@red.example", password: randomUUID(), role: "root" },
        "invalid_field",
      ),
    ],
  },
  {
    method: "PUT",
    path: "/api/users/{id}/password",
    auth: "admin",
    cases: () => [
      ...missing("PUT", "/api/users/{id}/password", { password: randomUUID() }),
      foreign("PUT", "/api/users/{id}/password", blueUser, { password: randomUUID() }),
    ],
  },
  {
    method: "PUT",
    path: "/api/users/{id}/role",
    auth: "admin",
    cases: () => [
      ...missing("PUT", "/api/users/{id}/role", { role: "viewer" }),
      foreign("PUT", "/api/users/{id}/role", blueUser, { role: "viewer" }),
    ],
  },
  {
    method: "DELETE",
    path: "/api/users/{id}",
    auth: "admin",
    cases: () => [...missing("DELETE", "/api/users/{id}"), foreign("DELETE", "/api/users/{id}", blueUser)],
  },
  { method: "GET", path: "/api/orgs", auth: "operator", cases: () => [asUser("listed", "GET", () => operator, 200)] },
  {
    method: "POST",
    path: "/api/orgs",
    auth: "operator",
    cases: () => [
      asUser("taken", "POST", () => operator, 409, { name: "red", admin: { email: "z@z.example", password: randomUUID() } }, "conflict"),
      asUser("no administrator", "POST", () => operator, 400, { name: "green" }, "invalid_field"),
    ],
  },
  {
    method: "POST",
    path: "/api/orgs/{id}/admins",
    auth: "operator",
    cases: () => [
      asUser(
        "unknown id",
        "POST",
        () => operator,
        404,
        { email: "x@x.example", password: randomUUID() },
        "not_found",
        withId("/api/orgs/{id}/admins"),
      ),
      asUser("no password", "POST", () => operator, 400, { email: "x@x.example" }, "invalid_field"),
      {
        name: "added",
        send: async () => {
          const orgs = (await call("GET", `${backend.apiUrl}/api/orgs`, { bearer: operator })).json as { org_id: string; name: string }[];
          const id = orgs.find(({ name }) => name === "blue")?.org_id;
          const body = { email: `${randomUUID()}@blue.example`, password: randomUUID() };
          return await call("POST", `${backend.apiUrl}/api/orgs/${id}/admins`, { bearer: operator, body });
        },
        status: 201,
      },
    ],
  },
  {
    method: "GET",
    path: "/api/accounts",
    auth: "operator",
    cases: () => [
      asUser("found", "GET", () => operator, 200, undefined, undefined, "/api/accounts?email=viewer@red.example"),
      asUser("no address", "GET", () => operator, 400, undefined, "invalid_parameter"),
    ],
  },
  {
    method: "DELETE",
    path: "/api/accounts/{id}",
    auth: "operator",
    cases: () => [
      asUser("unknown id", "DELETE", () => operator, 404, undefined, "not_found", withId("/api/accounts/{id}")),
      asUser("malformed id", "DELETE", () => operator, 404, undefined, "not_found", "/api/accounts/not-a-uuid"),
      {
        name: "removed",
        send: async () => {
          const body = { email: `${randomUUID()}@blue.example`, password: randomUUID(), role: "viewer" };
          const id = await made(blue, "/api/users", body, "user_id");
          return await call("DELETE", `${backend.apiUrl}/api/accounts/${id}`, { bearer: operator });
        },
        status: 204,
      },
    ],
  },
  { method: "GET", path: "/openapi.json", auth: "none", cases: () => [{ name: "served", send: (url) => call("GET", url), status: 200 }] },
  ...alertingRows("/alerting"),
];

async function blueUser(): Promise<string> {
  return (await call("GET", `${backend.apiUrl}/api/users`, { bearer: blue.token })).json[0].user_id;
}

function signedGet(path: string, key: string): Promise<Answer> {
  return call("GET", `${backend.apiUrl}${path}`, { headers: sign(key, "GET", path, Date.now() / 1000) });
}

function heartbeatCases(path: string, key: () => string): Case[] {
  const beat = (name: string, status: number, body?: object, error?: string): Case => ({
    name,
    send: (url) => call("POST", url, { body, headers: sign(key(), "POST", path, Date.now() / 1000) }),
    status,
    error,
  });
  return [
    beat("without a body", 204),
    beat("with everything", 204, {
      node: "n1",
      agent_version: "1",
      interval_s: 30,
      collector: { state: "running", restarts: 0, last_error: "" },
    }),
    beat("a wrong type", 400, { interval_s: "soon" }, "invalid_field"),
  ];
}

function enrolmentCases(body: () => object): Case[] {
  const post = (
    name: string,
    status: number,
    error: string | undefined,
    change: (ask: { bearer: string; body: object; headers: Record<string, string> }) => object = (ask) => ask,
  ): Case => ({
    name,
    send: async (url) =>
      call("POST", url, change({ bearer: await installToken(), body: body(), headers: { "idempotency-key": randomUUID() } })),
    status,
    error,
  });
  return [
    post("enrolled", 201, undefined),
    post("no Idempotency-Key", 400, "missing_idempotency_key", (ask) => ({ ...ask, headers: {} })),
    post("Idempotency-Key not a UUID", 400, "missing_idempotency_key", (ask) => ({ ...ask, headers: { "idempotency-key": "x" } })),
    post("a missing field", 400, "invalid_field", (ask) => ({ ...ask, body: {} })),
    post("an unknown token", 401, "invalid_install_token", (ask) => ({ ...ask, bearer: "it_unknown" })),
    {
      name: "a used token with another Idempotency-Key",
      send: async (url) => {
        const bearer = await installToken();
        await call("POST", url, { bearer, body: body(), headers: { "idempotency-key": randomUUID() } });
        return await call("POST", url, { bearer, body: body(), headers: { "idempotency-key": randomUUID() } });
      },
      status: 401,
      error: "invalid_install_token",
    },
    {
      name: "the same Idempotency-Key with another body",
      send: async (url) => {
        const ask = { bearer: await installToken(), headers: { "idempotency-key": randomUUID() } };
        await call("POST", url, { ...ask, body: body() });
        return await call("POST", url, { ...ask, body: body() });
      },
      status: 422,
      error: "idempotency_key_reused",
    },
  ];
}

// ── generic cases, by the route's authentication ───────────────────────────────────────────────────────────────────────────────────

function authCases(row: Row): Case[] {
  if (row.auth === "signed") return signatureCases(row);
  if (row.auth === "none") return [];
  const expected = row.auth === "install token" ? "invalid_install_token" : "invalid_token";
  const bearer = (name: string, token: () => string | undefined, status = 401, error = expected): Case => ({
    name,
    send: (url) =>
      call(row.method, url, {
        bearer: token(),
        body: row.method === "GET" || row.method === "DELETE" ? undefined : {},
        headers: { "idempotency-key": randomUUID() },
      }),
    status,
    error,
  });
  const cases = [
    bearer("no bearer token", () => undefined),
    bearer("a token that is none", () => "abc"),
    bearer("an agent's key", () => red.apiKey),
    bearer(
      "a token of another algorithm",
      () => `${Buffer.from('{"alg":"none"}').toString("base64url")}.${Buffer.from("{}").toString("base64url")}.`,
    ),
    bearer("a token with a foreign signature", () => forged()),
  ];
  if (row.auth === "admin" || row.auth === "operator") cases.push(bearer("a viewer", () => viewer, 403, "forbidden"));
  if (row.auth === "operator") cases.push(bearer("an admin", () => red.token, 403, "forbidden"));
  return cases;
}

function forged(): string {
  const [header = "", payload = ""] = red.token.split(".");
  return `${header}.${payload}.${createHmac("sha256", "not the secret").update(`${header}.${payload}`).digest("base64url")}`;
}

function signatureCases(row: Row): Case[] {
  const path = withId(row.path);
  const key = (): string => (row.kinds?.includes("direct") ? red.apiKey : row.kinds?.includes("host") ? host.key : cluster.key);
  const send = (name: string, headers: () => Record<string, string>, error: string, status = 401): Case => ({
    name,
    send: () => call(row.method, `${backend.apiUrl}${path}`, { headers: headers() }),
    status,
    error,
  });
  const good = (at = Date.now() / 1000): Record<string, string> => sign(key(), row.method, path, at);
  const without = (name: string): Record<string, string> =>
    Object.fromEntries(Object.entries(good()).filter(([header]) => header !== name));
  const cases = [
    send("no headers", () => ({}), "missing_header"),
    send("no timestamp", () => without("x-timestamp"), "missing_header"),
    send("no key hash", () => without("x-key-hash"), "missing_header"),
    send("no signature", () => without("x-signature"), "missing_header"),
    send("a timestamp that is not digits", () => ({ ...good(), "x-timestamp": "1e9" }), "malformed_header"),
    send("an uppercase key hash", () => ({ ...good(), "x-key-hash": good()["x-key-hash"]?.toUpperCase() ?? "" }), "malformed_header"),
    send("a short signature", () => ({ ...good(), "x-signature": "ab" }), "malformed_header"),
    send("6 minutes ago", () => good(Date.now() / 1000 - 360), "stale_timestamp"),
    send("6 minutes ahead", () => good(Date.now() / 1000 + 360), "stale_timestamp"),
    send("an unknown key", () => sign("ak_unknown", row.method, path, Date.now() / 1000), "unknown_key"),
    send("another path signed", () => sign(key(), row.method, "/other", Date.now() / 1000), "bad_signature"),
    send("another method signed", () => sign(key(), "PATCH", path, Date.now() / 1000), "bad_signature"),
    send("the hash as the key", () => ({ ...good(), "x-signature": hashAsKey(key(), row.method, path) }), "bad_signature"),
  ];
  const wrong = (["cluster", "host", "direct"] as const).filter((kind) => !row.kinds?.includes(kind));
  const keys = { cluster: () => cluster.key, host: () => host.key, direct: () => red.apiKey };
  for (const kind of wrong)
    cases.push(send(`a ${kind} key`, () => sign(keys[kind](), row.method, path, Date.now() / 1000), "wrong_key_kind", 403));
  return cases;
}

function hashAsKey(key: string, method: string, path: string): string {
  const hash = createHash("sha256").update(key).digest("hex");
  return createHmac("sha256", hash)
    .update(`${Math.floor(Date.now() / 1000)}\n${method}\n${path}`)
    .digest("hex");
}

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

test("a read token, as a bearer or as a password, gets what a session gets where it may read, and 403 where a role is asked for", async () => {
  const check = async (origin: string, rows: readonly Row[]): Promise<void> => {
    for (const row of rows.filter(({ auth }) => !["none", "signed", "install token"].includes(auth))) {
      const path = withId(row.path);
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
  await check(backend.alertingUrl, alertingRows(""));
});

test("a refusal in the middle of a large body is seen by its sender, not a reset", async () => {
  const body = Buffer.alloc(20 * 1024 * 1024, 0x20);
  const answer = await call("POST", `${backend.apiUrl}/ingest`, {
    body,
    headers: sign("ak_unknown", "POST", "/ingest", Date.now() / 1000),
  });
  expect([answer.status, answer.json.error]).toEqual([401, "unknown_key"]);
});

test("methods that are not listed are 405 with Allow, on every path of both ports, whatever body comes along", async () => {
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
  await check(backend.alertingUrl, alertingRows(""));
});

test("what one tenant sent is read by that tenant alone", async () => {
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

test("every route that exists is in the matrix, and the other way round", async () => {
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

test("what is served is what docs/openapi.json and docs/openapi-alerting.json say", async () => {
  const page = (name: string) => JSON.parse(readFileSync(join(ROOT, "docs", name), "utf8"));
  expect((await call("GET", `${backend.apiUrl}/openapi.json`)).json).toEqual(page("openapi.json"));
  expect((await call("GET", `${backend.alertingUrl}/openapi.json`)).json).toEqual(page("openapi-alerting.json"));
});

test("what a backend tells of itself is what docs/reference/backend-metrics.md says", async () => {
  const page = readFileSync(join(ROOT, "docs/reference/backend-metrics.md"), "utf8");
  const told = [...page.matchAll(/^\| `(atherops_\w+)` \| (\w+) /gm)].map(([, name, type]) => `${name} ${type}`);
  const counted = (text: string) => [...text.matchAll(/^# TYPE (atherops_\w+ \w+)$/gm)].map(([, line = ""]) => line);
  const { text } = await call("GET", `${backend.healthUrl}/metrics`);
  expect(counted(text).sort()).toEqual(told.sort());
});

test("the alerting service describes on its own port what it serves there", async () => {
  const document = (await call("GET", `${backend.alertingUrl}/openapi.json`)).json;
  const served = Object.entries(document.paths as Record<string, object>).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  expect(served.sort()).toEqual([...alertingRows("").map((row) => `${row.method} ${row.path}`), "GET /openapi.json"].sort());
});

test("the alerting service on its own port answers as under the prefix", async () => {
  for (const row of alertingRows("")) {
    const path = withId(row.path);
    for (const bearer of [red.token, viewer, readTokens[0], "abc"]) {
      const body = row.method === "GET" || row.method === "DELETE" ? undefined : {};
      const direct = await call(row.method, `${backend.alertingUrl}${path}`, { bearer, body });
      const forwarded = await call(row.method, `${backend.apiUrl}/alerting${path}`, { bearer, body });
      expect([row.method, path, forwarded.status, forwarded.text]).toEqual([row.method, path, direct.status, direct.text]);
    }
  }
});
