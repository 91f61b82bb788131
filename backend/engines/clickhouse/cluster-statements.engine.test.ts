// Lets ClickHouse's parser read every statement that changes a cluster or ends a query in it, because no cluster was available to run them.
// The test fails if the source has such a statement that the test does not send.
import { globSync, readFileSync } from "node:fs";
import { pino } from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { stub } from "../../../test/fixtures/stub.ts";
import { eraseOrganisations, purgeExpired } from "../../storage/removal/removal.ts";
import { type ClickHouse, openClickHouse, type Shard } from "./clickhouse-client.ts";
import { applyRetention } from "./migrate.ts";
import { prepare } from "./prepare.ts";
import { Sql, sql } from "./sql.ts";
import { DDL_SETTINGS, insertSettings, killStatement, quorumSettings } from "./statement-settings.ts";
import { TENANT_TABLES } from "./tenant-filter.ts";

const log = pino({ level: "silent" });
const CHANGES = /^(?:ALTER|CREATE|DROP|KILL|SYSTEM|OPTIMIZE|TRUNCATE|RENAME|EXCHANGE|DETACH|ATTACH|DELETE|UPDATE|BACKUP|RESTORE)\b/;
/** Only for the folder of an embedded engine (freeze.ts). */
const EMBEDDED_ONLY = / FREEZE /;
/** Keeper gives it to the other replicas of its shard. */
const MUTATION = /^ALTER TABLE \w+ DELETE /;

const folder = temporaryFolder();
let engine: ClickHouse;
let statements: string[];

beforeAll(async () => {
  engine = await openClickHouse({ dataDir: folder.path, threads: 4, log });
  statements = await clusterStatements();
});
afterAll(async () => {
  await engine?.[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

/** What the backend sends to an empty cluster of two shards: migrations, retention, tiers, deletion, cancellation. */
async function clusterStatements(): Promise<string[]> {
  const sent: string[] = [];
  const applied: { number: number }[] = [];
  let isLocked = true;
  const answers: readonly (readonly [RegExp, () => object[]])[] = [
    [/FROM schema_migrations/, () => applied],
    [/version\(\)/, () => [{ version: "26.7.2.1" }]],
    [/system\.columns/, () => TENANT_TABLES.map((table) => ({ table }))],
    [/'schema_migration_lock'/, () => [{ name: "schema_migration_lock" }]],
    [/system\.parts/, () => [{ day: "2026-01-01" }]],
    [/SELECT 1 FROM logs/, () => [{}]],
    [/SELECT org_id, count\(\) AS rows FROM/, () => [{ org_id: "an organisation", rows: "1" }]],
  ];
  const shard = stub<Shard>({
    shared: true,
    cluster: "many",
    database: "default",
    query: async ({ text }: Sql) => answers.find(([pattern]) => pattern.test(text))?.[1]() ?? [],
    command: async ({ text }: Sql) => {
      sent.push(text.trim());
      // Another replica held it, and has ended.
      if (text.startsWith("CREATE TABLE schema_migration_lock") && isLocked) {
        isLocked = false;
        throw new Error("refused", { cause: new Error("TABLE_ALREADY_EXISTS") });
      }
      const [, number] = /^INSERT INTO schema_migrations SELECT (\d+)/.exec(text) ?? [];
      if (number !== undefined) applied.push({ number: Number(number) });
    },
  });
  const cluster = stub<ClickHouse>({ ...shard, shards: [shard, shard], settle: async () => undefined });
  await prepare(cluster, log, { policy: "tiered", volume: "cold", afterDays: 7 });
  await applyRetention(shard, { logs: 30, spans: 30, span_operations: 30 }, log);
  await eraseOrganisations(cluster, ["an organisation"]);
  await purgeExpired(shard, { table: "logs", defaultDays: 30, organisations: new Map([["one", { days: 1, rules: [] }]]) }, Date.now());
  return [...sent, killStatement("a comment")];
}

async function problemOf(statement: string): Promise<string | undefined> {
  return await engine.command(new Sql(`EXPLAIN AST ${statement}`)).then(
    () => undefined,
    (error: Error) => `${statement}: ${String(error.cause)}`,
  );
}

test("ClickHouse parses each of them, and rejects an invalid one", async () => {
  const problems = await Promise.all(statements.map((statement) => problemOf(statement)));
  expect(problems.filter((problem) => problem !== undefined)).toEqual([]);
  expect(await problemOf("ALTER TABLE logs ON CLUSTERS many DELETE WHERE 1")).toContain("Syntax error");
});

test("the list contains each statement of the source", () => {
  const sources = globSync("backend/{engines/clickhouse,storage,tenants/removal}/**/*.ts").filter(
    (file) => !/\.(?:test|fixture)\.ts$/.test(file),
  );
  const literals = sources.flatMap((file) => {
    const text = readFileSync(file, "utf8");
    // Statements of the relational store.
    if (/\bsql\b.* from "kysely"/.test(text)) return [];
    const code = text.replaceAll(/^\s*(?:\/\/|\*|\/\*).*$/gm, "");
    return [...code.matchAll(/`([^`]*)`/g)].map(([, text = ""]) => text.trim());
  });
  const changes = literals.filter((text) => CHANGES.test(text) && !EMBEDDED_ONLY.test(text));
  expect(changes.length).toBeGreaterThan(8);
  const isSent = (text: string): boolean => {
    const parts = text
      .split(/\$\{(?:[^{}]|\{[^}]*\})*\}|\{\{\w+\}\}/)
      .map((part) => RegExp.escape(part).replaceAll(/(?:\\x20|\\n|\s)+/g, "\\s+"));
    const pattern = new RegExp(`^${parts.join("[^]*")}`);
    return statements.some((statement) => pattern.test(statement));
  };
  expect(changes.filter((text) => !isSent(text))).toEqual([]);
});

test("each change applies to all servers, and its tables are replicated", () => {
  const changes = statements.filter((text) => CHANGES.test(text) && !text.startsWith("KILL") && !MUTATION.test(text));
  expect(changes.filter((text) => !text.includes("ON CLUSTER `many`"))).toEqual([]);
  const created = statements.filter((text) => /^CREATE (?:OR REPLACE )?TABLE(?! schema_migration_lock)/.test(text));
  expect(created.filter((text) => !/ENGINE = (?:Replicated\w*MergeTree|Distributed\()/.test(text))).toEqual([]);
  expect(created.filter((text) => text.includes("ENGINE = Distributed('many', 'default', 'logs')"))).toHaveLength(2);
  expect(statements).toContain("ALTER TABLE logs ON CLUSTER `many` MODIFY SETTING storage_policy = 'tiered'");
});

test("the engine knows each setting", async () => {
  const names = Object.keys({
    ...DDL_SETTINGS,
    ...quorumSettings("auto"),
    ...insertSettings({ table: "", columns: [], rows: [], deduplicationToken: "t" }),
  });
  // A parameter of HTTP.
  const settings = names.filter((name) => name !== "wait_end_of_query");
  const known = await engine.query<{ name: string }>(sql`SELECT name FROM system.settings WHERE name IN (${settings})`);
  expect(new Set(known.map(({ name }) => name))).toEqual(new Set(settings));
});
