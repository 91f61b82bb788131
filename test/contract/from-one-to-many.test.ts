// Moves an installation with embedded engines to PostgreSQL, ClickHouse's HTTP interface and VictoriaMetrics with the commands of
// docs/from-one-to-many.md. Afterwards, all earlier keys, sessions, users, logs, spans and samples are still there.
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { openClickHouse } from "../../backend/engines/clickhouse/clickhouse-client.ts";
import { startHttpFront } from "../../backend/engines/clickhouse/http-front.fixture.ts";
import { Sql } from "../../backend/engines/clickhouse/sql.ts";
import { createLog } from "../../backend/log.ts";
import { toolPath } from "../../hack/fetch-tools.ts";
import { adminPassword, backendPlace, login, startBackend } from "../fixtures/backend-process.ts";
import { startTestEngine } from "../fixtures/metrics-engine.ts";
import { allNamed, sendOneOfEach, storedNames } from "../fixtures/one-of-each.ts";
import { pageCode, runShell, statementsOf } from "../fixtures/page-code.ts";
import { NO_POSTGRES, postgresBinaries, PostgresServer } from "../fixtures/postgres.ts";
import { call, eventually, freePorts, temporaryFolder, TestProcess } from "../fixtures/processes.ts";

const PAGE = "docs/from-one-to-many.md";

describe.skipIf(!postgresBinaries)(`from one machine to many${postgresBinaries ? "" : `: ${NO_POSTGRES}`}`, () => {
  test("keys sign, sessions remain valid, and earlier telemetry joins what arrived meanwhile", async () => {
    using folder = temporaryFolder();
    using secondFolder = temporaryFolder();
    const place = await backendPlace(folder.path);
    await using old = await startBackend(place);
    const session = await login(place.apiUrl, "admin@localhost", adminPassword(place));
    const { api_key: key } = (await call("POST", `${place.apiUrl}/api/keys`, { bearer: session, body: { name: "loader" } })).json;
    await sendOneOfEach(place.apiUrl, key, "before");
    await expect.poll(() => storedNames(place.apiUrl, session), { timeout: 60_000 }).toEqual(allNamed("before"));
    await old.end("SIGTERM");

    await using postgres = await PostgresServer.start();
    const DATABASE_URL = await postgres.newDatabase();
    await using moving = new TestProcess(
      ["backend/main.ts", "move", "--to", "DATABASE_URL"],
      { ...place.env, DATABASE_URL },
      join(folder.path, "move.out"),
    );
    await eventually("the move ends", async () => moving.ended);
    expect([moving.child.exitCode, moving.log]).toEqual([0, expect.stringContaining("each read back and compared")]);

    const clickhouseData = join(folder.path, "server");
    await using clickhouse = await startHttpFront(clickhouseData);
    await using metrics = await startTestEngine();
    const second = await backendPlace(secondFolder.path, {
      DATABASE_URL,
      CLICKHOUSE_URL: clickhouse.url,
      METRICS_WRITE_URL: metrics.writeUrl,
      METRICS_QUERY_URL: metrics.queryUrl,
      MASTER_KEY_FILE: join(place.dataDir, "secrets", "master-key"),
      JWT_SECRET_FILE: join(place.dataDir, "secrets", "jwt-secret"),
    });
    await using _new = await startBackend(second);
    await sendOneOfEach(second.apiUrl, key, "later");
    await expect.poll(() => storedNames(second.apiUrl, session), { timeout: 60_000 }).toEqual(allNamed("later"));

    await runShell(pageCode(PAGE, "Logs and spans", "sh")[0], { DATA_DIR: place.dataDir, CLICKHOUSE_DATA: clickhouseData });
    await using server = await openClickHouse({ url: clickhouse.url, dataDir: "unused", log: createLog("silent") });
    const [attach] = pageCode(PAGE, "Logs and spans", "sql");
    for (const statement of statementsOf(attach).filter((one) => one.startsWith("ALTER"))) await server.command(new Sql(statement));
    const [port] = await freePorts(1);
    const path = `${dirname(await toolPath("victoria-metrics"))}:${process.env["PATH"]}`;
    const carry = pageCode(PAGE, "Metrics", "sh")[0].replaceAll("127.0.0.1:8428", `127.0.0.1:${port}`);
    await runShell(carry, { DATA_DIR: place.dataDir, METRICS_WRITE_URL: metrics.writeUrl, PATH: path });
    await expect.poll(() => storedNames(second.apiUrl, session), { timeout: 60_000 }).toEqual(allNamed("before", "later"));
    await login(second.apiUrl, "admin@localhost", adminPassword(place));
  });
});
