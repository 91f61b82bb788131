// The lock between processes, with real processes as holders.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { acquireLock } from "./lock.mjs";

const LOCK_MODULE = join(import.meta.dirname, "lock.mjs");

let folder: string;
let path: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "atherops-lock-"));
  path = join(folder, "deep", "one.lock");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe("acquireLock", () => {
  it("delays a second process, and names the owner", async () => {
    const release = await acquireLock(path);
    const waitedFor: number[] = [];
    const second = acquireLock(path, (pid) => {
      waitedFor.push(pid);
      release();
    });
    (await second)();
    expect(waitedFor).toEqual([process.pid]);
    expect(existsSync(path)).toBe(false);
  });

  it("is free after its owner was killed", async () => {
    const holder = spawn(process.execPath, [
      "--input-type=module",
      "-e",
      `import { acquireLock } from ${JSON.stringify(LOCK_MODULE)}; await acquireLock(${JSON.stringify(path)}); console.log("held"); setInterval(() => {}, 1000);`,
    ]);
    await once(holder.stdout, "data");
    expect(readFileSync(path, "utf8")).toMatch(new RegExp(`^${holder.pid} \\d+$`));
    holder.kill("SIGKILL");
    await once(holder, "exit");
    const release = await acquireLock(path, () => expect.unreachable("waited for a dead process"));
    release();
  });

  it("is free if another process has its owner's process id", async () => {
    (await acquireLock(path))();
    writeFileSync(path, `${process.pid} 1`);
    const release = await acquireLock(path, () => expect.unreachable("waited for a process that started later"));
    release();
  });

  it("admits eight processes that find it stale concurrently in sequence", async () => {
    (await acquireLock(path))();
    writeFileSync(path, "999999999 1");
    const counter = join(folder, "counter");
    writeFileSync(counter, "0");
    const step = `import { readFileSync, writeFileSync } from "node:fs"; import { acquireLock } from ${JSON.stringify(LOCK_MODULE)};
      const release = await acquireLock(${JSON.stringify(path)});
      const seen = Number(readFileSync(${JSON.stringify(counter)}, "utf8"));
      await new Promise((done) => setTimeout(done, 5));
      writeFileSync(${JSON.stringify(counter)}, String(seen + 1));
      release();`;
    const processes = Array.from({ length: 8 }, () => spawn(process.execPath, ["--input-type=module", "-e", step], { stdio: "inherit" }));
    await Promise.all(processes.map((child) => once(child, "exit")));
    expect(readFileSync(counter, "utf8")).toBe("8");
  });
});
