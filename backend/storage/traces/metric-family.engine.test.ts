// Requests of Jaeger's page "Monitor" for calls, errors and latency: responses have the shape of its MetricFamily, and their figures match
// the spans. Two organisations have a service with the same name.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openTracesApp, type TracesApp, type TracesOrg } from "../../../test/fixtures/traces-app.ts";
import { span } from "../../ingest/otlp/otlp-body.fixture.ts";

const MINUTE_MS = 60_000;
const endMs = Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS - 5 * MINUTE_MS;
const iso = (minutes: number) => new Date(endMs + minutes * MINUTE_MS).toISOString().replace(".000", "");
let app: TracesApp;
let red: TracesOrg;
let blue: TracesOrg;

interface Call {
  readonly minute: number;
  readonly ms: number;
  readonly name?: string;
  readonly kind?: number;
  readonly isError?: boolean;
}

let count = 0;
const made = ({ minute, ms, name = "GET /", kind = 2, isError = false }: Call) => {
  const start = BigInt(endMs + minute * MINUTE_MS) * 1_000_000n;
  return span(start, "a".repeat(32), (count++).toString(16).padStart(16, "1"), {
    name,
    kind,
    endTimeUnixNano: String(start + BigInt(ms) * 1_000_000n),
    ...(isError && { status: { code: 2 } }),
  });
};
const ask = async (org: TracesOrg, name: string, more: Record<string, string> = {}) => {
  const params = { service: "shop", endTs: String(endMs), lookback: String(3 * MINUTE_MS), ...more };
  const answer = await org.get(`/query/jaeger/api/metrics/${name}?${new URLSearchParams(params).toString()}`);
  return [answer.statusCode, answer.json()];
};
const point = (doubleValue: unknown, minutes: number) => ({ gaugeValue: { doubleValue }, timestamp: iso(minutes) });
const near = (value: number) => expect.closeTo(value, 9);

beforeAll(async () => {
  app = await openTracesApp();
  [red, blue] = [await app.org(), await app.org()];
  const calls = [
    ...Array.from({ length: 6 }, () => ({ minute: -3, ms: 100 })),
    { minute: -1, ms: 100, isError: true },
    { minute: -1, ms: 100, name: "POST /" },
    { minute: -1, ms: 100 },
    { minute: -2, ms: 900, kind: 3 },
    { minute: 0, ms: 100 },
  ];
  await red.send(calls.map(made), "shop");
  await red.send([made({ minute: -1, ms: 1 })], "other's");
  await blue.send([made({ minute: -2, ms: 5 })], "shop");
});
afterAll(() => app?.[Symbol.asyncDispose]());

describe("Jaeger's Monitor page", () => {
  it("gets calls per second of server spans by minute, zeros included", async () => {
    expect(await ask(red, "calls")).toEqual([
      200,
      {
        name: "service_call_rate",
        type: "GAUGE",
        help: "calls/sec, grouped by service",
        metrics: [
          { labels: [{ name: "service_name", value: "shop" }], metricPoints: [point(0.1, -2), point(0, -1), point(near(3 / 60), 0)] },
        ],
      },
    ]);
    expect((await ask(blue, "calls"))[1].metrics[0].metricPoints).toEqual([point(0, -2), point(near(1 / 60), -1), point(0, 0)]);
    expect((await ask(await app.org(), "calls"))[1].metrics).toEqual([]);
  });

  it("gets the share of errors of each operation, where there are calls", async () => {
    const [status, answer] = await ask(red, "errors", { groupByOperation: "true" });
    expect([status, answer.name]).toEqual([200, "service_operation_error_rate"]);
    const labels = (operation: string) => [
      { name: "service_name", value: "shop" },
      { name: "operation", value: operation },
    ];
    expect(answer.metrics).toEqual([
      { labels: labels("GET /"), metricPoints: [point(0, -2), point(0.5, 0)] },
      { labels: labels("POST /"), metricPoints: [point(0, 0)] },
    ]);
  });

  it("gets latencies in milliseconds of the requested kinds, by its own step", async () => {
    const [, client] = await ask(red, "latencies", { quantile: "0.95", spanKind: "client" });
    expect(client.help).toBe("0.95th quantile latency, grouped by service");
    expect(client.metrics[0].metricPoints).toHaveLength(1);
    expect(client.metrics[0].metricPoints[0].gaugeValue.doubleValue / 900).toBeCloseTo(1, 0);
    const [, whole] = await ask(red, "latencies", { quantile: "0.5", step: String(3 * MINUTE_MS) });
    expect(whole.metrics[0].metricPoints).toEqual([point(expect.any(Number), 0)]);
    expect(whole.metrics[0].metricPoints[0].gaugeValue.doubleValue / 100).toBeCloseTo(1, 0);
  });

  it("gets several services, whatever their names contain", async () => {
    const answer = await red.get(`/query/jaeger/api/metrics/calls?service=shop&service=other%27s&service=%5C&endTs=${endMs}`);
    expect(answer.json().metrics.map(({ labels }: { labels: { value: string }[] }) => labels[0]?.value)).toEqual(["shop", "other's"]);
  });

  it.each([
    ["calls", { endTs: "now" }, "endTs"],
    ["calls", { lookback: "1h" }, "lookback"],
    ["errors", { step: "-1" }, "step"],
    ["errors", { spanKind: "servant" }, "spanKind"],
    ["calls", { groupByOperation: "maybe" }, "groupByOperation"],
    ["latencies", {}, "quantile"],
    ["latencies", { quantile: "2" }, "quantile"],
  ])("gets %s rejected with %j by name", async (name, params, parameter) => {
    expect(await ask(red, name, params as Record<string, string>)).toEqual([
      400,
      { error: "invalid_parameter", message: expect.stringContaining(parameter) },
    ]);
  });

  it("gets a request without a service rejected", async () => {
    const answer = await red.get("/query/jaeger/api/metrics/calls");
    expect([answer.statusCode, answer.json().message]).toEqual([400, "service: is required"]);
  });
});
