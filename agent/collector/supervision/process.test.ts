// One run of a script in place of the collector, for output that the real collector cannot be made to print.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pino } from "pino";
import { expect, test, vi } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { CollectorProcess, guardCollector } from "./process.ts";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

/** Prints a line that ends only when the process gets TERM. */
const ENDLESS = `
  process.on("SIGTERM", () => { process.stdout.write("\\nnext\\n"); process.exit(); });
  setInterval(() => {}, 1000);
  process.stdout.write('{"level":"info","msg":"ak_0123456789abcdef ' + "x".repeat(300_000));
`;

test("logs a line without an end once, truncated and masked, and logs later lines", async () => {
  using folder = temporaryFolder();
  const program = join(folder.path, "otelcol");
  writeFileSync(program, `#!${process.execPath}\n${ENDLESS}`, { mode: 0o755 });
  const lines: Record<string, unknown>[] = [];
  const write = (line: string): void => void lines.push(JSON.parse(line) as Record<string, unknown>);
  const log = pino({ formatters: { level: (level) => ({ level }) } }, { write });
  const child = await CollectorProcess.start({ program, configFile: "", memoryMib: 100, stopGraceMs: 20_000, env: {}, log });
  try {
    await vi.waitFor(() => expect(lines).toHaveLength(1), { timeout: 50_000 });
    const msg = String(lines[0]?.["msg"]);
    const ends = [msg.slice(0, 40), msg.slice(-40)];
    expect(ends).toEqual(['{"level":"info","msg":"ak_[redacted] xxx', "x… [cut: the line is longer than 64 KiB]"]);
    expect(lines[0]?.["level"]).toBe("info");
    expect(msg.length).toBeLessThan(66_000);
    await child.stop();
    expect(lines.map((line) => line["msg"])).toEqual([msg, "next"]);
  } finally {
    child.kill();
  }
});

test.each([
  [
    "listen tcp 127.0.0.1:4317: bind: address already in use",
    "127.0.0.1:4317 is in use by another program: stop it, or set OTLP_GRPC_LISTEN",
  ],
  ["listen tcp 192.0.2.1:4317: bind: cannot assign requested address", "set OTLP_GRPC_LISTEN and OTLP_HTTP_LISTEN to addresses of this"],
  ["listen tcp :80: bind: permission denied", "with ports that the collector may open"],
  ["listen tcp: lookup no.such.host on 127.0.0.53:53: no such host", "set OTLP_GRPC_LISTEN and OTLP_HTTP_LISTEN"],
])("an OTLP address that fails with %s is reported with its settings", async (problem, advice) => {
  using folder = temporaryFolder();
  const program = join(folder.path, "otelcol");
  const message = `cannot start pipelines: failed to start "otlp" receiver: ${problem}`;
  writeFileSync(program, `#!/bin/sh\necho 'Error: ${message}' >&2\nexit 1\n`, { mode: 0o755 });
  const log = pino({ level: "silent" });
  const child = await CollectorProcess.start({ program, configFile: "", memoryMib: 100, stopGraceMs: 1000, env: {}, log });
  const { reason } = await child.exited;
  expect(reason).toContain(advice);
});

/** Runs with `config` on its command line, as a collector does. */
function sleeper(config: string): ChildProcess {
  return spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)", config], { stdio: "ignore" });
}

/** Kills an agent that guards the collector, and answers the signal that the collector then ends with. */
async function killAgentOf(collector: ChildProcess, afterwards?: () => void): Promise<unknown> {
  await once(collector, "spawn");
  const guard = fileURLToPath(new URL("process.ts", import.meta.url));
  const script = `import("${guard}").then(({ guardCollector }) => {
    guardCollector(${collector.pid}, "config-of-this-test.yaml", { warn: console.error });
    console.log("guarded");
  });`;
  const agent = spawn(process.execPath, ["-e", script], { stdio: ["ignore", "pipe", "inherit"] });
  await once(agent.stdout, "data");
  const ended = once(collector, "exit");
  agent.kill("SIGKILL");
  afterwards?.();
  return (await ended)[1];
}

test("killing the agent kills its collector", async () => {
  expect(await killAgentOf(sleeper("config-of-this-test.yaml"))).toBe("SIGKILL");
});

test("killing the agent leaves processes with another configuration running", async () => {
  const other = sleeper("another.yaml");
  const signal = killAgentOf(other, () => setTimeout(() => other.kill("SIGTERM"), 3000));
  expect(await signal).toBe("SIGTERM");
});

test("a disposed guard ends and kills no process", async () => {
  const collector = sleeper("config-of-this-test.yaml");
  await once(collector, "spawn");
  guardCollector(collector.pid ?? 0, "config-of-this-test.yaml", pino({ level: "silent" }))[Symbol.dispose]();
  collector.kill("SIGTERM");
  expect((await once(collector, "exit"))[1]).toBe("SIGTERM");
});
