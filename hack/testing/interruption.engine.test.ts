// SIGTERM stops a test run with all its processes, and no later stage starts.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { describe, expect, test } from "vitest";
import { eventually, temporaryFolder } from "../../test/fixtures/processes.ts";

const ROOT = join(import.meta.dirname, "../..");

/** Sends SIGTERM once `isReady`, and returns the exit status and the output. */
async function terminated(child: ChildProcess, isReady: (output: string) => boolean): Promise<{ code: number | null; output: string }> {
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream?.setEncoding("utf8").on("data", (text: string) => (output += text));
  const closed = once(child, "close");
  await eventually("the run is under way", () => isReady(output));
  child.kill("SIGTERM");
  const [code] = (await closed) as [number | null];
  return { code, output };
}

test("hack/test.ts stops in the current stage and exits with 143", async () => {
  const child = spawn(process.execPath, ["hack/test.ts"], { cwd: ROOT });
  const { code, output } = await terminated(child, (text) => text.includes("stage types …"));
  expect(output).not.toContain("stage types:");
  expect(output).not.toContain("stage lint");
  expect(code).toBe(143);
});

test("runTests ends the processes that tests have started", async () => {
  using folder = temporaryFolder();
  symlinkSync(join(ROOT, "node_modules"), join(folder.path, "node_modules"));
  writeFileSync(join(folder.path, "vitest.config.mjs"), "export default { test: { globals: true } };");
  writeFileSync(
    join(folder.path, "hangs.test.ts"),
    `import { spawn } from "node:child_process"; import { writeFileSync } from "node:fs";
     test("hangs", async () => {
       const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"]);
       writeFileSync("pids", process.pid + " " + child.pid);
       await new Promise(() => {});
     }, 60_000);`,
  );
  const program = `import { runTests } from ${JSON.stringify(join(import.meta.dirname, "outcome.ts"))}; await runTests(${JSON.stringify(folder.path)}, []); console.log("went on");`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", program], { cwd: folder.path });
  const pids = join(folder.path, "pids");
  const { output } = await terminated(child, () => existsSync(pids) && readFileSync(pids, "utf8").includes(" "));
  expect(output).toContain("interrupted by SIGTERM");
  expect(output).not.toContain("went on");
  for (const pid of readFileSync(pids, "utf8").split(" ")) expect(() => process.kill(Number(pid), 0)).toThrow("ESRCH");
});

describe(".ci/run", () => {
  const END_TO_END = ["cluster/up", "cluster/down"].map((name) => join("shared", name));

  /** A repository with these scripts, next to a cluster whose scripts do nothing. */
  async function repository(folder: string, scripts: Record<string, string>): Promise<{ root: string; env: NodeJS.ProcessEnv }> {
    const [root, temporary, programs] = ["repository", "tmp", "programs"].map((name) => join(folder, name)) as [string, string, string];
    for (const path of [temporary, programs, join(root, ".ci"), join(folder, "shared/cluster")]) mkdirSync(path, { recursive: true });
    const program = (file: string, text: string) => writeFileSync(file, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
    for (const name of ["run", "e2e"]) copyFileSync(join(ROOT, ".ci", name), join(root, ".ci", name));
    program(join(root, ".ci/cluster"), "echo kubeconfig");
    for (const name of END_TO_END) program(join(folder, name), "exit 0");
    // The test must not install Debian packages.
    program(join(programs, "apt-get"), "exit 1");
    writeFileSync(join(root, "package.json"), JSON.stringify({ scripts }));
    for (const args of [
      ["init", "-q"],
      ["add", "."],
      ["-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-qm", "t"],
    ])
      await execa("git", args, { cwd: root });
    return { root, env: { ...process.env, TMPDIR: temporary, PATH: `${programs}:${process.env["PATH"]}` } };
  }

  test("stops in the current stages, ends their processes and removes its clone", async () => {
    using folder = temporaryFolder();
    const hang = (name: string) =>
      `node -e "require('fs').writeFileSync('${join(folder.path, name)}', process.pid + ' '); setInterval(() => {}, 1000)"`;
    const scripts = {
      test: "echo '1 passed, 0 failed'",
      "test:rest": hang("rest"),
      "test:e2e": hang("e2e"),
      "test:alone": "echo the next stage",
    };
    const { root, env } = await repository(folder.path, scripts);
    const pids = ["rest", "e2e"].map((name) => join(folder.path, name));
    const child = spawn("bash", [".ci/run"], { cwd: root, env });
    const { code, output } = await terminated(child, () =>
      pids.every((file) => existsSync(file) && readFileSync(file, "utf8").includes(" ")),
    );
    expect(output).not.toContain("the next stage");
    expect(output).toContain("interrupted by SIGTERM");
    expect(code).toBe(143);
    for (const file of pids) await eventually("the stage's process has ended", () => !isAlive(Number(readFileSync(file, "utf8"))));
    expect(readdirSync(join(folder.path, "tmp")).filter((name) => name.startsWith("tmp."))).toEqual([]);
  });

  test("runs the end-to-end suite next to other tests, and counts the results of all stages", async () => {
    using folder = temporaryFolder();
    const started = (name: string) => `touch ${join(folder.path, name)}`;
    const waits = (name: string) => `until [ -e ${join(folder.path, name)} ]; do sleep 0.1; done`;
    const { root, env } = await repository(folder.path, {
      test: "echo '3 passed, 0 failed'",
      "test:rest": `${started("rest")}; ${waits("e2e")}; echo 'flaky: a.test.ts: a'; echo 'failed: b.test.ts: b'; echo '4 passed, 1 failed, 2 skipped'; exit 1`,
      "test:e2e": `${started("e2e")}; ${waits("rest")}; echo 'stage e2e: OK 9 s, 2 passed, 0 failed'; echo '2 passed, 0 failed'`,
      "test:alone": "echo '5 passed, 0 failed'",
    });
    const { exitCode, stdout } = await execa("bash", [".ci/run"], { cwd: root, env, reject: false });
    expect(stdout.split("\n").slice(-5)).toEqual([
      expect.stringMatching(/^stage cluster: OK/),
      "stage e2e: OK 9 s, 2 passed, 0 failed",
      "flaky: a.test.ts: a",
      "failed: b.test.ts: b",
      "14 passed, 1 failed",
    ]);
    expect(exitCode).toBe(1);
  });
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
