// Defines the arguments, help and progress of the command `atherops-backend move`. Invariant: the URL may contain a password, so it comes
// from the environment or a file and is never an argument, which every user of the machine can read.
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import { readAccountSettings, SettingsError } from "../../settings.ts";

const VARIABLE = "DATABASE_URL";
/** A progress line is printed for this many rows of a table. */
const ROWS_PER_LINE = 10_000;

const HELP = `
The embedded accounts are DATA_DIR/accounts.sqlite. --to and --from take the name of the variable that holds the URL, ${VARIABLE}, never the
URL itself: it has a password, and arguments are shown to every user of the machine. ${VARIABLE}_FILE reads it from a file.

Stop all replicas of the backend first. The source keeps every row. The target must have no accounts; it gets either all rows, each read
back and compared, or none. If a move was interrupted, run the same command again.

Examples:
  DATA_DIR=/var/lib/atherops DATABASE_URL_FILE=/etc/atherops/database-url atherops-backend move --to DATABASE_URL
  DATA_DIR=/var/lib/atherops DATABASE_URL_FILE=/etc/atherops/database-url atherops-backend move --from DATABASE_URL

Logs, spans and metrics stay where they are; docs/from-one-to-many.md explains how to move them.`;

interface Options {
  readonly to?: string;
  readonly from?: string;
}

/** Adds the command. It prints on stderr what it does, what was moved, and what to do next. */
export function addMoveCommand(program: Command): void {
  program
    .command("move")
    .description("move the accounts from the embedded store to PostgreSQL, or back; stop the backend first")
    .option("--to <variable>", `to PostgreSQL: ${VARIABLE}, the variable that holds its URL`)
    .option("--from <variable>", `from PostgreSQL: ${VARIABLE}`)
    .addHelpText("after", HELP)
    .action(async (options: Options) => {
      const direction = directionOf(options);
      const { dataDir, databaseUrl } = readAccountSettings();
      if (databaseUrl === undefined)
        throw new SettingsError("DATABASE_URL: set it, or DATABASE_URL_FILE, to the URL of PostgreSQL, postgres://…");
      // Imported only here, because the imports at the top are loaded at each start of the backend.
      const { createLog } = await import("../../log.ts");
      const { moveFromPostgres, moveToPostgres, describeDatabase } = await import("./move.ts");
      const [file, database] = [join(dataDir, "accounts.sqlite"), describeDatabase(databaseUrl)];
      console.error(direction === "to" ? `moving the accounts of ${file} to ${database}` : `moving the accounts of ${database} to ${file}`);
      const run = direction === "to" ? moveToPostgres : moveFromPostgres;
      const { rows, tables, hadBeenMoved } = await run({ dataDir, databaseUrl, log: createLog("warn"), progress: printProgress() });
      console.error(
        hadBeenMoved
          ? `the target already has the same ${rows} rows in ${tables} tables: nothing was written`
          : `moved ${rows} rows of ${tables} tables, each read back and compared`,
      );
      for (const line of direction === "to" ? afterTo(dataDir) : afterFrom(dataDir)) console.error(line);
    });
}

function directionOf({ to, from }: Options): "to" | "from" {
  if ((to === undefined) === (from === undefined)) throw new SettingsError(`move: specify --to ${VARIABLE} or --from ${VARIABLE}`);
  const [option, value] = to === undefined ? (["from", from] as const) : (["to", to] as const);
  if (value === VARIABLE) return option;
  if (value?.includes("://"))
    throw new SettingsError(
      `move: --${option} takes the name ${VARIABLE}, not the URL: arguments are shown to every user of this machine. Set ${VARIABLE} or ${VARIABLE}_FILE, and change the password if that URL has one`,
    );
  throw new SettingsError(`move: --${option} takes the name of the variable that holds the URL, ${VARIABLE}`);
}

function printProgress(): (step: "copied" | "compared", table: string, rows: number) => void {
  let printed = 0;
  return (step, table, rows) => {
    const reached = Math.floor(rows / ROWS_PER_LINE);
    if (reached > printed) console.error(`${table}: ${rows} rows ${step}`);
    printed = reached;
  };
}

function afterTo(dataDir: string): string[] {
  const secrets = join(dataDir, "secrets");
  const from = (variable: string, name: string): string =>
    existsSync(join(secrets, name)) ? `${variable}, which is in ${join(secrets, name)}` : `${variable}, as before`;
  return [
    "next, set for every replica:",
    `  ${VARIABLE}, as it is now`,
    `  ${from("MASTER_KEY", "master-key")}: without it, no agent's key can be decrypted`,
    `  ${from("JWT_SECRET", "jwt-secret")}: without it, all sessions and read tokens become invalid`,
    `then start them. accounts.sqlite is kept but no longer read. Delete it once everything works: a start without ${VARIABLE} then fails`,
  ];
}

function afterFrom(dataDir: string): string[] {
  return [
    `next, start one backend with DATA_DIR=${dataDir}, without ${VARIABLE}, and with:`,
    "  MASTER_KEY, as before: without it, no agent's key can be decrypted",
    "  JWT_SECRET, as before: without it, all sessions and read tokens become invalid",
    "the database keeps its rows but is no longer read: do not start a replica with it again",
  ];
}
