// Makes a snapshot of the embedded engine's tables with hard links, while inserts and merges continue (`ALTER TABLE … FREEZE`). The
// embedded engine rejects `BACKUP … TO File` and `TO Disk`, because both need a server's configuration. Invariant: a snapshot is only a
// folder; together with the definitions of the tables it is a folder that the engine can open.
import { quoteName } from "./clickhouse-shards.ts";
import { existsSync, lstatSync, readdirSync, readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { ClickHouse } from "./clickhouse-client.ts";
import { sql } from "./sql.ts";

/** Characters that the engine does not escape in the name of a folder. */
const NAME = /^backup_\w{1,64}$/;
/** A file that only the folder of a table contains. */
const TABLE_MARK = "format_version.txt";
/** Blocks of running inserts, journaled rows (the snapshot has them in the tables), snapshots, and temporary files of queries. */
const TRANSIENT = /^(?:(?:inserts|shadow|tmp)(?:\/|$)|journal\/\w+\/\d+\.journal$)/;
const PART = /^(?<partition>\w+?)_(?<first>\d+)_(?<last>\d+)_(?<level>\d+)(?:_\d+)?$/;

/**
 * Freezes every table under `name`. Returns a time for each table: rows that were acknowledged before are in the snapshot. Each day of an
 * unacknowledged body is included as a whole or not at all, as after a crash, because a day is a partition.
 */
export async function freezeTables(
  clickhouse: Pick<ClickHouse, "query" | "command" | "settle">,
  name: string,
): Promise<Record<string, string>> {
  const tables = await clickhouse.query<{ name: string }>(
    // `spans` before `span_operations`: operations are written before their spans, so the snapshot has no span without its operation.
    sql`SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree' ORDER BY name DESC`,
  );
  const moments: Record<string, string> = {};
  for (const table of tables) {
    moments[table.name] = new Date().toISOString();
    // Before each table, because while another table was frozen, rows of this one may have been acknowledged that are only in the journal.
    await clickhouse.settle();
    await clickhouse.command(sql`ALTER TABLE ${quoteName(table.name)} FREEZE WITH NAME ${checkedName(name)}`);
  }
  return moments;
}

/** The folder of a snapshot's parts, which has the layout of the engine's own `store`. Throws if `name` is not the name of a snapshot. */
export function frozenStore(engineFolder: string, name: unknown): string {
  return join(engineFolder, "shadow", checkedName(name), "store");
}

/** Whether a file of the engine's folder is a definition: neither a part of a table nor transient. `path` is relative to the folder. */
export function isDefinition(engineFolder: string, path: string): boolean {
  if (TRANSIENT.test(path)) return false;
  const isInTable = existsSync(join(engineFolder, dirname(path), TABLE_MARK));
  // The table's deduplication log is left out, too: it may list an insert that is not in the parts, which would then count as stored.
  return !isInTable || path.endsWith(`/${TABLE_MARK}`);
}

/** Removes all snapshots. Only backups create them, one at a time. */
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
  // A part that was merged into another one remains for some minutes.
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
