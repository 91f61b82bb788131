// The kernels' compilation, as a process in a tree of its own that has this one's packages.
import {
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ROOT } from "./bundle.ts";
import { KERNELS } from "./kernel.mjs";

/** The one that is changed. */
const FOLDER = "backend/ingest/otlp/kernel";
let tree: string;
beforeAll(() => {
  tree = mkdtempSync(join(tmpdir(), "atherops-kernel-"));
  mkdirSync(join(tree, "hack"));
  copyFileSync(join(ROOT, "hack/kernel.mjs"), join(tree, "hack/kernel.mjs"));
  for (const folder of [...KERNELS, "common/kernel"]) cpSync(join(ROOT, folder), join(tree, folder), { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(tree, "node_modules"));
});
afterAll(() => rmSync(tree, { recursive: true, force: true }));

const kernel = (): string => join(tree, `${FOLDER}.wasm`);
const build = () => execa(process.execPath, ["hack/kernel.mjs"], { cwd: tree, reject: false });

test("kernels are compiled once, again when a source changes, and not at all when it is wrong", { timeout: 240_000 }, async () => {
  expect(await build()).toMatchObject({ exitCode: 0, stderr: "" });
  // The same bytes in any folder.
  for (const folder of KERNELS) expect(readFileSync(join(tree, `${folder}.wasm`))).toEqual(readFileSync(join(ROOT, `${folder}.wasm`)));
  const first = statSync(kernel());
  await build();
  expect(statSync(kernel()).ino).toBe(first.ino);

  const source = join(tree, FOLDER, "index.ts");
  const text = readFileSync(source, "utf8");
  writeFileSync(source, `${text}\nexport function more(): i32 {\n  return "no number";\n}\n`);
  expect(await build()).toMatchObject({
    exitCode: 1,
    stderr: expect.stringMatching(/backend\/ingest\/otlp\/kernel does not compile:[^]*TS2322/),
  });
  expect(statSync(kernel()).ino).toBe(first.ino);
  expect(readdirSync(join(tree, "backend/ingest/otlp"))).toEqual(["kernel", "kernel.wasm"]);

  writeFileSync(source, `${text}\nexport function more(): i32 {\n  return 7;\n}\n`);
  expect(await build()).toMatchObject({ exitCode: 0 });
  expect(statSync(kernel()).ino).not.toBe(first.ino);
  // Among the names of its exports.
  expect(readFileSync(kernel(), "latin1")).toContain("\u0004more");
});
