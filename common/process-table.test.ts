import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";
import { commandLineOf, processIds, startTimeOf } from "./process-table.ts";

test("identifies a process by its id and start time, until it is gone", async () => {
  const script = "process.stdout.write('up'); setInterval(() => {}, 1000)";
  const child = spawn(process.execPath, ["-e", script, "ä b"], { stdio: ["ignore", "pipe", "ignore"] });
  const { pid = 0 } = child;
  try {
    await once(child.stdout, "data");
    const startTime = startTimeOf(pid);
    expect(startTime).toMatch(/^\d+$/);
    expect(startTimeOf(pid)).toBe(startTime);
    expect(Number(startTime)).toBeGreaterThan(Number(startTimeOf(process.pid)));
    expect(processIds()).toEqual(expect.arrayContaining([pid, process.pid]));
    expect(commandLineOf(pid).toString("utf8")).toBe(`${process.execPath}\0-e\0${script}\0ä b\0`);
  } finally {
    child.kill("SIGKILL");
    await once(child, "close");
  }
  expect([startTimeOf(pid), commandLineOf(pid).length, processIds().includes(pid)]).toEqual([undefined, 0, false]);
});
