import { expect, it } from "vitest";
import { sql, Sql } from "./sql.ts";
import { requireFiltered, tenantFilter } from "./tenant-filter.ts";

it.each([
  "SELECT 1",
  "SELECT count() FROM logs",
  "SELECT logs.id FROM logs AS l WHERE id IN (1) AND (a, b) IN ((1, 2), (3, 4)) AND c NOT IN ('', 'x') AND d IN ['a']",
  "SELECT a FROM logs ARRAY JOIN [1] AS one, [2] AS two WHERE a = 'FROM system.tables; -- SETTINGS \\' x'",
  "SELECT a FROM (SELECT a FROM spans WHERE b IN (SELECT c FROM logs) GROUP BY a, b) ARRAY JOIN a ORDER BY a, b LIMIT 1 BY a",
  "WITH own AS (SELECT a FROM logs) SELECT a, b FROM own JOIN span_operations ON own.a = span_operations.a, (SELECT 1) AS x WHERE 1",
  "SELECT a FROM logs UNION ALL SELECT b FROM spans",
  "SELECT number FROM numbers(10)",
  "SELECT a AS `references` FROM logs WHERE `a` = 1",
])("accepts %s", (text) => {
  expect(() => requireFiltered("org", new Sql(text))).not.toThrow();
});

it.each([
  "SELECT name FROM system.tables",
  "SELECT a FROM logs, system.tables",
  "SELECT a FROM logs AS l, other.logs AS o",
  "SELECT a FROM other.logs",
  "SELECT a FROM logs.logs",
  "SELECT a FROM logs JOIN other.logs AS o ON 1",
  "SELECT a FROM (SELECT a FROM other.logs)",
  "SELECT a FROM (other.logs)",
  "SELECT a FROM logs ARRAY JOIN [1] AS one JOIN other.logs ON 1",
  "SELECT a FROM logs WHERE a IN other.logs",
  "SELECT a FROM logs WHERE a IN (other)",
  "SELECT a FROM logs WHERE a IN `other`",
  "SELECT a FROM logs, `other`",
  "SELECT a FROM logs UNION ALL SELECT a FROM other.logs",
  "WITH other AS (SELECT 1) SELECT a FROM other.logs",
  "SELECT a FROM merge('', '^logs$')",
  "SELECT a FROM remote('127.0.0.1', default.logs)",
  "SELECT a FROM logs('x')",
  "SELECT a FROM `logs`",
  'SELECT a FROM "logs"',
  "SELECT a FROM 'logs.csv'",
  "SELECT a FROM logs SETTINGS additional_table_filters = {}",
  "SELECT a FROM logs settings max_threads = 1",
  "SELECT a FROM logs FORMAT JSON",
  "SELECT a FROM logs INTO OUTFILE 'x'",
  "SELECT a FROM logs; SELECT 1",
  "SELECT a FROM logs -- WHERE",
  "SELECT a FROM logs /* */",
  "SELECT dictGet('d', 'a', 1)",
  "SELECT joinGet('j', 'a', 1)",
  "SELECT file('x')",
  "DROP TABLE logs",
  "EXPLAIN SELECT a FROM logs",
  "KILL QUERY WHERE 1",
])("rejects %s", (text) => {
  expect(() => requireFiltered("org", new Sql(text))).toThrow(/must not use/);
});

it("rejects a read without an organisation", () => {
  expect(() => requireFiltered("", sql`SELECT 1`)).toThrow("no organisation");
  expect(() => requireFiltered(undefined as never, sql`SELECT 1`)).toThrow("no organisation");
});

it("quotes an organisation twice, as a literal in the condition and as the condition in the setting", () => {
  expect(tenantFilter("a'b").text).toContain(String.raw`'logs': 'org_id = \'a\\\'b\''`);
});
