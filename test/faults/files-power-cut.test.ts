// Power failures of a machine while an agent replaces its credentials or a backend appends to its journal: what was acknowledged is there
// afterwards. Other files that the programs replace (common/files.ts: state, configuration, secrets) are written in the same way.
import { describe, expect, test } from "vitest";
import { cutWhileWriting, whyNoCuts } from "../fixtures/power-cut.ts";

const CUTS = Number(process.env["POWER_CUTS"] ?? 3);

const why = await whyNoCuts();
describe.skipIf(why !== undefined)(`after a power cut${why === undefined ? "" : `: ${why}`}`, () => {
  test.each(Array.from({ length: CUTS }, (_, at) => [at + 1]))("the agent has the written credentials (cut %i)", async () => {
    const { answered, found } = await cutWhileWriting({ program: "test/fixtures/credentials-writer.ts", withinMs: 500 });
    const last = Number(answered.at(-1));
    // One may have been on the disk and not answered yet.
    expect([last, last + 1]).toContain(Number(found.at(-1)));
  });

  test.each(Array.from({ length: CUTS }, (_, at) => [at + 1]))("the append log has every acknowledged record (cut %i)", async (number) => {
    const { answered, found } = await cutWhileWriting({ program: "test/fixtures/append-log-writer.ts", withinMs: 500 });
    console.log(`cut ${number}: ${answered.length} records were acknowledged, ${found.length} are there`);
    const present = new Set(found);
    expect(answered.filter((record) => !present.has(record))).toEqual([]);
    expect(found).toHaveLength(present.size);
  });
});
