import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { temporaryFolder } from "../../test/fixtures/processes.ts";
import { runTests, type Outcome } from "./outcome.ts";

const QUIET = { reporter: "hanging-process" };
const ONCE =
  'import { existsSync, writeFileSync } from "node:fs"; const once = (name) => { if (existsSync(name)) return; writeFileSync(name, ""); throw new Error(name); };';
const FILES: Record<string, string> = {
  "good.test.ts": 'test("works", () => {}); test.skip("waits", () => {});',
  "always.test.ts": 'describe("a group", () => { test("never works", () => expect(1).toBe(2)); }); test("works", () => {});',
  // The second test needs the first of the same run.
  "order.test.ts":
    'let isReady = false; test("prepares", () => { isReady = true; }); test("builds on it", () => { expect(isReady).toBe(true); once("order"); });',
  "same-name.test.ts": 'test.each([1, 2])("same name", (n) => { if (n === 2) once("same"); });',
  "load.test.ts": 'once("load"); test("loads", () => {});',
  "hook.test.ts": 'beforeAll(() => once("hook")); test("is prepared", () => {});',
  "killed.test.ts": 'test("ends its process", () => { try { once("killed"); } catch { process.kill(process.pid, "SIGSEGV"); } });',
  "last-hook.test.ts": 'afterAll(() => { throw new Error("is never cleaned up"); }); test("works", () => {});',
  "rejection.test.ts":
    'test("works", async () => { const failing = Promise.reject(new Error("no test waits")); void (async () => await failing)(); await new Promise((done) => setTimeout(done, 50)); });',
};

let folder: ReturnType<typeof temporaryFolder>;
let outcome: Outcome;

function project(name: string, files: Record<string, string>, config = ""): string {
  const root = join(folder.path, name);
  mkdirSync(root);
  symlinkSync(join(import.meta.dirname, "../../node_modules"), join(root, "node_modules"));
  writeFileSync(join(root, "vitest.config.mjs"), `export default { test: { globals: true, fileParallelism: false, ${config} } };`);
  for (const [file, text] of Object.entries(files)) writeFileSync(join(root, file), `${ONCE}\n${text}`);
  return root;
}

beforeAll(async () => {
  folder = temporaryFolder();
  vi.spyOn(console, "log").mockReturnValue();
  outcome = await runTests(project("all", FILES), [], QUIET);
});
afterAll(() => folder?.[Symbol.dispose]());

test("counts tests, hooks, files and killed processes that fail once and pass alone as flaky and passed", () => {
  expect(outcome.flaky.toSorted()).toEqual([
    "hook.test.ts",
    "killed.test.ts",
    "load.test.ts",
    "order.test.ts: builds on it",
    "same-name.test.ts: same name",
  ]);
});

test("reports what fails twice as a failure: a test, a hook, and an unhandled error", () => {
  expect(outcome.failures.toSorted()).toEqual([
    expect.stringMatching(/^always\.test\.ts: a group > never works: AssertionError: expected 1 to be 2/),
    expect.stringMatching(/^last-hook\.test\.ts: Error: is never cleaned up$/),
    expect.stringMatching(/^rejection\.test\.ts: Error: no test waits$/),
  ]);
});

test("counts each test once, with its better outcome", () => {
  expect(outcome).toMatchObject({ passed: 1 + 1 + 2 + 2 + 1 + 1 + 1 + 1 + 1, skipped: ["good.test.ts: waits"] });
});

test("starts a project that stops at its first failure again, so that every test has run", async () => {
  const root = project("bail", { "a.test.ts": 'test("a", () => once("a"));', "b.test.ts": 'test("b", () => {});' }, "bail: 1");
  expect(await runTests(root, [], QUIET)).toEqual({ passed: 2, failures: [], flaky: ["a.test.ts: a"], skipped: [] });
});

test("runs files that were named once", async () => {
  const root = project("named", { "a.test.ts": 'test("a", () => once("a"));' });
  const { failures, flaky } = await runTests(root, ["a.test.ts"], { ...QUIET, isSecondRunWanted: false });
  expect([failures, flaky]).toEqual([["a.test.ts: a: Error: a"], []]);
});

test("does not rerun more than ten failing files", async () => {
  const names = Array.from({ length: 11 }, (_, index) => `f${index}`);
  const root = project("many", Object.fromEntries(names.map((name) => [`${name}.test.ts`, `test("t", () => once("${name}"));`])));
  expect((await runTests(root, [], QUIET)).failures).toHaveLength(11);
});

test("fails if a run finds no test", async () => {
  expect((await runTests(project("none", {}), [], QUIET)).failures).toEqual(["an error outside the tests (see above)"]);
});
