// The backend as its image runs it: bundled, with real engines.
import { isAscii } from "node:buffer";
import { execFile } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { adminPassword, backendPlace, login, makeTenant } from "../test/fixtures/backend-process.ts";
import { call, eventually, signedPost, temporaryFolder, TestProcess } from "../test/fixtures/processes.ts";
import { bundleBackend, EXTERNAL } from "./bundle-backend.ts";
import { ROOT } from "./bundle.ts";

const folder = temporaryFolder();
afterAll(() => folder[Symbol.dispose]());
const to = join(folder.path, "app");
const program = join(to, "atherops-backend.js");
let packages: string[];

beforeAll(async () => {
  packages = await bundleBackend(to);
  // Nothing else can be found from here.
  for (const name of EXTERNAL) {
    const link = join(folder.path, "node_modules", name);
    mkdirSync(join(link, ".."), { recursive: true });
    symlinkSync(join(ROOT, "node_modules", name), link);
  }
});

test("contains JavaScript with its maps, migrations and licences, and nothing of a test", () => {
  const files = readdirSync(to);
  expect(files).toEqual(
    expect.arrayContaining([
      "atherops-backend.js",
      "LICENSES.txt",
      "clickhouse-migrations",
      "exposition-kernel.wasm",
      "otlp-kernel.wasm",
      "relational-migrations",
      "remote-write-kernel.wasm",
    ]),
  );
  const programs = files.filter((file) => file.endsWith(".js"));
  for (const name of programs) expect(files).toContain(`${name}.map`);
  // One character of another alphabet, in a regular expression say, and V8 keeps a text of megabytes in two bytes a character.
  expect(programs.filter((name) => !isAscii(readFileSync(join(to, name))))).toEqual([]);
  expect(files.filter((file) => file.endsWith(".ts"))).toEqual([]);
  expect(readdirSync(join(to, "relational-migrations"))).toEqual(readdirSync(join(ROOT, "backend/engines/relational/migrations")));
  const licences = readFileSync(join(to, "LICENSES.txt"), "utf8");
  expect(packages).toContainEqual(expect.stringMatching(/^fastify@/));
  for (const one of packages) expect(licences).toContain(`\n${one} (`);
  for (const name of EXTERNAL) expect(packages).not.toContainEqual(expect.stringMatching(`^${name}@`));
});

test("is byte-identical in every output folder", async () => {
  const again = join(folder.path, "elsewhere");
  await bundleBackend(again);
  const files = readdirSync(to, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  expect(files.length).toBeGreaterThan(20);
  for (const { parentPath, name } of files) {
    const [here, there] = [join(parentPath, name), join(parentPath.replace(to, again), name)];
    expect(readFileSync(there).equals(readFileSync(here)), name).toBe(true);
  }
});

test("starts with its engines, decodes on its threads, and stops in order", async () => {
  const place = await backendPlace(folder.path);
  await using backend = new TestProcess([program, "serve"], place.env, place.logFile);
  await backend.ready(`${place.healthUrl}/readyz`);
  const operator = await login(place.apiUrl, "admin@localhost", adminPassword(place));
  const tenant = await makeTenant(place.apiUrl, operator, "bundled");
  const time = `${Date.now()}000000`;
  const logRecords = Array.from({ length: 1000 }, (_, line) => ({
    timeUnixNano: time,
    body: { stringValue: `line ${line} ${"x".repeat(100)}` },
  }));
  const body = JSON.stringify({ resourceLogs: [{ scopeLogs: [{ logRecords }] }] });
  expect((await signedPost(place.apiUrl, "/ingest/logs/otlp", tenant.apiKey, Buffer.from(body))).status).toBe(204);
  expect((await signedPost(place.apiUrl, "/ingest", tenant.apiKey, "bundled_up 1\n")).status).toBe(204);
  const found = await call("GET", `${place.apiUrl}/query/logs?q=line%20999%20`, { bearer: tenant.token });
  expect(found.json).toMatchObject([{ message: expect.stringMatching(/^line 999 /) as string }]);
  const inSandbox = await call("GET", `${place.apiUrl}/query/loki/loki/api/v1/query?query=vector(7)`, { bearer: tenant.token });
  expect(inSandbox.json?.data?.result).toMatchObject([{ value: [expect.any(Number), "7"] }]);
  await eventually("the sample is read back", async () => {
    const answer = await call("GET", `${place.apiUrl}/query/prometheus/api/v1/query?query=bundled_up`, { bearer: tenant.token });
    return answer.json?.data?.result?.length === 1;
  });
  expect(readFileSync(place.logFile, "utf8")).not.toContain("kernel");
  expect(await backend.end()).toBe(0);
});

test("a stack trace names the sources, also of code in a chunk", async () => {
  const thrown = 'process.on = () => { throw new Error("no signals"); };';
  const run = promisify(execFile)(
    process.execPath,
    ["--input-type=module", "-e", `${thrown} await import(${JSON.stringify(program)});`, "serve"],
    {
      env: { DATA_DIR: join(folder.path, "unused") },
    },
  );
  const { stderr } = await run.catch((error: { stderr: string }) => error);
  const [, line = ""] = /Error: no signals\n[^]*at serve \(.*backend\/serve\.ts:(\d+):\d+\)/.exec(stderr) ?? [];
  expect(readFileSync(join(ROOT, "backend/serve.ts"), "utf8").split("\n")[Number(line) - 1], stderr).toContain(
    "createLog(settings.logLevel)",
  );
  expect(stderr).toMatch(/at .*backend\/main\.ts:\d+:\d+/);
  expect(stderr).not.toContain(`${to}/atherops-backend.js:`);
});
