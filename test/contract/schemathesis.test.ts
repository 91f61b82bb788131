// Runs Schemathesis, a property-based tester of OpenAPI services, on /openapi.json with an operator's login: no 5xx, and no undocumented
// status. It is installed once from PyPI, into a virtual environment next to the tool cache.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { expect, test } from "vitest";
import { adminPassword, backendPlace, login, startBackend } from "../fixtures/backend-process.ts";
import { call, temporaryFolder } from "../fixtures/processes.ts";

const VERSION = "4.32.5";
/** Fuzzed examples per operation, after all of its boundary values. A number and not a time, so that all runs send the same. */
const EXAMPLES = 10;

function install(): string | undefined {
  const folder = join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "atherops", "tools", "schemathesis", VERSION);
  const program = join(folder, "bin", "schemathesis");
  if (existsSync(program)) return program;
  if (spawnSync("python3", ["-m", "venv", folder], { stdio: "ignore" }).status !== 0) return undefined;
  execFileSync(join(folder, "bin", "pip"), ["install", "--quiet", `schemathesis==${VERSION}`], { stdio: "inherit" });
  return program;
}

const program = install();
if (!program) console.warn("SKIPPED: schemathesis needs python3 with venv (Debian: python3-venv)");

// Thousands of requests, one after the other.
test.skipIf(!program)("schemathesis finds no 5xx and no undocumented status", { timeout: 1_200_000 }, async () => {
  using folder = temporaryFolder();
  const place = await backendPlace(folder.path, { JWT_TTL: "2h" });
  await using backend = await startBackend(place);
  const token = await login(place.apiUrl, "admin@localhost", adminPassword(place));
  const config = join(folder.path, "schemathesis.toml");
  writeFileSync(config, `[auth.openapi]\nsession = { bearer = "${token}" }\n`, { mode: 0o600 });
  const checks = ["--checks", "not_a_server_error,status_code_conformance"];
  const effort = ["--phases", "examples,coverage,fuzzing", "--max-examples", String(EXAMPLES), "--continue-on-failure", "--seed", "1"];
  // A request that waits forever fails with its case, instead of the whole run.
  const patience = ["--request-timeout", "30"];
  // The answer of the first never ends, Schemathesis cannot write the protobuf of the second, and the third ends its own session.
  const left = ["--exclude-path", "/query/logs/tail", "--exclude-path", "/api/v1/write", "--exclude-path", "/api/users/{id}/password"];
  const run = await execa(
    program ?? "",
    ["--config-file", config, "run", `${place.apiUrl}/openapi.json`, ...checks, ...effort, ...patience, ...left],
    {
      reject: false,
      all: true,
    },
  );
  const cases = Number(/(\d+) generated/.exec(run.all ?? "")?.[1]);
  console.log(run.all?.split("\n").slice(-12).join("\n"));
  expect(run.exitCode, run.all).toBe(0);
  expect(cases).toBeGreaterThan(1000);
  expect((await call("GET", `${place.healthUrl}/readyz`)).status).toBe(200);
  // Otherwise most of its requests were refused before they reached anything.
  expect((await call("GET", `${place.apiUrl}/api/orgs`, { bearer: token })).status).toBe(200);
  expect(backend.log).not.toContain('"level":"error"');
});
