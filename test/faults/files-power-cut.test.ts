// Power cuts of the machine whose agent writes its credentials: the file that was written last is there, or the next one. What else the
// programs replace durably (agent/common/durable-file.ts: marks of state, configuration, secrets) goes the same way.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { CuttableDisk, whyNoCuts } from "../fixtures/power-cut.ts";
import { eventually, temporaryFolder } from "../fixtures/processes.ts";

const CUTS = Number(process.env["POWER_CUTS"] ?? 3);
const WRITER = "test/fixtures/credentials-writer.ts";

const why = await whyNoCuts();
describe.skipIf(why !== undefined)(`after a power cut${why === undefined ? "" : `: ${why}`}`, () => {
  test.each(Array.from({ length: CUTS }, (_, at) => [at + 1]))("the agent has the credentials that it wrote (cut %i)", async () => {
    using folder = temporaryFolder();
    await using disk = new CuttableDisk(join(folder.path, "disk"), 64);
    const answers = join(folder.path, "answers");
    const out = openSync(answers, "w");
    const writer = spawn(process.execPath, [WRITER, disk.path], { stdio: ["ignore", out, "inherit"] });
    const ended = once(writer, "exit");
    const written = () => Number(readFileSync(answers, "utf8").trim().split("\n").at(-1));
    await eventually("the first is written", async () => written() > 0);
    await sleep(Math.random() * 500);
    await disk.cut([writer.pid ?? 0], async () => {
      writer.kill("SIGKILL");
      await ended;
    });
    closeSync(out);
    const found = Number(execFileSync(process.execPath, [WRITER, disk.path, "read"], { encoding: "utf8" }));
    // One may have been on the disk and not answered yet.
    expect([written(), written() + 1]).toContain(found);
  });
});
