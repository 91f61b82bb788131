// `npm test`: what a change must pass before its commit. `npm run test:full`: all that needs no cluster. Prints `stage NAME: OK 3 min 12 s,
// N passed, N failed` after each stage, lists what is skipped, flaky or failed, and ends with one line `N passed, N failed` (and `, N skipped`
// when there are). Exit status 0 means that all of it was right. If at most ten files of a stage fail, they are run once more, alone: a test that
// passes then is `flaky: FILE: TEST`, and counts as passed.
//
//   npm test                       types, lint, format, unit tests, and the contract from end to end with one backend and one agent
//   npm run test:full              the same, and the tests with engines, with several processes, of faults and of load
//   npm run test:engine            the tests with engines alone
//   npm run test:rest              what `npm test` and test:engine leave out of it: no cluster and nothing else may run on the machine
//   npm run test:e2e               the end-to-end suite, on the cluster that KUBECONFIG names, whose nodes have the images atherops-agent:VERSION,
//                                  atherops-backend:VERSION and atherops-backend:VERSION-lean of package.json. Without KUBECONFIG: on a kind
//                                  cluster in Docker, with the images built and loaded (hack/kind-up)
//   npm test -- FILE …             these tests alone, e.g. `npm test -- agent/proxy/forward.test.ts`, or of a folder: no checks of the
//                                  whole tree, no second run, and third-party programs are fetched only when one of them runs some
//   npm test -- <vitest arguments> the checks, then these tests, e.g. `npm test -- --project unit`
//   npm run test:fast | test:watch every test that needs no engine, once | again after each change; no checks, and nothing is fetched
//   npm run check | lint           types | lint alone
import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import packageFile from "../package.json" with { type: "json" };
import { fetchTools, RUN_TOOLS, TEST_TOOLS } from "./fetch-tools.ts";
import { reaches } from "./imports.ts";
import { pathsAmong, PROJECTS, testFiles } from "./test-files.ts";
import { Interrupted, NOTHING, type Outcome, runProgram, runTests } from "./testing/outcome.ts";
import { Results } from "./testing/results.ts";
import { progressOn, ToolError } from "./tools/progress.ts";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

/** A test that imports it runs third-party programs, as do the tests with several processes. */
const FETCHES = join(ROOT, "hack", "fetch-tools.ts");

/** Programs of node_modules by stage. */
const CHECKS: Readonly<Record<string, string[][]>> = {
  types: [
    ["typescript/bin/tsc", "-p", "."],
    ["typescript/bin/tsc", "-p", "backend/console"],
  ],
  lint: [["oxlint/bin/oxlint", "--deny-warnings"]],
  format: [["oxfmt/bin/oxfmt", "--check"]],
};

/** A stage is one of CHECKS, a project of vitest.config.ts, or the programs that the following stages run, which can take long to build. */
const QUICK = [...Object.keys(CHECKS), "unit", "programs for npm start", "smoke"];
const REST = ["system", "alone"];
const STAGES: Readonly<Record<string, readonly string[]>> = {
  "--full": [...QUICK, "programs", "engine", ...REST],
  "--engine": ["programs", "engine"],
  "--rest": ["programs", ...REST],
  "--e2e": ["programs", "e2e"],
};

async function main(args: string[]): Promise<void> {
  const named = testFiles(ROOT, args);
  if (named.length === 0 && pathsAmong(args).length > 0)
    throw new CannotTest(`No test file has ${pathsAmong(args).join(" ")} in its path: ${TESTS_OF_A_FILE}`);
  if (args.includes("--e2e") || args.includes("--project=e2e")) prepareCluster();
  const results = new Results();
  if (named.length > 0) {
    if (named.some((file) => file.startsWith("test/") || reaches(join(ROOT, file), FETCHES))) await fetchAll(TEST_TOOLS);
    const projects = args.some((arg) => arg.startsWith("--project")) ? [] : PROJECTS.map((name) => `--project=${name}`);
    results.add(await runTests(ROOT, [...projects, ...args], { isSecondRunWanted: false }));
  } else {
    const [first = ""] = args;
    const ofVitest = STAGES[first] ? args.slice(1) : args;
    const stages: readonly string[] = STAGES[first] ?? (args.length > 0 ? [...Object.keys(CHECKS), "programs", "tests"] : QUICK);
    for (const stage of stages) await results.time(stage, () => runStage(stage, ofVitest));
  }
  results.print();
}

async function runStage(stage: string, args: readonly string[]): Promise<Outcome> {
  const checks = CHECKS[stage];
  if (checks) {
    const codes = [];
    for (const [program = "", ...rest] of checks) codes.push(await runProgram(ROOT, program, rest));
    return { ...NOTHING, failures: codes.some((code) => code !== 0) ? [stage] : [] };
  }
  if (stage.startsWith("programs")) {
    await fetchAll(stage === "programs" ? TEST_TOOLS : RUN_TOOLS);
    return NOTHING;
  }
  return await runTests(ROOT, stage === "tests" ? args : [`--project=${stage}`, ...args]);
}

async function fetchAll(tools: readonly string[]): Promise<void> {
  // A build of a program ends with this process, but not if a signal kills this process.
  const exit = (signal: NodeJS.Signals): never => process.exit(new Interrupted(signal).exitCode);
  process.on("SIGTERM", exit).on("SIGINT", exit);
  try {
    await fetchTools(tools, { progress: progressOn(process.stdout) });
  } finally {
    process.off("SIGTERM", exit).off("SIGINT", exit);
  }
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
  if (!(error instanceof ToolError || error instanceof CannotTest || error instanceof Interrupted)) throw error;
  console.error(error.message);
  if (!(error instanceof Interrupted)) console.log("0 passed, 1 failed");
  process.exitCode = error instanceof Interrupted ? error.exitCode : 1;
}
