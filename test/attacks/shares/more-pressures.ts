// What an organisation sends to keep this process's thread, or the account database, busy: bodies that are expensive to read, sessions of
// MCP, and lists and changes of accounts, rules and notification.
import { randomUUID } from "node:crypto";
import { call } from "../../fixtures/processes.ts";
import { attribute } from "../queries.ts";
import { type Busy, type BusyCall, keepCalling, type Pressure } from "./busy.ts";

const [SPANS, LINKS] = [100, 1000];
const LINK = `{"traceId":"${"a1".repeat(16)}","spanId":"${"b2".repeat(8)}"}`;
const LINKED = `"links":[${Array(LINKS).fill(LINK).join(",")}]`;

function spansWithLinks(): BusyCall {
  const start = `${Date.now()}000000`;
  const traceId = randomUUID().replaceAll("-", "");
  const times = `"startTimeUnixNano":"${start}","endTimeUnixNano":"${start}"`;
  const span = `{"name":"a","traceId":"${traceId}","spanId":"${"c3".repeat(8)}",${times},${LINKED}}`;
  const resource = `"resource":{"attributes":[${attribute("service.name", "linked")}]}`;
  const body = `{"resourceSpans":[{${resource},"scopeSpans":[{"spans":[${Array(SPANS).fill(span).join(",")}]}]}]}`;
  return { method: "POST", path: "/ingest/traces", body, isSigned: true };
}

const mcp = (method: string, params: object): BusyCall => ({
  method: "POST",
  path: "/mcp",
  headers: { accept: "application/json, text/event-stream" },
  body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
});
const INITIALIZE = mcp("initialize", {
  protocolVersion: "2025-06-18",
  capabilities: {},
  clientInfo: { name: "attack", version: "1" },
});
const LIST_TOOLS = mcp("tools/list", {});

const text = (length: number): string => "x".repeat(length);
const PUBLIC_KEY = { kty: "RSA", kid: "a", e: "AQAB", n: Buffer.alloc(256, 255).toString("base64url") };

/** Throws unless the backend accepts it. */
async function store({ apiUrl, tenant }: Pick<Busy, "apiUrl" | "tenant">, path: string, body: object): Promise<{ id: string }> {
  const { status, text: answer, json } = await call("POST", apiUrl + path, { bearer: tenant.token, body });
  if (status !== 201) throw new Error(`${path}: ${status} ${answer}`);
  return json;
}

type Prepare = NonNullable<Pressure["prepare"]>;

/** 4 MB of rules of issuers. */
const issuers: Prepare = async (busy) => {
  const claims = Object.fromEntries(Array.from({ length: 10 }, (_, index) => [`claim_${index}`, text(480)]));
  const rules = Array.from({ length: 50 }, () => ({ claims, permit: "read" }));
  for (let index = 0; index < 14; index += 1)
    await store(busy, "/api/issuers", { name: `i${index}`, issuer: `https://i${index}.example`, jwks: { keys: [PUBLIC_KEY] }, rules });
};

/** 0.4 MB of rules. */
const rules: Prepare = async (busy) => {
  const annotations = { description: text(3900) };
  for (let index = 0; index < 100; index += 1)
    await store(busy, "/alerting/rules", { name: `r${index}`, severity: "info", expr: "vector(0) > 1", annotations });
};

/** As many expressions as an organisation may have. */
const routes: Prepare = async (busy) => {
  const matchers = Array.from({ length: 10 }, (_, index) => ({ label: `l${index}`, op: "=~", value: `(a|b${index})*c.*[a-z]+d` }));
  for (let index = 0; index < 9; index += 1) await store(busy, "/alerting/routes", { matchers, channel_ids: [] });
};

const LONG_LABELS = Object.fromEntries(Array.from({ length: 30 }, (_, index) => [`l${index}`, "ab".repeat(500)]));

/** The dashboard that is replaced again and again, by the organisation's token. */
const dashboards = new Map<string, string>();
const DASHBOARD = {
  name: "large",
  description: "",
  variables: [],
  panels: Array.from({ length: 100 }, () => ({
    title: "t",
    kind: "timeseries",
    source: "metrics",
    width: 6,
    queries: Array.from({ length: 10 }, () => ({ query: text(200) })),
  })),
};
const LARGE_DASHBOARD = Buffer.from(JSON.stringify(DASHBOARD));
const dashboard: Prepare = async (busy) => {
  dashboards.set(busy.tenant.token, (await store(busy, "/api/dashboards", { ...DASHBOARD, panels: [] })).id);
};
const replaced = ({ tenant }: Busy): BusyCall => ({
  method: "PUT",
  path: `/api/dashboards/${dashboards.get(tenant.token)}`,
  body: LARGE_DASHBOARD,
});

const hourAgo = (): string => new Date(Date.now() - 3_600_000).toISOString();

export const MORE_PRESSURES = {
  "span links": { what: `4 bodies at once with ${SPANS * LINKS} links`, run: (busy) => keepCalling(busy, 4, spansWithLinks) },
  MCP: { what: "300 sessions of MCP that begin", run: (busy) => keepCalling(busy, 300, () => INITIALIZE) },
  "MCP tools": { what: "300 lists of MCP's tools at once", run: (busy) => keepCalling(busy, 300, () => LIST_TOOLS) },
  "lists of issuers": {
    what: "100 lists of 4 MB from the account database at once",
    prepare: issuers,
    run: (busy) => keepCalling(busy, 100, () => ({ path: "/api/issuers" })),
  },
  "lists of rules": {
    what: "100 lists of 0.4 MB of rules at once",
    prepare: rules,
    run: (busy) => keepCalling(busy, 100, () => ({ path: "/alerting/rules" })),
  },
  "small changes": {
    what: "200 views at once that are saved, each with its entry in the audit log",
    run: (busy) =>
      keepCalling(busy, 200, () => ({
        method: "POST",
        path: "/api/views",
        body: JSON.stringify({ name: randomUUID(), address: "#/logs" }),
      })),
  },
  dashboards: {
    what: "20 dashboards of 0.2 MB at once that are replaced",
    prepare: dashboard,
    run: (busy) => keepCalling(busy, 20, () => replaced(busy)),
  },
  "tested routes": {
    what: "100 tests of routes at once with the costliest expressions",
    prepare: routes,
    run: (busy) =>
      keepCalling(busy, 100, () => ({ method: "POST", path: "/alerting/routes/test", body: JSON.stringify({ labels: LONG_LABELS }) })),
  },
  comparisons: {
    what: "20 comparisons of two ranges at once",
    run: (busy) => keepCalling(busy, 20, () => ({ path: `/query/changes?start=${hourAgo()}&end=${new Date().toISOString()}` })),
  },
  "audit log": { what: "100 pages of the audit log at once", run: (busy) => keepCalling(busy, 100, () => ({ path: "/api/audit" })) },
} as const satisfies Record<string, Pressure>;
