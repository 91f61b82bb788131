// Runs tests, and decides which have failed. Tests that fail are run once more at the end, one file after the other. A file is run as a whole,
// because its tests can build on each other. What passes then is flaky, not failed.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join, relative } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Report, ReportedFile, ReportedTest } from "./reporter.ts";

/** More failing files than this have a cause in common, and are not run again. */
const MAX_FILES_AGAIN = 10;

export interface Outcome {
  readonly passed: number;
  /** `FILE: TEST: error, on one line`; `FILE: error` if the file did not load, or a hook failed. */
  readonly failures: readonly string[];
  /** `FILE: TEST`, or `FILE`: failed once and passed once. */
  readonly flaky: readonly string[];
  /** `FILE: TEST`; a title contains the reason. */
  readonly skipped: readonly string[];
}

export const NOTHING: Outcome = { passed: 0, failures: [], flaky: [], skipped: [] };

/** Runs vitest with `args` in the folder `root`, which has its configuration and packages. To run a file again, `args` may contain only options. */
export async function runTests(
  root: string,
  args: readonly string[],
  { isSecondRunWanted = true, reporter = "default" } = {},
): Promise<Outcome> {
  const first = await runVitest(root, reporter, args);
  const failed = first.files.filter(hasFailed);
  const again = isSecondRunWanted && failed.length <= MAX_FILES_AGAIN ? failed : [];
  const errors = [...first.errors];
  // A project that stops at its first failure has not run the other files, so it starts again from the beginning.
  const runs = first.isInterrupted && again.length > 0 ? [[]] : again.map(({ path }) => [path]);
  const second: ReportedFile[] = [];
  for (const path of runs) {
    console.log(`\nonce more, alone: ${path.map((file) => relative(root, file)).join("") || "everything"}`);
    const report = await runVitest(root, reporter, [...args.filter((arg) => !arg.startsWith("--shard")), ...path]);
    second.push(...report.files);
    errors.push(...report.errors);
  }
  return outcomeOf(root, merged(first.files, second), errors);
}

/** Both runs of a file; the second is undefined if there was none. */
type Runs = readonly [ReportedFile, ReportedFile | undefined];

function merged(first: readonly ReportedFile[], second: readonly ReportedFile[]): Runs[] {
  const of = (files: readonly ReportedFile[]) => new Map(files.map((file) => [file.path, file]));
  const [before, after] = [of(first), of(second)];
  return [...new Set([...before.keys(), ...after.keys()])].map((path): Runs => {
    const [one, other] = [before.get(path), after.get(path)];
    return one === undefined ? [other as ReportedFile, undefined] : [one, other];
  });
}

function hasFailed(file: ReportedFile): boolean {
  return file.errors.length > 0 || file.tests.some(({ state }) => state === "failed");
}

function outcomeOf(root: string, files: readonly Runs[], errors: readonly string[]): Outcome {
  const outcome = { passed: 0, failures: errors.map(onOneLine), flaky: [] as string[], skipped: [] as string[] };
  for (const [one, other] of files) {
    const file = relative(root, one.path);
    if (one.errors.length > 0 && other && !other.errors.length) outcome.flaky.push(file);
    // A failed hook fails the tests that it prepares, so they are not counted, too, unless they ran.
    const remaining = other ? (one.errors.length > 0 ? other.errors : []) : one.errors;
    if (remaining.length > 0 && !testsOf(one, other).some(([test]) => test.state === "failed")) {
      outcome.failures.push(`${file}: ${onOneLine(remaining[0] ?? "")}`);
    }
    for (const [test, isFlaky] of testsOf(one, other)) {
      if (test.state === "passed") outcome.passed += 1;
      if (test.state === "skipped") outcome.skipped.push(`${file}: ${test.name}`);
      if (test.state === "failed") outcome.failures.push(`${file}: ${test.name}: ${onOneLine(test.error ?? "")}`);
      if (isFlaky) outcome.flaky.push(`${file}: ${test.name}`);
    }
  }
  return outcome;
}

