// Recovery of a host that enrolled after the backup: the restored backend does not know its key, its data stays in its queue meanwhile, and
// after one new install token everything in the queue is delivered. (Hosts and clusters whose key was rotated after the backup are refused
// in the same way.)
import { appendFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { type BackendPlace, startBackend } from "../fixtures/backend-process.ts";
import { type AgentPlace, hostAgentPlace, startHostAgent } from "../fixtures/host-agent-process.ts";
import { call, eventually, TestProcess } from "../fixtures/processes.ts";

const backend = backendOfFile({ JWT_TTL: "2h" });
let token: string;
let earlier: string;
let place: AgentPlace;
let agent: TestProcess;
let restored: TestProcess;

beforeAll(async () => {
  token = await backend.operator();
  earlier = await backend.installToken(token);
  place = await hostAgentPlace(backend.folder, backend.apiUrl, { SIGNALS: "logs", HEARTBEAT_INTERVAL: "1s" });
});
afterAll(async () => {
  await agent?.end();
  await restored?.end();
});

async function run(args: string[], env: NodeJS.ProcessEnv): Promise<string> {
  await using process = new TestProcess(["backend/main.ts", ...args], env, join(backend.folder, `${args[0]}.out`));
  await process.exited;
  expect([process.child.exitCode, process.log]).toEqual([0, expect.any(String)]);
  return process.log;
}

async function lines(): Promise<string[]> {
  const answer = await call("GET", `${backend.apiUrl}/query/logs?q=numbered`, { bearer: token });
  return (answer.json as { message: string }[]).map(({ message }) => message).sort();
}

async function identity(): Promise<{ id: string; problem?: { code: string; message: string } }> {
  return (await call("GET", `${place.healthUrl}/status`)).json.identity;
}

test("a host that enrolled after the backup reports what it needs, keeps its lines, and recovers with one new install token", async () => {
  const folder = join(backend.folder, "taken");
  await run(["backup", folder], backend.place.env);
  agent = await startHostAgent({ ...place, env: { ...place.env, INSTALL_TOKEN: earlier } });
  appendFileSync(join(place.logFolder, "a.log"), "numbered 1, before the loss\n");
  await eventually("its line is there", async () => (await lines()).length === 1);

  // Another machine takes the address, with the backup.
  await backend.end();
  const second: BackendPlace = { ...backend.place, dataDir: join(backend.folder, "second") };
  second.env = { ...second.env, DATA_DIR: second.dataDir };
  expect(await run(["restore", folder], second.env)).toContain("0 hosts");
  restored = await startBackend(second);
  await eventually("the agent says what it needs", async () => (await identity()).problem?.code === "key_refused");
  expect((await identity()).problem?.message).toContain("atherops tokens create");
  appendFileSync(join(place.logFolder, "a.log"), "numbered 2, while it was refused\n");

  await agent.end();
  const { agent_id: before } = JSON.parse(readFileSync(join(place.stateDir, "credentials.json"), "utf8")) as { agent_id: string };
  agent = await startHostAgent({ ...place, env: { ...place.env, INSTALL_TOKEN: await backend.installToken(token) } });
  await eventually("what it kept arrives", async () => (await lines()).some((line) => line.includes("numbered 2")));
  expect((await identity()).problem).toBeUndefined();
  expect((await identity()).id).not.toBe(before);
  expect(await lines()).toEqual(["numbered 2, while it was refused"]);
});
