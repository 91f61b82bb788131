// Attacks every route in the same way: its parameters are as large, as deep and as unusual as a request may be.
import { randomUUID } from "node:crypto";
import { ENDPOINTS as LOKI_ENDPOINTS } from "../../backend/query/loki/endpoints.ts";
import type { Attack, Attacker, Call } from "./attack.ts";

/** Nearly the header limit of the server. */
const QUERY_CHARACTERS = 14_000;
/** The first fits into every route, the second into none but those of telemetry. */
const BODY_BYTES = [60_000, 900_000];
const LEVEL = '{"a":';

/** Reads that cost no engine's query: lists and single resources. */
export const READS = [
  "/alerting/alertmanager/api/v2/alerts",
  "/alerting/alertmanager/api/v2/alerts/groups",
  "/alerting/alertmanager/api/v2/receivers",
  "/alerting/alertmanager/api/v2/silence/{id}",
  "/alerting/alertmanager/api/v2/silences",
  "/alerting/alertmanager/api/v2/status",
  "/alerting/channels",
  "/alerting/deliveries",
  "/alerting/prometheus/api/v1/alerts",
  "/alerting/prometheus/api/v1/rules",
  "/alerting/routes",
  "/alerting/silences",
  "/api/accounts",
  "/api/audit",
  "/api/auth/oidc/callback",
  "/api/auth/oidc/start",
  "/api/auth/session",
  "/api/clusters/{id}/config",
  "/api/dashboards",
  "/api/dashboards/{id}",
  "/api/ingest-tokens",
  "/api/deletions",
  "/api/invitations",
  "/api/limits",
  "/api/orgs",
  "/api/orgs/{id}/limits",
  "/api/orgs/{id}/retention",
  "/api/read-tokens",
  "/api/retention",
  "/api/usage",
  "/api/v1/agents/{id}/config",
  "/api/views",
  "/api/views/{id}",
  "/openapi.json",
  "/query/jaeger/api/dependencies",
  "/query/jaeger/api/metrics/calls",
  "/query/jaeger/api/metrics/errors",
  "/query/jaeger/api/metrics/latencies",
  "/query/jaeger/api/services",
  "/query/jaeger/api/services/{service}/operations",
  "/query/jaeger/api/traces",
  "/query/jaeger/api/traces/{trace_id}",
  "/query/jaeger/api/v3/operations",
  "/query/jaeger/api/v3/services",
  "/query/jaeger/api/v3/trace-summaries",
  "/query/jaeger/api/v3/traces",
  "/query/jaeger/api/v3/traces/{trace_id}",
  "/query/logs/tail",
  "/query/loki/loki/api/v1/drilldown-limits",
  "/query/loki/loki/api/v1/status/buildinfo",
  "/query/prometheus/",
  "/query/prometheus/api/v1/alerts",
  "/query/prometheus/api/v1/metadata",
  "/query/prometheus/api/v1/query_exemplars",
  "/query/prometheus/api/v1/rules",
  "/query/prometheus/api/v1/series",
  "/query/prometheus/api/v1/status/buildinfo",
  "/query/prometheus/api/v1/status/config",
  "/query/prometheus/api/v1/status/flags",
  "/query/prometheus/api/v1/status/runtimeinfo",
  "/query/prometheus/api/v1/targets",
  "/query/prometheus/api/v1/targets/metadata",
  "/query/services",
  "/query/services/graph",
  "/query/services/{service}/operations",
  "/query/services/{service}/timeseries",
  "/query/traces/differences",
  "/query/traces/facets",
  "/query/traces/heatmap",
  "/query/traces/search",
  "/query/traces/{trace_id}",
] as const;

