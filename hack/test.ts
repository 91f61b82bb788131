// `npm test`: all checks that a change must pass. Brings the programs that tests run, checks types, lint and
// format, runs every test, and ends with one line `N passed, N failed` (and `, N skipped` when there are). Exit status 0 means that
// all of it was right.
//
//   npm test                       everything but the end-to-end suite, which needs a cluster
//   npm run test:e2e               the end-to-end suite. Where a container engine runs: on a kind cluster, with the images built and loaded
//                                  (hack/kind-up). Else on the cluster that KUBECONFIG names, whose nodes have the images
//                                  atherops-agent:VERSION, atherops-backend:VERSION and atherops-backend:VERSION-lean of package.json
//   npm test -- FILE …             these tests alone, e.g. `npm test -- agent/proxy/forward.test.ts`, or of a folder: no checks of the
//                                  whole tree, and third-party programs are fetched only when one of them runs some
//   npm test -- <vitest arguments> the checks, then these tests, e.g. `npm test -- --project unit`
//   npm run test:fast | test:watch every test that needs no engine, once | again after each change; no checks, and nothing is fetched
//   npm run check | lint           types | lint alone
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import packageFile from "../package.json" with { type: "json" };
import { fetchTools, TEST_TOOLS } from "./fetch-tools.ts";
import { reaches } from "./imports.ts";
import { pathsAmong, testFiles } from "./test-files.ts";
import { progressOn, ToolError } from "./tools/progress.ts";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

/** The part of vitest's JSON report that is used here. */
interface Report {
  success: boolean;
  numPassedTests: number;
  numFailedTests: number;
  numPendingTests: number;
  numTodoTests: number;
  testResults: ReportedFile[];
}

interface ReportedFile {
  name: string;
  status: string;
  message: string;
  assertionResults: { status: string; fullName: string; failureMessages: string[] }[];
}

/** A test that imports it runs third-party programs, as do the tests with several processes. */
const FETCHES = join(ROOT, "hack", "fetch-tools.ts");

/** In the order in which they run, without the end-to-end suite. */
const PROJECTS = ["unit", "engine", "system", "alone"];

const CHECKS: [string, string, string[]][] = [
  ["types", "typescript/bin/tsc", ["-p", "."]],
  ["types of the console", "typescript/bin/tsc", ["-p", "backend/console"]],
  ["lint", "oxlint/bin/oxlint", ["--deny-warnings"]],
  ["format", "oxfmt/bin/oxfmt", ["--check"]],
];

async function main(args: string[]): Promise<void> {
  if (args.includes("--project=e2e")) prepareCluster();
  const named = testFiles(ROOT, args);
  if (named.length === 0 && pathsAmong(args).length > 0)
    throw new CannotTest(`No test file has ${pathsAmong(args).join(" ")} in its path: ${TESTS_OF_A_FILE}`);
  if (named.length === 0 || named.some((file) => file.startsWith("test/") || reaches(join(ROOT, file), FETCHES))) {
    await fetchTools(TEST_TOOLS, { progress: progressOn(process.stdout) });
  }
  const failedChecks: string[] = [];
  for (const [name, program, programArgs] of named.length > 0 ? [] : CHECKS) {
    console.log(`\n${name} …`);
    if ((await run(program, programArgs)) !== 0) failedChecks.push(name);
  }
  const { code, report } = await runTests(args);
  const failed = failedChecks.length > 0 || code !== 0;
  if (failed) process.exitCode = 1;
  const failures = [...failedChecks, ...failedTests(report)];
  if (failed && failures.length === 0) failures.push("an error outside the tests (see above)");
  for (const failure of failures) console.log(`failed: ${failure}`);
  console.log(summary(report, failed));
}

