// Which keys a replica caches, and how often it queries the database, with a real store whose statements are counted.
import { randomBytes, randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { keyHash } from "../../../common/protocol/signature.ts";
import type { Database } from "../../engines/relational/database.ts";
import { migrate } from "../../engines/relational/migrate.ts";
import { relationalEngines, type OpenedEngine } from "../../../test/fixtures/postgres.ts";
import type { AccountTables } from "../../auth/sessions/table.ts";
import { LOOKUP_CACHE_MS } from "../../auth/lookup-cache.ts";
import { KeyCache } from "./key-cache.ts";
import { mintKey, revokeKeysOf } from "./key-table.ts";
import { MasterKeys } from "./master-key.ts";
import type { EnrolmentTables } from "./table.ts";

const masterKeys = new MasterKeys(Buffer.alloc(32, 1));
const orgId = randomUUID();
let opened: OpenedEngine | undefined;
let database: Database;
let now = 1_000_000;
let lookups = 0;
let cache: KeyCache;

beforeAll(async () => {
  opened = await relationalEngines[0]?.open();
  if (!opened) throw new Error("no store");
  database = opened.database;
  await migrate(database);
  await database.tables<AccountTables>().insertInto("orgs").values({ id: orgId, name: "org", created_at: new Date() }).execute();
});
afterAll(async () => await opened?.end());
beforeEach(() => {
  lookups = 0;
  const db = database.tables<EnrolmentTables>();
  const counting = new Proxy(db, {
    get: (target, name) => {
      if (name === "selectFrom") lookups++;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  cache = new KeyCache(counting, masterKeys, () => now);
});

async function minted() {
  const { row, rawKey } = await mintKey(database.tables(), masterKeys, { orgId, kind: "direct", node: "n" }, new Date(now));
  return { id: row.id, rawKey, hash: keyHash(rawKey) };
}

test("a thousand requests with one key at once ask once, and later ones do not wait at all", async () => {
  const { rawKey, hash } = await minted();
  const found = await Promise.all(Array.from({ length: 1000 }, async () => await cache.find(hash)));
  expect(new Set(found.map((key) => key?.rawKey))).toEqual(new Set([rawKey]));
  expect(lookups).toBe(1);
  expect(cache.find(hash)).not.toBeInstanceOf(Promise);
  expect(lookups).toBe(1);
});

test("a busy key is looked up again in the background, so that it never waits and never gets old", async () => {
  const { id, hash } = await minted();
  await cache.find(hash);
  now += LOOKUP_CACHE_MS / 2;
  await revokeKeysOf(database.tables(), orgId, id, new Date(now));
  expect(cache.find(hash)).toMatchObject({ revoked: false });
  await expect.poll(() => cache.find(hash)).toMatchObject({ revoked: true });
  expect(lookups).toBe(2);
});

test("a key that was idle for the whole bound is not used before it was looked up again", async () => {
  const { id, hash } = await minted();
  await cache.find(hash);
  await revokeKeysOf(database.tables(), orgId, id, new Date(now));
  now += LOOKUP_CACHE_MS;
  expect(await cache.find(hash)).toMatchObject({ revoked: true });
});

test("a clock that is set back does not make old knowledge young", async () => {
  const { id, hash } = await minted();
  await cache.find(hash);
  await revokeKeysOf(database.tables(), orgId, id, new Date(now));
  now -= 60 * 60_000;
  expect(await cache.find(hash)).toMatchObject({ revoked: true });
});

test("an unknown hash is remembered for a second, and a flood of them does not push real keys out", async () => {
  const { hash } = await minted();
  await cache.find(hash);
  const unknown = randomBytes(32).toString("hex");
  for (let request = 0; request < 100; request++) expect(await cache.find(unknown)).toBeUndefined();
  expect(lookups).toBe(2);
  await Promise.all(Array.from({ length: 200 }, async () => await cache.find(randomBytes(32).toString("hex"))));
  expect(cache.find(hash)).not.toBeInstanceOf(Promise);
  const before = lookups;
  expect(before, "200 that come at once are few statements").toBeLessThanOrEqual(6);
  now += 1000;
  await cache.find(unknown);
  expect(lookups).toBe(before + 1);
});

test("what a replica changes itself is in force there at once, also against a look-up that is under way", async () => {
  const { id, hash } = await minted();
  const underway = cache.find(hash);
  await revokeKeysOf(database.tables(), orgId, id, new Date(now));
  cache.forget(hash);
  await underway;
  expect(await cache.find(hash)).toMatchObject({ revoked: true });
});