/** Requests with a body, and removals. */
export const WRITES = [
  "DELETE /alerting/alertmanager/api/v2/silence/{id}",
  "POST /alerting/alertmanager/api/v2/silences",
  "POST /alerting/channels",
  "DELETE /alerting/channels/{id}",
  "PUT /alerting/channels/{id}",
  "POST /alerting/channels/{id}/rotate",
  "POST /alerting/channels/{id}/test",
  "POST /alerting/routes",
  "DELETE /alerting/routes/{id}",
  "PUT /alerting/routes/{id}",
  "DELETE /alerting/rules/{id}",
  "PUT /alerting/rules/{id}",
  "POST /alerting/silences",
  "DELETE /alerting/silences/{id}",
  "DELETE /api/accounts/{id}",
  "POST /api/auth/oidc/cli",
  "POST /api/auth/oidc/token",
  "DELETE /api/auth/session",
  "POST /api/auth/session",
  "DELETE /api/clusters/{id}",
  "POST /api/dashboards",
  "DELETE /api/dashboards/{id}",
  "PUT /api/dashboards/{id}",
  "POST /api/ingest-tokens",
  "DELETE /api/ingest-tokens/{id}",
  "POST /api/ingest-tokens/{id}/rotate",
  "DELETE /api/install-tokens/{id}",
  "POST /api/invitations",
  "DELETE /api/invitations/{id}",
  "DELETE /api/keys/{id}",
  "POST /api/orgs",
  "DELETE /api/orgs/{id}",
  "POST /api/orgs/{id}/admins",
  "PUT /api/orgs/{id}/limits",
  "PUT /api/orgs/{id}/retention",
  "POST /api/read-tokens",
  "DELETE /api/read-tokens/{id}",
  "DELETE /api/users/{id}",
  "PUT /api/users/{id}/role",
  "POST /api/v1/agents/register",
  "DELETE /api/v1/agents/{id}",
  "PUT /api/clusters/{id}/config",
  "PUT /api/v1/agents/{id}/config",
  "POST /api/views",
  "DELETE /api/views/{id}",
  "PUT /api/views/{id}",
  "POST /ingest/agents/heartbeat",
  "POST /query/prometheus/api/v1/labels",
  "POST /query/prometheus/api/v1/query_exemplars",
  "POST /query/prometheus/api/v1/series",
  ...[...LOKI_ENDPOINTS.keys()].map((path) => `POST /query/loki/loki/api/v1/${path.replace(":name", "{name}")}`),
];

const filled = (path: string): string => path.replaceAll(/\{\w+\}/g, () => randomUUID());

/** Parameters that most routes know, with values that no route expects. */
function hostileQuery(turn: number): string {
  const kinds = [
    `limit=${"9".repeat(QUERY_CHARACTERS)}`,
    `start=0&end=9999999999&limit=100000&q=${"%25".repeat(QUERY_CHARACTERS / 3)}`,
    `match[]=${encodeURIComponent(`{a=~"${"(a?)".repeat(1000)}"}`)}`,
    `regex=${encodeURIComponent("(((a*)*)*)*b")}&tags=${encodeURIComponent(`{"a":"${"b".repeat(5000)}"}`)}`,
    Array.from({ length: 1000 }, (_, index) => `label.k${index}=v`).join("&"),
  ];
  return kinds[turn % kinds.length] ?? "";
}

function hostileBody(turn: number): Buffer {
  const bytes = BODY_BYTES[turn % BODY_BYTES.length] ?? 0;
  const depth = Math.floor(bytes / (LEVEL.length + 1)) - 1;
  const kinds = [
    () => "[".repeat(bytes),
    () => `${LEVEL.repeat(depth)}1${"}".repeat(depth)}`,
    () => `{${Array.from({ length: Math.floor(bytes / 15) }, (_, index) => `"key-${index}":1`).join(",")}}`,
    () => `{"name":"${"\\u0041".repeat(bytes / 6 - 5)}"}`,
    () => `{"__proto__":{"a":1},"constructor":{"prototype":{"a":1}},"name":"${"é".repeat(bytes / 2 - 60)}"}`,
  ];
  return Buffer.from(kinds[turn % kinds.length]?.() ?? "{}");
}

async function inTurn(attacker: Attacker, calls: readonly Call[], turn: number): Promise<void> {
  const batch = Array.from({ length: 8 }, (_, index) => calls[(turn * 8 + index) % calls.length]);
  await attacker.many(batch.length, 4, async (index) => {
    const call = batch[index];
    if (call) await attacker.call(call);
  });
}

export const everyRead: Attack = {
  group: "more",
  what: "each list and resource with parameters of 14 kB: numbers, expressions, a thousand labels",
  everyMs: 200,
  async wave(attacker, turn) {
    const { adminToken: bearer } = attacker.target;
    const calls = READS.map((path, index) => ({ method: "GET" as const, path: `${filled(path)}?${hostileQuery(turn + index)}`, bearer }));
    await inTurn(attacker, calls, turn);
  },
};

export const everyWrite: Attack = {
  group: "more",
  what: "each change with bodies of 60 and of 900 kB: open brackets, 10,000 levels, 60,000 keys, escapes",
  everyMs: 200,
  async wave(attacker, turn) {
    const { adminToken: bearer } = attacker.target;
    const headers = { "content-type": "application/json", "idempotency-key": randomUUID() };
    const calls = WRITES.map((write, index) => {
      const [method, path] = write.split(" ") as ["POST" | "PUT" | "DELETE", string];
      return { method, path: filled(path), bearer, headers, body: method === "DELETE" ? Buffer.alloc(0) : hostileBody(turn + index) };
    });
    await inTurn(attacker, calls, turn);
  },
};
