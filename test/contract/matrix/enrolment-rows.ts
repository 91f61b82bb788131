// The rows of what agents enrol, report and are configured by, and of what administrators see of them: tokens, clusters, hosts, keys.
import { randomUUID } from "node:crypto";
import { sign } from "../../../common/protocol/signature.ts";
import { call, type Answer } from "../../fixtures/processes.ts";
import { asUser, type Case, foreign, missing, type Row } from "./case.ts";
import { backend, blue, cluster, host, installToken, made, red } from "./tenants.ts";

export const ENROLMENT_ROWS: Row[] = [
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
  {
    method: "GET",
    path: "/api/clusters/{id}/config",
    auth: "signed",
    kinds: ["cluster"],
    cases: () => [
      { name: "its own", send: () => signedGet(`/api/clusters/${cluster.id}/config`, cluster.key), status: 200 },
      { name: "another's", send: () => signedGet(`/api/clusters/${randomUUID()}/config`, cluster.key), status: 404, error: "not_found" },
    ],
  },
  {
    method: "PUT",
    path: "/api/clusters/{id}/config",
    auth: "admin",
    cases: () => [
      ...missing("PUT", "/api/clusters/{id}/config", { config: {} }),
      { name: "written", send: () => putClusterConfig(red.token, { config: { log_level: "warn" }, percent: 10 }), status: 200 },
      {
        name: "with log paths",
        send: () => putClusterConfig(red.token, { config: { log_paths: ["/etc/shadow"] } }),
        status: 400,
        error: "invalid_field",
      },
      { name: "for no node", send: () => putClusterConfig(red.token, { config: {}, percent: 0 }), status: 400, error: "invalid_field" },
      { name: "by another tenant", send: () => putClusterConfig(blue.token, { config: {} }), status: 404, error: "not_found" },
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
  { method: "GET", path: "/api/ingest-tokens", auth: "viewer", cases: () => [asUser("listed", "GET", () => red.token, 200)] },
  {
    method: "POST",
    path: "/api/ingest-tokens",
    auth: "admin",
    cases: () => {
      const create = (name: string, status: number, body: object, error?: string) =>
        asUser(name, "POST", () => red.token, status, body, error);
      return [
        create("for everything", 201, { name: "ci" }),
        create("scoped", 201, { name: "ci", signals: ["logs"], networks: ["10.0.0.0/8", "::1"], ttl: "90d" }),
        create("no name", 400, {}, "invalid_field"),
        create("no signal", 400, { name: "ci", signals: [] }, "invalid_field"),
        create("a signal that does not exist", 400, { name: "ci", signals: ["profiles"] }, "invalid_field"),
        create("a network that is none", 400, { name: "ci", networks: ["10.0.0.0/33"] }, "invalid_field"),
        create("a lifetime that is none", 400, { name: "ci", ttl: "soon" }, "invalid_field"),
        create("an unknown host", 400, { name: "ci", host: randomUUID() }, "invalid_field"),
        create("an unknown field", 400, { name: "ci", org_id: "y" }, "invalid_field"),
        {
          name: "another tenant's cluster",
          send: (url) => call("POST", url, { bearer: blue.token, body: { name: "ci", cluster: cluster.id } }),
          status: 400,
          error: "invalid_field",
        },
      ];
    },
  },
  {
    method: "POST",
    path: "/api/ingest-tokens/{id}/rotate",
    auth: "admin",
    cases: () => [
      ...missing("POST", "/api/ingest-tokens/{id}/rotate", {}),
      foreign("POST", "/api/ingest-tokens/{id}/rotate", () => made(blue, "/api/ingest-tokens", { name: "k" }, "id"), {}),
    ],
  },
  {
    method: "DELETE",
    path: "/api/ingest-tokens/{id}",
    auth: "admin",
    cases: () => [
      ...missing("DELETE", "/api/ingest-tokens/{id}"),
      foreign("DELETE", "/api/ingest-tokens/{id}", () => made(blue, "/api/ingest-tokens", { name: "k" }, "id")),
    ],
  },
];

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

function putClusterConfig(bearer: string, body: object): Promise<Answer> {
  return call("PUT", `${backend.apiUrl}/api/clusters/${cluster.id}/config`, { bearer, body });
}
