import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { LOG_TREE_LIMITS, LogTree } from "./log-tree.ts";
import { PathPatterns } from "./log-paths.ts";

/** Paths with this name are on a file system that does not respond, such as NFS without its server. */
const DEAD = "dead-nfs";
let isDead = true;
vi.mock("node:fs/promises", async (importActual) => {
  const actual = await importActual<typeof import("node:fs/promises")>();
  const unlessDead =
    <A extends unknown[], R>(ask: (path: string, ...rest: A) => Promise<R>) =>
    (path: string, ...rest: A): Promise<R> =>
      path.includes(DEAD) && isDead ? new Promise<R>(() => {}) : ask(path, ...rest);
  return { ...actual, stat: unlessDead(actual.stat as never), realpath: unlessDead(actual.realpath as never) };
});

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "atherops-tree-"));
  mkdirSync(join(root, "app/2026"), { recursive: true });
  writeFileSync(join(root, "app/2026/x.log"), "");
});
afterEach(() => rmSync(root, { recursive: true }));

function treeOf(pattern: string, limits = LOG_TREE_LIMITS): LogTree {
  return new LogTree(new PathPatterns([`${root}/${pattern}`]), (folder) => folder.startsWith(root), limits);
}

async function found(tree: LogTree): Promise<string[]> {
  const paths: string[] = [];
  for await (const { files, links } of tree.pass(new AbortController().signal)) paths.push(...files, ...links);
  return paths.map((path) => path.slice(root.length + 1)).toSorted();
}

test("follows links to folders if they lead to files that match only through them", async () => {
  symlinkSync("2026", join(root, "app/current"));
  expect(await found(treeOf("*/current/*.log"))).toEqual(["app/current/x.log"]);
  expect(await found(treeOf("app/current/*.log"))).toEqual(["app/current/x.log"]);
  expect(await found(treeOf("**/*.log"))).toEqual(["app/2026/x.log"]);
});

test("visits each folder once despite loops and many links", async () => {
  for (const name of ["a", "b", "c"]) symlinkSync(".", join(root, "app", name));
  for (let i = 0; i < 90; i++) symlinkSync("..", join(root, "app/2026", `up${i}`));
  symlinkSync("/", join(root, "app/root"));
  const startedAt = performance.now();
  expect(await found(treeOf("**/*.log"))).toEqual(["app/2026/x.log"]);
  expect(await found(treeOf("*/*/*/*/*/*.log"))).toHaveLength(1);
  expect(performance.now() - startedAt).toBeLessThan(40_000);
});

test("stops the walk at a limit and reports it", async () => {
  for (let i = 0; i < 10; i++) symlinkSync("none", join(root, `${i}.log`));
  for (let i = 0; i < 10; i++) mkdirSync(join(root, "many", String(i)), { recursive: true });
  const tree = treeOf("**/*.log", { ...LOG_TREE_LIMITS, linksOfFolder: 3 });
  expect(await found(tree)).toHaveLength(4);
  expect(tree.isCut).toBe(true);
  const few = treeOf("**/*.log", { ...LOG_TREE_LIMITS, folders: 5 });
  await found(few);
  expect(few.isCut).toBe(true);
  const whole = treeOf("**/*.log");
  await found(whole);
  expect(whole.isCut).toBe(false);
});

test("yields to the event loop while it walks a large tree", async () => {
  for (let folder = 0; folder < 300; folder++) mkdirSync(join(root, "many", String(folder)), { recursive: true });
  let turns = 0;
  const immediate = (): void => void (turns++, (next = setImmediate(immediate)));
  let next = setImmediate(immediate);
  await found(treeOf("**/*.log"));
  clearImmediate(next);
  expect(turns).toBeGreaterThan(100);
});

test("finds files while another file system does not respond, names it, and finds its files once it responds", async () => {
  mkdirSync(join(root, DEAD));
  writeFileSync(join(root, DEAD, "y.log"), "");
  symlinkSync("app", join(root, `link-to-${DEAD}`));
  const tree = treeOf("**/*.log", { ...LOG_TREE_LIMITS, answerMs: 50 });
  const refused = new Map<string, string>();
  for await (const pass of tree.pass(new AbortController().signal)) for (const [path, why] of pass.refused ?? []) refused.set(path, why);
  expect([...refused]).toEqual([DEAD, `link-to-${DEAD}`].map((name) => [join(root, name), "unreadable"]));
  expect(await found(tree)).toEqual(["app/2026/x.log"]);
  isDead = false;
  expect(await found(treeOf("**/*.log"))).toEqual(["app/2026/x.log", `${DEAD}/y.log`]);
});
