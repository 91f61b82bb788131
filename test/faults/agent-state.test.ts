// The state on a node belongs to one identity: data that one organisation has not delivered is never sent for another, and waits for its
// own agent; a second agent of the same identity does not touch the first one's files. Host agents, real collector, real backend.
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { type AgentPlace, hostAgentPlace, startHostAgent } from "../fixtures/host-agent-process.ts";
import { call, eventually, TestProcess } from "../fixtures/processes.ts";

const backend = backendOfFile();
const stateDir = join(backend.folder, "shared-state");
const running: TestProcess[] = [];

afterEach(async () => {
  for (const agent of running.splice(0)) await agent.end();
});

interface Org {
  token: string;
  installToken: string;
}

async function org(name: string): Promise<Org> {
  const { token } = await backend.tenant(name);
  return { token, installToken: await backend.installToken(token) };
}

/** An agent with its own credentials and ports, on the state directory that all agents of this test share. */
async function agentPlace(name: string, env: NodeJS.ProcessEnv): Promise<AgentPlace> {
  const own = join(backend.folder, name);
  mkdirSync(own, { recursive: true });
  const made = await hostAgentPlace(own, backend.apiUrl, { CREDENTIALS_FILE: join(own, "credentials.json"), SIGNALS: "logs", ...env });
  return { ...made, stateDir, env: { ...made.env, STATE_DIR: stateDir } };
}

async function start(of: AgentPlace): Promise<TestProcess> {
  const agent = await startHostAgent(of);
  running.push(agent);
  return agent;
}

/** Resolves once the agent's collector has it in its disk queue. */
async function log(of: AgentPlace, text: string): Promise<void> {
  const record = { body: { stringValue: text } };
  const body = { resourceLogs: [{ scopeLogs: [{ logRecords: [record] }] }] };
  await eventually(`${text} is taken`, async () => (await call("POST", `${of.otlpHttp}/v1/logs`, { body })).status === 200);
}

async function stored(bearer: string, text: string): Promise<boolean> {
  return (await call("GET", `${backend.apiUrl}/query/logs?q=${encodeURIComponent(text)}`, { bearer })).json.length > 0;
}

async function status(of: AgentPlace): Promise<Awaited<ReturnType<typeof call>>["json"]> {
  return (await call("GET", `${of.healthUrl}/status`)).json;
}

test("undelivered data of one organisation is not sent for the next, is reported, and is delivered by its own agent", async () => {
  const [a, b] = [await org("a"), await org("b")];
  const placeOfA = await agentPlace("a", { INSTALL_TOKEN: a.installToken });
  const placeOfB = await agentPlace("b", { INSTALL_TOKEN: b.installToken });
  const first = await start(placeOfA);
  await backend.end();
  await log(placeOfA, "a secret of organisation A");
  await first.end();
  await backend.start();

  const second = await start(placeOfB);
  await log(placeOfB, "a line of organisation B");
  await eventually("B's own line is there", () => stored(b.token, "a line of organisation B"));
  expect(await stored(b.token, "a secret of organisation A")).toBe(false);
  const { state, identity } = await status(placeOfB);
  expect(state).toMatchObject({ folder: join(stateDir, "identities", identity.id as string), owner: identity.id });
  expect(state.others).toEqual([
    { folder: stateDir, id: expect.any(String), installation: expect.stringContaining("host:"), bytes: expect.any(Number) },
  ]);
  expect(readFileSync(placeOfB.logFile, "utf8")).toContain("neither sent nor removed");
  await second.end();

  await start(placeOfA);
  await eventually("A's line arrives", () => stored(a.token, "a secret of organisation A"));
  expect(await stored(b.token, "a secret of organisation A")).toBe(false);
});

test("a second agent of the same identity waits, names the first, and does not change its state", async () => {
  const c = await org("c");
  const placeOfC = await agentPlace("c", { INSTALL_TOKEN: c.installToken });
  const first = await start(placeOfC);
  const own = (await status(placeOfC)).state.folder as string;
  const files = () => readdirSync(join(own, "collector")).map((name) => readFileSync(join(own, "collector", name), "utf8"));
  const before = files();
  const { HEALTH_LISTEN, OTLP_GRPC_LISTEN, OTLP_HTTP_LISTEN, PROXY_LISTEN } = (await agentPlace("c", {})).env;
  const env = { ...placeOfC.env, HEALTH_LISTEN, OTLP_GRPC_LISTEN, OTLP_HTTP_LISTEN, PROXY_LISTEN };
  const second = new TestProcess(["agent/bin/atherops-otel-agent.ts", "run"], env, join(backend.folder, "second.out"));
  running.push(second);
  const readyz = () => call("GET", `http://${HEALTH_LISTEN}/readyz`);
  await eventually("it says who has it", async () =>
    (await readyz()).text.includes(`another agent uses ${own} (process ${first.child.pid}`),
  );
  expect((await readyz()).status).toBe(503);
  expect(files()).toEqual(before);
  expect(existsSync(join(own, "collector", "candidate.yaml"))).toBe(false);
  await first.end("SIGKILL");
  await eventually("it takes over", async () => (await readyz()).status === 200);
});
