// Migrates the tables: numbered plain SQL files, each applied once, in order, however many replicas start together. Invariants: an applied
// file is never applied again and must never be changed; all pending files are applied in one transaction under an advisory lock, or none
// are. The files use SQL that both PostgreSQL and SQLite accept; SQLite keeps the names of types as they are written.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { sql, type Kysely } from "kysely";
import { advisoryLock } from "./database.ts";

const FOLDER = fileURLToPath(new URL("./migrations/", import.meta.url));

/** An open store with either engine. */
interface Migrated {
  readonly engine: string;
  tables<T>(): Kysely<T>;
}

interface MigrationTables {
  schema_migrations: { name: string; sha256: string; applied_at: Date };
}

/** Applies pending files and returns their names. Throws if an applied file differs from the current one. */
export async function migrate(database: Migrated, folder = FOLDER): Promise<string[]> {
  return await database
    .tables<MigrationTables>()
    .transaction()
    .execute(async (trx) => {
      await advisoryLock(database, trx, "migrate");
      await sql`CREATE TABLE IF NOT EXISTS schema_migrations (
      name text PRIMARY KEY, sha256 text NOT NULL, applied_at timestamptz NOT NULL)`.execute(trx);
      const applied = new Map((await trx.selectFrom("schema_migrations").selectAll().execute()).map((row) => [row.name, row.sha256]));
      const done: string[] = [];
      for (const migration of readMigrations(folder)) {
        const before = applied.get(migration.name);
        if (before === migration.sha256) continue;
        if (before !== undefined)
          throw new Error(`migration ${migration.name} was applied in another form: never change an applied file, add a new one`);
        for (const statement of migration.statements) await sql.raw(statement).execute(trx);
        await trx
          .insertInto("schema_migrations")
          .values({ name: migration.name, sha256: migration.sha256, applied_at: new Date() })
          .execute();
        done.push(migration.name);
      }
      return done;
    });
}

function readMigrations(folder: string): { name: string; sha256: string; statements: string[] }[] {
  const names = readdirSync(folder).filter((name) => /^\d{3}-[\w-]+\.sql$/.test(name));
  return names.sort().map((name) => {
    const text = readFileSync(join(folder, name), "utf8");
    return { name, sha256: createHash("sha256").update(text).digest("hex"), statements: splitStatements(text) };
  });
}

/** Statements end with `;` at the end of a line; comments have their own lines. (SQLite prepares one statement at a time.) */
function splitStatements(text: string): string[] {
  const code = text.replace(/^\s*--.*$/gm, "");
  return code
    .split(/;\s*$/m)
    .map((statement) => statement.trim())
    .filter(Boolean);
}
