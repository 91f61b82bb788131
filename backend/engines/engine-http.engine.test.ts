import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { freePorts, temporaryFolder } from "../../test/fixtures/processes.ts";
import { toolPath } from "../../hack/fetch-tools.ts";
import { createLog } from "../log.ts";
import { VictoriaMetricsStore } from "../storage/metrics/metric-store.ts";
import { loginOf } from "./engine-http.ts";
import { startVictoriaMetrics } from "./victoria-metrics/embedded-victoria-metrics.ts";
import { VmalertClient } from "./vmalert/vmalert-client.ts";
import { startEvaluator } from "./vmalert/embedded-vmalert.ts";
import { renderGroup } from "./vmalert/rule-files.ts";

const RULE = { alert: "a", expr: "up == 1", forMs: 0, labels: { org_id: "org" }, annotations: {} };

test("engines' ports require a password that no argument contains, and writes, replays, queries and alerts use it", async () => {
  using folder = temporaryFolder();
  const passwordFile = join(folder.path, "engine-password");
  const shared = { dataDir: folder.path, passwordFile, log: createLog("silent"), timing: { firstBackoffMs: 20 } };
  await using engine = await startVictoriaMetrics({ ...shared, candidates: [await toolPath("victoria-metrics")], retention: "30d" });
  await using store = new VictoriaMetricsStore(engine);
  const [port = 0] = await freePorts(1);
  await using evaluator = await startEvaluator({
    ...shared,
    candidates: [await toolPath("vmalert")],
    listen: { host: "127.0.0.1", port },
    intervalMs: 1000,
    delayMs: 0,
    metricsQueryUrl: engine.queryUrl,
    metricsWriteUrl: engine.writeUrl,
  });
  await using client = new VmalertClient(evaluator.url);
  await evaluator.writeRules(new Map([["org", renderGroup({ name: "org", params: {}, concurrency: 1, limit: 10, rules: [RULE] })]]));
  await client.reload();

  await store.write({ orgId: "org", hostId: "host", node: "node" }, Buffer.from("up 1\n"), Date.now());
  process.kill(engine.child.pid ?? 0, "SIGKILL");
  await vi.waitFor(
    async () => {
      const { body } = await store.query("org", "query", new URLSearchParams({ query: 'last_over_time(ALERTS{alertstate="firing"}[5m])' }));
      expect(body.toString()).toContain('"alertname":"a"');
    },
    { timeout: 30_000, interval: 200 },
  );

  expect(statSync(passwordFile).mode & 0o777).toBe(0o600);
  const password = readFileSync(passwordFile, "utf8");
  const ofStore = [
    "/api/v1/query?query=up",
    "/api/v1/export",
    "/internal/force_flush",
    "/snapshot/list",
    "/internal/resetRollupResultCache",
  ];
  for (const { url: urlWithLogin, pid, own } of [
    { url: engine.queryUrl, pid: engine.child.pid, own: ofStore },
    { url: evaluator.url, pid: evaluator.child.pid, own: ["/api/v1/rules", "/api/v1/alerts", "/-/reload", "/"] },
  ]) {
    const { url, headers } = loginOf(urlWithLogin);
    for (const path of ["/metrics", "/flags", "/debug/pprof/cmdline", ...own]) {
      expect([path, (await fetch(url + path)).status]).toEqual([path, 401]);
    }
    expect((await fetch(`${url}/metrics`, { headers })).status).toBe(200);
    const visible = readFileSync(`/proc/${pid}/cmdline`, "latin1") + readFileSync(`/proc/${pid}/environ`, "latin1");
    expect(visible).not.toContain(password);
  }
});

test("converts a login in a URL to a header, and needs none for a URL without one", () => {
  expect(loginOf("http://u%40x:p%3A@vm:8428/select/0/prometheus/")).toEqual({
    url: "http://vm:8428/select/0/prometheus",
    user: "u@x",
    password: "p:",
    headers: { authorization: `Basic ${Buffer.from("u@x:p:").toString("base64")}` },
  });
  expect(loginOf("http://vm:8428")).toEqual({ url: "http://vm:8428", user: "", password: "", headers: {} });
});
