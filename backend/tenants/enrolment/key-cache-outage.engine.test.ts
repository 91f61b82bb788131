// Keys while PostgreSQL is stopped, or accepts connections without answering, and after its return.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { keyHash } from "../../../common/protocol/signature.ts";
import { NO_POSTGRES, postgresBinaries, PostgresServer } from "../../../test/fixtures/postgres.ts";
import type { AccountTables } from "../../auth/sessions/account-tables.ts";
import { DatabaseOutage } from "../../auth/database-outage.ts";
import { LOOKUP_CACHE_MS, STALE_MS } from "../../auth/lookup-cache.ts";
import { openDatabase } from "../../engines/relational/database.ts";
import { migrate } from "../../engines/relational/migrate.ts";
import { createLog } from "../../log.ts";
import { KeyCache } from "./key-cache.ts";
import { mintKey, revokeKeysOf } from "./key-table.ts";
import { MasterKeys } from "./master-key.ts";

const masterKeys = new MasterKeys(Buffer.alloc(32, 1));

describe.skipIf(!postgresBinaries)(`PostgreSQL outside${postgresBinaries ? "" : `: ${NO_POSTGRES}`}`, () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(async () => await server?.[Symbol.asyncDispose]());

  test.each([
    ["is stopped", () => server.stop("killed"), () => server.resume()],
    ["hangs", async () => server.freeze(), async () => server.thaw()],
  ])("while the server %s, accepts known keys for 15 minutes; a revocation applies when it is back", async (_how, away, back) => {
    const logged: string[] = [];
    const log = createLog("info", "test", { write: (line) => void logged.push(line) });
    await using database = await openDatabase({ url: await server.newDatabase(), dataDir: "unused", log });
    await migrate(database);
    const orgId = randomUUID();
    await database.tables<AccountTables>().insertInto("orgs").values({ id: orgId, name: "org", created_at: new Date() }).execute();
    const { row, rawKey } = await mintKey(database.tables(), masterKeys, { orgId, kind: "direct", node: "n" }, new Date());
    const hash = keyHash(rawKey);
    let now = 1_000_000;
    const outage = new DatabaseOutage(log);
    const cache = new KeyCache(database.tables(), masterKeys, () => now, outage);
    expect(await cache.find(hash)).toMatchObject({ rawKey });

    await away();
    for (const ageMs of [LOOKUP_CACHE_MS, STALE_MS - 1]) {
      now = 1_000_000 + ageMs;
      expect(await cache.find(hash)).toMatchObject({ rawKey, revoked: false });
    }
    expect(outage.staleSeconds).toBeGreaterThan(0);
    const events = () => logged.map((line) => String(JSON.parse(line).event)).filter((event) => event.startsWith("auth."));
    expect(events()).toEqual(["auth.stale_keys"]);
    await expect(cache.find(keyHash("unknown"))).rejects.toMatchObject({ retryAfterS: 2 });

    await back();
    await expect
      .poll(() => revokeKeysOf(database.tables(), orgId, row.id, new Date()).then(() => "done", String), { timeout: 50_000 })
      .toBe("done");
    now += LOOKUP_CACHE_MS;
    await expect.poll(() => cache.find(hash), { timeout: 50_000 }).toMatchObject({ revoked: true });
    expect([outage.staleSeconds, events()]).toEqual([0, ["auth.stale_keys", "auth.stale_keys_ended"]]);
  });
});