/** Starts a kind cluster and sets KUBECONFIG to it, unless KUBECONFIG is set. Throws CannotTest. */
function prepareCluster(): void {
  if (process.env["KUBECONFIG"]) return;
  if (spawnSync("docker", ["info"], { stdio: "ignore" }).status !== 0) throw new CannotTest(NO_CLUSTER);
  const up = spawnSync("hack/kind-up", ["--cluster-only"], { stdio: ["ignore", "pipe", "inherit"], encoding: "utf8" });
  if (up.status !== 0) throw new CannotTest("hack/kind-up failed");
  process.env["KUBECONFIG"] = up.stdout.trim().split("\n").at(-1);
  // The kubelets of kind have certificates that no authority of the cluster signed.
  process.env["E2E_AGENT_FLAGS"] ??= "--set kubelet.tls=skip";
}

const { version } = packageFile;
const NO_CLUSTER = `npm run test:e2e: there is neither a running container engine (docker info) nor KUBECONFIG.
Start Docker, or set KUBECONFIG to a cluster whose nodes have the images atherops-agent:${version}, atherops-backend:${version} and atherops-backend:${version}-lean.`;

async function runTests(args: string[]): Promise<{ code: number; report: Report | undefined }> {
  const folder = mkdtempSync(join(tmpdir(), "atherops-report-"));
  const file = join(folder, "report.json");
  try {
    const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${file}`];
    const projects = args.some((arg) => arg.startsWith("--project")) ? [] : PROJECTS.map((name) => `--project=${name}`);
    const code = await run("vitest/vitest.mjs", ["run", ...reporters, ...projects, ...args]);
    return { code, report: readReport(file) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function readReport(file: string): Report | undefined {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as Report;
  } catch {
    return undefined;
  }
}

/** One line for each failed test, and for each file that did not load or whose `beforeAll` failed: `FILE: TEST: error, on one line`. */
function failedTests(report: Report | undefined): string[] {
  return (report?.testResults ?? []).flatMap((file) => {
    const name = relative(ROOT, file.name);
    const tests = file.assertionResults.filter((test) => test.status === "failed");
    if (file.status === "failed" && tests.length === 0) return [`${name}: ${onOneLine(file.message)}`];
    return tests.map((test) => `${name}: ${test.fullName}: ${onOneLine(test.failureMessages[0] ?? "")}`);
  });
}

/** Removes the stack. A long message keeps its beginning and its end, because the end of a process's log contains the reason. */
function onOneLine(message: string): string {
  const text = (message.split(/\n\s+at /, 1)[0] ?? "").replaceAll(/\s*\n\s*/g, " ⏎ ");
  return text.length <= 2000 ? text : `${text.slice(0, 500)} … ${text.slice(-1500)}`;
}

/** A test file that could not be loaded, or a failed check, contains no test that could be counted, so it counts as one failure. */
function summary(report: Report | undefined, failed: boolean): string {
  const unloaded = report?.testResults.filter((file) => file.status === "failed" && file.assertionResults.length === 0).length ?? 0;
  const counted = (report?.numFailedTests ?? 0) + unloaded;
  const skipped = (report?.numPendingTests ?? 0) + (report?.numTodoTests ?? 0);
  const failures = failed ? Math.max(counted, 1) : counted;
  return `${report?.numPassedTests ?? 0} passed, ${failures} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
}

/** Runs a program of node_modules with the current Node. */
async function run(program: string, args: string[]): Promise<number> {
  const child = spawn(process.execPath, [join(ROOT, "node_modules", program), ...args], { cwd: ROOT, stdio: "inherit" });
  const forward = (signal: NodeJS.Signals): boolean => child.kill(signal);
  process.on("SIGTERM", forward).on("SIGINT", forward);
  const [code] = (await once(child, "exit")) as [number | null];
  process.off("SIGTERM", forward).off("SIGINT", forward);
  return code ?? 1;
}

const TESTS_OF_A_FILE = "tests of x.ts are in x.test.ts, x.engine.test.ts or the test of what uses it.";

class CannotTest extends Error {}

try {
  await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof ToolError || error instanceof CannotTest)) throw error;
  console.error(error.message);
  console.log("0 passed, 1 failed");
  process.exitCode = 1;
}
