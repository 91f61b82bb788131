// How commands print. Invariant: results go to stdout, everything else to stderr.
import type { Command } from "commander";
import { Missing } from "./cli-error.ts";
import { Client } from "./client.ts";
import type { World } from "./settings.ts";
import { harmlessJson, table, type Row } from "./table.ts";

const DEFAULT_COLUMNS = 100;

export interface GlobalOptions {
  url?: string;
  json?: boolean;
  allowPlainHttp?: boolean;
}

/** What every command gets: the client of the global options, and how to print. */
export interface Console {
  readonly world: World;
  client(): Client;
  /** Rows as a table, or as one JSON array with --json. */
  print(rows: readonly Row[], columns: readonly string[]): void;
  /** One object a line, as JSON. */
  lines(rows: readonly object[]): void;
  /** A result that another program may take: plain on stdout, with its explanation on stderr; or the object with --json. */
  result(plain: string, explanation: string, object: Row): void;
  note(text: string): void;
  readonly json: boolean;
}

export function consoleOf(world: World, options: () => GlobalOptions): Console {
  const line = (text: string) => void world.stdout.write(`${text}\n`);
  return {
    world,
    client: () => new Client(world, options()),
    get json() {
      return options().json ?? false;
    },
    print: (rows, columns) => line(options().json ? jsonOf(rows) : rows.length > 0 ? table(rows, columns) : "none"),
    lines: (rows) => {
      for (const row of rows) line(jsonOf(row));
    },
    result: (plain, explanation, object) => {
      if (!options().json) world.stderr.write(`${explanation}\n`);
      line(options().json ? jsonOf(object) : plain);
    },
    note: (text) => void world.stderr.write(`${text}\n`),
  };
}

function jsonOf(value: object): string {
  return harmlessJson(JSON.stringify(value));
}

/** Of the terminal, or as many as a page takes. */
export function columnsOf(stdout: NodeJS.WritableStream): number {
  return (stdout as { columns?: number }).columns ?? DEFAULT_COLUMNS;
}

/** The command that removes one resource by its id. */
export function addRemoval(parent: Command, console: Console, description: string, path: (id: string) => string): void {
  parent
    .command("remove <id>")
    .description(description)
    .action(async (id: string) => {
      try {
        await console.client().call("DELETE", path(encodeURIComponent(id)));
      } catch (error) {
        // A name is easily taken for the id.
        throw error instanceof Missing ? new Missing(`${error.message}: \`atherops ${parent.name()}\` lists the ids`) : error;
      }
      console.note(`${id} removed`);
    });
}
