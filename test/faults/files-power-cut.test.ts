// Power cuts of the machine whose agent writes its credentials: the file that was written last is there, or the next one. What else the
// programs replace durably (agent/common/durable-file.ts: marks of state, configuration, secrets) goes the same way.
import { describe, expect, test } from "vitest";
import { cutWhileWriting, whyNoCuts } from "../fixtures/power-cut.ts";

const CUTS = Number(process.env["POWER_CUTS"] ?? 3);

const why = await whyNoCuts();
describe.skipIf(why !== undefined)(`after a power cut${why === undefined ? "" : `: ${why}`}`, () => {
  test.each(Array.from({ length: CUTS }, (_, at) => [at + 1]))("the agent has the credentials that it wrote (cut %i)", async () => {
    const { answered, found } = await cutWhileWriting({ program: "test/fixtures/credentials-writer.ts", withinMs: 500 });
    const last = Number(answered.at(-1));
    // One may have been on the disk and not answered yet.
    expect([last, last + 1]).toContain(Number(found.at(-1)));
  });
});
