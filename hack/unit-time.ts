// Loaded before each file of the unit project (vitest.config.ts): in CI a file that takes more CPU time than the limit fails, so that
// `npm run test:fast` stays below a minute. It counts CPU time of the process and of the children that have ended, not wall time, because
// other tests share the machine. UNIT_TIMES=FILE appends the time of each file to FILE.
import { appendFileSync, readFileSync } from "node:fs";
import { afterAll, expect } from "vitest";

const LIMIT_S = 2;
/** A core that other tests share takes up to twice the time for the same work. */
const TOLERANCE = 2;
const TICKS_PER_S = 100;

function childrenCpuS(): number {
  // proc(5): cutime and cstime are fields 16 and 17; the program's name, which may contain any character, is the second.
  const stat = readFileSync("/proc/self/stat", "latin1");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[13]) + Number(fields[14])) / TICKS_PER_S;
}

function cpuS(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6 + (process.platform === "linux" ? childrenCpuS() : 0);
}

const startedS = cpuS();

afterAll(() => {
  const seconds = cpuS() - startedS;
  if (process.env["UNIT_TIMES"]) appendFileSync(process.env["UNIT_TIMES"], `${seconds.toFixed(2)} ${expect.getState().testPath}\n`);
  if (process.env["CI"] && seconds > LIMIT_S * TOLERANCE) {
    throw new Error(
      `this file took ${seconds.toFixed(1)} s of CPU time, more than ${LIMIT_S}: make it cheaper, or move the expensive tests to x.engine.test.ts`,
    );
  }
});
