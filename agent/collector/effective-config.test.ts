import { pino } from "pino";
import { expect, test } from "vitest";
import { readSettings } from "../settings.ts";
import { CLUSTER } from "./config/render.fixture.ts";
import { CollectorConfigError } from "./config/render.ts";
import { EffectiveConfig } from "./effective-config.ts";
import type { CollectorStatus } from "./supervision/supervisor.ts";

const job = (name: string): Record<string, unknown> => ({ job_name: `job-${name}`, relabel_configs: [], metric_relabel_configs: [] });

/** A supervisor whose collector refuses one job of monitors. */
class Collector {
  readonly ran: string[] = [];
  refusals = 0;

  start = async (config: () => string | Promise<string>): Promise<void> => this.apply(await config());

  apply = async (config: string): Promise<void> => {
    const jobs = [...config.matchAll(/job_name: job-(\w+)/g)].map(([, name]) => name).join();
    if (jobs.includes("refused")) {
      this.refusals += 1;
      throw new CollectorConfigError("it refuses");
    }
    if (this.ran.at(-1) !== jobs) this.ran.push(jobs);
    return Promise.resolve();
  };

  status = (): CollectorStatus => ({ state: "running", pid: 1, since: "", restarts: 0, lastError: null, configError: null });
}

test("a job that the collector refuses keeps no agent from starting, and the jobs before it stay until a monitor changes", async () => {
  const { settings } = readSettings("cluster", CLUSTER);
  const supervisor = new Collector();
  let jobs = [job("refused")];
  const log = pino({ level: "silent" });
  await using config = new EffectiveConfig({ settings, supervisor, adjustment: {}, log, monitors: { jobs: () => jobs }, checkEveryMs: 5 });
  await config.start();
  expect(supervisor.ran).toEqual([""]);
  jobs = [job("a")];
  await expect.poll(() => supervisor.ran, { timeout: 30_000 }).toEqual(["", "a"]);
  jobs = [job("a"), job("refused")];
  await expect.poll(() => supervisor.refusals, { timeout: 30_000 }).toBe(2);
  jobs = [job("a"), job("b")];
  await expect.poll(() => supervisor.ran, { timeout: 30_000 }).toEqual(["", "a", "a,b"]);
  expect(supervisor.refusals).toBe(2);
});
