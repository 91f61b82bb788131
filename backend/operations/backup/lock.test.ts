import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdir, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { DataDirInUseError, StartError } from "../../errors.ts";
import { lockDataDir } from "./lock.ts";

/** Requests the lock as a user who owns nothing here (root may write everywhere); returns the error message. */
function lockedAsAnother(dir: string): string {
  const module = JSON.stringify(new URL("./lock.ts", import.meta.url).href);
  const script = `
    const { lockDataDir } = await import(${module});
    if (process.getuid() === 0) { process.setgroups([]); process.setgid(1000); process.setuid(1000); }
    try { lockDataDir(process.argv[1]); console.log("locked"); } catch (error) { console.log(error.name, error.message); }`;
  return spawnSync(process.execPath, ["--input-type=module", "-e", script, dir], { encoding: "utf8" }).stdout;
}

describe("the lock of DATA_DIR", () => {
  let dir: string;

  beforeEach(async () => {
    dir = join(await mkdtemp(join(tmpdir(), "atherops-lock-")), "data");
  });

  afterEach(() => rm(join(dir, ".."), { recursive: true, force: true }));

  it("creates the folder for its owner only", async () => {
    using _lock = lockDataDir(dir);
    expect((await stat(dir)).mode & 0o777).toBe(0o700);
  });

  it("is rejected while another process has it, and available after its release", async () => {
    const first = lockDataDir(dir);
    expect(() => lockDataDir(dir)).toThrow(DataDirInUseError);
    first[Symbol.dispose]();
    using _second = lockDataDir(dir);
  });

  it("reports in one sentence the owner of a folder that this user cannot write, and what to do", async () => {
    await chmod(join(dir, ".."), 0o755);
    await mkdir(dir, { mode: 0o555 });
    const [us, owner] = process.getuid?.() === 0 ? [1000, 0] : [process.getuid?.(), process.getuid?.()];
    expect(lockedAsAnother(dir)).toBe(
      `StartError DATA_DIR: user ${us} cannot write ${dir} (EACCES), which belongs to user ${owner} with mode 555: give it to this user ` +
        "(chown -R), name another place, or, with the Helm chart, set persistence.chown=true, which does it at each start\n",
    );
    await chmod(dir, 0o777);
    await writeFile(join(dir, "lock"), "", { mode: 0o444 });
    expect(lockedAsAnother(dir)).toContain("(EACCES)");
  });

  it("fails if no folder can be created", async () => {
    expect(() => lockDataDir("/proc/atherops/data")).toThrow(StartError);
    await writeFile(dir, "");
    expect(() => lockDataDir(dir)).toThrow(`cannot write ${dir} (EEXIST)`);
  });

  it("names the process that has it, and is released when that is killed", async () => {
    const holder = spawn(process.execPath, [fileURLToPath(new URL("./lock.fixture.ts", import.meta.url)), dir], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    await once(holder.stdout, "data");
    expect(() => lockDataDir(dir)).toThrow(new RegExp(`is used by process ${holder.pid} on .*own DATA_DIR`));
    holder.kill("SIGKILL");
    await once(holder, "exit");
    using _lock = lockDataDir(dir);
  });
});
