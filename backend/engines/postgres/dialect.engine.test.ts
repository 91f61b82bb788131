// Several PostgreSQL hosts in one URL: statements go to the host that accepts writes, also after a failover.
import { sql } from "kysely";
import { Client } from "pg";
import { pino } from "pino";
import { describe, expect, test } from "vitest";
import { hostUrls } from "../../../common/ip-networks.ts";
import { NO_POSTGRES, postgresBinaries, PostgresServer } from "../../../test/fixtures/postgres.ts";
import { openDatabase } from "../relational/database.ts";

test("splits a URL with several hosts into one URL per host", () => {
  expect(hostUrls("postgres://u:p%40@one:5432,[::1]:6,other/db?sslmode=require")).toEqual([
    "postgres://u:p%40@one:5432/db?sslmode=require",
    "postgres://u:p%40@[::1]:6/db?sslmode=require",
    "postgres://u:p%40@other/db?sslmode=require",
  ]);
  expect(hostUrls("postgresql://db/a")).toEqual(["postgresql://db/a"]);
});

describe.skipIf(!postgresBinaries)(`two hosts${postgresBinaries ? "" : `: ${NO_POSTGRES}`}`, () => {
  /** Makes a server refuse writes, like a standby. */
  async function setReadOnly(url: string, isReadOnly: boolean): Promise<void> {
    const client = new Client(url);
    await client.connect();
    await client.query(`SET default_transaction_read_only = off`);
    await client.query(`ALTER ROLE postgres SET default_transaction_read_only = ${isReadOnly ? "on" : "off"}`);
    await client.end();
  }

  test("the primary is used, and the other one after its promotion", async () => {
    await using one = await PostgresServer.start();
    await using other = await PostgresServer.start();
    const urls = [one, other].map((server) => server.urlOf("postgres"));
    const [first = "", second = ""] = urls;
    await setReadOnly(first, true);
    const url = `postgres://postgres@${new URL(first).host},${new URL(second).host}/postgres`;
    await using database = await openDatabase({ url, dataDir: "unused", log: pino({ level: "silent" }) });
    const port = async (): Promise<string> => {
      const { rows } = await sql<{ port: string }>`SELECT current_setting('port') AS port`.execute(database.tables<unknown>());
      return rows[0]?.port ?? "";
    };
    await sql`CREATE TABLE written (n int)`.execute(database.tables<unknown>());
    expect(await port()).toBe(new URL(second).port);
    await other.stop("killed");
    await expect(port()).rejects.toMatchObject({ code: "storage_unavailable" });
    await setReadOnly(first, false);
    await expect.poll(() => port().catch(String), { timeout: 30_000 }).toBe(new URL(first).port);
    await sql`CREATE TABLE written (n int)`.execute(database.tables<unknown>());
  });
});
