// Moves older parts of logs and spans to another volume, such as object storage, if the settings name one. Invariant: without the settings
// nothing is changed, so the policy and the TTL that an operator gave a table stay; a volume is added to a TTL and never removed.
import type { Log } from "../../operations/log.ts";
import type { Shard } from "./client.ts";
import { definitionOf, modify, ttlOf } from "./migrate.ts";
import { sql } from "./sql.ts";

export interface Tier {
  /** A policy of the server's `storage_configuration` that contains the disks of the present policy. */
  readonly policy: string;
  readonly volume: string;
  /** Rows that are older move there. */
  readonly afterDays: number;
}

const TABLES = ["logs", "spans"] as const;

/** Does nothing if the tables are so already. Parts move in the background. */
export async function applyTier(shard: Shard, { policy, volume, afterDays }: Tier, log: Log): Promise<void> {
  const moves = sql`toDateTime(time) + toIntervalDay(${afterDays}) TO VOLUME ${volume}`.text;
  for (const table of TABLES) {
    const definition = await definitionOf(shard, table);
    const setting = sql`storage_policy = ${policy}`.text;
    if (!definition.includes(setting)) await modify(shard, table, `SETTING ${setting}`);
    const current = ttlOf(definition);
    const others = current
      .split(/, (?=toDateTime\(time\) \+)/)
      .filter((part) => part !== "" && !part.endsWith(sql` TO VOLUME ${volume}`.text));
    const ttl = [...others, moves].join(", ");
    if (ttl !== current) await modify(shard, table, `TTL ${ttl} SETTINGS materialize_ttl_after_modify = 0`);
    if (ttl !== current || !definition.includes(setting))
      log.info({ event: "clickhouse.tier_set", table, policy, volume, days: afterDays }, "older parts move to another volume");
  }
}
