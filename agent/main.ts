// Defines the commands of atherops-otel-agent (host) and atherops-k8s-otel-agent (cluster). Invariants: invalid settings or arguments exit with
// code 2, other failed starts with 1; expected errors print one sentence and no stack trace; only run.ts wires parts together.
import { existsSync } from "node:fs";
import { enableCompileCache } from "node:module";
import { join } from "node:path";
import { Command, CommanderError } from "commander";
import packageFile from "./package.json" with { type: "json" };
import { helpOfSettings, type Identity, inValueNames, readSettings, SettingsError } from "./settings.ts";

const PROGRAMS = { host: "atherops-otel-agent", cluster: "atherops-k8s-otel-agent" } as const;
const DESCRIPTIONS = {
  host: "Sends the telemetry of this Linux host to the backend.",
  cluster: "Sends the telemetry of this cluster node to the backend.",
};

/** Runs the command line and sets the exit code. */
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
    process.stderr.write(`${PROGRAMS[identity]}: ${EXPECTED_ERRORS.has(error.name) ? inValueNames(error.message) : error.stack}\n`);
    process.exitCode = error instanceof SettingsError || error.name === "CollectorConfigError" ? 2 : 1;
  }
}

/** Errors that are printed without a stack trace. */
const EXPECTED_ERRORS = new Set([
  "SettingsError",
  "CollectorConfigError",
  "CredentialsFileError",
  "ListenError",
  "StateInUseError",
  "StateDirError",
  "RotateError",
  "KubernetesError",
]);

/** Caches compiled modules between starts, which saves a third of the CPU of a start, and the type stripper's memory. */
function cacheCompiledModules(stateDir: string): void {
  // On the first start, the folder does not exist; it is created later, with the right mode.
  if (existsSync(stateDir)) enableCompileCache(join(stateDir, "compiled"));
}

function commands(identity: Identity): Command {
  const name = PROGRAMS[identity];
  const program = new Command(name)
    .description(DESCRIPTIONS[identity])
    .version(packageFile.version)
    .addHelpText("after", () => `${HELP[identity]}\n${helpOfSettings(identity)}`)
    .showHelpAfterError("(add --help for the list)")
    .exitOverride();
  const parts = { identity, program: name, version: packageFile.version };
  program
    .command("run")
    .description("enrol, then collect and send until stopped (TERM or INT)")
    .action(async () => {
      cacheCompiledModules(readSettings(identity).settings.stateDir);
      await (await import("./commands/run.ts")).run(parts);
    });
  program
    .command("render")
    .description(
      "print the node collector's configuration, without remote configuration and log policies, and let the collector validate it",
    )
    .option("--quiet", "print only errors")
    .action(async ({ quiet }: { quiet?: boolean }) => {
      const { configFromSettings } = await import("./collector/config/config-from-settings.ts");
      const { validateInFolder } = await import("./collector/supervision/config-files.ts");
      const { settings } = readSettings(identity);
      const yaml = configFromSettings(settings);
      if (!quiet) process.stdout.write(yaml);
      await validateInFolder(settings, () => yaml);
    });
  program
    .command("diagnose")
    .description("run all checks, and print problems with advice")
    .option("--bundle <file>", "also write a support bundle without secrets, as gzipped JSON")
    .action(async (options: { bundle?: string }) => {
      const { diagnoseCommand } = await import("./commands/diagnose.ts");
      if (!(await diagnoseCommand(parts, options.bundle))) process.exitCode = 1;
    });
  if (identity === "cluster") {
    program
      .command("rotate")
      .description("rotate the cluster's key now, and wait for the new key")
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
  BACKEND_URL=https://telemetry.example   URL of the backend
  INSTALL_TOKEN=it_…                      one-time token from an administrator
After that, the key is in CREDENTIALS_FILE. All settings are described in docs/reference/agent-settings.md.

  atherops-otel-agent diagnose     find problems, with advice
  curl -s localhost:9598/readyz    readiness, with reasons
  curl -s localhost:9598/status    identity, collector and delivery
`,
  cluster: `
Installed by the chart charts/cluster-agent, one pod per node. All settings are described in docs/reference/agent-settings.md.

  kubectl exec <pod> -- atherops-k8s-otel-agent diagnose    find problems, with advice
  kubectl exec <pod> -- atherops-k8s-otel-agent rotate      rotate the key now
`,
};
