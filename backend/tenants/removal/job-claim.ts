// Claims of jobs that only one replica may run at a time, in the database that replicas share.
import type { Kysely } from "kysely";
import { hasCome } from "../../engines/relational/due.ts";

export interface ClaimTables {
  job_claims: { name: string; claimed_until: Date };
}

/** Returns false if another replica has the job. */
export async function claimJob(db: Kysely<ClaimTables>, name: string, nowMs: number, forMs: number): Promise<boolean> {
  const claimed_until = new Date(nowMs + forMs);
  const claimed = await db
    .insertInto("job_claims")
    .values({ name, claimed_until })
    .onConflict((conflict) =>
      conflict
        .column("name")
        .doUpdateSet({ claimed_until })
        .where(hasCome("job_claims.claimed_until", new Date(nowMs), forMs)),
    )
    .returning("name")
    .executeTakeFirst();
  return claimed !== undefined;
}

export async function extendJob(db: Kysely<ClaimTables>, name: string, nowMs: number, forMs: number): Promise<void> {
  const claimed_until = new Date(nowMs + forMs);
  await db.updateTable("job_claims").set({ claimed_until }).where("name", "=", name).execute();
}

export async function releaseJob(db: Kysely<ClaimTables>, name: string): Promise<void> {
  await db.deleteFrom("job_claims").where("name", "=", name).execute();
}
