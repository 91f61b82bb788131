import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { toolPath } from "../../../hack/fetch-tools.ts";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { createLog } from "../../log.ts";
import { VictoriaMetricsStore } from "../../storage/metrics/metric-store.ts";
import { startVictoriaMetrics } from "./embedded-victoria-metrics.ts";

const IDENTITY = { orgId: "org", hostId: "host", node: "node" };

test("reports a missing program in one sentence with what to do", async () => {
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

test("reports rejected settings with the engine's own message", async () => {
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

test("an engine that rejects its replay at first, as on a full disk, gets it later while it runs", async () => {
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
  const logged: string[] = [];
  const engine = await startVictoriaMetrics({
    candidates: [program],
    dataDir: folder.path,
    retention: "30d",
    passwordFile: undefined,
    log: createLog("info", "test", { write: (line) => void logged.push(line) }),
    timing: { firstBackoffMs: 20 },
    firstRetryMs: 10,
  });
  await using store = new VictoriaMetricsStore(engine);
  await store.write(IDENTITY, Buffer.from("acknowledged 1\n"), Date.now());
  expect(readFileSync(taken, "utf8")).toBe("acknowledged 1\n");
  writeFileSync(taken, "");
  process.kill(engine.child.pid ?? 0, "SIGKILL");
  // The engine has stored the write before its response arrives; a replay without a response is not over, and keeps the journal.
  await vi.waitFor(() => expect(logged.join("")).toContain('"metrics_journal.replayed"'), { timeout: 30_000, interval: 20 });
  expect(readFileSync(taken, "utf8")).toBe("acknowledged 1\n");
  expect(engine.child.restarts).toBe(1);
  await engine[Symbol.asyncDispose]();
  expect(readdirSync(join(folder.path, "metrics-journal")).filter((name) => name.endsWith(".journal"))).toEqual([]);
});
