import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { pino } from "pino";
import { expect, test } from "vitest";
import { guardCollector } from "./guard.ts";

/** Runs with `config` on its command line, as a collector does. */
function sleeper(config: string): ChildProcess {
  return spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)", config], { stdio: "ignore" });
}

/** Kills an agent that guards the collector, and answers the signal that the collector then ends with. */
async function killAgentOf(collector: ChildProcess): Promise<unknown> {
  await once(collector, "spawn");
  const guard = fileURLToPath(new URL("guard.ts", import.meta.url));
  const script = `import("${guard}").then(({ guardCollector }) => {
    guardCollector(${collector.pid}, "config-of-this-test.yaml", { warn: console.error });
    console.log("guarded");
  });`;
  const agent = spawn(process.execPath, ["-e", script], { stdio: ["ignore", "pipe", "inherit"] });
  await once(agent.stdout, "data");
  const ended = once(collector, "exit");
  agent.kill("SIGKILL");
  return (await ended)[1];
}

test("an agent that is killed takes its collector with it", async () => {
  expect(await killAgentOf(sleeper("config-of-this-test.yaml"))).toBe("SIGKILL");
});

test("and no process that runs with another configuration", async () => {
  const other = sleeper("another.yaml");
  setTimeout(() => other.kill("SIGTERM"), 3000);
  expect(await killAgentOf(other)).toBe("SIGTERM");
});

test("a guard that is disposed ends, and kills nothing", async () => {
  const collector = sleeper("config-of-this-test.yaml");
  await once(collector, "spawn");
  guardCollector(collector.pid ?? 0, "config-of-this-test.yaml", pino({ level: "silent" }))[Symbol.dispose]();
  collector.kill("SIGTERM");
  expect((await once(collector, "exit"))[1]).toBe("SIGTERM");
});
