// The limits of tables over several shards, whose tables are stand-ins: retention.engine.test.ts has those of an engine.
import { expect, test } from "vitest";
import { stub } from "../../../test/fixtures/stub.ts";
import type { Shard } from "../../engines/clickhouse/clickhouse-client.ts";
import type { Sql } from "../../engines/clickhouse/sql.ts";
import { createLog } from "../../log.ts";
import { TableLimits } from "./table-limits.ts";

/** `days`: what each of its tables keeps. */
function fakeShard(days: Map<string, number>): Shard {
  return stub<Shard>({
    query: async ({ text }: Sql) => {
      const table = /name = '(\w+)'/.exec(text)?.[1] ?? "";
      return [
        { engine_full: `MergeTree TTL toDateTime(time) + toIntervalDay(${days.get(table) ?? 30}) SETTINGS index_granularity = 8192` },
      ];
    },
    command: async ({ text }: Sql) => {
      const [, table, wanted] = /^ALTER TABLE (\w+) .*MODIFY TTL .*toIntervalDay\((\d+)\)/.exec(text) ?? [];
      if (table !== undefined) days.set(table, Number(wanted));
    },
  });
}

test("a retention is raised in the tables of every shard, and counts only as far as all of them keep it", async () => {
  const days = [new Map([["logs", 400]]), new Map<string, number>(), new Map<string, number>()];
  const limits = new TableLimits({ shards: days.map(fakeShard) }, createLog("silent"));
  expect(await limits.read()).toEqual({ logs: 30, traces: 30 });
  await limits.raise({ logs: 365, traces: 90 });
  expect(days.map((shard) => [shard.get("logs"), shard.get("spans"), shard.get("exemplars")])).toEqual([
    [400, 90, 90],
    [365, 90, 90],
    [365, 90, 90],
  ]);
  expect(await limits.read()).toEqual({ logs: 365, traces: 90 });
});
