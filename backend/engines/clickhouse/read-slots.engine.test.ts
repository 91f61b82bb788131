// The slots of reads, with a server whose slow statements never end.
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { createLog } from "../../log.ts";
import { openClickHouse } from "./clickhouse-client.ts";
import { sql } from "./sql.ts";

test("a read ends for an idle organisation that waits, while others use all slots", async () => {
  using folder = temporaryFolder();
  let slow = 0;
  const server = createServer(async (request, response) => {
    if ((await text(request)).startsWith("SELECT 'slow'")) slow += 1;
    else response.end('{"n":1}\n');
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  using _server = { [Symbol.dispose]: () => (server.close(), server.closeAllConnections()) };
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/db`;
  await using clickhouse = await openClickHouse({ url, dataDir: folder.path, querySlots: 2, log: createLog("silent") });
  const read = (orgId: string, statement: ReturnType<typeof sql>) =>
    clickhouse.read(orgId, { labelLimits: undefined }, (ask) => ask(statement)).then(String, (error: { code?: string }) => error.code);
  const busy = ["red", "blue"].map((orgId) => read(orgId, sql`SELECT 'slow' AS n`));
  await expect.poll(() => slow).toBe(2);
  expect(await read("idle", sql`SELECT 1 AS n`)).toBe('{"n":1}\n');
  expect(await Promise.race(busy)).toBe("too_many_queries");
});
