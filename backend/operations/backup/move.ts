// Moves the accounts between the embedded store and PostgreSQL. Invariants: the source keeps every row; wherever the move is interrupted,
// the target has either all rows, each read back and compared, or none; messages contain only the host and database of the URL.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { hostUrls } from "../../../common/ip-networks.ts";
import { sql, type Transaction } from "kysely";
import {
  type AnyTables,
  compareRows,
  copyRows,
  firstWithRows,
  RowsDiffer,
  tablesInOrder,
  type Progress,
  type Table,
  type Tables,
} from "../../engines/relational/copy-tables.ts";
import { APPLICATION_NAME } from "../../engines/postgres/dialect.ts";
import { advisoryLock, type Database, openAccountsFile, openDatabase } from "../../engines/relational/database.ts";
import { migrate } from "../../engines/relational/migrate.ts";
import { ACCOUNTS_FILE, underDraftName } from "../../engines/sqlite/open.ts";
import type { Log } from "../../log.ts";
import { StartError } from "../../errors.ts";
import { lockDataDir } from "./lock.ts";

export interface Move {
  readonly dataDir: string;
  /** May contain a password. */
  readonly databaseUrl: string;
  readonly log: Log;
  readonly progress?: Progress;
}

export interface Moved {
  readonly rows: number;
  readonly tables: number;
  /** An earlier move had already finished, so nothing was written. */
  readonly hadBeenMoved: boolean;
}

/** Moves from `accounts.sqlite` to PostgreSQL, in one transaction. Throws StartError or DataDirInUseError, with PostgreSQL unchanged. */
export async function moveToPostgres(move: Move): Promise<Moved> {
  const { dataDir, databaseUrl, log, progress } = move;
  const file = join(dataDir, ACCOUNTS_FILE);
  if (!existsSync(file)) throw new StartError(`DATA_DIR: ${dataDir} has no ${ACCOUNTS_FILE}: set DATA_DIR to the backend's`);
  using _lock = lockDataDir(dataDir);
  return await explainFailures(move, async () => {
    await using from = await migrated(await openDatabase({ dataDir, log }));
    await using to = await openPostgres(move);
    const tables = await tablesInOrder(from.tables());
    await requireAccounts(from.tables(), tables, `DATA_DIR: ${file}`);
    const refusal = `DATABASE_URL: ${describeDatabase(databaseUrl)} has other accounts: use an empty database`;
    // Before the tables are migrated, because a backend of an earlier version may be using them.
    const earlier = await findEarlierMove(from.tables(), to.tables(), tables, await listExisting(to.tables(), tables), refusal);
    if (earlier) return earlier;
    await migrate(to);
    return await inTransaction(to, async (trx) => {
      // A backend that starts on this database during the move waits for this lock before it creates its first organisation; so does
      // another move.
      await advisoryLock(to, trx, "bootstrap");
      const other = await findEarlierMove(from.tables(), trx, tables, tables, refusal);
      if (other) return other;
      await copyRows(from.tables(), trx, tables, progress);
      return { rows: await compareRows(from.tables(), trx, tables, progress), tables: tables.length, hadBeenMoved: false };
    });
  });
}

/** Moves from PostgreSQL to a new `accounts.sqlite`. Throws StartError or DataDirInUseError, with no file created. */
export async function moveFromPostgres(move: Move): Promise<Moved> {
  const { dataDir, databaseUrl, log, progress } = move;
  using _lock = lockDataDir(dataDir);
  const file = join(dataDir, ACCOUNTS_FILE);
  return await explainFailures(move, async () => {
    await using database = await openPostgres(move);
    await requireNoBackend(database.tables(), databaseUrl);
    await migrated(database);
    return await readConsistently(database, async (from) => {
      if (existsSync(file)) {
        await using target = await migrated(await openAccountsFile(file, log));
        const tables = await tablesInOrder(target.tables());
        const refusal = `DATA_DIR: ${file} has other accounts: move it elsewhere first, with its -wal and -shm files`;
        const earlier = await findEarlierMove(from, target.tables(), tables, tables, refusal);
        if (earlier) return earlier;
      }
      return await underDraftName(file, async (draft) => {
        await using to = await migrated(await openAccountsFile(draft, log));
        const tables = await tablesInOrder(to.tables());
        await requireAccounts(from, tables, `DATABASE_URL: ${describeDatabase(databaseUrl)}`);
        await inTransaction(to, (trx) => copyRows(from, trx, tables, progress));
        return { rows: await compareRows(from, to.tables(), tables, progress), tables: tables.length, hadBeenMoved: false };
      });
    });
  });
}

