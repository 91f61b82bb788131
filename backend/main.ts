#!/usr/bin/env node
// Defines the commands of the backend. `serve` reads the settings, locks DATA_DIR, and starts serve.ts, which wires everything together.
// Invariant: an error that the operator can fix prints one sentence and exits with 2; any other error prints a stack and exits with 1.
import { enableCompileCache } from "node:module";
import { join } from "node:path";
import { Command, CommanderError } from "commander";
import { addBackupCommands } from "./operations/backup/backup-command.ts";
import { lockDataDir } from "./operations/backup/lock.ts";
import { addMoveCommand } from "./operations/backup/move-command.ts";
import { addResetPasswordCommand } from "./operations/reset-password-command.ts";
import packageFile from "./package.json" with { type: "json" };
import { helpOfSettings, readSettings, type Role, ROLES, SettingsError } from "./settings.ts";
import { StartError } from "./errors.ts";

async function start(roles: readonly Role[]): Promise<void> {
  const { settings, secrets } = readSettings();
  // libuv reads it when its pool starts, with the first asynchronous file operation.
  // oxlint-disable-next-line node/no-process-env -- there is no other way to set it
  process.env["UV_THREADPOOL_SIZE"] = String(settings.threadPoolSize);
  const isEmbedded = !secrets.databaseUrl || !secrets.clickhouseUrl || !settings.metricsWriteUrl;
  using lock = isEmbedded ? lockDataDir(settings.dataDir) : undefined;
  // Reuses the code that V8 compiled at the last start: otherwise, a start takes half as long again.
  if (lock) enableCompileCache(join(settings.dataDir, "compiled"));
  const { serve } = await import("./serve.ts");
  await serve({ settings, secrets, roles });
}

const program = new Command("atherops-backend")
  .description("Multi-tenant backend for signed metrics, logs and traces, with alert rules.")
  .version(packageFile.version)
  .addHelpText("after", () => `\n${helpOfSettings()}`)
  .showHelpAfterError("(add --help for the list)")
  .exitOverride()
  // Commander would report an unknown command as an excess argument of the default command `serve`.
  .hook("preSubcommand", (all, chosen) => {
    const [word] = all.args;
    if (word === undefined || word.startsWith("-") || word === chosen.name()) return;
    // The method is missing in Commander's types; it suggests the nearest command.
    (all as Command & { unknownCommand(): never }).unknownCommand();
  });

program
  .command("serve", { isDefault: true })
  .description("run the API (8080) and the alerting service (8082)")
  .option("--roles <roles>", "api, alerting or both, comma-separated", ROLES.join(","))
  .addHelpText(
    "after",
    () =>
      `\nExamples:\n  atherops-backend serve                    everything, with embedded engines under ./data\n  atherops-backend serve --roles alerting   one role of a distributed installation\n\n${helpOfSettings()}`,
  )
  .action(async (options: { roles: string }) => {
    const roles = options.roles.split(",").map((role) => role.trim());
    const unknown = roles.find((role) => !(ROLES as readonly string[]).includes(role));
    if (unknown !== undefined) throw new SettingsError(`--roles: "${unknown}" is not a role; there are ${ROLES.join(" and ")}`);
    await start(roles as Role[]);
  });

program
  .command("prepare-clickhouse")
  .description("create or update the tables on every shard of CLICKHOUSE_URL, before a shard is added")
  .addHelpText(
    "after",
    "\nNeeds the other settings of the backend too, such as CLICKHOUSE_CLUSTER and MASTER_KEY. Example:\n  CLICKHOUSE_URL=http://old:8123/atherops,http://new:8123/atherops atherops-backend prepare-clickhouse",
  )
  .action(async () => {
    const { settings, secrets } = readSettings();
    if (secrets.clickhouseUrl === undefined) throw new SettingsError("CLICKHOUSE_URL: set it to the URLs of all shards");
    const { prepareClickHouse } = await import("./stores.ts");
    await prepareClickHouse(settings, secrets.clickhouseUrl);
  });

addBackupCommands(program);
addMoveCommand(program);
addResetPasswordCommand(program);

try {
  await program.parseAsync();
} catch (error) {
  const isOperatorError = error instanceof SettingsError || error instanceof StartError;
  // Commander has already printed the error, or the help.
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : 2;
  else {
    console.error(isOperatorError ? `atherops-backend: ${error.message}` : error);
    process.exitCode = isOperatorError ? 2 : 1;
  }
}
