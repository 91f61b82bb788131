// `npm start` as a newcomer uses it: what it prints is pasted into a shell as it stands, Ctrl-C stops everything, a second start goes
// on with the same data and key, a busy port is one sentence.
import { createServer } from "node:net";
import { once } from "node:events";
import { join } from "node:path";
import { execa } from "execa";
import { expect, test } from "vitest";
import { eventually, freePorts, temporaryFolder, TestProcess } from "../fixtures/processes.ts";

const LISTENERS = [
  "API_LISTEN",
  "ALERTING_LISTEN",
  "HEALTH_LISTEN",
  "EVALUATOR_LISTEN",
  "PROXY_LISTEN",
  "AGENT_HEALTH_LISTEN",
  "OTLP_GRPC_LISTEN",
  "OTLP_HTTP_LISTEN",
];

async function ownPorts(): Promise<Record<string, string>> {
  const ports = await freePorts(LISTENERS.length);
  return Object.fromEntries(LISTENERS.map((name, index) => [name, `127.0.0.1:${ports[index]}`]));
}

function start(folder: string, env: NodeJS.ProcessEnv, log: string): TestProcess {
  return new TestProcess(["hack/start.ts", "--data", join(folder, "data")], env, join(folder, log));
}

async function printedLines(started: TestProcess): Promise<string> {
  await eventually("the lines to copy", async () => started.ended || started.log.includes("Ctrl-C stops everything"), 150_000);
  expect(started.ended, started.log).toBe(false);
  return /Copy and paste.*?:\n([\s\S]*)\nCtrl-C/.exec(started.log)?.[1] ?? "";
}

test("what npm start prints works as it stands, Ctrl-C stops in order, and a second start continues", async () => {
  using folder = temporaryFolder();
  const env = await ownPorts();
  await using first = start(folder.path, env, "first.out");
  const lines = await printedLines(first);
  const blocks = lines.split(/\n\n/);
  const token = blocks.find((block) => block.includes("TOKEN=")) ?? "";
  const paste = async (what: string): Promise<string> => {
    const block = blocks.find((candidate) => candidate.includes(what)) ?? "exit 1";
    return (await execa("bash", ["-c", `${token}\n${block}`])).stdout;
  };
  expect(await eventually("memory", async () => (await paste("# memory")).includes('"__name__":"system_memory_usage_bytes"'))).toBe(true);
  expect(await eventually("the log line", async () => (await paste("# a line of log")).includes('"message":"hello from '))).toBe(true);
  expect(await eventually("the span", async () => (await paste("# a span")).includes('"Operation":"first light"'))).toBe(true);
  const password = (await execa("cat", [join(folder.path, "data/backend/secrets/admin-password")])).stdout;
  expect(first.log).not.toContain(password);

  expect(await first.end("SIGINT")).toBe(0);
  expect(first.log).toMatch(/the agent has stopped\nthe backend has stopped/);

  await using second = start(folder.path, env, "second.out");
  await printedLines(second);
  expect(
    await eventually("the line of the first run", async () => (await paste("# a line of log")).includes('"message":"hello from ')),
  ).toBe(true);
  expect(await second.end("SIGINT")).toBe(0);
});

test("a busy port is one clear sentence", async () => {
  using folder = temporaryFolder();
  const env = await ownPorts();
  const holder = createServer().listen(Number(env["OTLP_HTTP_LISTEN"]?.split(":")[1]), "127.0.0.1");
  await once(holder, "listening");
  await using started = start(folder.path, env, "busy.out");
  await eventually("its end", async () => started.ended);
  holder.close();
  expect(started.child.exitCode).toBe(1);
  expect(started.log.trim().split("\n").at(-1)).toBe(
    `npm start: port ${env["OTLP_HTTP_LISTEN"]} (OTLP over HTTP) is in use: stop what listens there, or set OTLP_HTTP_LISTEN=127.0.0.1:<another port>`,
  );
});
