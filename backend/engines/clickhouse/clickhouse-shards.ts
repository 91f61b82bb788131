// Chooses the shard of a ClickHouse cluster that stores a request body, and the names that statements on a cluster use. Invariants: the
// same body goes to the same shard while the number of shards is the same; an additional shard takes over its share of the senders, and no
// other sender moves.
import { createHash } from "node:crypto";
import { Sql } from "./sql.ts";

export interface Sender {
  readonly orgId: string;
  readonly hostId?: string;
  readonly bodyHash?: string | undefined;
}

/**
 * Rendezvous hashing: the shard with the highest hash of sender and shard number. `spread`: organisations whose bodies are distributed over
 * all shards; for others, each sender has one shard.
 */
export function chooseShard({ orgId, hostId = "", bodyHash }: Sender, shardCount: number, spread: ReadonlySet<string>): number {
  if (shardCount === 1) return 0;
  const key = spread.has(orgId) ? `${orgId}:${hostId}:${bodyHash ?? ""}` : `${orgId}:${hostId}`;
  const weights = Array.from({ length: shardCount }, (_, shard) => createHash("sha1").update(`${key}:${shard}`).digest().readUIntBE(0, 6));
  return weights.indexOf(Math.max(...weights));
}

/** The name of the database that has a Distributed table for each table of `database`. */
export function distributedDatabase(database: string): string {
  return `${database}_distributed`;
}

/**
 * Makes subqueries of IN run once, over all shards, and sends each shard the result. GLOBAL is written out, because
 * `distributed_product_mode` alone fails in nested subqueries ("Invalid local IN function name", 26.7).
 */
export function withGlobalSubqueries(statement: string): string {
  return statement.replaceAll(/'(?:[^'\\]|\\.)*'|\b(NOT )?IN \(SELECT\b/g, (found: string) =>
    found.startsWith("'") ? found : `GLOBAL ${found}`,
  );
}

/** A name in backticks. */
export function quoteName(name: string): Sql {
  return new Sql(`\`${name.replaceAll(/[`\\]/g, "\\$&")}\``);
}

/** For DDL and KILL; empty without a cluster. */
export function onCluster(cluster: string | undefined): Sql {
  return new Sql(cluster === undefined ? "" : `ON CLUSTER ${quoteName(cluster).text}`);
}
