import { mkdirSync } from "node:fs";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../test/fixtures/processes.ts";
import { StateDirError } from "../state/state-dir-error.ts";
import { ConfigFiles } from "./config-files.ts";

test("a configuration that was judged and cannot be put in its place is an error that says what to do", async () => {
  using folder = temporaryFolder();
  const files = new ConfigFiles(folder.path);
  let judged = 0;
  const adopted = files.adopt("receivers:\n", () => {
    judged++;
    mkdirSync(files.path);
    return Promise.resolve();
  });
  const error = await adopted.catch((thrown: unknown) => thrown as Error);
  expect(error).toBeInstanceOf(StateDirError);
  expect(String(error)).toMatch(/^StateDirError: STATE_DIR \S+: EISDIR: .*; set it to a place that this user may write$/);
  expect(judged).toBe(1);
});
