import { setTimeout as sleep } from "node:timers/promises";
import { execFile } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test, vi } from "vitest";
import { toolPath } from "../../../hack/fetch-tools.ts";
import { startTestEngine } from "../../../test/fixtures/metrics-engine.ts";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { createLog } from "../../operations/log.ts";
import { VictoriaMetricsStore } from "../../storage/metrics/store.ts";
import { startVictoriaMetrics } from "./embedded.ts";

const IDENTITY = { orgId: "org", hostId: "host", node: "node" };

function samples(from: number, count: number, timeMs: number): Buffer {
  return Buffer.from(Array.from({ length: count }, (_, index) => `numbered{n="${from + index}"} 1 ${timeMs}\n`).join(""));
}

async function stored(store: VictoriaMetricsStore): Promise<Set<string>> {
  const params = new URLSearchParams({ "match[]": "numbered" });
  const { body } = await store.query("org", "series", params);
  return new Set((JSON.parse(body.toString()) as { data: { n: string }[] }).data.map(({ n }) => n));
}

test("an engine killed under load comes back on the same port, and nothing that was acknowledged is missing", async () => {
  const restarts: number[] = [];
  await using engine = await startTestEngine(() => restarts.push(Date.now()));
  await using store = new VictoriaMetricsStore(engine);
  const acknowledged: string[] = [];
  const failures: unknown[] = [];
  for (let body = 0; body < 400 || restarts.length === 0; body += 1) {
    if (body === 60) process.kill(engine.child.pid ?? 0, "SIGKILL");
    try {
      await store.write(IDENTITY, samples(body * 5, 5, Date.now()), Date.now());
      for (let index = 0; index < 5; index += 1) acknowledged.push(String(body * 5 + index));
    } catch (error) {
      failures.push(error);
      // Paces the retries while the engine restarts.
      await sleep(5);
    }
  }
  expect(restarts).toHaveLength(1);
  expect(failures.length).toBeGreaterThan(0);
  for (const error of failures) expect(error).toMatchObject({ code: "storage_unavailable", retryAfterS: expect.any(Number) });
  await vi.waitFor(
    async () => {
      await engine.flush();
      const found = await stored(store);
      expect(acknowledged.filter((n) => !found.has(n))).toEqual([]);
    },
    { timeout: 30_000, interval: 200 },
  );
});

test("after both the engine and its backend were killed, the next start has every acknowledged sample", async () => {
  using folder = temporaryFolder();
  const program = await toolPath("victoria-metrics");
  const script = `
    import { createLog } from ${JSON.stringify(new URL("../../operations/log.ts", import.meta.url).href)};
    import { VictoriaMetricsStore } from ${JSON.stringify(new URL("../../storage/metrics/store.ts", import.meta.url).href)};
    import { startVictoriaMetrics } from ${JSON.stringify(new URL("embedded.ts", import.meta.url).href)};
    const engine = await startVictoriaMetrics({ candidates: [${JSON.stringify(program)}], dataDir: ${JSON.stringify(folder.path)}, retention: "30d", passwordFile: undefined, log: createLog("silent") });
    const store = new VictoriaMetricsStore(engine);
    await store.write(${JSON.stringify(IDENTITY)}, Buffer.from('numbered{n="7"} 1\\n'), Date.now());
    console.log(engine.child.pid);
    process.kill(process.pid, "SIGKILL");`;
  const killed = await promisify(execFile)(process.execPath, ["--input-type=module-typescript", "-e", script]).catch(
    (error: { stdout: string }) => error,
  );
  const orphan = Number(killed.stdout);
  expect(readFileSync(`/proc/${orphan}/comm`, "utf8")).toContain("victoria");
  process.kill(orphan, "SIGSTOP");
  process.kill(orphan, "SIGKILL");

  const engine = await startVictoriaMetrics({
    candidates: [program],
    dataDir: folder.path,
    retention: "30d",
    passwordFile: undefined,
    log: createLog("silent"),
  });
  const store = new VictoriaMetricsStore(engine);
  await fetch(`${engine.writeUrl}/internal/force_flush`);
  expect(await stored(store)).toEqual(new Set(["7"]));
  await store[Symbol.asyncDispose]();
  await engine[Symbol.asyncDispose]();
  expect(readdirSync(join(folder.path, "metrics-journal")).filter((name) => name.endsWith(".journal"))).toEqual([]);
});

test("a missing program is one sentence that says what to do", async () => {
  using folder = temporaryFolder();
  const start = startVictoriaMetrics({
    candidates: ["no-such-program", "/no/such/path"],
    dataDir: folder.path,
    retention: "30d",
    passwordFile: undefined,
    log: createLog("silent"),
  });
  await expect(start).rejects.toThrow(/^victoria-metrics is not installed: .*VICTORIA_METRICS_PATH.*hack\/fetch-tools\.ts/);
});

test("an engine that refuses its settings is an error with its own words", async () => {
  using folder = temporaryFolder();
  const start = startVictoriaMetrics({
    candidates: [await toolPath("victoria-metrics")],
    dataDir: folder.path,
    retention: "1h",
    passwordFile: undefined,
    log: createLog("silent"),
  });
  await expect(start).rejects.toThrow(/exited before it was ready[^]*retentionPeriod cannot be smaller than a day/);
});

test("an engine that refuses its replay at first, as on a full disk, gets it later while it runs", async () => {
  using folder = temporaryFolder();
  const taken = join(folder.path, "taken");
  const program = join(folder.path, "engine");
  // After its first life, this engine takes nothing of the journal until it has refused it three times.
  const source = `
    const { appendFileSync, existsSync, writeFileSync } = require("node:fs");
    const startedBefore = ${JSON.stringify(join(folder.path, "started"))};
    let refusals = existsSync(startedBefore) ? 3 : 0;
    writeFileSync(startedBefore, "");
    const port = process.argv.find((arg) => arg.startsWith("-httpListenAddr=")).split(":").at(-1);
    process.on("SIGTERM", () => process.exit(0));
    require("node:http").createServer(async (request, answer) => {
      const body = Buffer.concat(await request.toArray()).toString();
      if (request.method === "GET") return answer.end("OK");
      if (refusals-- > 0) return answer.writeHead(503).end();
      appendFileSync(${JSON.stringify(taken)}, body);
      answer.writeHead(204).end();
    }).listen(port, "127.0.0.1");`;
  writeFileSync(`${program}.cjs`, source);
  writeFileSync(program, `#!/bin/sh\nexec '${process.execPath}' '${program}.cjs' "$@"\n`, { mode: 0o755 });
  await using engine = await startVictoriaMetrics({
    candidates: [program],
    dataDir: folder.path,
    retention: "30d",
    passwordFile: undefined,
    log: createLog("silent"),
    timing: { firstBackoffMs: 20 },
    firstRetryMs: 10,
  });
  await using store = new VictoriaMetricsStore(engine);
  await store.write(IDENTITY, Buffer.from("acknowledged 1\n"), Date.now());
  expect(readFileSync(taken, "utf8")).toBe("acknowledged 1\n");
  writeFileSync(taken, "");
  process.kill(engine.child.pid ?? 0, "SIGKILL");
  await vi.waitFor(() => expect(readFileSync(taken, "utf8")).toBe("acknowledged 1\n"), { timeout: 30_000, interval: 20 });
  expect(engine.child.restarts).toBe(1);
});
