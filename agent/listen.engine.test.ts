// The cluster agent's listeners with default settings, those of the agent and of the real collector, in network namespaces with IPv6 only,
// with both families, and without IPv6. Creating network namespaces needs root.
import { execFile, execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { toolPath } from "../hack/fetch-tools.ts";

const AGENT = dirname(fileURLToPath(import.meta.url));

const canUnshare = ((): boolean => {
  try {
    execFileSync("unshare", ["--net", "ip", "link", "set", "lo", "up"], { stdio: "pipe" });
    return true;
  } catch {
    return false;
  }
})();

/** Starts what listens, asks each listener at each address, prints what answered. */
const PROGRAM = `
  import { connect } from "node:net";
  import { setTimeout as sleep } from "node:timers/promises";
  const [agent, program, stateDir, ...addresses] = process.argv.slice(1);
  const load = (file) => import(agent + "/" + file);
  const [{ readSettings }, { startHealthServer }, { Supervisor }, { configFromSettings }, { pino }, { healthUrl }] = await Promise.all([
    load("settings.ts"), load("status/health.ts"), load("collector/supervision/supervisor.ts"), load("collector/config/config-from-settings.ts"), import("pino"),
    load("commands/diagnose/node.ts"),
  ]);
  const { settings } = readSettings("cluster");
  await using stack = new AsyncDisposableStack();
  const source = { status: () => ({}), collectorHealthy: () => Promise.resolve(true), collectorMetricsUrl: () => undefined };
  stack.use(await startHealthServer(settings.health, source));
  const log = pino({ level: "silent" });
  const supervisor = stack.use(new Supervisor({ program, stateDir, memoryMib: 200, stopGraceMs: 5000, env: {}, log }));
  await supervisor.start(() => configFromSettings(settings));
  while (supervisor.status().state !== "running" && supervisor.status().restarts === 0) await sleep(50);
  const answers = (host, port) => new Promise((done) => {
    const socket = connect({ host, port }, () => (socket.destroy(), done(true))).on("error", () => done(false));
  });
  const found = {};
  for (const address of addresses) found[address] = [await answers(address, 9598), await answers(address, 4317), await answers(address, 4318)];
  found.diagnose = (await fetch(healthUrl(settings.health) + "/healthz")).status;
  found.error = supervisor.status().lastError;
  console.log(JSON.stringify(found));`;

test.skipIf(!canUnshare).each([
  ["IPv6 only", "ip addr add fd00:5::1/128 dev lo nodad", ["fd00:5::1"]],
  ["both", "ip addr add fd00:5::1/128 dev lo nodad && ip addr add 10.9.0.1/32 dev lo", ["fd00:5::1", "10.9.0.1"]],
  ["no IPv6", "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6 && ip addr add 10.9.0.1/32 dev lo", ["10.9.0.1"]],
])("a pod with %s serves the kubelet and applications (needs root)", async (_, addresses, reachedAt) => {
  const folder = mkdtempSync(join(tmpdir(), "atherops-listen-"));
  try {
    const overlay = join(folder, "overlay.yaml");
    writeFileSync(overlay, "processors: {k8s_attributes: null}\n");
    const env = {
      PATH: process.env["PATH"],
      BACKEND_URL: "http://127.0.0.1:1",
      CLUSTER_NAME: "c",
      NODE_NAME: "n",
      POD_NAMESPACE: "ns",
      POD_UID: "u",
      KUBERNETES_SERVICE_HOST: "127.0.0.1",
      SIGNALS: "traces",
      STATE_DIR: folder,
      COLLECTOR_CONFIG_FILE: overlay,
    };
    const command = `ip link set lo up && ${addresses} && exec "$@"`;
    const node = [process.execPath, "--input-type=module", "-e", PROGRAM, AGENT, await toolPath("otelcol-contrib"), folder, ...reachedAt];
    const { stdout } = await promisify(execFile)("unshare", ["--net", "sh", "-c", command, "sh", ...node], { env, cwd: AGENT });
    const expected = Object.fromEntries(reachedAt.map((address) => [address, [true, true, true]]));
    expect(JSON.parse(stdout)).toEqual({ ...expected, diagnose: 200, error: null });
  } finally {
    rmSync(folder, { recursive: true, maxRetries: 3 });
  }
});
