// The command-line client as users run it, with the real routes over HTTP: sessions, passwords, and all administration.
import { generateKeyPairSync } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { afterAll, beforeAll, expect, test } from "vitest";
import { accountsApp, OPERATOR, registerCluster, registerHost, type AccountsApp } from "../../test/fixtures/accounts-app.ts";
import { freePorts } from "../../test/fixtures/processes.ts";
import { relationalEngines, type OpenedEngine } from "../../test/fixtures/postgres.ts";
import { run } from "./program.ts";
import { type Ran, runClient, type RunOptions } from "./run-client.fixture.ts";
import type { Row } from "./text-table.ts";
import { stub } from "../../test/fixtures/stub.ts";

const folder = mkdtempSync(join(tmpdir(), "atherops-client-"));
const sessionFile = join(folder, "config", "atherops", "session.json");
/** A URL for which there is no session. */
const ELSEWHERE = "http://127.0.0.1:9";
let opened: OpenedEngine | undefined;
let backend: AccountsApp;
let url: string;

beforeAll(async () => {
  opened = await (relationalEngines.findLast((engine) => engine.available) ?? relationalEngines[0])?.open();
  if (!opened) throw new Error("no engine");
  backend = await accountsApp(opened.database, { clock: { ms: Date.now() } });
  url = await backend.app.listen({ host: "127.0.0.1", port: 0 });
});
afterAll(async () => {
  await backend?.[Symbol.asyncDispose]();
  await opened?.end();
  rmSync(folder, { recursive: true, force: true });
});

async function atherops(args: string, options: Partial<RunOptions> = {}): Promise<Ran> {
  return await runClient(args, { url, sessionFile, ...options });
}

async function loggedIn(): Promise<void> {
  const done = await atherops(`login --email ${OPERATOR.email}`, { input: `${OPERATOR.password}\n` });
  expect(done).toEqual({ code: 0, out: "", err: `logged in to ${url} as ${OPERATOR.email}\n` });
}

test("login reads the password from a pipe or a file, and stores the session readable by its owner only", async () => {
  await loggedIn();
  expect((statSync(sessionFile).mode & 0o777).toString(8)).toBe("600");
  expect(readFileSync(sessionFile, "utf8")).not.toContain(OPERATOR.password);
  const passwordFile = join(folder, "password");
  writeFileSync(passwordFile, OPERATOR.password, { mode: 0o600 });
  expect((await atherops("login", { passwordFile })).code).toBe(0);
  const wrong = await atherops("login", { input: "wrong" });
  expect([wrong.code, wrong.err]).toEqual([1, "atherops: unknown e-mail or wrong password [401 invalid_credentials]\n"]);
  expect((await atherops("login", { input: "" })).err).toContain("the password is empty");
  expect((await atherops("logout")).code).toBe(0);
  expect((await atherops("clusters")).err).toContain("not logged in: run `atherops login");
});

test("reports that no session can be stored before it sends a password", async () => {
  const file = join(folder, "a-file");
  writeFileSync(file, "");
  mkdirSync(join(folder, "a-folder"), { recursive: true });
  for (const [place, code] of [
    ["/proc/atherops/config/session.json", "ENOENT"],
    [join(file, "session.json"), "EEXIST"],
  ] as const) {
    const refused = await atherops("login", { input: "wrong", sessionFile: place });
    expect([refused.code, refused.err]).toEqual([
      1,
      `atherops: the session cannot be stored in ${place}: ${code}; set XDG_CONFIG_HOME to a writable folder\n`,
    ]);
    expect((await atherops("logout", { sessionFile: place })).code).toBe(0);
    expect((await atherops("keys", { sessionFile: place })).err).toContain("not logged in");
  }
  expect((await atherops("keys", { sessionFile: join(folder, "a-folder") })).err).toMatch(/^atherops: the session in .* EISDIR; set XDG_/);
});

test("the help of each command lists the global options", async () => {
  expect((await atherops("logs --help")).out).toMatch(/\nGlobal Options:\n[^]*--json [^]*\nExamples:/);
});

