// How commands print. Invariant: results go to stdout, everything else to stderr.
import type { Command } from "commander";
import { stringify } from "yaml";
import { csvCell } from "../client/text.ts";
import { Missing } from "./cli-error.ts";
import { Client } from "./api-client.ts";
import type { World } from "./settings.ts";
import { escapeJson, type Row, table } from "./text-table.ts";

const DEFAULT_COLUMNS = 100;

export interface GlobalOptions {
  url?: string;
  json?: boolean;
  output?: Output;
  profile?: string;
  link?: boolean;
  allowPlainHttp?: boolean;
}

/** Passed to every command: the client for the global options, and output functions. */
export interface Console {
  readonly world: World;
  client(): Client;
  /** Calls the API with a new client. */
  call: Client["call"];
  /** Prints rows as a table, or in the format of --output. `toCells` converts a row for the table. */
  print<R extends object>(rows: readonly R[], columns: readonly string[], toCells?: (row: R) => object): void;
  /** Prints objects one after the other, for output of any length: lines of JSON or CSV, or documents of YAML. */
  lines(rows: readonly object[]): void;
  /** Prints a result that another program may use: as plain text on stdout with an explanation on stderr, or as an object with --json. */
  result(plain: string, explanation: string, object: object): void;
  note(text: string): void;
  /** True if the output is for programs, in any format; `print`, `lines` and `result` write it. */
  readonly json: boolean;
}

export function createConsole(world: World, options: () => GlobalOptions): Console {
  const line = (text: string) => void world.stdout.write(`${text}\n`);
  const output = (): Output => options().output ?? (options().json ? "json" : "table");
  const client = (): Client => new Client(world, options());
  let columnsOfLines: readonly string[] | undefined;
  const writeCsv = (rows: readonly Row[], columns: readonly string[], hasHead: boolean) => {
    if (hasHead) line(csvLine(columns));
    for (const row of rows) line(csvLine(columns.map((name) => row[name])));
  };
  return {
    world,
    client,
    call: async (method, path, callOptions) => await client().call(method, path, callOptions),
    get json() {
      return output() !== "table";
    },
    print: (objects, columns, toCells = (row) => row) => {
      const format = output();
      const rows = objects as readonly Row[];
      if (format === "csv") writeCsv(rows, rows.length > 0 ? csvColumns(rows) : columns, true);
      else if (format === "table") line(rows.length > 0 ? table(objects.map(toCells) as Row[], columns) : "none");
      else line(documentText(format, rows));
    },
    lines: (objects) => {
      const format = output();
      const rows = objects as readonly Row[];
      if (format === "csv") {
        const isFirst = columnsOfLines === undefined;
        columnsOfLines ??= csvColumns(rows);
        writeCsv(rows, columnsOfLines, isFirst);
      } else for (const row of rows) line(format === "yaml" ? `---\n${documentText(format, row)}` : documentText("json", row));
    },
    result: (plain, explanation, object) => {
      const format = output();
      if (format === "table") world.stderr.write(`${explanation}\n`);
      if (format === "csv") writeCsv([object as Row], csvColumns([object as Row]), true);
      else line(format === "table" ? plain : documentText(format, object));
    },
    note: (text) => void world.stderr.write(`${text}\n`),
  };
}

/** Width of the terminal, or of a page if the output is not a terminal. */
export function terminalWidth(stdout: NodeJS.WritableStream): number {
  return (stdout as { columns?: number }).columns ?? DEFAULT_COLUMNS;
}

interface List {
  readonly description: string;
  readonly path: string;
  readonly columns: readonly string[];
  /** As of Console.print. */
  readonly toCells?: (row: Row) => object;
}

/** The default command of a group, which prints all resources of a list. */
export function addList(parent: Command, console: Console, { description, path, columns, toCells }: List): void {
  parent
    .command("list", { isDefault: true })
    .description(description)
    .action(async () => console.print(await console.client().rows(path), columns, toCells));
}

/** The command that removes one resource by its id. */
export function addRemoval(parent: Command, console: Console, description: string, path: (id: string) => string): void {
  parent
    .command("remove <id>")
    .description(description)
    .action(async (id: string) => {
      try {
        await console.call("DELETE", path(encodeURIComponent(id)));
      } catch (error) {
        // Users often pass a name instead of the id.
        throw error instanceof Missing ? new Missing(`${error.message}: \`atherops ${parent.name()}\` lists the ids`) : error;
      }
      console.note(`${id} removed`);
    });
}

export const OUTPUTS = ["table", "json", "yaml", "csv"] as const;
type Output = (typeof OUTPUTS)[number];

function documentText(output: Exclude<Output, "table" | "csv">, value: object): string {
  return output === "json" ? escapeJson(JSON.stringify(value)) : stringify(value, { lineWidth: 0, blockQuote: "literal" }).trimEnd();
}

/** Names of the columns, in the order in which they first occur. */
function csvColumns(rows: readonly Row[]): string[] {
  return [...new Set(rows.flatMap((row) => Object.keys(row)))];
}

function csvLine(values: readonly unknown[]): string {
  return values.map(csvCell).join(",");
}
