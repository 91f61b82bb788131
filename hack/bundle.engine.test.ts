// The bundles of images and packages are complete and small, and their stack traces name the sources.
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { execa } from "execa";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { KubernetesApi } from "../agent/kubernetes/api.ts";
import { bundle, bundleFile, PROGRAMS, type ProgramName, ROOT } from "./bundle.ts";
import { versionOf } from "./version.ts";

/** Alone: no package can be found from here. */
const folder = mkdtempSync(join(tmpdir(), "atherops-bundle-"));
afterAll(() => rmSync(folder, { recursive: true }));

describe.each(Object.entries(PROGRAMS))("%s", (program, [, name]) => {
  const to = join(folder, program);
  let packages: string[];
  beforeAll(async () => void (packages = await bundle(program as ProgramName, to)));

  test("contains the program, its map and the licences of its packages, and nothing else", () => {
    expect(readdirSync(to).sort()).toEqual(["LICENSES.txt", `${name}.js`, `${name}.js.map`]);
    const licences = readFileSync(join(to, "LICENSES.txt"), "utf8");
    expect(packages).toContainEqual(expect.stringMatching(/^commander@/));
    for (const one of packages) expect(licences).toContain(`\n${one} (`);
    expect(licences).not.toContain("contains no licence text");
  });

  test("contains no test file, and not the index of undici", () => {
    const { sources } = JSON.parse(readFileSync(join(to, `${name}.js.map`), "utf8")) as { sources: string[] };
    expect(sources.filter((file) => /\.(?:test|fixture)\.[jt]s$|(?:^|\/)tests?\/|undici\/index\.js$/.test(file))).toEqual([]);
  });

  test("runs without installed packages", async () => {
    const { stdout } = await execa(process.execPath, [join(to, `${name}.js`), "--version"], { cwd: folder });
    expect(stdout).toBe(versionOf(ROOT));
  });

  test("is byte-identical in every output folder, also by the command of Dockerfile.agent", async () => {
    const again = join(folder, "elsewhere", program);
    await execa(process.execPath, ["hack/bundle.ts", program, again], { cwd: ROOT });
    for (const file of readdirSync(to)) expect(readFileSync(join(again, file)).equals(readFileSync(join(to, file)))).toBe(true);
  });
});

describe("the Kubernetes client", () => {
  const WHERE = { namespace: "n", name: "s" };
  const NEVER = new AbortController().signal;
  const metadata = { name: "s", resourceVersion: "7", creationTimestamp: "2026-01-01T00:00:00Z" };
  const template = { metadata, spec: { containers: [{ name: "c", ports: [{ containerPort: 80 }] }] } };
  const object = {
    metadata,
    spec: { holderIdentity: "a", renewTime: "2026-01-01T00:00:00.123456Z" },
    data: { a: "Yg==" },
    status: { allowed: true },
    items: [{ metadata, spec: { ...template.spec, template }, status: { startTime: "2026-01-01T00:00:00Z" } }],
  };

  /** Requests and results of every call that the agent makes. */
  async function conversation(Api: typeof KubernetesApi): Promise<unknown[]> {
    const said: unknown[] = [];
    const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
      said.push([request.method, request.url, request.headers["content-type"], await text(request)]);
      response.end(JSON.stringify(request.url?.includes("watch=true") ? { type: "ADDED", object } : object) + "\n");
    };
    const server = createServer((request, response) => void answer(request, response)).listen(0, "127.0.0.1");
    await once(server, "listening");
    const file = join(folder, "empty");
    writeFileSync(file, "");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    await using api = new Api({ server: url, caFile: file, tokenFile: file });
    said.push(await api.replaceSecret(WHERE, await api.readSecret(WHERE, NEVER), NEVER));
    said.push(await api.patchSecret(WHERE, { metadata: { annotations: { a: "b" } } }, NEVER));
    said.push(await api.watchSecret(WHERE, { forSeconds: 1, silenceMs: 10_000 }, NEVER).next());
    said.push(await api.replaceLease(WHERE, await api.readLease(WHERE, NEVER), NEVER));
    said.push(await api.readNamespace("n", NEVER), await api.isAllowed({ verb: "get" }, NEVER));
    said.push(await api.podsOfNode("n", 1, NEVER), await api.daemonSetsNamed("d", NEVER));
    server.close();
    return said;
  }

  test("sends and parses the same in each call, without the parts that the agent does not use", async () => {
    const to = join(folder, "client");
    await bundleFile("agent/kubernetes/api.ts", "client", to);
    const bundled = (await import(join(to, "client.js"))) as { KubernetesApi: typeof KubernetesApi };
    const said = await conversation(bundled.KubernetesApi);
    expect(said).toEqual(await conversation(KubernetesApi));
    expect(JSON.stringify(said)).toContain("2026-01-01T00:00:00.123456Z");
    // undici's pools are 0.6 MB of it; the client whole would be 2 more.
    expect(statSync(join(to, "client.js")).size).toBeLessThan(1e6);
  });
});

test("a stack trace names the file, the line and the column of the source", async () => {
  const file = join(folder, "host-agent", "atherops-otel-agent.js");
  // The first statement that the command `version` runs is a call of console.log.
  const program = `console.log = () => { throw new Error("no paper"); }; process.argv.splice(1, 0, "x"); await import(${JSON.stringify(file)});`;
  const run = await execa(process.execPath, ["--input-type=module", "-e", program, "version"], { cwd: folder, reject: false });
  const [, line = "", column = ""] = /at .*host-agent\/agent\/main\.ts:(\d+):(\d+)/.exec(run.stderr) ?? [];
  const source = readFileSync(join(ROOT, "agent/main.ts"), "utf8").split("\n")[Number(line) - 1] ?? "";
  expect(source.slice(Number(column) - 1), run.stderr).toMatch(/^log\(`\$\{name\}/);
  expect(run.stderr).toContain("host-agent/node_modules/commander/lib/command.js:");
  expect(run.stderr).not.toContain("atherops-otel-agent.js:");
});

test("prints a stack trace without its map too", async () => {
  const file = join(folder, "host-agent", "atherops-otel-agent.js");
  rmSync(`${file}.map`);
  const program = `console.log = () => { throw new Error("no paper"); }; process.argv.splice(1, 0, "x"); await import(${JSON.stringify(file)});`;
  const run = await execa(process.execPath, ["--input-type=module", "-e", program, "version"], { cwd: folder, reject: false });
  expect(run.stderr).toMatch(/Error: no paper\n {4}at [^]*atherops-otel-agent\.js:\d+:\d+/);
});
