// No text in any field, path or header of accounts and enrolment causes a 5xx, on either engine: text that a database refuses is refused or
// made harmless before it gets there.
import { randomUUID } from "node:crypto";
import { array, assert, asyncProperty, constantFrom, integer, jsonValue, oneof, record, string } from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { listRoutes } from "../../http/app.ts";
import { accountsApp, installToken, makeOrg, registerCluster, registerHost } from "../../../test/fixtures/accounts-app.ts";
import type { AccountsApp, CallOptions, Org } from "../../../test/fixtures/accounts-app.ts";
import { describeOnEachStore } from "../../../test/fixtures/each-store.ts";

const HOSTILE = [
  "\0",
  "a\0b",
  "\ud800",
  "a\udc00@b",
  "\u0000@b.c",
  "a@b\u0000",
  "/\ud800",
  "/var/\0",
  "'; DROP TABLE orgs; --",
  "__proto__",
  "%00",
  "..",
  "\u202e",
  "x".repeat(5000),
];
const text = oneof(constantFrom(...HOSTILE), string({ unit: "binary", maxLength: 40 }));
const value = oneof(text, jsonValue());

describeOnEachStore((store) => {
  let backend: AccountsApp;
  let org: Org;
  let operator: string;
  let cluster: string;
  let host: { agent_id: string; api_key: string };

  beforeAll(async () => {
    backend = await accountsApp(store.database);
    org = await makeOrg(backend);
    operator = await backend.login();
    cluster = (await registerCluster(backend, org.token)).api_key;
    host = await registerHost(backend, org.token);
  });
  afterAll(async () => await backend?.[Symbol.asyncDispose]());

  /** Returns the status, and the body if the server failed. */
  async function failure(method: string, url: string, options: CallOptions): Promise<string | undefined> {
    const answer = await backend.call(method, url, options);
    return answer.statusCode >= 500 ? `${method} ${url} ${JSON.stringify(options.body)}: ${answer.statusCode} ${answer.body}` : undefined;
  }

  store.once("without authentication, only logins, invitations and single sign-on read a body, of at most 8 KiB", async () => {
    const readers: string[] = [];
    for (const [url, methods] of listRoutes(backend.app)) {
      for (const method of [...methods].filter((one) => one !== "GET")) {
        const path = url.replaceAll(/:\w+/g, randomUUID());
        const statusOf = async (length: number) =>
          (await backend.call(method, path, { address: "192.0.2.9", body: { text: "x".repeat(length) } })).statusCode;
        // A body that is not valid for the route.
        if ((await statusOf(1)) !== 400) continue;
        readers.push(`${method} ${url}`);
        expect([url, await statusOf(8192)]).toEqual([url, 413]);
      }
    }
    expect(readers.sort()).toEqual([
      "POST /api/auth/invitation",
      "POST /api/auth/invitation/accept",
      "POST /api/auth/login",
      "POST /api/auth/oidc/cli",
      "POST /api/auth/oidc/token",
      "POST /api/auth/session",
    ]);
  });

  const bodies: [string, string, Record<string, unknown>, () => CallOptions | Promise<CallOptions>][] = [
    ["POST", "/api/auth/login", { email: "a@b", password: "wrong" }, () => ({ address: randomUUID() })],
    ["POST", "/api/orgs", { name: "n", admin: { email: "a@b", password: "long enough" } }, () => ({ bearer: operator })],
    ["POST", "/api/users", { email: "a@b", password: "long enough", role: "viewer" }, () => ({ bearer: org.token })],
    ["POST", "/api/keys", { name: "n" }, () => ({ bearer: org.token })],
    ["POST", "/api/install-tokens", { ttl: "1h" }, () => ({ bearer: org.token })],
    [
      "POST",
      "/heartbeat",
      { node: "n", agent_version: "1", interval_s: 1, collector: { state: "s", restarts: 1, last_error: "e" } },
      () => ({ key: cluster }),
    ],
    [
      "POST",
      "/ingest/agents/heartbeat",
      { agent_version: "1", collector: { last_error: "e" }, config: { version: "1", error: "e" } },
      () => ({ key: host.api_key }),
    ],
    ["POST", "/api/clusters/register", { cluster_name: "n", cluster_uid: "u", agent_version: "1" }, registration],
    ["POST", "/api/v1/agents/register", { hostname: "n", machine_id: "m", agent_version: "1" }, registration],
  ];

  async function registration(): Promise<CallOptions> {
    return { bearer: await installToken(backend, org.token), headers: { "idempotency-key": randomUUID() } };
  }

  test.each(bodies)("%s %s", async (method, url, good, authorized) => {
    const paths = Object.entries(good).flatMap(([field, inner]) =>
      inner !== null && typeof inner === "object" ? Object.keys(inner).map((name) => [field, name]) : [[field]],
    );
    await assert(
      asyncProperty(constantFrom(...paths), value, async (path, hostile) => {
        const body = structuredClone(good);
        const parent = path.length === 1 ? body : (body[path[0] ?? ""] as Record<string, unknown>);
        parent[path.at(-1) ?? ""] = hostile;
        expect(await failure(method, url, { ...(await authorized()), body })).toBeUndefined();
      }),
      { numRuns: 40 },
    );
  });

  test("remote configuration", async () => {
    for (const path of HOSTILE) {
      const body = { log_paths: [`/${path}`] };
      expect(await failure("PUT", `/api/v1/agents/${host.agent_id}/config`, { bearer: org.token, body })).toBeUndefined();
    }
    const fields = record(
      {
        log_paths: array(
          oneof(
            text,
            text.map((end) => `/${end}`),
          ),
        ),
        intervals: record({ metrics: text }, { requiredKeys: [] }),
        signals: array(text),
        log_level: text,
      },
      { requiredKeys: [] },
    );
    await assert(
      asyncProperty(fields, async (body) => {
        expect(await failure("PUT", `/api/v1/agents/${host.agent_id}/config`, { bearer: org.token, body })).toBeUndefined();
        expect(await failure("GET", `/api/v1/agents/${host.agent_id}/config`, { key: host.api_key })).toBeUndefined();
      }),
      { numRuns: 100 },
    );
  });

  test("ids in paths, and bearer, idempotency and conditional headers", async () => {
    const urls: [string, string, object?][] = [
      ["DELETE", "/api/users/"],
      ["DELETE", "/api/keys/"],
      ["DELETE", "/api/clusters/"],
      ["DELETE", "/api/v1/agents/"],
      ["DELETE", "/api/install-tokens/"],
      ["PUT", "/api/users/*/password", { password: "long enough" }],
      ["PUT", "/api/users/*/role", { role: "viewer" }],
      ["PUT", "/api/v1/agents/*/config", {}],
    ];
    for (const hostile of [...HOSTILE, randomUUID()])
      for (const [method, url, body] of urls) {
        const id = encodeURIComponent(hostile.toWellFormed()).slice(0, 150);
        const path = url.includes("*") ? url.replace("*", id) : url + id;
        expect(await failure(method, path, { bearer: org.token, body })).toBeUndefined();
      }
    const header = string({ unit: integer({ min: 32, max: 255 }).map((code) => String.fromCharCode(code)), maxLength: 60 });
    await assert(
      asyncProperty(header, async (hostile) => {
        const headers = { authorization: `Bearer ${hostile}`, "idempotency-key": hostile, "if-none-match": hostile };
        for (const [method, url] of [
          ["POST", "/api/clusters/register"],
          ["GET", "/api/users"],
        ] as const)
          expect(await failure(method, url, { headers })).toBeUndefined();
        expect(
          await failure("POST", "/api/clusters/rotate-key", { key: cluster, headers: { "idempotency-key": hostile } }),
        ).toBeUndefined();
        expect(
          await failure("GET", `/api/v1/agents/${host.agent_id}/config`, { key: host.api_key, headers: { "if-none-match": hostile } }),
        ).toBeUndefined();
      }),
      { numRuns: 60 },
    );
  });
});
