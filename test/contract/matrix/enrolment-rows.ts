// The rows of enrolment: what agents register, report and read, and what administrators see of it (tokens, clusters, hosts, keys).
import { randomUUID } from "node:crypto";
import { sign } from "../../../common/protocol/signature.ts";
import { call, type Answer } from "../../fixtures/processes.ts";
import { answers, asUser, type Case, creates, missing, row, type Row } from "./case.ts";
import { backend, blue, cluster, host, installToken, red } from "./tenants.ts";

export const ENROLMENT_ROWS: Row[] = [
  row("POST", "/api/clusters/register", "install token", () =>
    enrolmentCases(() => ({ cluster_name: "c", cluster_uid: randomUUID(), agent_version: "1" })),
  ),
  row("POST", "/api/v1/agents/register", "install token", () =>
    enrolmentCases(() => ({ hostname: "h", machine_id: randomUUID(), agent_version: "1" })),
  ),
  row("POST", "/heartbeat", "signed", () => heartbeatCases("/heartbeat", () => cluster.key), { kinds: ["cluster"] }),
  row("POST", "/ingest/agents/heartbeat", "signed", () => heartbeatCases("/ingest/agents/heartbeat", () => host.key), { kinds: ["host"] }),
  row(
    "POST",
    "/api/clusters/rotate-key",
    "signed",
    () => [
      answers(
        "no Idempotency-Key",
        (url) => call("POST", url, { headers: sign(cluster.key, "POST", "/api/clusters/rotate-key", Date.now() / 1000) }),
        400,
        "missing_idempotency_key",
      ),
    ],
    { kinds: ["cluster"] },
  ),
  row(
    "GET",
    "/api/v1/agents/{id}/config",
    "signed",
    () => [
      answers("its own", () => signedGet(`/api/v1/agents/${host.id}/config`, host.key), 200),
      answers("another host's", () => signedGet(`/api/v1/agents/${randomUUID()}/config`, host.key), 404, "not_found"),
    ],
    { kinds: ["host"] },
  ),
  row(
    "GET",
    "/api/clusters/{id}/config",
    "signed",
    () => [
      answers("its own", () => signedGet(`/api/clusters/${cluster.id}/config`, cluster.key), 200),
      answers("another's", () => signedGet(`/api/clusters/${randomUUID()}/config`, cluster.key), 404, "not_found"),
    ],
    { kinds: ["cluster"] },
  ),
  row("PUT", "/api/clusters/{id}/config", "admin", () => [
    ...missing("PUT", "/api/clusters/{id}/config", { config: {} }),
    answers("with log paths", () => putClusterConfig(red.token, { config: { log_paths: ["/etc/shadow"] } }), 400, "invalid_field"),
    answers("for no node", () => putClusterConfig(red.token, { config: {}, percent: 0 }), 400, "invalid_field"),
  ]),
  row("POST", "/api/install-tokens", "admin", () => [creates("no body")]),
  row("POST", "/api/ingest-tokens", "admin", () => {
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
      answers(
        "another tenant's cluster",
        (url) => call("POST", url, { bearer: blue.token, body: { name: "ci", cluster: cluster.id } }),
        400,
        "invalid_field",
      ),
    ];
  }),
];

function signedGet(path: string, key: string): Promise<Answer> {
  return call("GET", `${backend.apiUrl}${path}`, { headers: sign(key, "GET", path, Date.now() / 1000) });
}

function heartbeatCases(path: string, key: () => string): Case[] {
  const beat = (name: string, status: number, body?: object, error?: string): Case =>
    answers(name, (url) => call("POST", url, { body, headers: sign(key(), "POST", path, Date.now() / 1000) }), status, error);
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
  ): Case =>
    answers(
      name,
      async (url) =>
        call("POST", url, change({ bearer: await installToken(), body: body(), headers: { "idempotency-key": randomUUID() } })),
      status,
      error,
    );
  return [
    post("enrolled", 201, undefined),
    post("no Idempotency-Key", 400, "missing_idempotency_key", (ask) => ({ ...ask, headers: {} })),
    post("Idempotency-Key not a UUID", 400, "missing_idempotency_key", (ask) => ({ ...ask, headers: { "idempotency-key": "x" } })),
    post("a missing field", 400, "invalid_field", (ask) => ({ ...ask, body: {} })),
    post("an unknown token", 401, "invalid_install_token", (ask) => ({ ...ask, bearer: "it_unknown" })),
    answers(
      "a used token with another Idempotency-Key",
      async (url) => {
        const bearer = await installToken();
        await call("POST", url, { bearer, body: body(), headers: { "idempotency-key": randomUUID() } });
        return await call("POST", url, { bearer, body: body(), headers: { "idempotency-key": randomUUID() } });
      },
      401,
      "invalid_install_token",
    ),
    answers(
      "the same Idempotency-Key with another body",
      async (url) => {
        const ask = { bearer: await installToken(), headers: { "idempotency-key": randomUUID() } };
        await call("POST", url, { ...ask, body: body() });
        return await call("POST", url, { ...ask, body: body() });
      },
      422,
      "idempotency_key_reused",
    ),
  ];
}

function putClusterConfig(bearer: string, body: object): Promise<Answer> {
  return call("PUT", `${backend.apiUrl}/api/clusters/${cluster.id}/config`, { bearer, body });
}
