// SIGTERM stops a test run with all its processes, and no later stage starts.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { expect, test } from "vitest";
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

test(".ci/run stops in the stages that run side by side, ends their processes and the cluster, and removes its clone", async () => {
  using folder = temporaryFolder();
  const [root, temporary, programs] = ["repository", "tmp", "programs"].map((name) => join(folder.path, name)) as [string, string, string];
  const cluster = join(folder.path, "shared/cluster");
  for (const path of [temporary, programs, join(root, ".ci"), cluster]) mkdirSync(path, { recursive: true });
  copyFileSync(join(ROOT, ".ci/run"), join(root, ".ci/run"));
  // The test must not install Debian packages.
  writeFileSync(join(programs, "apt-get"), "#!/bin/sh\nexit 1\n", { mode: 0o755 });
  const pids = ["engine", "e2e"].map((name) => join(folder.path, name));
  const [engine, e2e] = pids.map(
    (pid) => `node -e "require('fs').writeFileSync('${pid}', String(process.pid) + ' '); setInterval(() => {}, 1000)"`,
  );
  const program = (path: string, line: string): void => writeFileSync(path, `#!/bin/sh\n${line}\n`, { mode: 0o755 });
  for (const name of ["up", "down"]) program(join(cluster, name), `echo the cluster is ${name}`);
  program(join(root, ".ci/e2e"), e2e ?? "");
  const scripts = { test: "echo 1 passed, 0 failed", "test:engine": engine, "test:rest": "echo the next stage" };
  writeFileSync(join(root, "package.json"), JSON.stringify({ scripts }));
  for (const args of [
    ["init", "-q"],
    ["add", "."],
    ["-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-qm", "t"],
  ])
    await execa("git", args, { cwd: root });
  const env = { ...process.env, TMPDIR: temporary, PATH: `${programs}:${process.env["PATH"]}` };
  const child = spawn("bash", [".ci/run"], { cwd: root, env });
  const { code, output } = await terminated(child, () => pids.every((pid) => existsSync(pid) && readFileSync(pid, "utf8").includes(" ")));
  expect(output).not.toContain("the next stage");
  expect(output).toContain("the cluster is down");
  expect(output).toContain("interrupted by SIGTERM");
  expect(code).toBe(143);
  await eventually("the stages' processes have ended", () => !pids.some((pid) => isAlive(Number(readFileSync(pid, "utf8")))));
  expect(readdirSync(temporary).filter((name) => name.startsWith("tmp."))).toEqual([]);
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