const BEST_FIRST = ["passed", "failed", "skipped"];

/** The better outcome of each test, and whether it failed once and passed once. Order distinguishes tests with the same name. */
function testsOf(one: ReportedFile, other: ReportedFile | undefined): [ReportedTest, boolean][] {
  const outcomes = new Map<string, ReportedTest[]>();
  for (const { tests } of other ? [one, other] : [one]) {
    const seen = new Map<string, number>();
    for (const test of tests) {
      const nth = seen.get(test.name) ?? 0;
      seen.set(test.name, nth + 1);
      const key = `${test.name}\n${nth}`;
      outcomes.set(key, [...(outcomes.get(key) ?? []), test]);
    }
  }
  return [...outcomes.values()].map((tests) => {
    const [best] = tests.toSorted((a, b) => BEST_FIRST.indexOf(a.state) - BEST_FIRST.indexOf(b.state)) as [ReportedTest];
    return [best, best.state === "passed" && tests.some(({ state }) => state === "failed")];
  });
}

/** Removes the stack. A long message keeps its beginning and its end, because the end of a process's log contains the reason. */
function onOneLine(message: string): string {
  const text = (message.split(/\n\s+at /, 1)[0] ?? "").replaceAll(/\s*\n\s*/g, " ⏎ ");
  return text.length <= 2000 ? text : `${text.slice(0, 500)} … ${text.slice(-1500)}`;
}

async function runVitest(root: string, reporter: string, args: readonly string[]): Promise<Report> {
  const folder = mkdtempSync(join(tmpdir(), "atherops-report-"));
  const file = join(folder, "report.json");
  try {
    const reporters = [`--reporter=${reporter}`, `--reporter=${join(import.meta.dirname, "reporter.ts")}`];
    const code = await runProgram(root, "vitest/vitest.mjs", ["run", ...reporters, ...args], { REPORT_FILE: file });
    const report = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Report) : { files: [], errors: [], isInterrupted: false };
    const isExplained = code === 0 || report.errors.length > 0 || report.files.some(hasFailed);
    return isExplained ? report : { ...report, errors: ["an error outside the tests (see above)"] };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** SIGINT or SIGTERM ended a run. */
export class Interrupted extends Error {
  readonly exitCode: number;

  constructor(signal: NodeJS.Signals) {
    super(`interrupted by ${signal}`);
    this.exitCode = 128 + constants.signals[signal];
  }
}

/** Processes that ignore SIGTERM are killed after this time. */
const GRACE_MS = 15_000;

/**
 * Runs a program of node_modules with the current Node, in its own process group, and returns its exit status. On SIGINT or SIGTERM, throws
 * Interrupted once all processes of the group have ended, which includes those that tests have started.
 */
export async function runProgram(root: string, program: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<number> {
  const entry = join(root, "node_modules", program);
  let received: NodeJS.Signals | undefined;
  const end = (signal: NodeJS.Signals): void => {
    received = signal;
    signalGroup(child.pid, signal);
  };
  // A signal during the start of the program must not kill this process, because the program would keep running.
  process.on("SIGTERM", end).on("SIGINT", end);
  const child = spawn(process.execPath, [entry, ...args], { cwd: root, stdio: "inherit", detached: true, env: { ...process.env, ...env } });
  try {
    const [code] = (await once(child, "exit")) as [number | null];
    if (received === undefined) return code ?? 1;
    for (let waitedMs = 0; signalGroup(child.pid, 0) && waitedMs < GRACE_MS; waitedMs += 100) await sleep(100);
    signalGroup(child.pid, "SIGKILL");
    throw new Interrupted(received);
  } finally {
    process.off("SIGTERM", end).off("SIGINT", end);
  }
}

/** Returns whether the process group had a process. */
function signalGroup(group: number | undefined, signal: NodeJS.Signals | 0): boolean {
  if (group === undefined) return false;
  try {
    return process.kill(-group, signal);
  } catch {
    // The last process of the group has ended.
    return false;
  }
}
