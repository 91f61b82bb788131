import { pino } from "pino";
import { expect, test } from "vitest";
import { readSettings } from "../settings.ts";
import { CLUSTER } from "./config/render.fixture.ts";
import { CollectorConfigError } from "./config/render.ts";
import { EffectiveConfig } from "./effective-config.ts";
import type { CollectorStatus } from "./supervision/supervisor.ts";

const JOB = { job_name: "ServiceMonitor shop/web/0", relabel_configs: [], metric_relabel_configs: [] };
const REFUSED = { ...JOB, job_name: "refused" };

/** A supervisor whose collector refuses one job of monitors. */
class Collector {
  readonly ran: string[] = [];

  start = async (config: () => string | Promise<string>): Promise<void> => this.apply(await config());

  apply = async (config: string): Promise<void> => {
    if (config.includes("refused")) throw new CollectorConfigError("it refuses");
    const jobs = config.includes("prometheus/monitors") ? "monitors" : "none";
    if (this.ran.at(-1) !== jobs) this.ran.push(jobs);
    return Promise.resolve();
  };

  status = (): CollectorStatus => ({ state: "running", pid: 1, since: "", restarts: 0, lastError: null, configError: null });
}

test("a monitor whose job the collector refuses keeps no agent from starting, and others are scraped once it has changed", async () => {
  const { settings } = readSettings("cluster", CLUSTER);
  const supervisor = new Collector();
  let jobs = [JOB, REFUSED];
  const log = pino({ level: "silent" });
  await using config = new EffectiveConfig({ settings, supervisor, adjustment: {}, log, monitors: { jobs: () => jobs }, checkEveryMs: 5 });
  await config.start();
  expect(supervisor.ran).toEqual(["none"]);
  jobs = [JOB];
  await expect.poll(() => supervisor.ran).toEqual(["none", "monitors"]);
  jobs = [JOB, REFUSED];
  await expect.poll(() => supervisor.ran).toEqual(["none", "monitors", "none"]);
});
