// Several replicas on a real PostgreSQL: a body is claimed by one of them, and a limit is the same for any number of them.
import { randomUUID } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import { sql, type Kysely } from "kysely";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { NO_POSTGRES, postgresBinaries, PostgresServer } from "../../test/fixtures/postgres.ts";
import { openDatabase, type Database } from "../engines/relational/database.ts";
import { migrate } from "../engines/relational/migrate.ts";
import { Quota } from "../ingest/quota.ts";
import { createLog } from "../log.ts";
import { ActiveSeries } from "../storage/metrics/active-series.ts";
import { newHashKey } from "../storage/metrics/series-hash.ts";
import { BodyClaims } from "./body-claims.ts";
import { type ReplicaSet, SharedReplicas } from "./replica-set.ts";
import { exchangeSeriesSketches } from "../storage/metrics/series-sketches.ts";

/** The burst that is allowed after a pause, in seconds of the limit. */
const BURST_S = 10;

/** Records that an organisation gets in while it sends more than its limit to each replica, by a clock of the test. */
function recordsInAMinute(replicas: readonly ReplicaSet[], recordsPerSecond: number): number {
  let [nowMs, records] = [0, 0];
  const quotas = replicas.map((each) => new Quota({ owners: "organisation's", replicas: each, now: () => nowMs }));
  const limits = { bytesPerSecond: 0, recordsPerSecond };
  for (; nowMs <= 60_000; nowMs += 100) {
    for (const quota of quotas) {
      for (let attempt = 0; attempt < 2000; attempt += 1) {
        try {
          quota.admit("acme", limits);
        } catch {
          break;
        }
        quota.charge("acme", limits, { bytes: 1, records: 1 });
        records += 1;
      }
    }
  }
  return records;
}

