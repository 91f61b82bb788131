// The kernels' compilation, as a process in a copy of its sources.
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { buildTree } from "../test/fixtures/build-tree.ts";
import { ROOT } from "./bundle.ts";
import { KERNELS } from "./kernel.mjs";

/** The kernel whose source the test changes. */
const FOLDER = "backend/ingest/otlp/kernel";
let tree: ReturnType<typeof buildTree>;
beforeAll(() => {
  tree = buildTree("hack/kernel.mjs", [...KERNELS, "backend/ingest/kernel"]);
});
afterAll(() => tree?.[Symbol.dispose]());

const kernel = (): string => join(tree.path, `${FOLDER}.wasm`);

test("compiles kernels once, again after a change of a source, and not at all if it is invalid", { timeout: 240_000 }, async () => {
  expect(await tree.build()).toMatchObject({ exitCode: 0, stderr: "" });
  // The same bytes in any folder.
  for (const folder of KERNELS) expect(readFileSync(join(tree.path, `${folder}.wasm`))).toEqual(readFileSync(join(ROOT, `${folder}.wasm`)));
  const first = statSync(kernel());
  await tree.build();
  expect(statSync(kernel()).ino).toBe(first.ino);

  const source = join(tree.path, FOLDER, "index.ts");
  const text = readFileSync(source, "utf8");
  writeFileSync(source, `${text}\nexport function more(): i32 {\n  return "no number";\n}\n`);
  expect(await tree.build()).toMatchObject({
    exitCode: 1,
    stderr: expect.stringMatching(/backend\/ingest\/otlp\/kernel does not compile:[^]*TS2322/),
  });
  expect(statSync(kernel()).ino).toBe(first.ino);
  expect(readdirSync(join(tree.path, "backend/ingest/otlp"))).toEqual(["kernel", "kernel.wasm"]);

  writeFileSync(source, `${text}\nexport function more(): i32 {\n  return 7;\n}\n`);
  expect(await tree.build()).toMatchObject({ exitCode: 0 });
  expect(statSync(kernel()).ino).not.toBe(first.ino);
  // Among the names of its exports.
  expect(readFileSync(kernel(), "latin1")).toContain("\u0004more");
});
