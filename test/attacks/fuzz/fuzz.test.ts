// A short campaign of random queries; `npm run bench -- fuzz` runs a long one.
import { expect, test } from "vitest";
import { runCampaign } from "./campaign.ts";
import { StallMeter, threadCpuMs } from "./stall-meter.ts";

const PROGRAMS = 600;

test("no random program blocks the event loop, exceeds the memory of a sandbox process, or has to be killed", async () => {
  const { answers, broken, killed, sandboxAnonymousPeakMb } = await runCampaign({ programs: PROGRAMS, seed: 20_261_124 });
  expect(broken).toEqual([]);
  expect(killed).toEqual({});
  expect(sandboxAnonymousPeakMb).toBeGreaterThan(10);
  // Enough programs are accepted, so that not only the parsers are tested.
  const counts = Object.values(answers).flatMap((byAnswer) => Object.entries(byAnswer));
  const total = (accepted: readonly string[]): number =>
    counts.filter(([answer]) => accepted.includes(answer)).reduce((sum, [, count]) => sum + count, 0);
  expect(total(["ok", "accepted"])).toBeGreaterThan(PROGRAMS / 6);
  expect(total(["ok", "accepted", "invalid_parameter", "invalid_field", "query_too_expensive"])).toBe(PROGRAMS);
});

test("reports a killed program with its seed", async () => {
  const limits = { anonymousBytes: 1, cpuMs: 1 };
  let { broken, killed } = await runCampaign({ programs: 8, seed: 1, mainShare: 0, limits });
  // A program that answers before its process is next looked at (every 50 ms) is not stopped. On a fast machine these can be all of them.
  for (let seed = 2; broken.length === 0; seed++) ({ broken, killed } = await runCampaign({ programs: 8, seed, mainShare: 0, limits }));
  expect(killed["memory"]).toBeGreaterThan(0);
  expect(broken[0]).toMatchObject({ seed: expect.any(Number) as number, what: expect.stringContaining("was stopped") as string });
});

test("the meter detects work that blocks the event loop", async () => {
  const stalls: number[] = [];
  using meter = new StallMeter(50, (cpuMs) => stalls.push(cpuMs));
  const endMs = threadCpuMs() + 80;
  while (threadCpuMs() < endMs) Math.sqrt(2);
  await expect.poll(() => stalls.length).toBeGreaterThan(0);
  expect(meter.longestCpuMs).toBeGreaterThan(75);
});
