import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { freePorts, temporaryFolder } from "../../../test/fixtures/processes.ts";
import { toolPath } from "../../../hack/fetch-tools.ts";
import { createLog } from "../../log.ts";
import { VmalertClient } from "./vmalert-client.ts";
import { startEvaluator } from "./embedded-vmalert.ts";
import { renderGroup, renderRuleFile, RuleFolder } from "./rule-files.ts";

const group = (name: string, alert = "a"): string =>
  renderGroup({
    name,
    params: {},
    concurrency: 1,
    limit: 10,
    rules: [{ alert, expr: "up == 0", forMs: 0, labels: {}, annotations: { text: '- {name: "x"\n' } }],
  });
const groups = (...names: string[]): Map<string, string> => new Map(names.map((name) => [name, group(name)]));

test("a change writes the file of its group only", async () => {
  using folder = temporaryFolder();
  const rules = await RuleFolder.open(join(folder.path, "rules"));
  expect(await rules.write(groups("one", "two", "three"))).toBe(3);
  const inodes = (): number[] => ["one", "two", "three"].map((name) => statSync(join(folder.path, "rules", `${name}.yml`)).ino);
  const before = inodes();
  expect(await rules.write(groups("one", "two", "three").set("two", group("two", "b")))).toBe(1);
  expect(inodes().map((inode, at) => inode === before[at])).toEqual([true, false, true]);
  expect(parse(readFileSync(join(folder.path, "rules", "two.yml"), "utf8")).groups[0]).toMatchObject({
    name: "two",
    rules: [{ alert: "b" }],
  });
  expect(statSync(join(folder.path, "rules", "two.yml")).mode & 0o777).toBe(0o600);
});

test("empties a removed group immediately, and deletes its file and partial files at the next start", async () => {
  using folder = temporaryFolder();
  const path = join(folder.path, "rules");
  const rules = await RuleFolder.open(path);
  await rules.write(groups("stays", "goes"));
  await rules.write(groups("stays"));
  expect(readFileSync(join(path, "goes.yml"), "utf8")).toBe("groups: []\n");
  writeFileSync(join(path, "stays.yml.new"), "half");
  const next = await RuleFolder.open(path);
  expect(readdirSync(path)).toEqual(["stays.yml"]);
  expect(await next.write(groups("other"))).toBe(2);
  expect(readFileSync(join(path, "stays.yml"), "utf8")).toBe("groups: []\n");
});

test("vmalert starts with the rules of the last run, without a file that it rejects", async () => {
  using folder = temporaryFolder();
  // A folder whose name means something in patterns and lists.
  const dataDir = join(folder.path, "odd [a], {b}*");
  mkdirSync(join(dataDir, "vmalert", "rules"), { recursive: true });
  for (const name of ["one", "two"]) writeFileSync(join(dataDir, "vmalert", "rules", `${name}.yml`), renderRuleFile([group(name)]));
  writeFileSync(join(dataDir, "vmalert", "rules", "bad.yml"), "groups: [{name: bad, rules: [{alert: a, expr: 'up =='}]}]\n");
  const [port = 0] = await freePorts(1);
  await using evaluator = await startEvaluator({
    candidates: [await toolPath("vmalert")],
    dataDir,
    listen: { host: "127.0.0.1", port },
    passwordFile: undefined,
    intervalMs: 1000,
    delayMs: 0,
    metricsQueryUrl: "http://127.0.0.1:1",
    metricsWriteUrl: "http://127.0.0.1:1",
    log: createLog("silent"),
  });
  await using client = new VmalertClient(evaluator.url);
  expect((await client.groups()).map(({ name }) => name)).toEqual(["one", "two"]);
  expect(readdirSync(join(dataDir, "vmalert", "rules")).sort()).toEqual(["bad.yml.refused", "one.yml", "two.yml"]);
});
