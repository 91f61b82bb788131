// How one organisation asks each GET route of docs/openapi.json for the data of another.
import { sign } from "../../../common/protocol/signature.ts";
import { type Answer, call } from "../../fixtures/processes.ts";
import { OPERATIONS } from "../../attacks/every-route.ts";
import { follow, followSocket } from "./follow.ts";
import { intervalOf, type Party, type Served, SHARED_SERVICE, SHARED_TRACE } from "./parties.ts";

export interface IsolatedRoute {
  /** As in docs/openapi.json. */
  readonly path: string;
  /** Builds the path with ids, names and parameters of the party whose data is requested; default: the path itself. */
  readonly of?: (subject: Party) => string;
  /** Unset: a GET with the session of the party that asks. */
  readonly send?: (served: Served, asker: Party, path: string) => Promise<Answer>;
  /** What the answer to the owner contains: one of its markers, a number that is its own, or no data of any organisation. */
  readonly shows:
    | "markers"
    | "nothing"
    | { readonly number: (json: unknown, asker: Party) => unknown; readonly is: (asker: Party) => unknown };
  /** Expected status of the owner's response; 200 by default. */
  readonly status?: number;
}

const query = (path: string, params: Record<string, string>): string => `${path}?${new URLSearchParams(params).toString()}`;
const LOKI = "/query/loki/loki/api/v1";
const JAEGER = "/query/jaeger/api";
const PROMETHEUS = "/query/prometheus/api/v1";
const ALERTMANAGER = "/alerting/alertmanager/api/v2";
const ALL_STREAMS = '{service_name=~".+"}';
/** Without the records that follow.ts sends. */
const FIRST_STREAMS = '{service_name=~"of.*-service"}';
const ALL_SERIES = '{__name__=~"of.*"}';

type Rest = Partial<IsolatedRoute>;
const shown = (path: string, rest: Rest = {}): IsolatedRoute => ({ path, shows: "markers", ...rest });
const constant = (path: string, rest: Rest = {}): IsolatedRoute => ({ path, shows: "nothing", ...rest });
/** For operators alone: an organisation's administrator is refused. */
const refused = (path: string, of: (subject: Party) => string): IsolatedRoute => ({ path, of, shows: "nothing", status: 403 });
const loki = (name: string, params: Record<string, string> = { query: ALL_STREAMS }): IsolatedRoute =>
  shown(`${LOKI}/${name}`, { of: () => query(`${LOKI}/${name}`, params) });
const NOW_S = Math.floor(Date.now() / 1000);
const prometheus = (name: string, params: Record<string, string>): IsolatedRoute =>
  shown(`${PROMETHEUS}/${name}`, { of: () => query(`${PROMETHEUS}/${name}`, params) });

const ACCOUNTS: readonly IsolatedRoute[] = [
  refused("/api/accounts", ({ word }) => `/api/accounts?email=viewer@${word}.example`),
  refused("/api/orgs", () => "/api/orgs"),
  refused("/api/orgs/usage", () => "/api/orgs/usage"),
  refused("/api/deletions", () => "/api/deletions"),
  refused("/api/orgs/{id}/retention", ({ orgId }) => `/api/orgs/${orgId}/retention`),
  refused("/api/orgs/{id}/limits", ({ orgId }) => `/api/orgs/${orgId}/limits`),
  shown("/api/dashboards/{id}", { of: ({ dashboardId }) => `/api/dashboards/${dashboardId}` }),
  shown("/api/views/{id}", { of: ({ viewId }) => `/api/views/${viewId}` }),
  constant("/api/auth/oidc/callback", { status: 404 }),
  constant("/api/auth/oidc/start", { status: 404 }),
  shown("/api/auth/session", {
    send: ({ apiUrl }, { cookie }, path) => call("GET", `${apiUrl}${path}`, { headers: { cookie, "x-requested-with": "atherops" } }),
  }),
  constant("/api/retention"),
  {
    path: "/api/usage",
    shows: {
      number: (json) =>
        (json as { signal: string; records: number }[]).filter(({ signal }) => signal === "traces").map(({ records }) => records),
      is: ({ records }) => [records + 1],
    },
  },
];

