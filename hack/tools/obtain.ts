// Finds or fetches one program of a pinned version. It tries, in this order: PATH; the cache; the project's release; its Go module.
// Invariants: a program in the cache is complete, runs, and reports the pinned version; it is put there by a single rename. Two concurrent
// runs share the work; a killed run leaves nothing that the next one would trust.
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

export interface Place {
  /** The folder of all kept programs. */
  cache: string;
  /** As in the environment variable. */
  path: string;
  progress: Progress;
}

/** The absolute path of the program; undefined if it has to be fetched first. */
export async function find(tool: Tool, place: Omit<Place, "progress">): Promise<string | undefined> {
  const kept = keptPath(tool, place);
  return (await findOnPath(tool, place.path)) ?? (existsSync(kept) ? kept : undefined);
}

/** The path of the program in the cache. */
export function keptPath({ name, version, edition }: Tool, { cache }: Pick<Place, "cache">): string {
  return join(cache, name, edition === undefined ? version : `${version}-${edition}`, name);
}

/** The absolute path of the program. Throws ToolError that lists everything that was tried. */
export async function obtain(tool: Tool, place: Place): Promise<string> {
  const found = await find(tool, place);
  if (found !== undefined) return found;
  const kept = keptPath(tool, place);
  const progress: Progress = (line, live) => place.progress(`${tool.name} ${tool.version}: ${line}`, live);
  const release = await acquireLock(`${kept}.lock`, (pid) => progress(`waiting for process ${pid}, which is bringing it`));
  try {
    if (!existsSync(kept)) await bring(tool, kept, progress);
    return kept;
  } finally {
    release();
  }
}

async function findOnPath(tool: Tool, path: string): Promise<string | undefined> {
  const folders = path.split(delimiter).filter((folder) => folder.startsWith("/"));
  for (const name of [tool.name, ...(tool.alsoNamed ?? [])]) {
    const file = folders.map((folder) => join(folder, name)).find(isExecutable);
    if (file !== undefined && (await saysVersion(tool, file))) return file;
  }
  return undefined;
}

async function bring(tool: Tool, kept: string, progress: Progress): Promise<void> {
  const startedAt = Date.now();
  const ways: [string, (folder: string, target: string) => Promise<void>][] = [
    ["release", (folder, target) => fromRelease(tool, folder, target, progress)],
    ["Go module", (folder, target) => buildModule(tool.module, folder, target, progress)],
  ];
  const tried = [`PATH: no ${tool.name} of version ${tool.version}`, `cache: no ${kept}`];
  for (const [way, into] of ways) {
    try {
      await atOnce(tool, kept, into);
      progress(`ready after ${Math.round((Date.now() - startedAt) / 1000)} s (${way}), kept as ${kept}`);
      return;
    } catch (error) {
      // Whatever went wrong (even a full disk), the next way is tried; all failures are reported at the end.
      tried.push(`${way}: ${(error as Error).message}`);
      progress(`not by ${tried.at(-1)}`);
    }
  }
  throw new ToolError(
    `cannot get ${tool.name} ${tool.version}. Tried:\n${tried.map((line) => `  - ${line}`).join("\n")}\nPut ${tool.name} ${tool.version} on PATH, or make one of these ways work, and start again.`,
  );
}

async function fromRelease(tool: Tool, folder: string, target: string, progress: Progress): Promise<void> {
  if (tool.release === undefined) throw new ToolError(`none for ${process.platform} on ${process.arch}`);
  await downloadRelease(tool.release, folder, target, progress);
  await chmod(target, 0o755);
}

/** Runs `into` in a scratch folder next to the target in the cache, validates the result, and only then moves it there. */
async function atOnce(tool: Tool, kept: string, into: (folder: string, target: string) => Promise<void>): Promise<void> {
  const scratch = join(dirname(kept), "scratch");
  // The remains of a killed run: this process holds the lock, so no run uses them.
  await rm(scratch, { recursive: true, force: true });
  await mkdir(scratch, { recursive: true });
  try {
    const target = join(scratch, `${tool.name}.new`);
    await into(scratch, target);
    if (!(await saysVersion(tool, target))) throw new ToolError(`what came does not run, or is not ${tool.name} ${tool.version}`);
    await rename(target, kept);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/** True if the program runs and prints the version as a whole word, with or without a leading `v`. */
async function saysVersion(tool: Tool, file: string): Promise<boolean> {
  const exact = new RegExp(`(?<![\\d.])${tool.version.replaceAll(".", "\\.")}(?![\\d.]*\\d)`);
  const answer = await promisify(execFile)(file, tool.versionArgs, { timeout: 20_000 }).catch(() => undefined);
  return answer !== undefined && exact.test(answer.stdout + answer.stderr);
}
