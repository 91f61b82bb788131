// Entries of a real journald, as the host agent's collector sends them: level, unit, time and text. The agent's own entries are left out,
// and no entry is lost or duplicated while the collector is stopped.
import { afterAll, beforeAll, expect, test } from "vitest";
import { startCollector, type TestCollector } from "../../../test/fixtures/collector.ts";
import { canRunJournald, Journald } from "../../../test/fixtures/journald.ts";
import { eventually, freeAddresses, temporaryFolder } from "../../../test/fixtures/processes.ts";
import { readSettings, SettingsError } from "../../settings.ts";
import { configFromSettings } from "./config-from-settings.ts";
import { collectorProgram } from "../supervision/process.ts";
import { Sink, type SinkRecord } from "../supervision/sink.fixture.ts";

const stack = new AsyncDisposableStack();
const folder = stack.use(temporaryFolder());
let sink: Sink;
let journald: Journald;
let collector: TestCollector;

beforeAll(async () => {
  if (!canRunJournald) return;
  sink = stack.use(await Sink.start());
  journald = stack.use(await Journald.start(folder.path));
  journald.write({ message: "from before the first start", priority: 6, identifier: "app" });
  collector = await start();
  await seen("the first");
});
afterAll(async () => {
  await collector?.[Symbol.asyncDispose]();
  await stack[Symbol.asyncDispose]();
});

async function start(): Promise<TestCollector> {
  const [grpc, http] = await freeAddresses(2);
  const { settings } = readSettings("host", {
    BACKEND_URL: sink.url,
    STATE_DIR: folder.path,
    // The sink in place of the proxy records what the collector sends.
    PROXY_LISTEN: `127.0.0.1:${sink.port}`,
    OTLP_GRPC_LISTEN: grpc,
    OTLP_HTTP_LISTEN: http,
    SIGNALS: "logs",
    LOG_PATHS: `${folder.path}/none/*.log`,
    JOURNALD: "true",
    JOURNALCTL_PATH: journald.journalctl,
  });
  const started = await startCollector(folder.path, configFromSettings(settings));
  await started.ready(AbortSignal.timeout(60_000));
  return started;
}

/** A collector says that it runs before its journalctl follows: said again until it is there. */
async function seen(message: string): Promise<void> {
  await eventually(`"${message}" is there`, async () => {
    journald.write({ message, priority: 6, identifier: "probe" });
    return eventually("it is seen", () => sink.lines.includes(message), 1000);
  });
}

const arrived = (message: string): Promise<SinkRecord> =>
  eventually(`"${message.slice(0, 40)}" arrives`, () => sink.records.find(({ body }) => body === message));

test.skipIf(!canRunJournald)(
  "the collector parses unit, level and time of a journal entry, and the level and time in its message (needs root)",
  async () => {
    const trace = "0af7651916cd43dd8448eb211c80319c";
    const json = JSON.stringify({ level: "debug", msg: "a", trace_id: trace });
    const long = "ä".repeat(10_000);
    const before = Date.now();
    journald.write({ message: "disk is full", priority: 3, identifier: "app", unit: "shop.service" });
    journald.write({ message: json, priority: 6, identifier: "app", unit: "shop.service" });
    journald.write({ message: long, priority: 4, identifier: "app" });
    const [plain, said, large] = [await arrived("disk is full"), await arrived(json), await arrived(long)];
    expect(plain).toMatchObject({
      severityText: "ERROR",
      resource: { "service.name": "shop.service" },
      attributes: { "systemd.unit": "shop.service", "syslog.identifier": "app" },
    });
    expect(plain.attributes["process.pid"]).toMatch(/^\d+$/);
    expect(Number(plain.timeUnixNano) / 1e6).toBeGreaterThanOrEqual(before - 1);
    expect(Number(plain.timeUnixNano) / 1e6).toBeLessThanOrEqual(Date.now());
    expect(said).toMatchObject({ severityText: "DEBUG", traceId: trace });
    expect(large).toMatchObject({ severityText: "WARN", resource: { "service.name": "app" } });
    expect(sink.lines).not.toContain("from before the first start");
  },
);

test.skipIf(!canRunJournald)("the collector excludes journal entries of the agent's own unit (needs root)", async () => {
  journald.write({ message: "sent a line", priority: 6, identifier: "node", unit: "atherops-otel-agent.service" });
  journald.write({ message: "after it", priority: 6, identifier: "app" });
  await arrived("after it");
  expect(sink.lines).not.toContain("sent a line");
});

test.skipIf(!canRunJournald)("the collector reads journal entries that were written while none ran, each once (needs root)", async () => {
  await collector[Symbol.asyncDispose]();
  const messages = Array.from({ length: 20 }, (_, i) => `while it is away ${i}`);
  for (const message of messages) journald.write({ message, priority: 6, identifier: "app" });
  collector = await start();
  // journalctl (systemd 252) shows what it missed together with what comes next.
  await seen("the last");
  await arrived(messages.at(-1) ?? "");
  expect(sink.lines.filter((line) => line.startsWith("while it is away"))).toEqual(messages);
  expect(sink.lines.filter((line) => line === "disk is full")).toHaveLength(1);
});

test("an agent without journalctl logs at its start what is missing, and what to do", () => {
  const env = { BACKEND_URL: "https://b.example", JOURNALD: "true", JOURNALCTL_PATH: "/nowhere/journalctl" };
  const { settings } = readSettings("host", env);
  expect(() => collectorProgram(settings)).toThrow(SettingsError);
  expect(() => collectorProgram(settings)).toThrow(/JOURNALD: \/nowhere\/journalctl cannot be executed; .*JOURNALCTL_PATH/);
});
