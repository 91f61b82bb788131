// `npm test`: all checks that a change must pass. Brings the programs that tests run, checks types, lint and
// format, runs every test, and ends with one line `N passed, N failed` (and `, N skipped` when there are). Exit status 0 means that
// all of it was right. A test that fails is run once more, alone: if it passes then, it is `flaky: FILE: TEST`, and counts as passed.
//
//   npm test                       everything but the end-to-end suite, which needs a cluster
//   npm run test:e2e               the end-to-end suite. Where a container engine runs: on a kind cluster, with the images built and loaded
//                                  (hack/kind-up). Else on the cluster that KUBECONFIG names, whose nodes have the images
//                                  atherops-agent:VERSION, atherops-backend:VERSION and atherops-backend:VERSION-lean of package.json
//   npm test -- FILE …             these tests alone, e.g. `npm test -- agent/proxy/forward.test.ts`, or of a folder: no checks of the
//                                  whole tree, no second run, and third-party programs are fetched only when one of them runs some
//   npm test -- <vitest arguments> the checks, then these tests, e.g. `npm test -- --project unit`
//   npm run test:fast | test:watch every test that needs no engine, once | again after each change; no checks, and nothing is fetched
//   npm run check | lint           types | lint alone
import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import packageFile from "../package.json" with { type: "json" };
import { fetchTools, TEST_TOOLS } from "./fetch-tools.ts";
import { reaches } from "./imports.ts";
import { pathsAmong, testFiles } from "./test-files.ts";
import { runTests, runProgram } from "./testing/outcome.ts";
import { progressOn, ToolError } from "./tools/progress.ts";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

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
    if ((await runProgram(ROOT, program, programArgs)) !== 0) failedChecks.push(name);
  }
  const projects = args.some((arg) => arg.startsWith("--project")) ? [] : PROJECTS.map((name) => `--project=${name}`);
  const outcome = await runTests(ROOT, [...projects, ...args], { isSecondRunWanted: named.length === 0 });
  const failures = [...failedChecks, ...outcome.failures];
  for (const test of outcome.flaky) console.log(`flaky: ${test}`);
  for (const failure of failures) console.log(`failed: ${failure}`);
  if (outcome.flaky.length > 0) console.log(`${outcome.flaky.length} flaky: failed once and passed alone (CONTRIBUTING.md, Tests)`);
  console.log(`${outcome.passed} passed, ${failures.length} failed${outcome.skipped > 0 ? `, ${outcome.skipped} skipped` : ""}`);
  if (failures.length > 0) process.exitCode = 1;
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
