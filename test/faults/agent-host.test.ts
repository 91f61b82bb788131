// The host agent with a real backend: enrolment while the backend is unavailable, remote configuration from the administrator's PUT to the
// collected data, and a search for secrets in everything that the agent prints or serves.
import { execFileSync } from "node:child_process";
import { appendFileSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { type AgentPlace, hostAgentPlace, startHostAgent } from "../fixtures/host-agent-process.ts";
import { baseEnvironment, call, eventually, ROOT, TestProcess } from "../fixtures/processes.ts";

const backend = backendOfFile();
let place: AgentPlace;
let agent: TestProcess;
let token: string;
let installToken: string;
let agentId: string;

beforeAll(async () => {
  token = await backend.operator();
  installToken = await backend.installToken(token, { ttl: "1h" });
  place = await hostAgentPlace(backend.folder, backend.apiUrl, {
    INSTALL_TOKEN: installToken,
    REMOTE_CONFIG_INTERVAL: "1s",
    HEARTBEAT_INTERVAL: "1s",
    SIGNALS: "logs",
  });
});
afterAll(async () => {
  await agent?.end();
});

async function status(): Promise<Awaited<ReturnType<typeof call>>["json"]> {
  return (await call("GET", `${place.healthUrl}/status`)).json;
}

async function put(config: object): Promise<number> {
  return (await call("PUT", `${backend.apiUrl}/api/v1/agents/${agentId}/config`, { bearer: token, body: config })).status;
}

async function logged(message: string): Promise<boolean> {
  const answer = await call("GET", `${backend.apiUrl}/query/logs?q=${encodeURIComponent(message)}`, { bearer: token });
  return answer.json.length > 0;
}

describe("a host agent", () => {
  test("that starts while the backend is unavailable retries, reports why, and enrols once it is there", async () => {
    await backend.end();
    agent = new TestProcess(["agent/bin/atherops-otel-agent.ts", "run"], place.env, place.logFile);
    await eventually("it reports why it is not ready", async () =>
      (await call("GET", `${place.healthUrl}/readyz`)).text.includes("ECONNREFUSED"),
    );
    appendFileSync(`${place.logFolder}/early.log`, "written before enrolment\n");
    expect((await call("GET", `${place.healthUrl}/healthz`)).status).toBe(200);
    await backend.start();
    await eventually("it is ready", async () => (await call("GET", `${place.healthUrl}/readyz`)).status === 200);
    await eventually("the early line is there", () => logged("written before enrolment"));
    agentId = (await status()).identity.id as string;
    const file = join(place.stateDir, "credentials.json");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(JSON.parse(readFileSync(file, "utf8"))).toMatchObject({ agent_id: agentId });
  });

  test("applies a remote configuration, reports its version, and collects what it names", async () => {
    const { version } = (await status()).remoteConfig as { version: string };
    mkdirSync(join(place.logFolder, "more"));
    appendFileSync(join(place.logFolder, "more", "a.txt"), "only the server asked for this\n");
    expect(await put({ log_paths: [`${place.logFolder}/more/*.txt`], log_level: "debug", intervals: { heartbeat: "2s" } })).toBeLessThan(
      300,
    );
    await eventually("the line arrives", () => logged("only the server asked for this"));
    await eventually("it is in force", async () => (await status()).remoteConfig.version !== version);
    await eventually("the version is reported", async () => {
      const hosts = (await call("GET", `${backend.apiUrl}/api/v1/agents`, { bearer: token })).json as { agent_id: string }[];
      return JSON.stringify(hosts.find(({ agent_id }) => agent_id === agentId)).includes((await status()).remoteConfig.version as string);
    });
  });

  test("rejects one with paths that this host forbids, keeps the previous one, and reports why", async () => {
    symlinkSync("/etc/shadow", join(place.logFolder, "innocent.log"));
    const before = await status();
    for (const path of ["/etc/shadow", join(place.logFolder, "innocent.log"), join(place.stateDir, "credentials.json")]) {
      await put({ log_paths: [path] });
      await eventually(`${path} is refused`, async () => ((await status()).remoteConfig.error as string | undefined)?.includes(path));
    }
    const after = await status();
    expect(after.remoteConfig.version).toBe(before.remoteConfig.version);
    expect(after.collector.pid).toBe(before.collector.pid);
    await eventually("the refusal is reported", async () => {
      const hosts = await call("GET", `${backend.apiUrl}/api/v1/agents`, { bearer: token });
      return hosts.text.includes("LOG_PATHS_ALLOWED");
    });
  });

  test("keeps its remote configuration over a restart while the backend is unavailable", async () => {
    const { version } = (await status()).remoteConfig as { version: string };
    await backend.end();
    await agent.end();
    agent = await startHostAgent(place);
    expect((await status()).remoteConfig.version).toBe(version);
    appendFileSync(join(place.logFolder, "more", "a.txt"), "only the server asked for this file too\n");
    await backend.start();
    await eventually("the line arrives", () => logged("only the server asked for this file too"));
  });

  test("contains no secret in its log, status, metrics, bundle, command lines or state", async () => {
    const { api_key: key } = JSON.parse(readFileSync(join(place.stateDir, "credentials.json"), "utf8")) as { api_key: string };
    const bundle = join(backend.folder, "bundle.json.gz");
    const args = ["agent/bin/atherops-otel-agent.ts", "diagnose", "--bundle", bundle];
    const env = { ...baseEnvironment(), ...place.env };
    const report = execFileSync(process.execPath, args, { cwd: ROOT, env, encoding: "utf8" });
    expect(report).toContain("nothing is wrong");
    const { pid } = (await status()).collector as { pid: number };
    const shown = [
      readFileSync(place.logFile, "utf8"),
      (await call("GET", `${place.healthUrl}/status`)).text,
      (await call("GET", `${place.healthUrl}/metrics`)).text,
      report,
      gunzipSync(readFileSync(bundle)).toString("utf8"),
      readFileSync(`/proc/${agent.child.pid}/cmdline`, "utf8"),
      readFileSync(`/proc/${pid}/cmdline`, "utf8"),
      readFileSync(`/proc/${pid}/environ`, "utf8"),
      ...readdirSync(join(place.stateDir, "collector")).map((name) => readFileSync(join(place.stateDir, "collector", name), "utf8")),
    ];
    for (const text of shown) {
      expect(text).not.toBe("");
      expect(text).not.toContain(key);
      expect(text).not.toContain(installToken);
    }
  });

  test("whose key is revoked reports what to do, is not ready, and enrols again with a new token", async () => {
    await call("DELETE", `${backend.apiUrl}/api/v1/agents/${agentId}`, { bearer: token });
    await eventually("it says so", async () => (await call("GET", `${place.healthUrl}/readyz`)).text.includes("atherops tokens create"));
    expect(agent.ended).toBe(false);
    await agent.end();
    const fresh = (await call("POST", `${backend.apiUrl}/api/install-tokens`, { bearer: token, body: { ttl: "1h" } })).json.token as string;
    writeFileSync(join(backend.folder, "token"), fresh);
    agent = await startHostAgent({
      ...place,
      env: { ...place.env, INSTALL_TOKEN: undefined, INSTALL_TOKEN_FILE: join(backend.folder, "token") },
    });
    await eventually(
      "it is enrolled again",
      async () => (await status()).identity.problem === undefined && (await status()).heartbeat.lastError === null,
    );
  });
});
