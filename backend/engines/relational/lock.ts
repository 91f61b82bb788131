// Advisory locks by name: what must be done by one replica at a time. Invariant: held until the transaction ends, so that a killed replica
// never keeps one.
import { createHash } from "node:crypto";
import { sql, type Transaction } from "kysely";

/** Waits for the lock `name` and holds it until the transaction ends. With SQLite the transaction itself is alone. */
export async function advisoryLock<T>({ engine }: { readonly engine: string }, trx: Transaction<T>, name: string): Promise<void> {
  if (engine === "sqlite") return;
  const id = createHash("sha256").update(`atherops:${name}`).digest().readBigInt64BE(0);
  await sql`SELECT pg_advisory_xact_lock(${id.toString()}::bigint)`.execute(trx);
}
