// The processes of this machine, as Linux lists them in /proc. Invariant: an id alone identifies no process, because ids are used again; with the
// time of its start it names one process for ever.
import { readdirSync, readFileSync } from "node:fs";

/** In ticks since the machine's boot (proc(5), starttime). Undefined when there is no such process, it is a zombie, or this is no Linux. */
export function startTimeOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    // Fields after the program's name, which is in parentheses and may hold anything: state is the third of all, starttime the 22nd.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" ? undefined : fields[19];
  } catch {
    return undefined;
  }
}

/** Each argument with a zero byte behind it, the program first. Empty when there is no such process, and right after its start. */
export function commandLineOf(pid: number): Buffer {
  return listOf(pid, "cmdline");
}

/** Each variable as `name=value` with a zero byte behind it, as the process was given them. Empty when it is not ours to know. */
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

/** All that can be seen from here. Throws where there is no /proc. */
export function processIds(): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}
