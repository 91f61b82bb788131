// Memory for decoding the worst bodies, measured from outside in a process that does nothing else.
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { HOSTILE_BODIES } from "./hostile-bodies.fixture.ts";

/** For two bodies: their rows, some records as objects, and what is garbage by then. 336 was the most seen; before, one took 2,000. */
const LIMIT_MIB = 600;

interface Line {
  name: string;
  answers: string[];
  seconds: number;
  peakMib: number;
}

test("decodes or rejects two concurrent worst-case bodies of any shape within its memory limit", async () => {
  const fixture = fileURLToPath(new URL("otlp-decoder-memory.fixture.ts", import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [fixture], { timeout: 240_000 });
  console.log(stdout);
  const lines = stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Line);
  expect(lines.map(({ name }) => name)).toEqual(HOSTILE_BODIES.map(({ name }) => name));
  for (const [index, { name, answers, peakMib }] of lines.entries()) {
    const isRefused = HOSTILE_BODIES[index]?.answer !== "204";
    expect([name, answers.map((answer) => (isRefused ? answer : Number(answer) > 0))]).toEqual([
      name,
      isRefused ? ["batch_too_large", "batch_too_large"] : [true, true],
    ]);
    expect(peakMib).toBeLessThan(LIMIT_MIB);
  }
}, 300_000);
