// Manages the version of the product, which is that of the root's package.json. Everything else that contains it (workspaces, charts, their
// pages and golden files) is listed here as copies. Invariant: version.test.ts fails if a copy differs; setVersion writes all of them.
import { globSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { raiseVersion } from "./chart-values.ts";

export class VersionError extends Error {
  override readonly name = "VersionError";
}

const VERSION = String.raw`(\d+\.\d+\.\d+(?:-(?:alpha|beta|rc)\.\d+)?)`;

/** Files, and the text before and after the version in each. */
const COPIES: readonly (readonly [glob: string, before: string, after: string])[] = [
  ["{agent,backend,backend/*}/package.json", String.raw`"name": "@atherops/[a-z-]+",\n\s+"version": "`, '"'],
  ["package-lock.json", String.raw`"name": "@atherops/[a-z-]+",\n\s+"version": "`, '"'],
  ["charts/*/Chart.yaml", "^appVersion: ", "$"],
  ["charts/*/README.md", "atherops-(?:agent|backend):", ""],
  ["charts/*/ci/golden/*.yaml", String.raw`(?:atherops-(?:agent|backend):|app\.kubernetes\.io/version: ")`, ""],
  ["docs/install-distributed.md", "atherops-(?:agent|backend):", ""],
  ["docs/openapi*.json", String.raw`^ {4}"version": "`, '"'],
  ["docs/install-host.md", "atherops-otel-agent[-_]", ""],
  // The newest released version.
  ["CHANGELOG.md", String.raw`(?<!## \[\d[^]*)## \[`, String.raw`\]`],
];

function pattern(before: string, after: string): RegExp {
  return new RegExp(`(?<=${before})${VERSION}(?=${after})`, "gm");
}

export function versionOf(root: string): string {
  return (JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string }).version;
}

/** Every copy in a file of `root`. */
export function copies(root: string): { file: string; version: string }[] {
  return COPIES.flatMap(([glob, before, after]) =>
    globSync(glob, { cwd: root })
      .sort()
      .flatMap((file) =>
        [...readFileSync(join(root, file), "utf8").matchAll(pattern(before, after))].map(([version]) => ({ file, version })),
      ),
  );
}

/**
 * Writes `version` everywhere, and moves the unreleased changes in the changelog to it. `date` as 2026-11-22. Returns the written files.
 */
export function setVersion(root: string, version: string, date: string): string[] {
  if (!new RegExp(`^${VERSION}$`).test(version)) throw new VersionError(`"${version}" is no version such as 0.2.0 or 0.2.0-rc.1`);
  const changelog = readFileSync(join(root, "CHANGELOG.md"), "utf8");
  const [, unreleased = ""] = /^## \[Unreleased\]\n([^]*?)(?=^## \[|$(?![^]))/m.exec(changelog) ?? [];
  if (changelog.includes(`## [${version}]`)) throw new VersionError(`CHANGELOG.md has a section [${version}] already`);
  if (unreleased.trim() === "") throw new VersionError('CHANGELOG.md has nothing under "## [Unreleased]": write what changed');
  const written: string[] = [];
  const write = (file: string, change: (text: string) => string): void => {
    const before = readFileSync(join(root, file), "utf8");
    const after = change(before);
    if (after === before) return;
    writeFileSync(join(root, file), after);
    written.push(file);
  };
  write("package.json", (text) => text.replace(new RegExp(`(?<=^ {2}"version": ")${VERSION}(?=")`, "m"), version));
  for (const [glob, before, after] of COPIES.filter(([file]) => file !== "CHANGELOG.md")) {
    for (const file of globSync(glob, { cwd: root }).sort()) write(file, (text) => text.replaceAll(pattern(before, after), version));
  }
  for (const file of globSync("charts/*/Chart.yaml", { cwd: root }).sort()) write(file, raiseVersion);
  write("CHANGELOG.md", (text) => text.replace("## [Unreleased]\n", `## [Unreleased]\n\n## [${version}] - ${date}\n`));
  return written;
}

/** The release that a checkout would produce: `epoch` is the time of its commit in Unix seconds. */
export interface Release {
  readonly version: string;
  readonly epoch: string;
}

/** The release of the commit in `root`. Throws unless it is clean, has one version everywhere, and has the tag of that version. */
export async function taggedRelease(root: string): Promise<Release> {
  const version = versionOf(root);
  const changed = await git(root, "status", "--porcelain");
  if (changed !== "") throw new VersionError(`the checkout is not clean; commit or remove:\n${changed}`);
  const others = copies(root).filter((copy) => copy.version !== version);
  if (others.length > 0) {
    const lines = others.map((copy) => `${copy.file}: ${copy.version}`).join("\n");
    throw new VersionError(`package.json says ${version}; hack/release --set-version writes the others:\n${lines}`);
  }
  const tags = (await git(root, "tag", "--points-at", "HEAD")).split("\n").filter((tag) => tag !== "");
  if (!tags.includes(`v${version}`)) {
    const has = tags.length === 0 ? "no tag" : `the tag ${tags.join(", ")}`;
    throw new VersionError(`HEAD has ${has}, package.json says ${version}; set the tag: git tag v${version}`);
  }
  return { version, epoch: await commitTime(root) };
}

/** The working tree of `root` as a trial release: its version has the commit's name as its build. */
export async function untaggedRelease(root: string): Promise<Release> {
  return { version: `${versionOf(root)}+${await git(root, "rev-parse", "--short=12", "HEAD")}`, epoch: await commitTime(root) };
}

async function commitTime(root: string): Promise<string> {
  return await git(root, "log", "-1", "--format=%ct");
}

async function git(root: string, ...args: string[]): Promise<string> {
  return (await execa("git", args, { cwd: root })).stdout;
}
