// Limits the memory of a process and its children like a pod's limit: a cgroup (version 1 or 2) below this process's own. Invariant: the
// cgroup is created and removed here; if none can be created, there is no limit, and `why` has the reason.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { readIfThere } from "../fixtures/processes.ts";

const ROOT = "/sys/fs/cgroup";
/** Names of the same things in the two versions. */
const FILES = {
  1: { limit: "memory.limit_in_bytes", swap: "memory.swappiness", kills: "memory.oom_control", anonymous: "total_rss" },
  2: { limit: "memory.max", swap: "memory.swap.max", kills: "memory.events", anonymous: "anon" },
} as const;
const EMPTIED_WITHIN_MS = 10_000;

export class MemoryLimit implements AsyncDisposable {
  readonly #folder: string;
  readonly #files: (typeof FILES)[1 | 2];

  private constructor(folder: string, files: (typeof FILES)[1 | 2]) {
    this.#folder = folder;
    this.#files = files;
  }

  static make(bytes: number): { limit: MemoryLimit; why?: undefined } | { limit: undefined; why: string } {
    const own = readIfThere("/proc/self/cgroup");
    const first = /^\d+:[^:]*\bmemory\b[^:]*:(.*)$/m.exec(own)?.[1];
    const second = /^0::(.*)$/m.exec(own)?.[1];
    try {
      if (first !== undefined) return { limit: MemoryLimit.#at(join(ROOT, "memory", first), FILES[1], bytes) };
      if (second === undefined) return { limit: undefined, why: "this process is in no cgroup" };
      const parent = join(ROOT, second);
      writeFileSync(join(parent, "cgroup.subtree_control"), "+memory");
      return { limit: MemoryLimit.#at(parent, FILES[2], bytes) };
    } catch (error) {
      return { limit: undefined, why: `no cgroup can be made: ${(error as Error).message}` };
    }
  }

  static #at(parent: string, files: (typeof FILES)[1 | 2], bytes: number): MemoryLimit {
    const folder = join(parent, `atherops-neighbours-${process.pid}`);
    mkdirSync(folder, { recursive: true });
    if (!existsSync(join(folder, files.limit))) {
      rmdirSync(folder);
      throw new Error(`${parent} has no memory controller`);
    }
    writeFileSync(join(folder, files.limit), String(bytes));
    writeFileSync(join(folder, files.swap), "0");
    return new MemoryLimit(folder, files);
  }

  /** A command that runs `command` within the limit from its first instruction on. */
  around(command: readonly string[]): string[] {
    return ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', join(this.#folder, "cgroup.procs"), ...command];
  }

  pids(): number[] {
    return readIfThere(join(this.#folder, "cgroup.procs")).split("\n").filter(Boolean).map(Number);
  }

  /** Processes that the kernel has killed for want of memory. */
  kills(): number {
    return Number(/^oom_kill (\d+)$/m.exec(readIfThere(join(this.#folder, this.#files.kills)))?.[1] ?? 0);
  }

  /** Without the page cache, which is given back before anything is killed. */
  anonymousBytes(): number {
    return Number(new RegExp(`^${this.#files.anonymous} (\\d+)$`, "m").exec(readIfThere(join(this.#folder, "memory.stat")))?.[1] ?? 0);
  }

  /** Kills the remaining processes of a pod whose first process has ended. */
  async killAll(): Promise<void> {
    const until = Date.now() + EMPTIED_WITHIN_MS;
    for (let pids = this.pids(); pids.length > 0 && Date.now() < until; pids = this.pids()) {
      for (const pid of pids) kill(pid);
      await sleep(50);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.killAll();
    rmdirSync(this.#folder);
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended meanwhile.
  }
}

/** All processes below this one. */
export function treeOf(pid: number): number[] {
  const parents = execFileSync("ps", ["-eo", "pid=,ppid="], { encoding: "utf8" })
    .split("\n")
    .map((line) => line.trim().split(/\s+/).map(Number));
  const found = [pid];
  for (let at = 0; at < found.length; at += 1) for (const [child, parent] of parents) if (child && parent === found[at]) found.push(child);
  return found;
}

/** Name and resident bytes; undefined for a process that has ended. */
export function residentOf(pid: number): { name: string; bytes: number } | undefined {
  const status = readIfThere(join("/proc", String(pid), "status"));
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1];
  if (kilobytes === undefined) return undefined;
  return { name: /^Name:\s+(.*)$/m.exec(status)?.[1] ?? "", bytes: Number(kilobytes) * 1024 };
}
