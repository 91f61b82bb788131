import { existsSync, globSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import config from "../vitest.config.ts";
import { reaches } from "./imports.ts";
import { ENGINES, LONG, pathsAmong, SLOW, testFiles } from "./test-files.ts";

const ROOT = join(import.meta.dirname, "..");

describe("arguments of a command line", () => {
  test("select a file, a folder or a part of a path", () => {
    expect(testFiles(ROOT, ["hack/lock.test.ts"])).toEqual(["hack/lock.test.ts"]);
    expect(testFiles(ROOT, ["./hack/lock.test.ts", "-u"])).toEqual(["hack/lock.test.ts"]);
    expect(testFiles(ROOT, ["hack/tools"]).sort()).toEqual([
      "hack/tools/obtain.test.ts",
      "hack/tools/progress.test.ts",
      "hack/tools/release.test.ts",
    ]);
    expect(testFiles(ROOT, ["secret-follower"])).toEqual(["agent/credentials/secret-follower.test.ts"]);
  });

  test("select nothing if there are only options", () => {
    expect(testFiles(ROOT, ["--project=unit"])).toEqual([]);
    expect(testFiles(ROOT, ["--project", "unit", "-t", "lock"])).toEqual([]);
    expect(testFiles(ROOT, [])).toEqual([]);
    expect(pathsAmong(["--project", "unit", "-t", "lock", "-u", "hack/lock"])).toEqual(["hack/lock"]);
  });
});

test("distinguishes a test that runs third-party programs from one that does not", () => {
  const fetches = join(ROOT, "hack", "fetch-tools.ts");
  expect(reaches(join(ROOT, "test/faults/agent-disk.test.ts"), fetches)).toBe(true);
  expect(reaches(join(ROOT, "backend/query/prometheus/promql-routes.engine.test.ts"), fetches)).toBe(true);
  expect(reaches(join(ROOT, "common/protocol/signature.test.ts"), fetches)).toBe(false);
});

describe("the name of a test next to its file", () => {
  const needsEngine = (file: string) => ENGINES.some((engine) => reaches(join(ROOT, file), join(ROOT, engine)));
  const files = globSync("{agent,backend,common,hack}/**/*.test.ts", { cwd: ROOT }).sort();
  const [named, others] = [true, false].map((ends) => files.filter((file) => file.endsWith(".engine.test.ts") === ends)) as [
    string[],
    string[],
  ];

  test("contains .engine if it loads an engine", () => {
    expect(ENGINES.filter((engine) => !existsSync(join(ROOT, engine)))).toEqual([]);
    expect(others.length).toBeGreaterThan(30);
    expect(others.filter(needsEngine)).toEqual([]);
  });

  test("does not contain .engine without one, unless it is slow", () => {
    expect(named.length).toBeGreaterThan(30);
    expect(named.filter((file) => !needsEngine(file)).toSorted()).toEqual(SLOW.toSorted());
  });
});

test("the files that begin first exist", () => {
  expect(LONG.filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
});

test("every test file belongs to exactly one project", () => {
  const projects = (config.test?.projects ?? []) as { test: { include: string[]; exclude?: string[] } }[];
  const run = projects.flatMap(({ test: { include, exclude = [] } }) => globSync(include, { cwd: ROOT, exclude }));
  const all = globSync("{agent,backend,common,charts,hack,test}/**/*.test.ts", { cwd: ROOT });
  expect(projects.length).toBeGreaterThan(3);
  expect(run.toSorted()).toEqual(all.toSorted());
});
