// Compares positions of a bundle in its sources with those of Node.js's own reader of source maps, in an order that needs both cached and
// new positions.
import { execFile } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, expect, test } from "vitest";
import { bundle, ROOT } from "./bundle.ts";

const folder = mkdtempSync(join(tmpdir(), "atherops-traces-"));
afterAll(() => rmSync(folder, { recursive: true }));

const PLACES = 500;

test("maps each position of a bundle like Node's own reader, in any order", async () => {
  await bundle("host-agent", folder);
  copyFileSync(join(ROOT, "hack/stack-traces.ts"), join(folder, "stack-traces.ts"));
  const program = `
    import { readFileSync } from "node:fs";
    import { SourceMap } from "node:module";
    import { join } from "node:path";
    await import(${JSON.stringify(join(folder, "stack-traces.ts"))});
    const file = ${JSON.stringify(join(folder, "atherops-otel-agent.js"))};
    const map = new SourceMap(JSON.parse(readFileSync(file + ".map", "utf8")));
    const lines = readFileSync(file, "utf8").split("\\n").length;
    let asked = 0;
    for (let turn = 0; asked < ${PLACES}; turn += 1) {
      const [line, column] = [1 + ((turn * 7919) % lines), 1 + (turn % 190)];
      const entry = map.findEntry(line - 1, column - 1);
      if (entry.originalSource === undefined || entry.generatedLine !== line - 1) continue;
      asked += 1;
      const frame = { toString: () => "run (file://" + file + ":" + line + ":" + column + ")" };
      const named = Error.prepareStackTrace(new Error("x"), [frame]).split("\\n")[1];
      const expected = "    at run (" + join(${JSON.stringify(folder)}, entry.originalSource) + ":" + (entry.originalLine + 1) + ":" + (entry.originalColumn + 1) + ")";
      if (named !== expected) console.log(line, column, named, expected);
    }
    console.log("asked", asked);`;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", program]);
  expect(stdout).toBe(`asked ${PLACES}\n`);
});
