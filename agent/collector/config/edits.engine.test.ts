// Operators' edits of telemetry, through the real collector with the host agent's configuration: data that matches a pattern or a condition
// reaches neither the proxy nor the disk, and all other data does.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startCollector } from "../../../test/fixtures/collector.ts";
import { eventually, freeAddresses, temporaryFolder } from "../../../test/fixtures/processes.ts";
import { startLogFiles } from "./render.fixture.ts";
import { readSettings } from "../../settings.ts";
import { configFromSettings } from "./config-from-settings.ts";
import { Sink } from "../supervision/sink.fixture.ts";

const CARD = "4111 1111 1111 1111";
const TRACES = 200;
let folder: ReturnType<typeof temporaryFolder>;
let stack: AsyncDisposableStack;
let sink: Sink;
let otlp: string;

beforeAll(async () => {
  stack = new AsyncDisposableStack();
  folder = stack.use(temporaryFolder());
  sink = stack.use(await Sink.start());
  const [grpc, http = ""] = await freeAddresses(2);
  otlp = `http://${http}`;
  const logs = join(folder.path, "logs");
  mkdirSync(logs);
  writeFileSync(join(logs, "app.log"), `paid with ${CARD}, password=hunter2 ok\nlevel=debug msg=chatter\nlevel=error msg=kept\n`);
  const { settings } = readSettings("host", {
    BACKEND_URL: sink.url,
    STATE_DIR: join(folder.path, "state"),
    // The sink in place of the proxy records what the collector sends.
    PROXY_LISTEN: `127.0.0.1:${sink.port}`,
    OTLP_GRPC_LISTEN: grpc,
    OTLP_HTTP_LISTEN: http,
    LOG_PATHS: join(logs, "*.log"),
    METRICS_INTERVAL: "1h",
    REDACT: String.raw`\b\d{4}[ -]?\d{4}[ -]?\d{4}[ -]?\d{4}\b` + "\n" + String.raw`password=\S+`,
    DROP_LOGS: 'log.severity_number > 0 and log.severity_number < SEVERITY_NUMBER_INFO\nresource.attributes["service.name"] == "noisy"',
    DROP_TRACES: 'span.name == "GET /healthz"',
    TRACES_SAMPLE_PERCENT: "50",
  });
  stack.use(await startLogFiles(settings));
  const collector = stack.use(await startCollector(settings.stateDir, configFromSettings(settings)));
  expect(await collector.ready(AbortSignal.timeout(60_000))).toBe(true);
}, 120_000);
afterAll(() => stack[Symbol.asyncDispose]());

async function send(signal: string, body: object): Promise<void> {
  const answer = await fetch(`${otlp}/v1/${signal}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  expect(answer.status).toBe(200);
}

const string = (key: string, stringValue: string): object => ({ key, value: { stringValue } });

function logs(service: string, body: object, attributes: object[] = []): object {
  const logRecords = [{ timeUnixNano: `${Date.now()}000000`, body, attributes }];
  return { resourceLogs: [{ resource: { attributes: [string("service.name", service)] }, scopeLogs: [{ logRecords }] }] };
}

test("redacts bodies, structured bodies and attributes of any type, and drops the records that match", async () => {
  const nested = { kvlistValue: { values: [{ key: "inner", value: { arrayValue: { values: [{ stringValue: CARD }] } } }] } };
  await send("logs", logs("noisy", { stringValue: "dropped" }));
  await send(
    "logs",
    logs("shop", nested, [
      { key: "card", value: { intValue: "4111111111111111" } },
      { key: "order", value: { intValue: "12" } },
    ]),
  );
  await eventually("the lines and the record are there", () => sink.records.length === 3, 60_000);
  const lines = sink.records.filter(({ resource }) => resource["service.name"] === "app.log");
  expect(lines.map(({ body }) => body).toSorted()).toEqual(["level=error msg=kept", "paid with ****, **** ok"]);
  const record = sink.records.find(({ resource }) => resource["service.name"] === "shop");
  expect(record?.attributes).toMatchObject({ card: "****" });
  const stored = readdirSync(join(folder.path, "state", "queue")).map((file) =>
    readFileSync(join(folder.path, "state", "queue", file), "latin1"),
  );
  expect(stored.join("")).not.toMatch(/4111|hunter2|chatter/);
});

test("samples half of the traces as a whole, with drops and redactions applied", async () => {
  const ids = Array.from({ length: TRACES }, (_, i) => `${i.toString(16).padStart(2, "0")}a7651916cd43dd8448eb211c80319`.padEnd(32, "c"));
  const span = (traceId: string, spanId: string, name: string): object => {
    const at = `${Date.now()}000000`;
    return { traceId, spanId, name, kind: 1, startTimeUnixNano: at, endTimeUnixNano: at, status: { message: "password=x y" } };
  };
  const spans = ids.flatMap((id) => [
    span(id, "b7ad6b7169203331", `pay ${CARD}`),
    span(id, "b7ad6b7169203332", "child"),
    span(id, "b7ad6b7169203333", "GET /healthz"),
  ]);
  await send("traces", { resourceSpans: [{ resource: { attributes: [string("service.name", "shop")] }, scopeSpans: [{ spans }] }] });
  await eventually("traces are there", () => sink.traces.length > 0, 60_000);
  interface Spans {
    resourceSpans: { scopeSpans: { spans: { traceId: string; name: string; status: { message: string } }[] }[] }[];
  }
  const came = sink.traces.flatMap((body) =>
    (JSON.parse(body) as Spans).resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans)),
  );
  const kept = new Set(came.map(({ traceId }) => traceId));
  expect(kept.size).toBeGreaterThan(TRACES / 4);
  expect(kept.size).toBeLessThan((TRACES * 3) / 4);
  expect(came).toHaveLength(kept.size * 2);
  expect(new Set(came.map(({ name, status }) => `${name}: ${status.message}`))).toEqual(new Set(["pay ****: **** y", "child: **** y"]));
});
