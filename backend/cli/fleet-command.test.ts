// `atherops fleet` against a backend that reports a stopped rollout and a node that does not deliver.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../test/fixtures/processes.ts";
import { createApp } from "../http/app.ts";
import { createLog } from "../log.ts";
import { runClient } from "./run-client.fixture.ts";

test("shows a stopped rollout with its reason, and a node without data with its signals", async () => {
  const app = await createApp({ log: createLog("silent") });
  const collector = { state: "running", queue_percent: 31, failing: ["logs", "traces"] };
  const node = { name: "node-1", online: true, agent_version: "1.0.0", last_heartbeat: null, collector, config: {} };
  const config = { version: "4", percent: 0, stopped: "1 of 1 nodes with it are unhealthy" };
  app.get("/api/clusters", async () => [{ cluster_id: "c", name: "prod", online: true, nodes: [node], config }]);
  app.get("/api/v1/agents", async () => []);
  const url = await app.listen({ host: "127.0.0.1", port: 0 });
  using folder = temporaryFolder();
  const sessionFile = join(folder.path, "session.json");
  writeFileSync(sessionFile, JSON.stringify({ url, email: "a@b", token: "none" }));
  try {
    const fleet = await runClient("fleet --problems", { url, sessionFile });
    expect(fleet.out).toMatch(/node-1 .*not delivered: logs, traces; disk queue 31 % full/);
    expect(fleet.err).toContain("cluster prod: the rollout of configuration 4 is stopped: 1 of 1 nodes with it are unhealthy\n");
    expect((await runClient("clusters", { url, sessionFile })).out).toMatch(/4 stopped/);
  } finally {
    await app.close();
  }
});
