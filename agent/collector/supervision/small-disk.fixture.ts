// Mounts a small tmpfs on a folder, for tests of a full disk. Needs the right to mount, as root has it; without it, tests are skipped
// visibly. Invariant: it is unmounted when disposed.
import { execFileSync } from "node:child_process";
import { appendFileSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export class SmallDisk implements Disposable {
  readonly path: string;

  constructor(path: string, size: string) {
    mkdirSync(path, { recursive: true });
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${size}`, "tmpfs", path], { stdio: "pipe" });
    this.path = path;
  }

  /** Fills the disk completely. */
  fill(): void {
    for (const bytes of [65_536, 1]) {
      try {
        for (;;) appendFileSync(this.#ballast, Buffer.alloc(bytes));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
      }
    }
  }

  /** Frees what `fill` occupied. */
  free(): void {
    rmSync(this.#ballast, { force: true });
  }

  grow(size: string): void {
    execFileSync("mount", ["-o", `remount,size=${size}`, this.path]);
  }

  /** Makes the disk read-only, as a kernel does after an error in the file system. */
  readOnly(): void {
    execFileSync("mount", ["-o", "remount,ro", this.path]);
  }

  writable(): void {
    execFileSync("mount", ["-o", "remount,rw", this.path]);
  }

  get #ballast(): string {
    return join(this.path, "ballast");
  }

  [Symbol.dispose](): void {
    execFileSync("umount", ["--lazy", this.path]);
  }
}

/** For `test.skipIf(!canMount)`. */
export const canMount = ((): boolean => {
  const folder = mkdtempSync(join(tmpdir(), "atherops-disk-"));
  try {
    new SmallDisk(folder, "64k")[Symbol.dispose]();
    return true;
  } catch {
    return false;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
})();
