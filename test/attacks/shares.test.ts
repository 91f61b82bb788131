// Several organisations at once are as busy as they may be with one shared resource. The test asserts that an idle organisation is never
// refused, and that its typical request is answered even on a busy machine; `npm run bench -- shares` prints the times, whose target is
// 500 ms.
import { afterAll, beforeAll, expect, test } from "vitest";
import { PRESSURES, type PressureName } from "./shares/pressure.ts";
import { Shares, shownShares } from "./shares/run-shares.ts";

const MOST_OTHERS = 10;
const SECONDS = 4;
const ANSWERED_MS = 15_000;
let shares: Shares;

beforeAll(async () => {
  shares = await Shares.start(MOST_OTHERS);
});
afterAll(async () => {
  await shares?.[Symbol.asyncDispose]();
});

const RUNS: readonly (readonly [kind: PressureName, others: number])[] = [
  ...(Object.keys(PRESSURES) as PressureName[]).map((kind) => [kind, 3] as const),
  ["sandbox", MOST_OTHERS],
  ["bodies", MOST_OTHERS],
];

test.for(RUNS)(
  "an idle organisation is served next to this pressure on a shared resource: %s, by %i organisations",
  async ([kind, others]) => {
    const result = await shares.measure(kind, others, SECONDS);
    console.log(shownShares(result));
    for (const [name, { errors, sent, p50Ms }] of Object.entries(result.fared)) {
      expect([name, errors]).toEqual([name, {}]);
      expect(sent).toBeGreaterThan(0);
      expect(p50Ms).toBeLessThan(ANSWERED_MS);
    }
  },
);

test("a backend that is started by hand has as many threads for its engines as one of the launcher", () => {
  expect(shares.poolThreads).toBe(16);
});
