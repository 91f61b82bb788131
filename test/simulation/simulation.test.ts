// Runs the simulation of the write path (README.md) in its own processes, because it replaces their clocks and file systems. SIMULATIONS
// raises the number of histories.
import { execa } from "execa";
import { join } from "node:path";
import { expect, it } from "vitest";

const HISTORIES = process.env["SIMULATIONS"] ?? "3000";

async function simulate(...args: string[]): Promise<{ exitCode: number | undefined; lines: string[] }> {
  const { exitCode, stdout } = await execa(process.execPath, [join(import.meta.dirname, "simulate.ts"), ...args], { reject: false });
  return { exitCode, lines: stdout.split("\n") };
}

it("loses nothing that was acknowledged and stores nothing twice, whatever is killed or fails", async () => {
  const { exitCode, lines } = await simulate("--histories", HISTORIES);
  expect(lines.filter((line) => line.startsWith("failed:"))).toEqual([]);
  expect([exitCode, lines.at(-1)]).toEqual([0, "no problem found"]);
  const counts = new Map(
    lines.map((line) => /^ {2}(.+?) +(\d+)$/.exec(line)).flatMap((found) => (found ? [[found[1], Number(found[2])]] : [])),
  );
  for (const fault of ["power cut", "kill", "disk full", "failed fsync", "stores and fails", "engine crash", "clock", "rot"])
    expect([fault, (counts.get(fault) ?? 0) > 0]).toEqual([fault, true]);
});

it("repeats a history from its seed", async () => {
  const [first, second] = await Promise.all([simulate("--seed", "38"), simulate("--seed", "38")]);
  expect(first).toEqual(second);
  expect(first.lines.length).toBeGreaterThan(20);
});

it.runIf(process.env["MUTANTS"] === "each")("finds every fault that is put into the write path", async () => {
  const { lines } = await simulate("--mutants");
  expect(lines.filter((line) => line.startsWith("MISSED"))).toEqual([]);
});

it("finds a missing fsync", async () => {
  const { exitCode, lines } = await simulate("--mutants", "--mutant", "a segment is not synced");
  expect([exitCode, lines.at(-1)]).toEqual([0, "1 of 1 mutants found"]);
});
