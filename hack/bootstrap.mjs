// Runs a script in a fresh clone: installs the packages of package-lock.json, then runs the script with Node 24. `npm start`, `npm test`,
// the other scripts of package.json, and bin/ use it. It is plain JavaScript that imports only node: modules, for any Node >= 20, because
// it runs before anything is installed.
//
//   node hack/bootstrap.mjs SCRIPT.ts [ARGUMENTS]
//
// Invariant: the script starts only if node_modules matches the lock file; a second run sees that in a single stamp file.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { constants } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Major versions of Node.js that this file and the scripts need. */
const BOOTSTRAP_NODE = 20;
const SCRIPT_NODE = 24;
const PROGRESS_EVERY_MS = 15_000;
const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
/** Inside node_modules, so that it is deleted together with the packages. */
const STAMP = join(ROOT, "node_modules", ".installed-from-lock");
const NODE_PACKAGE = join(ROOT, "node_modules", "node");

async function main() {
  if (majorOf(process.versions.node) < BOOTSTRAP_NODE) {
    fail(`Node ${process.versions.node} is too old: install Node ${BOOTSTRAP_NODE} or newer (https://nodejs.org) and start again.`);
  }
  const [script, ...args] = process.argv.slice(2);
  if (script === undefined) fail("usage: node hack/bootstrap.mjs SCRIPT.ts [ARGUMENTS]");
  await install();
  // Not imported above, because it needs installed packages.
  const { buildKernels } = await import("./kernel.mjs");
  const { buildApiTypes } = await import("./api-types.mjs");
  const { buildConsole } = await import("./console.mjs");
  await buildKernels();
  buildApiTypes();
  await buildConsole();
  runScript(await node24(), [script, ...args]);
}

async function install() {
  if (isInstalled()) return;
  // Not imported above, so that an old Node gets as far as the message about its version.
  const { acquireLock } = await import("./lock.mjs");
  const release = await acquireLock(join(ROOT, ".install.lock"), (pid) => say(`waiting for process ${pid}, which is installing`));
  try {
    if (isInstalled()) return;
    const startedAt = Date.now();
    say("installing the packages of package-lock.json (once, a minute or two) …");
    // Includes development dependencies even if NODE_ENV=production is set, because this is a checkout, not an image.
    const code = await npm(["ci", "--include=dev", "--no-audit", "--no-fund", "--loglevel=error"]);
    if (code !== 0) fail(`npm ci failed with ${code}, see above; the next run retries`);
    writeFileSync(STAMP, lockHash());
    say(`installed in ${Math.round((Date.now() - startedAt) / 1000)} s`);
  } finally {
    release();
  }
}

function isInstalled() {
  return existsSync(STAMP) && readFileSync(STAMP, "utf8") === lockHash();
}

function lockHash() {
  return createHash("sha256")
    .update(readFileSync(join(ROOT, "package-lock.json")))
    .digest("hex");
}

async function npm(args) {
  // The npm that runs this script, if any.
  const entry = process.env.npm_execpath;
  const [command, first] = entry?.endsWith("npm-cli.js") ? [process.execPath, [entry]] : ["npm", []];
  // Standard output belongs to the script: `bin/atherops tokens create > file` may be the first run.
  const child = spawn(command, [...first, ...args], { cwd: ROOT, stdio: ["inherit", 2, 2] });
  return waitForExit(child, "installing");
}

function waitForExit(child, activity) {
  const startedAt = Date.now();
  const timer = setInterval(() => say(`still ${activity} (${Math.round((Date.now() - startedAt) / 1000)} s)`), PROGRESS_EVERY_MS);
  return new Promise((done) => {
    child.once("error", (error) => done(error.message));
    child.once("exit", (code, signal) => done(code ?? signal));
  }).finally(() => clearInterval(timer));
}

/** The running Node if it is new enough, otherwise the one of the npm package `node`. */
async function node24() {
  if (majorOf(process.versions.node) >= SCRIPT_NODE) return process.execPath;
  const bundled = join(NODE_PACKAGE, "bin", "node");
  if (!isNode24(bundled)) {
    // npm is configured not to run install scripts; this one only downloads the binary of the pinned version.
    say(`downloading Node ${SCRIPT_NODE} …`);
    await waitForExit(
      spawn(process.execPath, ["installArchSpecificPackage"], { cwd: NODE_PACKAGE, stdio: ["inherit", 2, 2] }),
      "downloading Node",
    );
  }
  if (isNode24(bundled)) return bundled;
  return fail(
    `Node ${SCRIPT_NODE} is needed, this is ${process.versions.node}, and the npm package "node" has none for ${process.platform} on ${process.arch}. Install Node ${SCRIPT_NODE} (https://nodejs.org) and start again.`,
  );
}

function isNode24(file) {
  const { stdout } = spawnSync(file, ["--version"], { encoding: "utf8" });
  return majorOf((stdout || "v0").slice(1)) >= SCRIPT_NODE;
}

function majorOf(version) {
  return Number(version.split(".")[0]);
}

/** Runs the script with this process's standard streams and signals, and exits as it does. */
function runScript(node, args) {
  const path = [dirname(node), join(ROOT, "node_modules", ".bin"), process.env.PATH].join(delimiter);
  const child = spawn(node, args, { stdio: "inherit", env: { ...process.env, PATH: path } });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
    process.on(signal, () => {
      // A terminal sends Ctrl-C to the whole process group, so the script has received it already.
      if (signal !== "SIGINT" || !process.stdin.isTTY) child.kill(signal);
    });
  }
  child.once("error", (error) => fail(`cannot run ${node}: ${error.message}`));
  child.once("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
}

function say(line) {
  console.error(line);
}

function fail(message) {
  console.error(message);
  process.exit(1);
}

await main();