test("treats a session file without a session as missing", async () => {
  for (const text of ["", "nonsense", '{"token":5}', '{"url":"x","email":"a@b","token":"t"}']) {
    writeFileSync(sessionFile, text);
    expect((await atherops("keys")).err, text).toContain("not logged in: run `atherops login");
  }
  await loggedIn();
});

test("reports an unreadable configuration in one sentence", async () => {
  await loggedIn();
  for (const [file, code] of [
    ["/nope.json", "ENOENT"],
    ["/", "EISDIR"],
  ] as const)
    expect(await atherops(`hosts configure x ${file}`)).toMatchObject({
      code: 1,
      err: `atherops: ${file}: cannot be read: ${code}\n`,
    });
});

/** A terminal as far as the client sees one: what happens on it, in order. */
function terminal(): { stdin: NodeJS.ReadStream & PassThrough; stderr: PassThrough; happened: string[] } {
  const happened: string[] = [];
  const stdin = Object.assign(new PassThrough(), { isTTY: true, setRawMode: (on: boolean) => happened.push(`echo ${on ? "off" : "on"}`) });
  const stderr = new PassThrough();
  stderr.on("data", (text: Buffer) => happened.push(text.toString()));
  return { stdin: stub<NodeJS.ReadStream & PassThrough>(stdin), stderr, happened };
}

test("turns the terminal's echo off before it asks for the password, and on again afterwards", async () => {
  const { stdin, stderr, happened } = terminal();
  const settings = { url, passwordFile: undefined, sessionFile };
  const ended = run(["login", "--email", OPERATOR.email], { settings, stdin, stdout: new PassThrough(), stderr });
  await expect.poll(() => happened).toContain("Password: ");
  stdin.write(`${OPERATOR.password}\r`);
  expect(await ended).toBe(0);
  expect(happened).toEqual(["echo off", "Password: ", "echo on", "\n", expect.stringContaining("logged in")]);
});

test.each([
  ["Ctrl-C", "\u0003"],
  ["Ctrl-D", "\u0004"],
])("reports %s at the password prompt in one sentence", async (_name, key) => {
  const { stdin, stderr, happened } = terminal();
  const settings = { url, passwordFile: undefined, sessionFile };
  const ended = run(["login"], { settings, stdin, stdout: new PassThrough(), stderr });
  await expect.poll(() => happened).toContain("Password: ");
  stdin.write(key);
  expect(await ended).toBe(1);
  expect(happened.at(-1)).toBe("atherops: no password entered\n");
});

test("prints the version; rejects --since with --start; the default of --limit is a number", async () => {
  expect((await atherops("--version")).out).toMatch(/^\d+\.\d+\.\d+\n$/);
  expect(await atherops("logs --since 1h --start 2026-11-21T00:00:00Z")).toMatchObject({ code: 2 });
  expect((await atherops("logs --help")).out).toContain("(default: 100)");
});

test("sends a password to another machine over https only", async () => {
  for (const address of ["http://telemetry.example.com", "http://10.0.0.1:8080", "http://127.0.0.1.example.com"])
    expect((await atherops("login", { url: address, input: "secret" })).err).toContain("would receive your credentials unencrypted");
  const ftp = await atherops("--url ftp://telemetry.example.com login", { input: "secret" });
  expect(ftp.err).toContain("is not the URL of a backend: it must start with https:// or http://");
});

test("reports an unreachable server, or one that is no backend, in one sentence", async () => {
  const [port] = await freePorts(1);
  const away = await atherops("login", { url: `http://127.0.0.1:${port}`, input: "secret" });
  expect([away.code, away.err]).toEqual([1, `atherops: http://127.0.0.1:${port} cannot be reached: ECONNREFUSED\n`]);
  expect((await atherops("login", { url: "nonsense", input: "secret" })).err).toContain("is not a URL");
  await loggedIn();
  expect((await atherops("clusters", { url: ELSEWHERE })).err).toContain(`the session belongs to ${url}`);
});

