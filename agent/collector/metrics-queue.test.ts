// Where the queue of metrics cannot be moved. That it is moved, and sent: metrics-queue.engine.test.ts.
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pino } from "pino";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../test/fixtures/processes.ts";
import { readSettings } from "../settings.ts";
import { configFromSettings } from "./config-from-settings.ts";
import { followMetricsExporter } from "./metrics-queue.ts";

test("a queue that cannot be moved stays, is told, and keeps no collector from its start", async () => {
  using folder = temporaryFolder();
  const queue = join(folder.path, "queue");
  const left = join(queue, "exporter_otlp_http_atherops_metrics");
  // A name that nothing can be renamed to.
  mkdirSync(join(queue, "exporter_otlp_http_atherops-metrics_metrics"), { recursive: true });
  writeFileSync(left, "");
  const said: { level: number; msg: string }[] = [];
  const log = pino({ level: "info" }, { write: (line) => void said.push(JSON.parse(line) as { level: number; msg: string }) });
  const { settings } = readSettings("host", { BACKEND_URL: "https://b.example", STATE_DIR: folder.path });
  await followMetricsExporter(configFromSettings(settings), log);
  expect(existsSync(left)).toBe(true);
  expect(said).toMatchObject([{ level: 50, msg: expect.stringContaining(left) as string }]);
});
