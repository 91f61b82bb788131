// bootstrap.mjs as a process, in its own repository with one local package, so that `npm ci` is real and needs no registry.
import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "atherops-bootstrap-"));
  mkdirSync(join(folder, "hack"));
  mkdirSync(join(folder, "part"));
  for (const file of ["api-types.mjs", "bootstrap.mjs", "console.mjs", "kernel.mjs", "licences.mjs", "lock.mjs"])
    copyFileSync(join(import.meta.dirname, file), join(folder, "hack", file));
  const root = { name: "root", version: "1.0.0", workspaces: ["part"] };
  const part = { name: "part", version: "1.0.0" };
  write("package.json", root);
  write("part/package.json", part);
  write("package-lock.json", {
    ...root,
    lockfileVersion: 3,
    packages: { "": root, "node_modules/part": { resolved: "part", link: true }, part: { version: "1.0.0" } },
  });
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe("bootstrap", () => {
  it("installs the packages of the lock file once, and again after a change of it", async () => {
    script("console.log('ran', process.argv.slice(2).join(' '))");
    expect(await run("a", "b")).toMatchObject({
      code: 0,
      stdout: "ran a b\n",
      stderr: expect.stringMatching(/installed in/),
    });
    expect(await run()).toMatchObject({ code: 0, stderr: "" });
    const lock = readFileSync(join(folder, "package-lock.json"), "utf8");
    writeFileSync(join(folder, "package-lock.json"), `${lock} `);
    expect(await run()).toMatchObject({ code: 0, stderr: expect.stringMatching(/installed in/) });
  });

  it("installs once for two concurrent runs", async () => {
    script("console.log('ran')");
    const both = await Promise.all([run(), run()]);
    expect(both.map((one) => one.code)).toEqual([0, 0]);
    expect(both.filter((one) => one.stderr.includes("installed in"))).toHaveLength(1);
  });

  it("starts nothing and reports a failed installation", async () => {
    script("console.log('ran')");
    writeFileSync(join(folder, "package-lock.json"), "{");
    const { code, stdout, stderr } = await run();
    expect(code).toBe(1);
    expect(stdout).not.toContain("ran");
    expect(stderr).toMatch(/npm ci failed with .*the next run retries/);
  });

  it("exits with the script's exit status", async () => {
    script("process.exitCode = 7");
    expect(await run()).toMatchObject({ code: 7 });
  });

  it("runs the script with Node 24 or newer, and its children find that Node first", async () => {
    script(
      "const found = (await import('node:child_process')).execFileSync('node', ['--version'], { encoding: 'utf8' }); console.log(process.version === found.trim(), found)",
    );
    expect((await run()).stdout).toMatch(/true v(2[4-9]|[3-9]\d)\./);
  });

  it("forwards a signal and waits for the script's end", async () => {
    script("process.on('SIGTERM', () => { console.log('cleaned up'); process.exit(3); }); console.log('up'); setInterval(() => {}, 1000)");
    const child = start();
    const ended = result(child);
    child.stdout.on("data", (chunk: Buffer) => chunk.toString().includes("up\n") && child.kill("SIGTERM"));
    expect(await ended).toMatchObject({ code: 3, stdout: expect.stringMatching(/cleaned up\n$/) });
  });
});

function write(file: string, content: object): void {
  writeFileSync(join(folder, file), JSON.stringify(content));
}

function script(source: string): void {
  writeFileSync(join(folder, "script.mjs"), source);
}

function start(...args: string[]): ChildProcessWithoutNullStreams {
  return spawn(process.execPath, ["hack/bootstrap.mjs", "script.mjs", ...args], { cwd: folder });
}

async function result(child: ChildProcessWithoutNullStreams): Promise<{ code: number; stdout: string; stderr: string }> {
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]);
  return { code: code as number, stdout, stderr };
}

function run(...args: string[]): ReturnType<typeof result> {
  return result(start(...args));
}