test("reports an expired session, and renews it if a password file is set", async () => {
  await loggedIn();
  writeFileSync(sessionFile, JSON.stringify({ url, email: OPERATOR.email, token: "a.b.c" }));
  expect((await atherops("keys")).err).toBe("atherops: the session has ended: run `atherops login`\n");
  expect((await atherops("keys", { passwordFile: join(folder, "password") })).code).toBe(0);
  expect((await atherops("keys")).code).toBe(0);
});

test("exits with 2 and a suggestion for wrong usage; help exits with 0 and has examples for every level", async () => {
  const typo = await atherops("cluster");
  expect([typo.code, typo.err]).toEqual([2, expect.stringContaining("Did you mean clusters?")]);
  expect((await atherops("users role a@b king")).code).toBe(2);
  for (const command of [
    "",
    "login ",
    "orgs create ",
    "tokens create ",
    "read-tokens create ",
    "issuers create ",
    "hosts configure ",
    "logs ",
    "traces ",
    "metrics ",
  ]) {
    const help = await atherops(`${command}--help`);
    expect(help.code, command).toBe(0);
    expect(help.out, command).toMatch(/Example/);
  }
});

test("creates, lists, changes and removes organisations and users", async () => {
  await loggedIn();
  const made = await atherops("orgs create shop --admin-email admin@shop.example", { input: "long enough" });
  expect([made.code, made.out]).toEqual([0, expect.stringMatching(/^[0-9a-f-]{36}\n$/)]);
  expect((await atherops("orgs")).out).toMatch(/^NAME +ORG_ID +CREATED_AT\n[^]*shop +[0-9a-f-]{36} /);
  expect((await atherops("orgs create shop --admin-email b@shop.example", { input: "long enough" })).err).toContain("[409 conflict]");
  await atherops("users add new@example.com --role admin", { input: "long enough" });
  expect((await atherops("users role new@example.com viewer")).err).toBe("new@example.com now has the role viewer\n");
  expect((await atherops("users password NEW@example.com", { input: "another one" })).code).toBe(0);
  const listed = JSON.parse((await atherops("users --json")).out) as Row[];
  expect(listed.find((user) => user["email"] === "new@example.com")).toMatchObject({ role: "viewer" });
  expect((await atherops("users remove new@example.com")).code).toBe(0);
  expect((await atherops("users remove new@example.com")).err).toContain("user new@example.com not found");
});

test("prints only the secret of tokens and keys on stdout, and lists without it", async () => {
  await loggedIn();
  for (const [create, list, form] of [
    ["tokens create --ttl 1h", "tokens --json", /^it_[\w-]{43}\n$/],
    ["keys create loader", "keys --json", /^ak_[\w-]{43}\n$/],
    ["read-tokens create grafana --ttl 1y", "read-tokens --json", /^eyJ[\w-]+\.[\w-]+\.[\w-]{43}\n$/],
  ] as const) {
    const made = await atherops(create);
    expect(made.out).toMatch(form);
    expect(made.err).toContain("not shown again");
    const listed = JSON.parse((await atherops(list)).out) as Row[];
    expect(JSON.stringify(listed)).not.toContain(made.out.trim());
    const id = listed[0]?.["id"] ?? listed[0]?.["key_id"];
    expect((await atherops(`${create.split(" ")[0]} remove ${String(id)}`)).code).toBe(0);
  }
  expect(JSON.parse((await atherops("tokens create --json")).out)).toMatchObject({ token: expect.stringMatching(/^it_/) });
  expect((await atherops("tokens create --ttl soon")).err).toContain("ttl");
});

test("prints Grafana's data source settings for a read token, and lists its creator", async () => {
  await loggedIn();
  const made = await atherops("read-tokens create grafana");
  expect(made.err).toContain(`  Prometheus server URL   ${url}/query/prometheus\n`);
  expect(made.err).toMatch(/Basic authentication\n +User +any, .*\n +Password +the token\n$/);
  expect(made.err).not.toContain(made.out.trim());
  expect((await atherops("read-tokens")).out).toMatch(new RegExp(`^NAME +EXPIRES_AT [^]*grafana +\\S+Z +${OPERATOR.email} `));
  expect((await atherops("read-tokens create grafana --ttl 2y")).err).toContain("ttl: must be a duration from 1m to 365d");
  expect((await atherops("read-tokens remove x")).err).toMatch(/\[404 not_found\]: `atherops read-tokens` lists the ids\n$/);
});

