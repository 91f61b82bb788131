// Reads the processes of this machine from /proc on Linux. Invariant: a process is identified by its id together with its start time,
// because ids are reused.
import { readdirSync, readFileSync } from "node:fs";

/** Ticks since boot (proc(5), starttime). Undefined if the process does not exist, if it is a zombie, or if this is not Linux. */
export function startTimeOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    // Fields after the program's name, which is in parentheses and may contain any character: state is the third field, starttime the 22nd.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" ? undefined : fields[19];
  } catch {
    return undefined;
  }
}

/** The program and its arguments, each followed by a zero byte. Empty if the process does not exist or has just been started. */
export function commandLineOf(pid: number): Buffer {
  return listOf(pid, "cmdline");
}

/** The initial environment: each variable as `name=value`, followed by a zero byte. Empty if it may not be read. */
export function environmentOf(pid: number): Buffer {
  return listOf(pid, "environ");
}

function listOf(pid: number, file: string): Buffer {
  try {
    return readFileSync(`/proc/${pid}/${file}`);
  } catch {
    return Buffer.alloc(0);
  }
}

/** All visible processes. Throws if there is no /proc. */
export function processIds(): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}
