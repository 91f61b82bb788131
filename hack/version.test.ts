// The version is written in one place, a command writes its copies, and only the commit with its tag can be released.
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { copies, setVersion, taggedRelease, versionOf } from "./version.ts";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "atherops-version-"));
  const files = globSync(
    [
      "package*.json",
      "{agent,backend,backend/*}/package.json",
      "charts/*/{Chart.yaml,README.md,ci/golden/*}",
      "docs/{openapi*,install-host.md}",
    ],
    { cwd: ROOT },
  );
  for (const file of files) cpSync(join(ROOT, file), join(root, file));
  writeFileSync(join(root, "CHANGELOG.md"), "# Changelog\n\n## [Unreleased]\n\n- A feature.\n");
  onTestFinished(() => rmSync(root, { recursive: true }));
});

async function git(...args: string[]): Promise<void> {
  await execa("git", ["-c", "user.name=t", "-c", "user.email=t@example.com", ...args], { cwd: root });
}

async function committed(): Promise<void> {
  await git("init", "-q");
  await git("add", ".");
  await git("commit", "-qm", "one");
}

test("every copy of the version equals the root package.json", () => {
  const version = versionOf(ROOT);
  expect(copies(ROOT).filter((copy) => copy.version !== version)).toEqual([]);
  const files = new Set(copies(ROOT).map(({ file }) => file));
  expect([...files]).toEqual(
    expect.arrayContaining([
      "agent/package.json",
      "backend/package.json",
      "backend/cli/package.json",
      "package-lock.json",
      "charts/backend/Chart.yaml",
      "charts/cluster-agent/Chart.yaml",
      "charts/backend/README.md",
      "charts/cluster-agent/ci/golden/default-values.yaml",
      "docs/openapi.json",
    ]),
  );
});

test("no program, tool or page contains a version that setVersion does not find", async () => {
  const pinned = /atherops(?:-[a-z]+)*[:-]\d+\.\d+\.\d+|\.version\("\d|version: "\d+\.\d+\.\d+"/;
  const { stdout } = await execa("git", ["ls-files", "agent", "backend", "hack", "test", "charts", "docs", ".ci", "*.md"], { cwd: ROOT });
  const known = new Set(copies(ROOT).map(({ file }) => file));
  const texts = stdout.split("\n").filter((file) => !known.has(file) && /\.(?:ts|mjs|md|yaml|json)$|kind-up|cluster$/.test(file));
  const strays = texts.filter(
    (file) =>
      !/hack\/(?:fetch-tools|tools\/|version)|\.test\.ts$|^test\/(?:bench|fixtures)/.test(file) &&
      pinned.test(readFileSync(join(ROOT, file), "utf8")),
  );
  expect(strays).toEqual([]);
});

test("writes another version everywhere, and dates the unreleased changes", () => {
  const before = copies(root).length;
  const written = setVersion(root, "7.8.9-rc.1", "2030-01-31");
  expect(written).toContain("charts/cluster-agent/Chart.yaml");
  expect(versionOf(root)).toBe("7.8.9-rc.1");
  expect(copies(root).map((copy) => copy.version)).toEqual(Array.from({ length: before + 1 }, () => "7.8.9-rc.1"));
  expect(readFileSync(join(root, "CHANGELOG.md"), "utf8")).toBe(
    "# Changelog\n\n## [Unreleased]\n\n## [7.8.9-rc.1] - 2030-01-31\n\n- A feature.\n",
  );
  // The written changelog can be read again, from an unreleased version to a released one.
  writeFileSync(join(root, "CHANGELOG.md"), readFileSync(join(root, "CHANGELOG.md"), "utf8").replace("## [7", "- A window.\n\n## [7"));
  setVersion(root, "7.8.9", "2030-02-01");
  expect(new Set(copies(root).map((copy) => copy.version))).toEqual(new Set(["7.8.9"]));
});

test("rejects a version without notes, a repeated one, and an invalid one", () => {
  expect(() => setVersion(root, "next", "2030-01-31")).toThrow('"next" is no version');
  setVersion(root, "7.8.9", "2030-01-31");
  expect(() => setVersion(root, "7.8.9", "2030-01-31")).toThrow("has a section [7.8.9] already");
  expect(() => setVersion(root, "7.9.0", "2030-01-31")).toThrow('nothing under "## [Unreleased]"');
});

test("a commit is released only with the tag of its version, a clean tree, and equal copies", async () => {
  const version = versionOf(root);
  await committed();
  await expect(taggedRelease(root)).rejects.toThrow(`HEAD has no tag, package.json says ${version}`);
  await git("tag", "v99.0.0");
  await expect(taggedRelease(root)).rejects.toThrow(`HEAD has the tag v99.0.0, package.json says ${version}`);
  await git("tag", `v${version}`);
  expect(await taggedRelease(root)).toEqual({ version, epoch: expect.stringMatching(/^\d{10}$/) as string });
  const chart = join(root, "charts/backend/Chart.yaml");
  writeFileSync(chart, readFileSync(chart, "utf8").replace(/^appVersion: .*/m, "appVersion: 99.0.0"));
  await expect(taggedRelease(root)).rejects.toThrow("charts/backend/Chart.yaml");
  await git("commit", "-qam", "two");
  await git("tag", "-f", `v${version}`);
  await expect(taggedRelease(root)).rejects.toThrow("charts/backend/Chart.yaml: 99.0.0");
});
