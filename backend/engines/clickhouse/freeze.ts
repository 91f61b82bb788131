// A snapshot of the embedded engine's tables, made of hard links while inserts and merges go on (`ALTER TABLE … FREEZE`). The embedded engine
// rejects `BACKUP … TO File` and `TO Disk`, because both need a server's configuration. Invariant: a snapshot is only a folder; together with the
// definitions of the tables it is a folder that the engine opens.
import { existsSync, lstatSync, readdirSync, readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { ClickHouse } from "./client.ts";
import { sql, Sql } from "./sql.ts";

/** Characters that the engine does not escape in the name of a folder. */
const NAME = /^backup_\w{1,64}$/;
/** In a table's folder, and in no other. */
const TABLE_MARK = "format_version.txt";
/** Blocks of running inserts, journaled rows (the snapshot has them in the tables), snapshots, and temporary files of queries. */
const TRANSIENT = /^(?:(?:inserts|shadow|tmp)(?:\/|$)|journal\/\w+\/\d+\.journal$)/;
const PART = /^(?<partition>\w+?)_(?<first>\d+)_(?<last>\d+)_(?<level>\d+)(?:_\d+)?$/;

/**
 * Freezes every table under `name`. Answers table → when: what was acknowledged before is in it. Of a body that was not, each day is there
 * whole or not at all, as after a crash: a day is a partition, and has a part or none.
 */
export async function freezeTables(
  clickhouse: Pick<ClickHouse, "query" | "command" | "settle">,
  name: string,
): Promise<Record<string, string>> {
  const tables = await clickhouse.query<{ name: string }>(
    // `spans` before `span_operations`, where the names of a span are before it is: no span without its name.
    sql`SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree' ORDER BY name DESC`,
  );
  const moments: Record<string, string> = {};
  for (const table of tables) {
    moments[table.name] = new Date().toISOString();
    // Each time: while another table was frozen, rows of this one may have been answered that are in the journal alone.
    await clickhouse.settle();
    await clickhouse.command(sql`ALTER TABLE ${new Sql(quoted(table.name))} FREEZE WITH NAME ${checkedName(name)}`);
  }
  return moments;
}

/** Where the parts of a frozen moment are, laid out as in the engine's own `store`. Throws for what is no name of one. */
export function frozenStore(engineFolder: string, name: unknown): string {
  return join(engineFolder, "shadow", checkedName(name), "store");
}

/** Whether a file of the engine's folder is a definition: neither a part of a table nor transient. `path` is relative to the folder. */
export function isDefinition(engineFolder: string, path: string): boolean {
  if (TRANSIENT.test(path)) return false;
  const isInTable = existsSync(join(engineFolder, dirname(path), TABLE_MARK));
  // Its log of inserts is left out too: an insert that it names may not be in the parts, and would be taken for stored.
  return !isInTable || path.endsWith(`/${TABLE_MARK}`);
}

/** Removes every frozen moment. Only backups make any, one at a time. */
export async function removeFrozen(engineFolder: string): Promise<void> {
  const folder = join(engineFolder, "shadow");
  const names = existsSync(folder) ? readdirSync(folder).filter((name) => NAME.test(name)) : [];
  for (const name of names) await rm(join(folder, name), { recursive: true, force: true });
}

/** The number of rows of a table, read from its parts without the engine. Undefined if the table does not exist. */
export function countRows(engineFolder: string, table: string): number | undefined {
  const folder = join(engineFolder, "data", "default", table);
  if (!existsSync(folder)) return undefined;
  const parts = readdirSync(folder).flatMap((name) => {
    const { partition = "", first, last, level } = PART.exec(name)?.groups ?? {};
    const isPart = partition !== "" && lstatSync(join(folder, name)).isDirectory();
    return isPart ? [{ name, partition, first: Number(first), last: Number(last), level: Number(level) }] : [];
  });
  // What was merged into another part stays for some minutes.
  const current = parts.filter(
    (part) =>
      !parts.some(
        (other) => other.partition === part.partition && other.first <= part.first && other.last >= part.last && other.level > part.level,
      ),
  );
  return current.reduce((sum, { name }) => sum + Number(readFileSync(join(folder, name, "count.txt"), "utf8")), 0);
}

function checkedName(name: unknown): string {
  if (typeof name === "string" && NAME.test(name)) return name;
  throw new Error(`not the name of a frozen moment: ${JSON.stringify(name)}`);
}

function quoted(identifier: string): string {
  return `\`${identifier.replace(/[\\`]/g, "\\$&")}\``;
}