test("trusts an issuer with given keys, prints the audience for its tokens, and applies what it exports without a change", async () => {
  await loggedIn();
  const { publicKey } = generateKeyPairSync("ed25519");
  const keys = JSON.stringify({ keys: [{ ...publicKey.export({ format: "jwk" }), kid: "a" }] });
  const create = "issuers create prod --issuer https://issuer.example --jwks - --claim sub=agent --permit enrol_cluster";
  const made = await atherops(`${create} --as prod`, { input: keys });
  expect([made.code, made.out]).toEqual([0, expect.stringMatching(/^atherops:[0-9a-f-]{36}\n$/)]);
  expect((await atherops("issuers")).out).toMatch(/^NAME +ISSUER [^]*prod +https:\/\/issuer.example +atherops:\S+ +enrol_cluster +1 /);
  const file = await atherops("export issuers");
  expect((await atherops("apply -f -", { input: file.out })).err).toContain("1 unchanged");
  const changed = await atherops("apply -f -", { input: file.out.replace("sub: agent", "sub: another") });
  expect([changed.out, changed.err]).toEqual([expect.stringContaining("issuer prod changed"), expect.stringContaining("1 changed")]);
  expect((await atherops(create, { input: keys })).err).toContain("rules[0].name: a rule that enrols clusters needs");
  expect((await atherops(`${create.replace("sub=agent", "sub")} --as x`, { input: keys })).err).toContain("--claim sub: must be name=text");
  const [issuer] = JSON.parse((await atherops("issuers --json")).out) as Row[];
  expect((await atherops(`issuers remove ${String(issuer?.["id"])}`)).code).toBe(0);
});

test("shows clusters, their nodes, hosts and their configuration", async () => {
  await loggedIn();
  const bearer = await backend.login();
  const cluster = await registerCluster(backend, bearer, { cluster_name: "prod-eu" });
  const body = { node: "node-1", agent_version: "1.2.3", collector: { state: "running", restarts: 1 } };
  await backend.call("POST", "/heartbeat", { key: cluster.api_key, body });
  expect((await atherops("clusters")).out).toMatch(/^NAME +ONLINE +NODES [^]*prod-eu +true +1 /);
  expect((await atherops("clusters nodes prod-eu")).out).toMatch(/node-1 +(?:true|false) +1\.2\.3 .*running, 1 restarts/);
  const host = await registerHost(backend, bearer, { hostname: "web-7" });
  expect((await atherops("hosts")).out).toMatch(/web-7 +false +1\.0\.0 +- +\d+ s ago +- +- of 0/);
  const fleet = await atherops("fleet");
  expect(fleet.out).toMatch(/^KIND +NAME +CLUSTER +AGENT_VERSION +LAST_HEARTBEAT +PROBLEM\n/);
  expect(fleet.out).toMatch(/host +web-7 +- +1\.0\.0 +- +offline; older than 1\.2\.3\n/);
  expect(fleet.out).toMatch(/node +node-1 +prod-eu +1\.2\.3 +\d+ s ago +(?:-|offline)\n/);
  expect(fleet.err).toMatch(/^2 agents: 1 of version 1\.2\.3, 1 of version 1\.0\.0; [12] with a problem\n$/);
  expect((await atherops("fleet --problems")).out).toContain("web-7");
  const written = await atherops(`hosts configure ${host.agent_id} -`, { input: '{"signals":["logs"]}' });
  expect(written.err).toContain("version 1 written");
  expect((await atherops(`hosts configure ${host.agent_id} -`, { input: '{"exporters":{}}' })).err).toContain("exporters: unknown field");
  expect((await atherops(`hosts configure ${host.agent_id} -`, { input: "{" })).err).toContain("is not JSON");
  expect((await atherops(`hosts remove ${host.agent_id}`)).code).toBe(0);
  expect((await atherops(`clusters remove ${cluster.cluster_id}`)).code).toBe(0);
  expect((await atherops("clusters remove ../users")).err).toContain("[404 not_found]");
});
