// Checks the assumptions of RestartPreventExitStatus=2 in the unit: the main process exits with 2 exactly for problems that a restart
// cannot fix, and no process before it can exit in its place.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { toolPath } from "../../hack/fetch-tools.ts";
import { freeAddresses } from "../../test/fixtures/processes.ts";

const BIN = fileURLToPath(new URL("../bin/atherops-otel-agent.ts", import.meta.url));

let folder: string;
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), "atherops-unit-"))));
afterEach(() => rmSync(folder, { recursive: true, maxRetries: 3 }));

async function environment(more: NodeJS.ProcessEnv): Promise<NodeJS.ProcessEnv> {
  const [health, proxy, grpc, http] = await freeAddresses(4);
  return {
    PATH: process.env["PATH"],
    BACKEND_URL: "http://127.0.0.1:1",
    STATE_DIR: folder,
    CREDENTIALS_FILE: join(folder, "credentials.json"),
    OTELCOL_PATH: await toolPath("otelcol-host"),
    HEALTH_LISTEN: health,
    PROXY_LISTEN: proxy,
    OTLP_GRPC_LISTEN: grpc,
    OTLP_HTTP_LISTEN: http,
    SIGNALS: "traces",
    INSTALL_TOKEN: "it_0123456789abcdef",
    ...more,
  };
}

async function exitOf(env: NodeJS.ProcessEnv): Promise<{ code: number; said: string }> {
  const child = spawn(process.execPath, [BIN, "run"], { env, stdio: ["ignore", "ignore", "pipe"] });
  const [said, [code]] = await Promise.all([text(child.stderr), once(child, "exit") as Promise<[number]>]);
  return { code, said };
}

test("systemd starts only the main process, and only exit code 2 stops the unit", () => {
  const unit = readFileSync(new URL("atherops-otel-agent.service", import.meta.url), "utf8");
  expect(unit.match(/^Exec\w+=/gm)).toEqual(["ExecStart="]);
  expect(unit).toMatch(/^RestartPreventExitStatus=2$/m);
});

test("exits with 2 for invalid settings", async () => {
  expect(await exitOf(await environment({ SIGNALS: "smoke" }))).toMatchObject({
    code: 2,
    said: expect.stringContaining("SIGNALS") as string,
  });
});

test("exits with 2 for a configuration that the collector rejects", async () => {
  const overlay = join(folder, "overlay.yaml");
  writeFileSync(overlay, "receivers: {otlp: {protocol: {}}}\n");
  const { code, said } = await exitOf(await environment({ COLLECTOR_CONFIG_FILE: overlay }));
  expect([code, said]).toEqual([2, expect.stringMatching(/the collector rejects the configuration.*protocol/s)]);
});

test("restarts if the validation at the first start was killed, as when memory is short", async () => {
  const env = await environment({});
  const killed = join(folder, "otelcol-killed");
  writeFileSync(killed, `#!/bin/sh\nif [ "$1" = validate ]; then kill -9 $$; fi\nexec ${env["OTELCOL_PATH"]} "$@"\n`, { mode: 0o755 });
  const child = spawn(process.execPath, [BIN, "run"], { env: { ...env, OTELCOL_PATH: killed }, stdio: ["ignore", "pipe", "inherit"] });
  let said = "";
  const runs = new Promise<void>((done) => {
    child.stdout.on("data", (chunk: Buffer) => {
      said += chunk.toString();
      if (said.includes("the collector has started")) done();
    });
  });
  const ended = once(child, "exit");
  await Promise.race([runs, ended]);
  expect(said).toContain("starting the collector with an unchecked configuration");
  expect(child.exitCode).toBeNull();
  // As a terminal that is closed does.
  child.kill("SIGHUP");
  expect(await ended).toEqual([0, null]);
});
