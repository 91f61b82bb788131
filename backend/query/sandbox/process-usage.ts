// CPU time and memory of a child process, read from /proc: a process that is busy or stuck cannot be asked for them.
import { readFileSync } from "node:fs";

export interface ProcessUsage {
  readonly cpuMs: number;
  /** Resident memory without the pages of files, such as the program itself. */
  readonly residentBytes: number;
}

/** Linux on all architectures that Node supports has 100 ticks a second. */
const TICK_MS = 10;

/** Undefined when there is no such process, or this is no Linux. */
export function readProcessUsage(pid: number): ProcessUsage | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    // proc(5): the program's name is in parentheses and may hold anything; utime and stime are the fields 14 and 15 of all.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const status = readFileSync(`/proc/${pid}/status`, "latin1");
    const [, kibibytes] = /^RssAnon:\s+(\d+) kB$/m.exec(status) ?? /^VmRSS:\s+(\d+) kB$/m.exec(status) ?? [];
    return { cpuMs: (Number(fields[11]) + Number(fields[12])) * TICK_MS, residentBytes: Number(kibibytes ?? 0) * 1024 };
  } catch {
    return undefined;
  }
}
