// Runs ClickHouse's steps of docs/from-one-to-many.md unchanged; those that cannot run here are checked with its own parser. (The other
// steps: test/contract/from-one-to-many.test.ts.)
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { expect, test } from "vitest";
import { pageCode, runShell, statementsOf } from "../test/fixtures/page-code.ts";
import { ROOT, temporaryFolder } from "../test/fixtures/processes.ts";

const PAGE = "docs/from-one-to-many.md";

const SQL = pageCode(PAGE, "Logs and spans", "sql").map(statementsOf);

type Answer = Record<string, unknown>[] | { refused: string };

async function clickhouse(folder: string, statements: readonly string[]): Promise<Answer[]> {
  mkdirSync(folder, { recursive: true });
  const program = "test/fixtures/clickhouse-statements.ts";
  const { stdout } = await execa(process.execPath, [program, folder], { cwd: ROOT, input: JSON.stringify(statements) });
  return JSON.parse(stdout) as Answer[];
}

const rows = (table: string, count: number, name: string): string =>
  `INSERT INTO ${table} (org_id, time, id, ${table === "logs" ? "message" : "operation"}) SELECT 'org', now64(9) - number * 3600, number, '${name}' FROM numbers(${count})`;

test("copies parts of the embedded engine once, without duplicates from merges, and keeps rows written meanwhile", async () => {
  using folder = temporaryFolder();
  const [dataDir, server] = [join(folder.path, "data"), join(folder.path, "server")];
  const merged = ["logs", "spans"].flatMap((table) => [rows(table, 100, "old"), rows(table, 100, "old"), `OPTIMIZE TABLE ${table} FINAL`]);
  const before = await clickhouse(join(dataDir, "clickhouse"), [...merged, rows("logs", 50, "old")]);
  expect(before.filter((answer) => "refused" in answer)).toEqual([]);
  await clickhouse(server, [rows("logs", 10, "new")]);
  const [copy] = pageCode(PAGE, "Logs and spans", "sh");
  await runShell(copy, { DATA_DIR: dataDir, CLICKHOUSE_DATA: server });
  const [version] = /\(\d+\.\d+\)/.exec(readFileSync(join(ROOT, PAGE), "utf8")) ?? [];
  const counts = "SELECT message, count() AS n FROM logs GROUP BY message ORDER BY message";
  const spans = "SELECT operation, count() AS n FROM spans GROUP BY operation";
  const operations = "SELECT org_id, operation, count() AS n FROM span_operations FINAL GROUP BY org_id, operation";
  const [attach = []] = SQL;
  // The second time there is nothing to attach.
  const answers = await clickhouse(server, [...attach, ...attach, "SELECT version() AS version", counts, spans, operations]);
  expect(answers.filter((answer) => "refused" in answer)).toEqual([]);
  const leftovers = readdirSync(join(server, "data", "default", "logs", "detached")).filter((name) => name.startsWith("inactive_"));
  expect(leftovers.length).toBeGreaterThan(0);
  expect(answers.slice(-4)).toEqual([
    [{ version: expect.stringMatching(`^${version?.slice(1, -1)}[.]`) }],
    [
      { message: "new", n: "10" },
      { message: "old", n: "250" },
    ],
    [{ operation: "old", n: "200" }],
    [{ org_id: "org", operation: "old", n: "1" }],
  ]);
});

test("copies rows that were left out, without duplicates of those copied before", async () => {
  using folder = temporaryFolder();
  const [dataDir, server] = [join(folder.path, "data"), join(folder.path, "server")];
  const received = (from: number, count: number): string =>
    `INSERT INTO logs (org_id, time, id, received_at) SELECT 'org', now64(9) - number * 3600, number, now() FROM numbers(${from}, ${count})`;
  await clickhouse(join(dataDir, "clickhouse"), [received(0, 100)]);
  const [create = "", ...others] = (SQL[1] ?? []).map((one) => one.replaceAll("2026-11-21 00:00:00", "2000-01-01 00:00:00"));
  await clickhouse(server, [received(0, 60), received(500, 7), create]);
  const [copy] = pageCode(PAGE, "Logs and spans", "sh");
  const copyToOldTables = copy.replace("logs spans", "logs").replace("/$table/detached", "/logs_before/detached");
  await runShell(copyToOldTables, { DATA_DIR: dataDir, CLICKHOUSE_DATA: server });
  const answers = await clickhouse(server, [
    ...others,
    "SELECT count() AS n, uniqExact(id) AS ids FROM logs",
    "SELECT name FROM system.tables WHERE name = 'logs_before'",
  ]);
  expect(answers.filter((answer) => "refused" in answer)).toEqual([]);
  expect(answers.slice(-2)).toEqual([[{ n: "107", ids: "107" }], []]);
});

test("parses each statement of the page that cannot run here", async () => {
  using folder = temporaryFolder();
  const statements = SQL.flat();
  expect(statements.length).toBeGreaterThan(10);
  for (const kind of ["BACKUP", "RESTORE", "INSERT INTO", "SYSTEM SYNC REPLICA"])
    expect(
      statements.some((one) => one.startsWith(kind)),
      kind,
    ).toBe(true);
  const answers = await clickhouse(
    folder.path,
    [...statements, "BACKUP TABLE logs TOO S3('x')"].map((one) => `EXPLAIN AST ${one}`),
  );
  const wrong = answers.pop();
  expect(wrong).toEqual({ refused: expect.stringContaining("Syntax error") });
  expect(answers.flatMap((answer, at) => ("refused" in answer ? [`${statements[at]}: ${answer.refused}`] : []))).toEqual([]);
});
