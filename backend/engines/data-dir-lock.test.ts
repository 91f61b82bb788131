import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { DataDirInUseError, lockDataDir } from "./data-dir-lock.ts";

describe("the lock of DATA_DIR", () => {
  let dir: string;

  beforeEach(async () => {
    dir = join(await mkdtemp(join(tmpdir(), "atherops-lock-")), "data");
  });

  afterEach(() => rm(join(dir, ".."), { recursive: true, force: true }));

  it("makes the folder, for its owner only", async () => {
    await using _lock = await lockDataDir(dir);
    expect((await stat(dir)).mode & 0o777).toBe(0o700);
  });

  it("is refused while it is held, and free once it is given back", async () => {
    const first = await lockDataDir(dir);
    await expect(lockDataDir(dir)).rejects.toThrow(DataDirInUseError);
    await first[Symbol.asyncDispose]();
    await using _second = await lockDataDir(dir);
  });

  it("names the process that holds it, and is free as soon as that is killed", async () => {
    const holder = spawn(process.execPath, [fileURLToPath(new URL("./data-dir-lock.fixture.ts", import.meta.url)), dir], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    await once(holder.stdout, "data");
    await expect(lockDataDir(dir)).rejects.toThrow(new RegExp(`is used by process ${holder.pid} on .*own DATA_DIR`));
    holder.kill("SIGKILL");
    await once(holder, "exit");
    await using _lock = await lockDataDir(dir);
  });
});
