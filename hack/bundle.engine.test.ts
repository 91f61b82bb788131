// The bundles that images and packages carry: whole, small, and with traces that name the sources.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bundle, bundleFile, PROGRAMS, type ProgramName, ROOT } from "./bundle.ts";
import { versionOf } from "./version.ts";

/** Alone: no package can be found from here. */
const folder = mkdtempSync(join(tmpdir(), "atherops-bundle-"));
afterAll(() => rmSync(folder, { recursive: true }));

describe.each(Object.entries(PROGRAMS))("%s", (program, [, name]) => {
  const to = join(folder, program);
  let packages: string[];
  beforeAll(async () => void (packages = await bundle(program as ProgramName, to)));

  test("is the program, its map and the licences of all that is inside, and nothing else", () => {
    expect(readdirSync(to).sort()).toEqual(["LICENSES.txt", `${name}.js`, `${name}.js.map`]);
    const licences = readFileSync(join(to, "LICENSES.txt"), "utf8");
    expect(packages).toContainEqual(expect.stringMatching(/^commander@/));
    for (const one of packages) expect(licences).toContain(`\n${one} (`);
    expect(licences).not.toContain("carries no text of its licence");
  });

  test("has no test's file in it, and of undici not the index", () => {
    const { sources } = JSON.parse(readFileSync(join(to, `${name}.js.map`), "utf8")) as { sources: string[] };
    expect(sources.filter((file) => /\.(?:test|fixture)\.[jt]s$|(?:^|\/)tests?\/|undici\/index\.js$/.test(file))).toEqual([]);
  });

  test("runs where there are no packages", async () => {
    const { stdout } = await execa(process.execPath, [join(to, `${name}.js`), "--version"], { cwd: folder });
    expect(stdout).toBe(versionOf(ROOT));
  });

  test("is the same bytes wherever it is written to, by the command of Dockerfile.agent too", async () => {
    const again = join(folder, "elsewhere", program);
    await execa(process.execPath, ["hack/bundle.ts", program, again], { cwd: ROOT });
    for (const file of readdirSync(to)) expect(readFileSync(join(again, file)).equals(readFileSync(join(to, file)))).toBe(true);
  });
});

test("what converts metrics has its kernel inside", async () => {
  const to = join(folder, "part");
  await bundleFile("agent/proxy/fast-exposition.ts", "part", to);
  const program = `const { fastConverter } = await import(${JSON.stringify(join(to, "part.js"))}); console.log(fastConverter()?.memoryBytes);`;
  const { stdout } = await execa(process.execPath, ["--input-type=module", "-e", program], { cwd: folder });
  expect(Number(stdout)).toBeGreaterThan(1e6);
});

test("a trace names the file, the line and the column of the source", async () => {
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

test("without its map there is a trace all the same", async () => {
  const file = join(folder, "host-agent", "atherops-otel-agent.js");
  rmSync(`${file}.map`);
  const program = `console.log = () => { throw new Error("no paper"); }; process.argv.splice(1, 0, "x"); await import(${JSON.stringify(file)});`;
  const run = await execa(process.execPath, ["--input-type=module", "-e", program, "version"], { cwd: folder, reject: false });
  expect(run.stderr).toMatch(/Error: no paper\n {4}at [^]*atherops-otel-agent\.js:\d+:\d+/);
});
