import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../test/fixtures/processes.ts";
import { Program } from "./program.ts";

test("a program that ends at its start is reported with its own last lines, and none of the run before", async () => {
  using folder = temporaryFolder();
  const log = join(folder.path, "backend.out");
  writeFileSync(log, "a login of yesterday\n");
  const args = ["--eval", "console.error('the folder is used by process 7'); process.exit(2)"];
  const program = new Program({ name: "backend", args, env: process.env, log, stopping: new AbortController().signal });
  await expect(program.exited()).rejects.toThrow(/^the backend ended with 2:\n {4}the folder is used by process 7$/);
});
