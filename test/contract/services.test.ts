// Three services with a database and a queue, instrumented with the OpenTelemetry SDK for Node.js, send real traces to a real backend.
// Rates, errors, the map, Prometheus' series, Grafana's requests and an alert rule must match the traces, also after a kill of the backend.
import { type Context, ROOT_CONTEXT, type Span, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BasicTracerProvider, BatchSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { beforeAll, expect, test } from "vitest";
import { sign } from "../../common/protocol/signature.ts";
import type { OperationRow } from "../../backend/storage/traces/service-rows.fixture.ts";
import type { Tenant } from "../fixtures/backend-process.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { call, eventually } from "../fixtures/processes.ts";

const backend = backendOfFile({ EVALUATION_INTERVAL: "1s" });
let tenant: Tenant;
let restartedS: number;

const VISITS = 30;
/** On a busy machine, passes over the spans pause for a long time. */
const WITHIN_MS = 120_000;
/** Old enough that the service graph no longer waits for late spans. */
const startMs = Date.now() - 6 * 60_000;
const isFailed = (visit: number): boolean => visit % 10 === 0;

beforeAll(async () => {
  tenant = await backend.tenant("sample");
});

function service(name: string) {
  const headers = async () => sign(tenant.apiKey, "POST", "/ingest/traces", Date.now() / 1000);
  const exporter = new OTLPTraceExporter({ url: `${backend.apiUrl}/ingest/traces`, headers });
  const provider = new BasicTracerProvider({
    resource: resourceFromAttributes({ "service.name": name }),
    spanProcessors: [new BatchSpanProcessor(exporter)],
  });
  return { tracer: provider.getTracer("sample"), flush: () => provider.forceFlush() };
}

/** Continues the trace like the receiver of a traceparent header. */
const received = (span: Span): Context => trace.setSpanContext(ROOT_CONTEXT, { ...span.spanContext(), isRemote: true });

async function visitShop(path = "GET /cart", operation = "POST /orders"): Promise<void> {
  const [web, shop, mailer] = [service("web"), service("shop"), service("mailer")];
  for (let visit = 0; visit < VISITS; visit += 1) {
    const at = startMs + visit * 1000;
    const page = web.tracer.startSpan(path, { kind: SpanKind.SERVER, startTime: at }, ROOT_CONTEXT);
    const request = web.tracer.startSpan("POST", { kind: SpanKind.CLIENT, startTime: at + 1 }, trace.setSpan(ROOT_CONTEXT, page));
    const order = shop.tracer.startSpan(operation, { kind: SpanKind.SERVER, startTime: at + 2 }, received(request));
    const inOrder = trace.setSpan(ROOT_CONTEXT, order);
    const database = { "db.system.name": "postgresql", "db.namespace": "orders" };
    shop.tracer.startSpan("INSERT", { kind: SpanKind.CLIENT, startTime: at + 3, attributes: database }, inOrder).end(at + 13);
    const queue = { "messaging.system": "kafka", "messaging.destination.name": "mails" };
    const sent = shop.tracer.startSpan("send mails", { kind: SpanKind.PRODUCER, startTime: at + 14, attributes: queue }, inOrder);
    sent.end(at + 15);
    if (isFailed(visit)) order.setStatus({ code: SpanStatusCode.ERROR, message: "no stock" });
    order.end(at + 22);
    request.end(at + 23);
    page.end(at + 24);
    const options = { kind: SpanKind.CONSUMER, startTime: at + 30, root: true, links: [{ context: sent.spanContext() }] };
    mailer.tracer.startSpan("process mails", options, ROOT_CONTEXT).end(at + 130);
  }
  await Promise.all([web.flush(), shop.flush(), mailer.flush()]);
}

const get = async (path: string) => {
  const answer = await call("GET", `${backend.apiUrl}${path}`, { bearer: tenant.token });
  expect([answer.status, answer.status === 200 ? "" : answer.text]).toEqual([200, ""]);
  return answer.json;
};
const instant = async (query: string) => (await get(`/query/prometheus/api/v1/query?query=${encodeURIComponent(query)}`)).data.result;

test("rates, errors and latency match the traces, also after a kill", async () => {
  await visitShop();
  await backend.end("SIGKILL");
  await backend.start();
  restartedS = Date.now() / 1000;
  const services = await get("/query/services?points=1");
  const figures = services.map(({ service: name, calls, errors }: Record<string, unknown>) => [name, calls, errors]);
  expect(figures).toEqual([
    ["mailer", VISITS, 0],
    ["shop", VISITS, 3],
    ["web", VISITS, 0],
  ]);
  const operations = await get("/query/services/shop/operations");
  expect(operations.map(({ operation, kind, calls }: OperationRow) => `${calls} ${kind} ${operation}`)).toEqual([
    "30 CLIENT INSERT",
    "30 SERVER POST /orders",
    "30 PRODUCER send mails",
  ]);
  const server = operations.find(({ kind }: { kind: string }) => kind === "SERVER");
  expect(server.p50_ms).toBeGreaterThan(20 / 1.19);
  expect(server.p50_ms).toBeLessThan(20 * 1.19);
});

test("the map shows the services, the database and the queue's consumer", async () => {
  const graph = await eventually(
    "the map",
    async () => {
      const found = await get("/query/services/graph");
      return found.edges.length === 3 && found.edges.some(({ server }: { server: string }) => server === "mailer") && found;
    },
    WITHIN_MS,
  );
  const edges = graph.edges.map(({ client, server, connection, calls, failed }: Record<string, unknown>) => [
    client,
    server,
    connection,
    calls,
    failed,
  ]);
  expect(edges).toEqual(
    expect.arrayContaining([
      ["web", "shop", "", VISITS, 3],
      ["shop", "postgresql:orders", "database", VISITS, 0],
      ["shop", "mailer", "messaging", VISITS, 0],
    ]),
  );
  expect((await get("/query/jaeger/api/dependencies")).data).toContainEqual({ parent: "web", child: "shop", callCount: VISITS });
});

test("the series of the map have the same counts", async () => {
  const total = await backend.shows(
    "the series",
    async () => {
      const found = await instant("sum by (client, server) (last_over_time(traces_service_graph_request_total[10m]))");
      return found.length === 3 && found;
    },
    WITHIN_MS,
  );
  expect(total.map(({ metric, value }: { metric: object; value: [number, string] }) => ({ ...metric, value: value[1] }))).toContainEqual({
    client: "web",
    server: "shop",
    value: String(VISITS),
  });
});

test("Grafana's exemplars of the latency lead to traces", async () => {
  // The request of Grafana's Prometheus data source next to the quantile of a panel.
  const query =
    'histogram_quantile(.9, sum(rate(traces_spanmetrics_latency_bucket{service="shop", span_kind="SPAN_KIND_SERVER"}[5m])) by (le))';
  const range = `start=${startMs / 1000 - 60}&end=${Date.now() / 1000}`;
  const { data } = await get(`/query/prometheus/api/v1/query_exemplars?query=${encodeURIComponent(query)}&${range}`);
  const labels = { __name__: "traces_spanmetrics_latency_bucket", service: "shop", span_name: "POST /orders", le: "0.032" };
  expect(data).toMatchObject([
    { seriesLabels: { ...labels, status_code: "STATUS_CODE_ERROR" } },
    { seriesLabels: { ...labels, status_code: "STATUS_CODE_UNSET" } },
  ]);
  for (const { seriesLabels, exemplars } of data) {
    expect(exemplars[0]).toMatchObject({ value: "0.02", timestamp: expect.any(Number) });
    const { trace_id: traceId, span_id: spanId } = exemplars[0].labels;
    // The request of Grafana's Jaeger data source for the trace of an exemplar.
    const [trace] = (await get(`/query/jaeger/api/traces/${traceId}`)).data;
    const span = trace.spans.find(({ spanID }: { spanID: string }) => spanID === spanId);
    expect(span.operationName).toBe("POST /orders");
    const isError = span.tags.some(({ key, value }: { key: string; value: unknown }) => key === "error" && value === true);
    expect(isError).toBe(seriesLabels.status_code === "STATUS_CODE_ERROR");
  }
});

test("an alert rule on spans fires", async () => {
  const expr =
    'sum by (service) (traces_spanmetrics_calls_total{status_code="STATUS_CODE_ERROR"}) / sum by (service) (traces_spanmetrics_calls_total{span_kind="SPAN_KIND_SERVER"}) > 0.09';
  const body = { name: "OrdersFail", severity: "critical", expr, for: "0s", enabled: true };
  const made = await call("POST", `${backend.apiUrl}/alerting/rules`, { bearer: tenant.token, body });
  expect([made.status, made.status === 201 ? "" : made.text]).toEqual([201, ""]);
  await backend.shows("the alert", async () => (await get(`/alerting/rules/${made.json.id}/status`)).state === "firing");
});

interface Row {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [number, string];
}

/** An instant query as Grafana's Prometheus data source sends it for `format: "table"`. */
async function grafanaTable(expr: string): Promise<Row[]> {
  const body = new URLSearchParams({ query: expr.replaceAll("$__range", "600s"), time: String(Date.now() / 1000) }).toString();
  const headers = { "content-type": "application/x-www-form-urlencoded" };
  const answer = await call("POST", `${backend.apiUrl}/query/prometheus/api/v1/query`, { bearer: tenant.token, body, headers });
  expect([answer.status, answer.status === 200 ? "" : answer.text]).toEqual([200, ""]);
  return answer.json.data.result;
}
const byName = (rows: readonly Row[], ...labels: string[]): Record<string, number> =>
  Object.fromEntries(rows.map(({ metric, value }) => [labels.map((label) => metric[label]).join(" > "), Number(value[1])]));

// The requests of grafana-tempo-datasource 6cc1347 (its data source, graph transform and section of the service graph), as
// grafana-prometheus-datasource 1f9b322 and grafana-jaeger-datasource 9d46d95 send them.
test("Grafana draws its service graph and the table next to it, also of new operations", async () => {
  // A process knows which counters are new from its second pass on.
  const written = "timestamp(traces_service_graph_request_total)";
  await backend.shows(
    "a pass since the restart",
    async () => (await instant(written)).some(({ value }: Row) => Number(value[1]) > restartedS),
    WITHIN_MS,
  );
  await visitShop("GET /pay", "POST /payments");
  const GRAPH = "traces_service_graph_request";
  const edges = async (metric: string) =>
    byName(await grafanaTable(`sum by (client, server) (rate(${metric}[$__range]))`), "client", "server");
  await backend.shows(
    "the nodes and edges of the graph",
    async () => {
      const [total, seconds, failed] = await Promise.all(
        [`${GRAPH}_total`, `${GRAPH}_server_seconds_sum`, `${GRAPH}_failed_total`].map(edges),
      );
      const drawn = (edge: string) => [
        ((seconds?.[edge] ?? 0) / (total?.[edge] ?? 0)) * 1000,
        (failed?.[edge] ?? 0) / (total?.[edge] ?? 0),
      ];
      expect(drawn("web > shop")).toEqual([expect.closeTo(20), expect.closeTo(0.1)]);
      expect(drawn("shop > postgresql:orders")).toEqual([expect.closeTo(10), 0]);
      expect(drawn("shop > mailer")).toEqual([expect.closeTo(100), 0]);
      return true;
    },
    WITHIN_MS,
  );
  const instrumented = await grafanaTable(`group by (client, connection_type, server) (${GRAPH}_total)`);
  expect(byName(instrumented, "server", "connection_type")).toMatchObject({
    "shop > ": 1,
    "postgresql:orders > database": 1,
    "mailer > messaging_system": 1,
  });

  const calls = (conditions: string) => `topk(5, sum(rate(traces_spanmetrics_calls_total{${conditions}}[$__range])) by (span_name))`;
  await backend.shows(
    "the rows of the table",
    async () => {
      const rates = byName(await grafanaTable(calls('span_kind="SPAN_KIND_SERVER"')), "span_name");
      expect(rates).toMatchObject({ "GET /pay": expect.any(Number), "POST /payments": expect.any(Number) });
      const names = `span_name=~"${Object.keys(rates).join("|")}"`;
      const failures = byName(await grafanaTable(calls(`status_code="STATUS_CODE_ERROR",${names}`)), "span_name");
      expect((failures["POST /payments"] ?? 0) / (rates["POST /payments"] ?? 0)).toBeCloseTo(0.1);
      return true;
    },
    WITHIN_MS,
  );
  const [p90] = await grafanaTable(
    'histogram_quantile(.9, sum(rate(traces_spanmetrics_latency_bucket{span_name=~"POST /payments"}[$__range])) by (le))',
  );
  expect(Number(p90?.value[1])).toBeGreaterThan(0.016);
  expect(Number(p90?.value[1])).toBeLessThanOrEqual(0.032);
});

test("Grafana finds the keys of the graph's series, the links of an edge, and no native histogram", async () => {
  const startS = Math.floor(startMs / 1000) - 60;
  const nowS = (): number => Math.ceil(Date.now() / 1000);
  const prometheus = async (path: string, params: Record<string, string>) => {
    const query = new URLSearchParams({ ...params, start: String(startS), end: String(nowS()) });
    return (await get(`/query/prometheus/api/v1/${path}?${query.toString()}`)).data;
  };
  expect(await prometheus("series", { "match[]": "traces_service_graph_request_server_seconds", limit: "1" })).toEqual([]);
  const names =
    "traces_service_graph_request_server_seconds_sum|traces_service_graph_request_total|traces_service_graph_request_failed_total";
  expect(await prometheus("labels", { "match[]": `{__name__=~"${names}"}` })).toEqual(
    expect.arrayContaining(["client", "connection_type", "server"]),
  );
  const edge = '{client="web",server="shop"}';
  for (const expr of [
    `sum by (client, server)(rate(traces_service_graph_request_total${edge}[1m0s]))`,
    `histogram_quantile(0.9, sum(rate(traces_service_graph_request_server_seconds_bucket${edge}[1m0s])) by (le, client, server))`,
    `sum by (client, server)(rate(traces_service_graph_request_failed_total${edge}[1m0s]))`,
  ]) {
    await backend.shows(
      expr,
      async () => {
        const { result } = await prometheus("query_range", { query: expr, step: "15" });
        return result.some(({ values }: { values: [number, string][] }) => values.some(([, value]) => Number(value) > 0));
      },
      WITHIN_MS,
    );
    expect(await prometheus("query_exemplars", { query: expr })).toEqual([]);
  }
  const dependencies = (await get(`/query/jaeger/api/dependencies?endTs=${nowS() * 1000}&lookback=3600000`)).data;
  expect(dependencies).toContainEqual({ parent: "web", child: "shop", callCount: 2 * VISITS });
});
