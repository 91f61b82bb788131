import { closeSync, openSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../test/fixtures/processes.ts";
import { nextSteps, isPrivate } from "./start-messages.ts";

test.each([
  [0o600, true],
  [0o640, false],
  [0o644, false],
])("a file of mode %o is private: %s", (mode, expected) => {
  using folder = temporaryFolder();
  const file = join(folder.path, "start.out");
  writeFileSync(file, "", { mode });
  const descriptor = openSync(file, "a");
  try {
    expect(isPrivate(descriptor)).toBe(expected);
  } finally {
    closeSync(descriptor);
  }
});

test("prints the link as the last address, and without a code the address alone", () => {
  const info = { data: "/d", passwordFile: "/d/password", tryLog: "/d/try-me.log" };
  const addresses = (text: string) => [...text.matchAll(/^ {2}(http:\/\/\S+)$/gm)].map(([, address]) => address);
  expect(addresses(nextSteps({ ...info, loginCode: "secret" }))).toEqual(["http://127.0.0.1:8080/#/login/secret"]);
  expect(addresses(nextSteps({ ...info, loginCode: undefined }))).toEqual(["http://127.0.0.1:8080/"]);
});
