// Power cuts of the machine that keeps the embedded accounts. Their store lives on an ext4 in a file behind a loop device; at a random
// moment its process is stopped and the file is copied: what the file system had not yet given to its device is not in the copy.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, copyFileSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";

const CUTS = 4;
const WRITER = "test/fixtures/accounts-writer.ts";
/** ext4 writes by itself so late that it does not matter here. */
const MOUNT = "loop,commit=600";

function canMount(): boolean {
  const folder = mkdtempSync(join(tmpdir(), "atherops-mount-"));
  try {
    if (process.getuid?.() !== 0) return false;
    using _mounted = mounted(image(folder), join(folder, "mounted"));
    return true;
  } catch {
    return false;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function image(folder: string): string {
  const file = join(folder, "disk");
  execFileSync("truncate", ["-s", "64M", file]);
  execFileSync("mkfs.ext4", ["-q", file]);
  return file;
}

function mounted(file: string, at: string): Disposable {
  mkdirSync(at, { recursive: true });
  execFileSync("mount", ["-o", MOUNT, file, at], { stdio: "pipe" });
  return { [Symbol.dispose]: () => void execFileSync("umount", [at]) };
}

const lines = (text: string): string[] => text.split("\n").filter((line) => line.length === 36);

/** Answers what was answered before the cut, and what is there after it. */
async function cut(folder: string, isSynced: boolean): Promise<{ answered: string[]; found: string[] }> {
  const disk = image(folder);
  const copy = join(folder, "copy");
  const answers = join(folder, "answers");
  {
    using _disk = mounted(disk, join(folder, "mounted"));
    const out = openSync(answers, "w");
    const writer = spawn(process.execPath, [WRITER, join(folder, "mounted", "data")], { stdio: ["ignore", out, "inherit"] });
    const ended = once(writer, "exit");
    try {
      await expect.poll(() => lines(readFileSync(answers, "utf8")).length, { timeout: 30_000 }).toBeGreaterThan(0);
      if (isSynced) execFileSync("sync", ["-f", join(folder, "mounted")]);
      await sleep(Math.random() * 1000);
      writer.kill("SIGSTOP");
      await expect.poll(() => readFileSync(`/proc/${writer.pid}/stat`, "utf8").split(") ")[1]?.[0]).toBe("T");
      copyFileSync(disk, copy);
    } finally {
      writer.kill("SIGKILL");
      await ended;
      closeSync(out);
    }
  }
  const answered = lines(readFileSync(answers, "utf8"));
  using _copy = mounted(copy, join(folder, "after"));
  const found = execFileSync(process.execPath, [WRITER, join(folder, "after", "data"), "read"], { encoding: "utf8" });
  return { answered, found: lines(found) };
}

const can = canMount();
describe.skipIf(!can)(`after a power cut${can ? "" : ": needs root and a loop device"}`, () => {
  test.each(Array.from({ length: CUTS }, (_, at) => [at + 1, at % 2 === 1 ? "on disk before" : "made moments before"] as const))(
    "every answered account is there (cut %i, of a store that was %s)",
    async (_number, which) => {
      const folder = mkdtempSync(join(tmpdir(), "atherops-cut-"));
      try {
        const { answered, found } = await cut(folder, which === "on disk before");
        expect(answered.filter((id) => !found.includes(id))).toEqual([]);
        // One may have been on the disk and not answered yet.
        expect(found.length - answered.length).toBeLessThanOrEqual(1);
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    },
  );
});
