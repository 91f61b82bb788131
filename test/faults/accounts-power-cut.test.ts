// Power failures of the machine with the embedded accounts, while organisations are written as fast as possible: every acknowledged one is
// there afterwards, both in a store that existed before and in one that was just created.
import { describe, expect, test } from "vitest";
import { cutWhileWriting, whyNoCuts } from "../fixtures/power-cut.ts";

/** POWER_CUTS=40 for more: every second one is of a store that was on the disk before. */
const CUTS = Number(process.env["POWER_CUTS"] ?? 4);

const why = await whyNoCuts();
describe.skipIf(why !== undefined)(`after a power cut${why === undefined ? "" : `: ${why}`}`, () => {
  test.each(Array.from({ length: CUTS }, (_, at) => [at + 1, at % 2 === 1 ? "on disk before" : "made moments before"] as const))(
    "every acknowledged account is stored (cut %i, of a store that was %s)",
    async (_number, which) => {
      const isSynced = which === "on disk before";
      const { answered, found } = await cutWhileWriting({ program: "test/fixtures/accounts-writer.ts", withinMs: 1000, isSynced });
      expect(answered.filter((id) => !found.includes(id))).toEqual([]);
      // One may have been on the disk and not answered yet.
      expect(found.length - answered.length).toBeLessThanOrEqual(1);
    },
  );
});