describe.skipIf(!postgresBinaries)(`replicas on one database${postgresBinaries ? "" : `: ${NO_POSTGRES}`}`, () => {
  const log = createLog("silent");
  let server: PostgresServer;
  let database: Database;
  let db: Kysely<unknown>;

  beforeAll(async () => {
    server = await PostgresServer.start();
    database = await openDatabase({ url: await server.newDatabase(), dataDir: "unused", log });
    await migrate(database);
    db = database.tables();
  });
  afterAll(async () => {
    await database?.[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });

  const alive = (id: string, ageS = 0) =>
    sql`INSERT INTO replicas VALUES (${id}::uuid, now() - make_interval(secs => ${ageS}), '{}')
      ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at`.execute(db);

  const insert = (insertId: string) => ({ insertId, receivedS: 1000 });
  const claimsOf = (id: string, patienceMs?: number) =>
    new BodyClaims({ db, replicas: { id, isSeen: true }, log, ...(patienceMs !== undefined && { patienceMs }) });
  const isOurs = async (claims: BodyClaims, insertId: string) => (await claims.claim(["body"], insert(insertId))).isOurs[0];

  test("gives each body to one of many concurrent claimants", async () => {
    const replicas = Array.from({ length: 4 }, () => claimsOf(randomUUID(), 50_000));
    // More than one statement can claim.
    const bodies = Array.from({ length: 1200 }, (_, index) => `at once ${index}`);
    const claims = await Promise.all(replicas.map((claiming, index) => claiming.claim(bodies, insert(`insert ${index}`))));
    for (const index of bodies.keys()) expect(claims.filter(({ isOurs }) => isOurs[index])).toHaveLength(1);
    await Promise.all(replicas.map((claiming) => claiming[Symbol.asyncDispose]()));
  });

  test("takes over a claim if its replica is gone, but not while it may be storing", async () => {
    const [owner, other] = [randomUUID(), randomUUID()];
    await using first = claimsOf(owner);
    await using second = claimsOf(other);
    await alive(owner);
    await alive(other);
    expect([await isOurs(first, "insert 1"), await isOurs(first, "insert 2"), await isOurs(second, "insert 3")]).toEqual([
      true,
      false,
      false,
    ]);
    await expect(second.takeOver("body", 900)).rejects.toMatchObject({ code: "unavailable", retryAfterS: 2 });
    expect(await first.takeOver("body", 1010)).toEqual({ insertId: "insert 1", receivedS: 1000 });
    await alive(owner, 11);
    // Its clock is behind the first replica's.
    expect(await second.takeOver("body", 400)).toEqual({ insertId: "insert 1", receivedS: 400 });
    await expect(first.takeOver("body", 1010)).rejects.toMatchObject({ code: "unavailable" });
    await first.release(["body"]);
    expect(await isOurs(first, "insert 4")).toBe(false);
    await second.release(["body"]);
    expect(await isOurs(first, "insert 5")).toBe(true);
  });

  test("claims of a replica are invalid while its reports do not arrive", async () => {
    const state = { id: randomUUID(), isSeen: true };
    await using claims = new BodyClaims({ db, replicas: state, log });
    const claimed = await claims.claim(["reported"], insert("insert"));
    expect(claimed.isValid()).toBe(true);
    state.isSeen = false;
    expect(claimed.isValid()).toBe(false);
  });

  test("a replica is not seen once its reports have failed for ten seconds", async () => {
    await using replicas = await SharedReplicas.open({ db, reportEveryMs: 3_600_000 });
    expect(replicas.isSeen).toBe(true);
    const later = performance.now() + 10_000;
    const clock = vi.spyOn(performance, "now").mockReturnValue(later);
    expect(replicas.isSeen).toBe(false);
    clock.mockRestore();
  });

  test("stores bodies without a claim while the database is frozen, and claims again afterwards", async () => {
    await using frozen = claimsOf(randomUUID(), 100);
    await using other = claimsOf(randomUUID());
    expect((await frozen.claim(["before"], insert("insert"))).isOurs).toEqual([true]);
    server.freeze();
    try {
      expect((await frozen.claim(["before"], insert("insert 2"))).isOurs).toEqual([true]);
      // At once, without a timer.
      const claims = Promise.all(Array.from({ length: 1000 }, (_, index) => frozen.claim([`during ${index}`], insert("insert 3"))));
      expect(await Promise.race([claims.then(() => "at once"), nextTurn("later")])).toBe("at once");
    } finally {
      server.thaw();
    }
    for (const claims of [frozen, other])
      await expect.poll(async () => (await claims.claim(["before"], insert("insert 4"))).isOurs, { timeout: 40_000 }).toEqual([false]);
  });

  test.each([1, 2, 4])("the shares of a limit of %i replicas add up to the limit, and follow the demand", async (count) => {
    await sql`DELETE FROM replicas`.execute(db);
    const reportEveryMs = 50;
    const replicas = await Promise.all(Array.from({ length: count }, () => SharedReplicas.open({ db, reportEveryMs })));
    const parts = () => replicas.map((replica) => replica.shareOf("acme"));
    const sum = () => parts().reduce((all, part) => all + part, 0);
    await expect.poll(() => replicas.map((replica) => replica.count), { timeout: 50_000 }).toEqual(replicas.map(() => count));
    await expect.poll(() => replicas.filter(({ isFirst }) => isFirst), { timeout: 50_000 }).toHaveLength(1);
    expect(sum()).toBeCloseTo(1, 5);
    // Each replica refuses at its part; a replica may go over it by one record.
    const admitted = recordsInAMinute(replicas, 100);
    expect(admitted).toBeGreaterThanOrEqual(100 * (BURST_S + 60) - count);
    expect(admitted).toBeLessThanOrEqual(100 * (BURST_S + 60) + count);
    const pace = setInterval(() => replicas[0]?.recordDemand("acme", 1), 10);
    try {
      await expect.poll(() => replicas[0]?.shareOf("acme"), { timeout: 50_000 }).toBeGreaterThan(0.9);
    } finally {
      clearInterval(pace);
    }
    expect(parts()).toHaveLength(count);
    await replicas.pop()?.[Symbol.asyncDispose]();
    await expect.poll(() => replicas.map((replica) => replica.count), { timeout: 50_000 }).toEqual(replicas.map(() => count - 1));
    await expect.poll(() => replicas.filter(({ isFirst }) => isFirst), { timeout: 50_000 }).toHaveLength(Math.min(1, count - 1));
    await Promise.all(replicas.map((replica) => replica[Symbol.asyncDispose]()));
  });

  test("counts series that another replica received towards the limit", async () => {
    const orgId = randomUUID();
    const key = newHashKey(Buffer.from("shared"));
    const series = [1, 2].map(() => new ActiveSeries({ limitOf: () => 1000, key }));
    const exchanges = series.map((counted) => exchangeSeriesSketches({ db, replicaId: randomUUID(), series: counted, everyMs: 50 }));
    const lines = (name: string) => Buffer.from(Array.from({ length: 800 }, (_, index) => `${name}{i="${index}"} 1\n`).join(""));
    const sender = { orgId, hostId: "host" };
    const [first, second] = series as [ActiveSeries, ActiveSeries];
    expect(await first.admit(sender, lines("one"))).toBeGreaterThan(700);
    await expect.poll(() => second.admit(sender, lines("one").subarray(0, 100)), { timeout: 20_000 }).toBeGreaterThan(700);
    await expect(second.admit(sender, lines("other"))).rejects.toThrow("active_series is 1000");
    // Series that are known are the same series there.
    expect(await second.admit(sender, lines("one"))).toBeGreaterThan(700);
    for (const exchange of exchanges) await exchange[Symbol.asyncDispose]();
  });
});
