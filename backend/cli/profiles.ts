// Profiles: several sessions at once, for several backends or users. Invariant: a name is a plain file name, so it stays in the folder.
import { readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { Command } from "commander";
import { WrongUsage } from "./cli-error.ts";
import type { Console } from "./output.ts";
import { readSession } from "./credentials.ts";

const NAME = /^[A-Za-z0-9_][\w.-]{0,49}$/;
const FILE = /^session-(.+)\.json$/;

/** The file of a profile's session; that of no profile is `sessionFile` itself. Throws WrongUsage. */
export function sessionFileOf(sessionFile: string, profile: string | undefined): string {
  if (profile === undefined) return sessionFile;
  if (!NAME.test(profile)) throw new WrongUsage(`--profile ${profile}: must be letters, digits, dots and dashes, at most 50`);
  return join(dirname(sessionFile), `session-${profile}.json`);
}

export function addProfiles(program: Command, console: Console, sessionFile: string): void {
  program
    .command("profiles")
    .description("your sessions: the backend and user of each")
    .addHelpText(
      "after",
      "\nExamples:\n  atherops --profile staging login --url https://staging.example.com\n  atherops --profile staging logs\n  ATHEROPS_PROFILE=staging atherops logs",
    )
    .action(() => {
      const named = namesIn(dirname(sessionFile)).map((name) => [name, sessionFileOf(sessionFile, name)] as const);
      const rows = [["", sessionFile] as const, ...named].flatMap(([profile, file]) => {
        const session = readSession(file);
        return session ? [{ profile, url: session.url, email: session.email }] : [];
      });
      console.print(rows, ["profile", "url", "email"]);
    });
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
      .flatMap((file) => FILE.exec(basename(file))?.[1] ?? [])
      .filter((name) => NAME.test(name))
      .toSorted();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}
