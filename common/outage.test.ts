import { expect, test } from "vitest";
import { Outage, type OutageOptions } from "./outage.ts";

function outageOf(more: Partial<OutageOptions<string>> = {}) {
  const said: string[] = [];
  const clock = { ms: 1_000_000 };
  const outage = new Outage<string>({
    began: (cause, { failures, seconds }) => said.push(`began: ${cause} (${failures}, ${seconds} s)`),
    reminded: (cause, { failures, seconds }) => said.push(`still: ${cause} (${failures}, ${seconds} s)`),
    ended: ({ failures, seconds, sinceMs }, cause) => said.push(`recovered from ${cause} (${failures}, ${seconds} s, since ${sinceMs})`),
    nowMs: () => clock.ms,
    ...more,
  });
  return { outage, said, clock };
}

test("an outage is logged at its start and at its end, however many failures are in between", () => {
  const { outage, said, clock } = outageOf();
  for (let failures = 0; failures < 100; failures++) {
    outage.failed("no route");
    clock.ms += 1000;
  }
  expect(outage.sinceMs).toBe(1_000_000);
  outage.recovered();
  outage.recovered();
  expect(said).toEqual(["began: no route (1, 0 s)", "recovered from no route (100, 100 s, since 1000000)"]);
  expect([outage.sinceMs, outage.cause]).toEqual([undefined, undefined]);
});

test("logs no success without an outage, and logs a new outage again", () => {
  const { outage, said } = outageOf();
  outage.recovered();
  outage.failed("a");
  outage.recovered();
  outage.failed("b");
  expect(said).toEqual(["began: a (1, 0 s)", "recovered from a (1, 0 s, since 1000000)", "began: b (1, 0 s)"]);
});

test("logs another reason immediately, as the same outage", () => {
  const { outage, said, clock } = outageOf();
  outage.failed("refused", "refused");
  clock.ms += 5000;
  outage.failed("timed out", "timed out");
  outage.failed("timed out", "timed out");
  expect(said).toEqual(["began: refused (1, 0 s)", "began: timed out (2, 5 s)"]);
  expect([outage.sinceMs, outage.cause]).toEqual([1_000_000, "timed out"]);
});

test("logs the actual duration, even if the machine's clock is set", () => {
  const clock = { steadyMs: 5000 };
  const { outage, said, clock: wall } = outageOf({ remindEveryMs: 60_000, steadyMs: () => clock.steadyMs });
  expect(outage.lastsMs).toBeUndefined();
  outage.failed("full");
  for (const [elapsedMs, stepMs] of [
    [30_000, 3_600_000],
    [40_000, -7_200_000],
  ] as const) {
    clock.steadyMs += elapsedMs;
    wall.ms += stepMs;
    outage.failed("full");
  }
  expect(outage.lastsMs).toBe(70_000);
  outage.recovered();
  expect(said).toEqual(["began: full (1, 0 s)", "still: full (3, 70 s)", "recovered from full (3, 70 s, since 1000000)"]);
});

test("logs a reminder of a long outage at the first failure after each interval", () => {
  const { outage, said, clock } = outageOf({ remindEveryMs: 60_000 });
  outage.failed("full");
  for (const _ of Array.from({ length: 5 })) {
    clock.ms += 30_000;
    outage.failed("full");
  }
  expect(said).toEqual(["began: full (1, 0 s)", "still: full (3, 60 s)", "still: full (5, 120 s)"]);
});
