// The programs atherops-otel-agent (host) and atherops-k8s-otel-agent (cluster): their commands. Invariants: wrong settings exit with code
// 2 and no stack trace, wrong arguments with 2, every other failed start with 1 and one sentence; only run.ts wires parts together.
import { existsSync } from "node:fs";
import { enableCompileCache } from "node:module";
import { join } from "node:path";
import { Command, CommanderError } from "commander";
import packageFile from "./package.json" with { type: "json" };
import { helpOfSettings, type Identity, inValueNames, readSettings, SettingsError } from "./settings.ts";

const PROGRAMS = { host: "atherops-otel-agent", cluster: "atherops-k8s-otel-agent" } as const;
const WHAT = {
  host: "Sends the telemetry of this Linux host to the backend.",
  cluster: "Sends the telemetry of this cluster node to the backend.",
};

/** Parses and runs the command line. Sets the exit code; resolves when there is nothing left to do. */
export async function main(identity: Identity, argv: string[] = process.argv): Promise<void> {
  try {
    await commands(identity).parseAsync(argv);
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    // Already printed, or the help that was requested.
    if (error instanceof CommanderError) {
      process.exitCode = error.exitCode === 0 ? 0 : 2;
      return;
    }
    const isOperators = EXPECTED.has(error.name) || isPortTaken(error) || isPortTaken(error.cause);
    process.stderr.write(`${PROGRAMS[identity]}: ${isOperators ? inValueNames(error.message) : error.stack}\n`);
    process.exitCode = error instanceof SettingsError || error.name === "CollectorConfigError" ? 2 : 1;
  }
}

/** Errors whose message is all that an operator needs. */
const EXPECTED = new Set([
  "SettingsError",
  "CollectorConfigError",
  "CredentialsFileError",
  "StateInUseError",
  "StateDirError",
  "RotateError",
  "KubernetesError",
]);

/** Caches V8's compiled modules between starts: saves a third of the CPU of a start, and the type stripper's memory. */
function keepCompiled(stateDir: string): void {
  // The folder is created later, with the right mode.
  if (existsSync(stateDir)) enableCompileCache(join(stateDir, "compiled"));
}

function isPortTaken(error: unknown): boolean {
  return (error as NodeJS.ErrnoException | undefined)?.code === "EADDRINUSE";
}

function commands(identity: Identity): Command {
  const name = PROGRAMS[identity];
  const program = new Command(name)
    .description(WHAT[identity])
    .version(packageFile.version)
    .addHelpText("after", () => `${HELP[identity]}\n${helpOfSettings(identity)}`)
    .showHelpAfterError("(add --help for the list)")
    .exitOverride();
  const parts = { identity, program: name, version: packageFile.version };
  program
    .command("run")
    .description("enrol, then collect and send until stopped (TERM or INT)")
    .action(async () => {
      keepCompiled(readSettings(identity).settings.stateDir);
      await (await import("./commands/run.ts")).run(parts);
    });
  program
    .command("render")
    .description("print the collector's configuration as it would run, and check it with the collector")
    .option("--quiet", "print nothing but what is wrong")
    .action(async (options: { quiet?: boolean }) => (await import("./commands/render.ts")).renderCommand(identity, options));
  program
    .command("diagnose")
    .description("check everything that has to work, and say what to do about what does not")
    .option("--bundle <file>", "also write all of it, without secrets, to a gzipped JSON file")
    .action(async (options: { bundle?: string }) => {
      const { diagnoseCommand } = await import("./commands/diagnose.ts");
      if (!(await diagnoseCommand(parts, options.bundle))) process.exitCode = 1;
    });
  if (identity === "cluster") {
    program
      .command("rotate")
      .description("ask for a new key of the cluster now, and wait until it is there")
      .action(async () => (await import("./commands/rotate.ts")).rotateCommand());
  }
  program
    .command("version")
    .description("print the version")
    .action(() => console.log(`${name} ${packageFile.version}`));
  return program;
}

const HELP = {
  host: `
The first start needs
  BACKEND_URL=https://telemetry.example   where telemetry goes
  INSTALL_TOKEN=it_…                      once; an administrator makes it
Then the key is in CREDENTIALS_FILE. Every setting is described in docs/reference/agent-settings.md.

  atherops-otel-agent diagnose     what is wrong, and what to do
  curl -s localhost:9598/readyz    is it ready, and if not, why
  curl -s localhost:9598/status    identity, collector, what gets through
`,
  cluster: `
Installed by the chart charts/cluster-agent, one pod per node. Every setting is described in docs/reference/agent-settings.md.

  kubectl exec <pod> -- atherops-k8s-otel-agent diagnose    what is wrong, and what to do
  kubectl exec <pod> -- atherops-k8s-otel-agent rotate      a new key now
`,
};