/** The database and its host, without user and password. */
export function describeDatabase(databaseUrl: string): string {
  const { host = "", pathname = "" } = URL.parse(hostUrls(databaseUrl)[0] ?? "") ?? {};
  return `the database ${pathname.slice(1) || "of the user's name"} at ${host || "a local socket"}`;
}

async function openPostgres({ databaseUrl, dataDir, log }: Move): Promise<Database> {
  return await openDatabase({ url: databaseUrl, dataDir, log, poolSize: 1, applicationName: `${APPLICATION_NAME} move` });
}

async function migrated(database: Database): Promise<Database> {
  await migrate(database);
  return database;
}

/** Reads all tables as of one point in time, whatever is written during the copy. */
async function readConsistently<T>(database: Database, run: (trx: Transaction<AnyTables>) => Promise<T>): Promise<T> {
  return await database.tables<AnyTables>().transaction().setIsolationLevel("repeatable read").execute(run);
}

async function inTransaction<T>(database: Database, run: (trx: Transaction<AnyTables>) => Promise<T>): Promise<T> {
  return await database.tables<AnyTables>().transaction().execute(run);
}

async function requireAccounts(store: Tables, tables: readonly Table[], source: string): Promise<void> {
  if ((await firstWithRows(store, tables)) === undefined) throw new StartError(`${source} has no accounts: there is nothing to move`);
}

/**
 * The result if an earlier move has already finished: `to` has the same rows. Undefined if `to` is empty; throws `refusal` if it has other
 * rows. `present`: the tables that exist in `to`.
 */
async function findEarlierMove(
  from: Tables,
  to: Tables,
  tables: readonly Table[],
  present: readonly Table[],
  refusal: string,
): Promise<Moved | undefined> {
  if ((await firstWithRows(to, present)) === undefined) return undefined;
  try {
    return { rows: await compareRows(from, to, tables), tables: tables.length, hadBeenMoved: true };
  } catch (error) {
    if (error instanceof RowsDiffer) throw new StartError(refusal, { cause: error });
    throw error;
  }
}

async function listExisting(to: Tables, tables: readonly Table[]): Promise<Table[]> {
  const present: Table[] = [];
  for (const table of tables) {
    const { rows } = await sql<{ there: boolean }>`SELECT to_regclass(${table.name}) IS NOT NULL AS there`.execute(to);
    if (rows[0]?.there) present.push(table);
  }
  return present;
}

async function requireNoBackend(database: Tables, databaseUrl: string): Promise<void> {
  const { rows } = await sql<{ count: string }>`
    SELECT count(*) AS count FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = ${APPLICATION_NAME}`.execute(database);
  if (Number(rows[0]?.count) > 0)
    throw new StartError(`DATABASE_URL: ${describeDatabase(databaseUrl)} is used by a running backend: stop all replicas first`);
}

/** Turns a failure into one sentence for the operator. */
async function explainFailures({ databaseUrl }: Move, run: () => Promise<Moved>): Promise<Moved> {
  try {
    return await run();
  } catch (error) {
    if (error instanceof StartError) throw error;
    throw new StartError(`${describeFailure(error, describeDatabase(databaseUrl))}; the target has all rows or none: try again`, {
      cause: error,
    });
  }
}

function describeFailure(error: unknown, database: string): string {
  const reasons = listCauses(error);
  const codes = reasons.map(({ code }) => code ?? "");
  const { message = "unknown" } = reasons.at(-1) ?? {};
  if (codes.some((code) => code.startsWith("28"))) return `DATABASE_URL: ${database} rejects the user or the password (${message})`;
  if (codes.includes("storage_unavailable")) return `DATABASE_URL: ${database} cannot be reached or is full (${message || codes.at(-1)})`;
  return `the accounts cannot be moved to or from ${database} (${message})`;
}

/** The error and its causes, the deepest last. */
function listCauses(error: unknown): NodeJS.ErrnoException[] {
  if (!(error instanceof Error)) return [];
  const below = error instanceof AggregateError ? error.errors.at(0) : error.cause;
  return [error, ...listCauses(below)];
}