const ENROLMENT: readonly IsolatedRoute[] = [
  {
    path: "/api/clusters/{id}/config",
    shows: {
      number: (json) => (json as { config: { intervals: { metrics: string } } }).config.intervals.metrics,
      is: ({ word }) => intervalOf(word),
    },
    of: ({ cluster }) => `/api/clusters/${cluster.id}/config`,
    send: ({ apiUrl }, { cluster }, path) =>
      call("GET", `${apiUrl}${path}`, { headers: sign(cluster.key, "GET", path, Date.now() / 1000) }),
  },
  shown("/api/v1/agents/{id}/config", {
    of: ({ host }) => `/api/v1/agents/${host.id}/config`,
    send: ({ apiUrl }, { host }, path) => call("GET", `${apiUrl}${path}`, { headers: sign(host.key, "GET", path, Date.now() / 1000) }),
  }),
];

const ALERTING: readonly IsolatedRoute[] = [
  shown(`${ALERTMANAGER}/silence/{id}`, { of: ({ silenceId }) => `${ALERTMANAGER}/silence/${silenceId}` }),
  shown("/alerting/rules/{id}/history", { of: ({ ruleId }) => `/alerting/rules/${ruleId}/history` }),
  {
    path: "/alerting/rules/{id}/status",
    of: ({ ruleId }) => `/alerting/rules/${ruleId}/status`,
    shows: { number: (json) => (json as { active_alerts?: number }).active_alerts, is: () => 1 },
  },
  shown("/query/slos/{id}", { of: ({ sloId }) => `/query/slos/${sloId}` }),
];

const LOGS: readonly IsolatedRoute[] = [
  shown("/query/logs/histogram", { of: () => query("/query/logs/histogram", { buckets: "10" }) }),
  shown("/query/logs/tail", { send: follow }),
  loki("detected_fields"),
  shown(`${LOKI}/detected_field/{name}/values`, { of: () => query(`${LOKI}/detected_field/shared_key/values`, { query: ALL_STREAMS }) }),
  {
    path: `${LOKI}/detected_labels`,
    of: () => query(`${LOKI}/detected_labels`, { query: FIRST_STREAMS }),
    shows: {
      number: (json) =>
        (json as { detectedLabels: { label: string; cardinality: number }[] }).detectedLabels.find(({ label }) => label === "service_name")
          ?.cardinality,
      is: () => 1,
    },
  },
  {
    path: `${LOKI}/index/stats`,
    of: () => query(`${LOKI}/index/stats`, { query: FIRST_STREAMS }),
    shows: { number: (json) => (json as { entries: number }).entries, is: ({ records }) => records },
  },
  loki("index/volume"),
  loki("index/volume_range"),
  shown(`${LOKI}/label/{name}/values`, { of: () => `${LOKI}/label/service_name/values` }),
  // The names of labels are the same in every organisation.
  constant(`${LOKI}/labels`),
  constant(`${LOKI}/drilldown-limits`),
  // It reads no data.
  constant(`${LOKI}/format_query`, { of: () => query(`${LOKI}/format_query`, { query: ALL_STREAMS }) }),
  constant(`${LOKI}/status/buildinfo`),
  loki("patterns"),
  loki("query", { query: `sum by (service_name) (count_over_time(${ALL_STREAMS}[1h]))` }),
  loki("query_range"),
  loki("series", {}),
  shown(`${LOKI}/tail`, { of: () => query(`${LOKI}/tail`, { query: ALL_STREAMS }), send: followSocket }),
];

/** Each organisation has one operation of the shared service; the end is after the minute of its span. */
const monitored = (name: string, more: Record<string, string> = {}): IsolatedRoute =>
  shown(`${JAEGER}/metrics/${name}`, {
    of: () => {
      const of = { service: SHARED_SERVICE, spanKind: "unspecified", groupByOperation: "true" };
      return query(`${JAEGER}/metrics/${name}`, { ...of, endTs: String(Date.now() + 60_000), ...more });
    },
  });
