// Ends the collector when its agent is killed (SIGKILL), because it would go on without the agent's open log files: it would take them for
// removed, forget its offsets and read every file again. Node cannot ask the kernel for a signal at its parent's death, so a shell waits for
// the end of a pipe that only the agent holds. Invariant: only a process that runs with our configuration is killed.
import { spawn } from "node:child_process";
import type { Log } from "../log.ts";

const SCRIPT = `trap '' INT TERM HUP; read -r _; grep -qaF -- "$2" "/proc/$1/cmdline" && kill -KILL "$1"`;

/** To be disposed when the collector has ended. */
export function guardCollector(pid: number, configFile: string, log: Log): Disposable {
  const shell = spawn("/bin/sh", ["-c", SCRIPT, "collector-guard", String(pid), configFile], {
    stdio: ["pipe", "ignore", "ignore"],
    env: { PATH: "/usr/local/bin:/usr/bin:/bin" },
  });
  // Safe: the next agent ends the collector (orphan.ts); some lines may be stored twice.
  shell.on("error", (error) => log.warn({ event: "collector.guard_failed", err: error.message }, "cannot start the collector's guard"));
  shell.stdin.on("error", () => {});
  return { [Symbol.dispose]: () => void shell.kill("SIGKILL") };
}
