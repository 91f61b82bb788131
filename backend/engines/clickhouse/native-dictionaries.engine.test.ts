import * as fc from "fast-check";
import { expect, it } from "vitest";
import { openBothWays } from "./both-ways.fixture.ts";
import { nativeRows } from "./native-block.ts";
import { ConstantColumn, DictionaryColumn, encodedString, encodedUint32, encodedUint64, MapColumn } from "./native-columns.ts";
import { sql, Sql } from "./sql.ts";

const COLUMNS = [
  ["sender", "constant String"],
  ["at", "constant DateTime"],
  ["hash", "constant UInt64"],
  ["level", "dictionary String"],
  ["labels", "Map(dictionary String, String)"],
] as const;

interface Section {
  readonly sender: string;
  readonly hash: number;
  readonly rows: readonly { readonly level: string; readonly keys: readonly string[] }[];
}

function rowsOf({ sender, hash, rows }: Section) {
  const [level, labels] = [new DictionaryColumn(), new MapColumn(new DictionaryColumn())];
  for (const row of rows) {
    level.add(row.level);
    for (const key of row.keys) {
      labels.keys.add(key);
      labels.values.add(`of ${key}`);
    }
    labels.endRow(row.keys.length);
  }
  const constants = [encodedString(sender), encodedUint32(hash), encodedUint64(BigInt(hash))].map((cell) => new ConstantColumn(cell));
  return nativeRows([...constants, level, labels], rows.length);
}

/** Few or very many different ones, so that sections are with and without dictionaries. */
const text = fc.oneof(fc.constantFrom("", "info", "é", "x".repeat(200)), fc.string({ unit: "grapheme", maxLength: 300 }));
const keys = fc.oneof(
  fc.subarray(["a", "http.route", "é"]),
  fc.uniqueArray(fc.string({ unit: "grapheme", maxLength: 12 }), { maxLength: 150 }),
);
const rows = fc.array(fc.record({ level: text, keys }), { minLength: 1, maxLength: 30 });
const sections = fc.array(fc.record({ sender: text, hash: fc.nat(), rows }), { minLength: 1, maxLength: 4 });
/** More values than one byte can number. */
const manySenders: Section[] = Array.from({ length: 300 }, (_, hash) => ({
  sender: `sender ${hash}`,
  hash,
  rows: [0, 1].map((row) => ({ level: `level ${hash}, row ${row}`, keys: [`key ${hash}`, "shared"] })),
}));

it("stores rows with constants and dictionaries unchanged, embedded and over HTTP", { timeout: 120_000 }, async () => {
  await using both = await openBothWays();
  for (const clickhouse of [both.embedded, both.http]) {
    const table = clickhouse === both.http ? "over_http" : "embedded";
    await clickhouse.command(sql`CREATE TABLE ${new Sql(table)} (sender LowCardinality(String), at DateTime('UTC'), hash UInt64,
      level LowCardinality(String), labels Map(LowCardinality(String), String)) ENGINE = MergeTree ORDER BY ()`);
    const stored = async (inserted: readonly Section[]) => {
      await clickhouse.command(sql`TRUNCATE TABLE ${new Sql(table)}`);
      await clickhouse.insert({ table, columns: COLUMNS, rows: inserted.map(rowsOf) });
      const found = await clickhouse.query<Record<string, unknown>>(
        sql`SELECT sender, toUnixTimestamp(at) AS at, toString(hash) AS hash, level, mapKeys(labels) AS keys, mapValues(labels) AS values FROM ${new Sql(table)}`,
      );
      const expected = inserted.flatMap(({ sender, hash, rows: ofSection }) =>
        ofSection.map((row) => ({ sender, at: hash, hash: `${hash}`, ...row, values: row.keys.map((key) => `of ${key}`) })),
      );
      expect(found.map((row) => JSON.stringify(row)).sort()).toEqual(expected.map((row) => JSON.stringify(row)).sort());
    };
    await stored(manySenders);
    await fc.assert(fc.asyncProperty(sections, stored), { numRuns: 40 });
  }
});
