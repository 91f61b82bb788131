// The database load of many keys in use, and that a change of one key among them is noticed, with real stores and a clock that the test
// sets.
import { randomUUID } from "node:crypto";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { keyHash } from "../../../common/protocol/signature.ts";
import { CountedStatements } from "../../../test/fixtures/counted-statements.ts";
import { describeOnEachStore } from "../../../test/fixtures/each-store.ts";
import type { AccountTables } from "../../auth/sessions/account-tables.ts";
import { LOOKUP_CACHE_MS } from "../../auth/lookup-cache.ts";
import type { VerifyingKey } from "../../auth/signed-requests.ts";
import type { Database } from "../../engines/relational/database.ts";
import { migrate } from "../../engines/relational/migrate.ts";
import { KeyCache } from "./key-cache.ts";
import { retireOtherKeys, revokeKeysOf } from "./key-table.ts";
import { MasterKeys } from "./master-key.ts";
import type { EnrolmentTables, KeyRow } from "./enrolment-tables.ts";

const KEYS = 2000;
const SECONDS = 10;
const masterKeys = new MasterKeys(Buffer.alloc(32, 1));
const orgId = randomUUID();

function keyRow(index: number): KeyRow {
  const [id, rawKey] = [randomUUID(), `ak_${index}`];
  const none = { expires_at: null, revoked_at: null, first_used_at: null, rotated_from: null, rotation_idempotency_key: null };
  const sealed = masterKeys.encrypt(rawKey, orgId, id);
  return {
    id,
    org_id: orgId,
    kind: "direct",
    owner_id: id,
    node: `n${index}`,
    key_hash: keyHash(rawKey),
    created_at: new Date(),
    ...sealed,
    ...none,
  };
}

describeOnEachStore((store) => {
  const rows = Array.from({ length: KEYS }, (_, index) => keyRow(index));
  const [row, other] = rows as [KeyRow, KeyRow];
  let database: Database;
  let now = 1_000_000_000;
  let statements: CountedStatements;
  let cache: KeyCache;

  beforeAll(async () => {
    ({ database } = store);
    await migrate(database);
    await database.tables<AccountTables>().insertInto("orgs").values({ id: orgId, name: "org", created_at: new Date() }).execute();
    const db = database.tables<EnrolmentTables>();
    for (let from = 0; from < KEYS; from += 1000)
      await db
        .insertInto("api_keys")
        .values(rows.slice(from, from + 1000))
        .execute();
  });
  beforeEach(async () => {
    statements = new CountedStatements();
    cache = new KeyCache(statements.of(database.tables<EnrolmentTables>()), masterKeys, () => now);
    await Promise.all(rows.map(async ({ key_hash: hash }) => await cache.find(hash)));
    await statements.settled();
  });

  /** A request with this key, and the end of what it causes in the background. */
  async function ask({ key_hash: hash }: KeyRow): Promise<VerifyingKey | undefined> {
    const found = await cache.find(hash);
    await statements.settled();
    return found;
  }

  store.once("two thousand keys in use cost at most one statement a second, and no request waits for it", async () => {
    expect(statements.made).toBeLessThanOrEqual(KEYS / 100);
    const before = statements.made;
    let waited = 0;
    for (let second = 0; second < SECONDS; second += 1) {
      now += 1000;
      for (const { key_hash: hash } of rows) if (cache.find(hash) instanceof Promise) waited += 1;
      await statements.settled();
    }
    expect(statements.made - before).toBeGreaterThan(0);
    expect(statements.made - before).toBeLessThanOrEqual(SECONDS);
    expect(waited).toBe(0);
  });

  test("two thousand keys at their first use cost a few statements, and each use is recorded once", async () => {
    const db = database.tables<EnrolmentTables>();
    const keys = await Promise.all(rows.map(async ({ key_hash: hash }) => (await cache.find(hash)) as VerifyingKey));
    const before = statements.made;
    await Promise.all(keys.map(async (key) => await cache.used(key)));
    expect(statements.made - before).toBeLessThanOrEqual(KEYS / 500);
    const unused = db
      .selectFrom("api_keys")
      .select((select) => select.fn.countAll().as("count"))
      .where("first_used_at", "is", null);
    expect(Number((await unused.executeTakeFirstOrThrow()).count)).toBe(0);
    const first = db.selectFrom("api_keys").select("first_used_at").distinct().orderBy("first_used_at");
    const times = await first.execute();
    now += 60_000;
    await Promise.all(keys.map(async (key) => await cache.used(key)));
    expect(await first.execute()).toEqual(times);
  });

  test("two replicas that see the same new keys concurrently both record them", async () => {
    const fresh = Array.from({ length: 200 }, (_, index) => keyRow(2 * KEYS + index));
    const db = database.tables<EnrolmentTables>();
    await db.insertInto("api_keys").values(fresh).execute();
    const other = new KeyCache(db, masterKeys, () => now);
    const used = async (replica: KeyCache, those: readonly KeyRow[]): Promise<void> => {
      const keys = await Promise.all(those.map(async ({ key_hash: hash }) => (await replica.find(hash)) as VerifyingKey));
      await Promise.all(keys.map(async (key) => await replica.used(key)));
    };
    await Promise.all([used(cache, fresh), used(other, fresh.toReversed())]);
    const rows = await db
      .selectFrom("api_keys")
      .select("first_used_at")
      .where(
        "key_hash",
        "in",
        fresh.map((key) => key.key_hash),
      )
      .execute();
    expect(rows.filter((row) => row.first_used_at === null)).toEqual([]);
  });

  test("detects a key that another replica revokes or replaces", async () => {
    const end = new Date(now + 60_000);
    await retireOtherKeys(database.tables(), { ...other, id: randomUUID() }, end);
    await revokeKeysOf(database.tables(), orgId, row.id, new Date(now));
    now += LOOKUP_CACHE_MS / 2;
    await ask(rows.at(-1) as KeyRow);
    now += LOOKUP_CACHE_MS / 2 - 1;
    expect(await cache.find(row.key_hash)).toMatchObject({ revoked: true });
    expect(await cache.find(other.key_hash)).toMatchObject({ revoked: false, expiresMs: end.getTime() });
  });

  test("rejects a key whose row is gone", async () => {
    const gone = keyRow(KEYS);
    const db = database.tables<EnrolmentTables>();
    await db.insertInto("api_keys").values(gone).execute();
    expect(await ask(gone)).toMatchObject({ revoked: false });
    await db.deleteFrom("api_keys").where("id", "=", gone.id).execute();
    now += LOOKUP_CACHE_MS / 2;
    await ask(gone);
    expect(await ask(gone)).toBeUndefined();
  });

  // SQLite's transactions stand alone.
  const engines = store.engine === "PostgreSQL" ? [store.engine] : [];
  test.each(engines)("detects a revocation that is committed long after it was made", async () => {
    const late = rows[2] as KeyRow;
    const [made, commit] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const transaction = database
      .tables<EnrolmentTables>()
      .transaction()
      .execute(async (trx) => {
        await revokeKeysOf(trx, orgId, late.id, new Date(now));
        made.resolve();
        await commit.promise;
      });
    await made.promise;
    for (let pass = 0; pass < 5; pass += 1) {
      now += LOOKUP_CACHE_MS / 2;
      await revokeKeysOf(database.tables(), orgId, rows[10 + pass]?.id ?? "", new Date(now));
      expect(await ask(late)).toMatchObject({ revoked: false });
    }
    commit.resolve();
    await transaction;
    now += LOOKUP_CACHE_MS / 2;
    await ask(late);
    expect(await ask(late)).toMatchObject({ revoked: true });
  });
});
