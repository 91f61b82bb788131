// How the three programs respond to an unknown word on their command line: they suggest the closest one, say where the others are
// documented, and exit with 2, so that a service manager does not restart them.
import { execFile } from "node:child_process";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { baseEnvironment, ROOT, temporaryFolder } from "../fixtures/processes.ts";

const PROGRAMS = {
  "atherops-backend": "backend/main.ts",
  atherops: "backend/cli/bin/atherops.ts",
  "atherops-otel-agent": "agent/bin/atherops-otel-agent.ts",
  "atherops-k8s-otel-agent": "agent/bin/atherops-k8s-otel-agent.ts",
};
const MORE = "(add --help for the list)";

async function ran(program: keyof typeof PROGRAMS, args: string): Promise<{ code: unknown; out: string; err: string }> {
  using folder = temporaryFolder();
  const { promise, resolve } = Promise.withResolvers<{ code: unknown; out: string; err: string }>();
  // Whatever begins all the same begins nothing here.
  const env = { ...baseEnvironment(), HOME: folder.path, DATA_DIR: join(folder.path, "data"), STATE_DIR: folder.path };
  const command = [join(ROOT, PROGRAMS[program]), ...args.split(" ").filter(Boolean)];
  execFile(process.execPath, command, { env, cwd: folder.path, timeout: 30_000 }, (error, out, err) =>
    resolve({ code: error?.code ?? 0, out, err }),
  );
  return await promise;
}

describe.each<[keyof typeof PROGRAMS, string, string]>([
  ["atherops-backend", "server", "unknown command 'server'\n(Did you mean serve?)"],
  ["atherops-backend", "start", "unknown command 'start'"],
  ["atherops-backend", "serve now", "too many arguments for 'serve'. Expected 0 arguments but got 1: now."],
  ["atherops-backend", "serve --role api", "unknown option '--role'\n(Did you mean --roles?)"],
  ["atherops-backend", "restore", "missing required argument 'folder'"],
  ["atherops-otel-agent", "rnu", "unknown command 'rnu'\n(Did you mean run?)"],
  ["atherops-k8s-otel-agent", "rotat", "unknown command 'rotat'\n(Did you mean rotate?)"],
  ["atherops-otel-agent", "diagnose --bundel x", "unknown option '--bundel'\n(Did you mean --bundle?)"],
  ["atherops", "rule", "unknown command 'rule'\n(Did you mean rules?)"],
  ["atherops", "rules lsit", "unknown command 'lsit'\n(Did you mean list?)"],
  ["atherops", "traces searhc --error", "unknown command 'searhc'\n(Did you mean search?)"],
  ["atherops", "--json channels tset on-call", "unknown command 'tset'\n(Did you mean test?)"],
  ["atherops", "rules create", "missing required argument 'name'"],
])("%s %s", (program, args, words) => {
  test(`is reported, with exit code 2: ${words}`, async () => {
    expect(await ran(program, args)).toEqual({ code: 2, out: "", err: `error: ${words}\n${MORE}\n` });
  });
});

test("prints the usage without a command, and exits with 0 for --help", async () => {
  expect(await ran("atherops-otel-agent", "")).toMatchObject({ code: 2, out: "", err: expect.stringContaining("Commands:\n  run ") });
  for (const program of ["atherops-backend", "atherops-otel-agent", "atherops"] as const)
    expect(await ran(program, "--help")).toMatchObject({ code: 0, out: expect.stringContaining(`Usage: ${program} `), err: "" });
});
