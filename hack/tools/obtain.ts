// Finds or fetches a program of a pinned version: on PATH, in the cache, from the project's release, or by building its Go module.
// Invariants: a program in the cache is complete, runs, and reports the pinned version; a single rename moves it into the cache. Two
// concurrent runs share the work; the next run ignores what a killed run left.
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, mkdir, rename, rm } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { promisify } from "node:util";
import { isExecutable } from "../../common/files.ts";
import { acquireLock } from "../lock.mjs";
import { buildModule, type GoModule } from "./go-module.ts";
import { downloadRelease, type Release } from "./release.ts";
import { ToolError, type Progress } from "./progress.ts";

export interface Tool {
  name: string;
  version: string;
  /** Distinguishes several builds of one version, such as collectors with different components. */
  edition?: string;
  /** Further names on PATH that distributions use. */
  alsoNamed?: string[];
  /** Arguments that make it print its version. */
  versionArgs: string[];
  /** Undefined if the project publishes no release for this platform, or only in a format that release.ts does not read. */
  release: Release | undefined;
  module: GoModule;
}

export interface Locations {
  /** The folder of all cached programs. */
  cache: string;
  /** As in the environment variable. */
  path: string;
  progress: Progress;
}

/** Returns the absolute path of the program; undefined if it must be fetched first. */
export async function find(tool: Tool, locations: Omit<Locations, "progress">): Promise<string | undefined> {
  const cached = cachedPath(tool, locations);
  return (await findOnPath(tool, locations.path)) ?? (existsSync(cached) ? cached : undefined);
}

/** The path of the program in the cache. */
export function cachedPath({ name, version, edition }: Tool, { cache }: Pick<Locations, "cache">): string {
  return join(cache, name, edition === undefined ? version : `${version}-${edition}`, name);
}

/** Returns the absolute path of the program. Throws a ToolError that lists all failures. */
export async function obtain(tool: Tool, locations: Locations): Promise<string> {
  const found = await find(tool, locations);
  if (found !== undefined) return found;
  const cached = cachedPath(tool, locations);
  const progress: Progress = (line, live) => locations.progress(`${tool.name} ${tool.version}: ${line}`, live);
  const release = await acquireLock(`${cached}.lock`, (pid) => progress(`waiting for process ${pid}, which is fetching it`));
  try {
    if (!existsSync(cached)) await fetchTool(tool, cached, progress);
    return cached;
  } finally {
    release();
  }
}

async function findOnPath(tool: Tool, path: string): Promise<string | undefined> {
  const folders = path.split(delimiter).filter((folder) => folder.startsWith("/"));
  for (const name of [tool.name, ...(tool.alsoNamed ?? [])]) {
    const file = folders.map((folder) => join(folder, name)).find(isExecutable);
    if (file !== undefined && (await reportsVersion(tool, file))) return file;
  }
  return undefined;
}

async function fetchTool(tool: Tool, cached: string, progress: Progress): Promise<void> {
  const startedAt = Date.now();
  const sources: [string, (folder: string, target: string) => Promise<void>][] = [
    ["release", (folder, target) => fromRelease(tool, folder, target, progress)],
    ["Go module", (folder, target) => buildModule(tool.module, folder, target, progress)],
  ];
  const failures = [`PATH: no ${tool.name} of version ${tool.version}`, `cache: no ${cached}`];
  for (const [source, fetchInto] of sources) {
    try {
      await addToCache(tool, cached, fetchInto);
      progress(`ready after ${Math.round((Date.now() - startedAt) / 1000)} s (${source}), stored as ${cached}`);
      return;
    } catch (error) {
      // After any failure, even a full disk, the next source is tried; all failures are reported at the end.
      failures.push(`${source}: ${(error as Error).message}`);
      progress(`failed: ${failures.at(-1)}`);
    }
  }
  throw new ToolError(
    `cannot get ${tool.name} ${tool.version}. Tried:\n${failures.map((line) => `  - ${line}`).join("\n")}\nInstall ${tool.name} ${tool.version} on PATH, or fix one of these problems, and start again.`,
  );
}

async function fromRelease(tool: Tool, folder: string, target: string, progress: Progress): Promise<void> {
  if (tool.release === undefined) throw new ToolError(`none for ${process.platform} on ${process.arch}`);
  await downloadRelease(tool.release, folder, target, progress);
  await chmod(target, 0o755);
}

/** Runs `fetchInto` in a scratch folder, validates the result, and only then moves it into the cache. */
async function addToCache(tool: Tool, cached: string, fetchInto: (folder: string, target: string) => Promise<void>): Promise<void> {
  const scratch = join(dirname(cached), "scratch");
  // Left by a killed run: this process holds the lock, so no other run uses it.
  await rm(scratch, { recursive: true, force: true });
  await mkdir(scratch, { recursive: true });
  try {
    const target = join(scratch, `${tool.name}.new`);
    await fetchInto(scratch, target);
    if (!(await reportsVersion(tool, target))) throw new ToolError(`the result does not run, or is not ${tool.name} ${tool.version}`);
    await rename(target, cached);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/** True if the program runs and prints the version as a whole word, with or without a leading `v`. */
async function reportsVersion(tool: Tool, file: string): Promise<boolean> {
  const exact = new RegExp(`(?<![\\d.])${tool.version.replaceAll(".", "\\.")}(?![\\d.]*\\d)`);
  const answer = await promisify(execFile)(file, tool.versionArgs, { timeout: 20_000 }).catch(() => undefined);
  return answer !== undefined && exact.test(answer.stdout + answer.stderr);
}