const searchOfShared = () => ({
  "query.serviceName": SHARED_SERVICE,
  "query.startTimeMin": new Date(Date.now() - 3_600_000).toISOString(),
  "query.startTimeMax": new Date().toISOString(),
});

const TRACES: readonly IsolatedRoute[] = [
  monitored("calls"),
  monitored("errors"),
  monitored("latencies", { quantile: "0.95" }),
  shown(`${JAEGER}/services/{service}/operations`, { of: () => `${JAEGER}/services/${SHARED_SERVICE}/operations` }),
  shown(`${JAEGER}/traces`, { of: () => query(`${JAEGER}/traces`, { service: SHARED_SERVICE }) }),
  shown(`${JAEGER}/traces/{trace_id}`, { of: () => `${JAEGER}/traces/${SHARED_TRACE}` }),
  shown(`${JAEGER}/v3/operations`, { of: () => query(`${JAEGER}/v3/operations`, { service: SHARED_SERVICE }) }),
  shown(`${JAEGER}/v3/trace-summaries`, { of: () => query(`${JAEGER}/v3/trace-summaries`, searchOfShared()) }),
  shown(`${JAEGER}/v3/traces`, { of: () => query(`${JAEGER}/v3/traces`, searchOfShared()) }),
  shown(`${JAEGER}/v3/traces/{trace_id}`, { of: () => `${JAEGER}/v3/traces/${SHARED_TRACE}` }),
  shown("/query/services/{service}/operations", { of: () => `/query/services/${SHARED_SERVICE}/operations` }),
  {
    path: "/query/services/{service}/timeseries",
    of: () => query(`/query/services/${SHARED_SERVICE}/timeseries`, { points: "1", kind: "all" }),
    // Each organisation has one span of this service.
    shows: { number: (json) => (json as { calls: number }[])[0]?.calls, is: () => 1 },
  },
  {
    path: "/query/traces/heatmap",
    of: () => query("/query/traces/heatmap", { points: "1" }),
    // The spans of its own trace, and one of the shared trace.
    shows: { number: (json) => (json as { spans: number }[])[0]?.spans, is: ({ records }) => records + 1 },
  },
  shown("/query/traces/{trace_id}", { of: () => `/query/traces/${SHARED_TRACE}` }),
];

const METRICS: readonly IsolatedRoute[] = [
  shown(`${PROMETHEUS}/label/{name}/values`, { of: () => `${PROMETHEUS}/label/__name__/values` }),
  prometheus("query", { query: `last_over_time(${ALL_SERIES}[1h])` }),
  prometheus("query_exemplars", { query: "traces_spanmetrics_latency_bucket" }),
  prometheus("query_range", {
    query: `last_over_time(${ALL_SERIES}[1h])`,
    step: "60s",
    start: String(NOW_S - 3600),
    // The data is sent later, on a busy machine by minutes.
    end: String(NOW_S + 1800),
  }),
  prometheus("series", { "match[]": ALL_SERIES }),
  constant(`${PROMETHEUS}/status/buildinfo`),
  constant(`${PROMETHEUS}/status/config`),
  constant(`${PROMETHEUS}/status/flags`),
  constant(`${PROMETHEUS}/status/runtimeinfo`),
  constant(`${PROMETHEUS}/targets`),
  constant(`${PROMETHEUS}/targets/metadata`),
  constant("/query/prometheus/"),
];

/** Routes that need parameters or another credential, or whose response has no marker of the party that asks. */
export const BY_HAND: readonly IsolatedRoute[] = [
  ...ACCOUNTS,
  ...ENROLMENT,
  ...ALERTING,
  ...LOGS,
  ...TRACES,
  ...METRICS,
  constant("/openapi.json"),
];

/** Every GET route. Unless it is one of BY_HAND, each party asks it without parameters, and its response has one of the party's markers. */
export const ISOLATED_ROUTES: readonly IsolatedRoute[] = [...OPERATIONS.keys()].flatMap((operation) => {
  const [method, path = ""] = operation.split(" ");
  return method === "GET" ? [BY_HAND.find((route) => route.path === path) ?? shown(path)] : [];
});
