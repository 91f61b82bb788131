// Query slots of an organisation on a real PostgreSQL: the limit is the same with 1, 2 and 4 replicas, and survives a replica that is killed
// and a database that does not answer.
import { randomUUID } from "node:crypto";
import { type Kysely, sql } from "kysely";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { NO_POSTGRES, postgresBinaries, PostgresServer } from "../../test/fixtures/postgres.ts";
import { FairQueue } from "../admission/fair-queue.ts";
import { openDatabase, type Database } from "../engines/relational/database.ts";
import { migrate } from "../engines/relational/migrate.ts";
import { createLog } from "../log.ts";
import { QuerySlots } from "./query-slots.ts";

const LIMIT = 2;
const TIMEOUT_MS = 60_000;

describe.skipIf(!postgresBinaries)(`query slots of replicas on one database${postgresBinaries ? "" : `: ${NO_POSTGRES}`}`, () => {
  const log = createLog("silent");
  let server: PostgresServer;
  let database: Database;
  let db: Kysely<unknown>;
  let replicas: { id: string; queue: FairQueue; slots: QuerySlots }[] = [];
  /** Queries that run now, at all replicas, and the most that ran at once. */
  let running = { acme: 0, other: 0 };
  let most = 0;
  let ended = 0;

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
  beforeEach(() => {
    running = { acme: 0, other: 0 };
    [most, ended] = [0, 0];
  });
  afterEach(async () => {
    await Promise.all(replicas.map(({ slots }) => slots[Symbol.asyncDispose]()));
    await sql`DELETE FROM replicas`.execute(db);
  });

  const seen = (id: string, ageS: number) =>
    sql`INSERT INTO replicas VALUES (${id}::uuid, now() - make_interval(secs => ${ageS}), '{}')
      ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at`.execute(db);

  /** They stay alive for longer than a test. */
  async function start(count: number): Promise<void> {
    replicas = Array.from({ length: count }, () => {
      const id = randomUUID();
      const slots = new QuerySlots({ db, replicas: { id, count }, log });
      return { id, slots, queue: new FairQueue({ running: 8, perOrg: LIMIT, waitingPerOrg: 99, slots: slots.share("logs", LIMIT) }) };
    });
    for (const { id } of replicas) await seen(id, -1000);
  }

  /** Queries take this long. */
  const pass = () => new Promise<void>((resolve) => void setTimeout(resolve, 5));

  function query(queue: FairQueue, org: "acme" | "other" = "acme", work = pass) {
    return queue.run(org, undefined, async () => {
      running[org] += 1;
      most = Math.max(most, running[org]);
      await work();
      running[org] -= 1;
      ended += 1;
    });
  }

  /** Queries that run until `end`. */
  function endless(queue: FairQueue, count: number) {
    const { promise, resolve } = Promise.withResolvers<void>();
    const all = Promise.all(Array.from({ length: count }, () => query(queue, "acme", () => promise)));
    return { end: resolve, all };
  }

  test.each([1, 2, 4])("%i replicas run as many concurrent queries of an organisation as one", { timeout: TIMEOUT_MS }, async (count) => {
    await start(count);
    await Promise.all(replicas.flatMap(({ queue }) => Array.from({ length: 40 }, () => query(queue))));
    expect([most, ended]).toEqual([LIMIT, 40 * count]);
    // All slots are of use to a replica that gets all queries.
    most = 0;
    const [{ queue } = { queue: undefined }] = replicas;
    if (queue) await Promise.all(Array.from({ length: 20 }, () => query(queue)));
    expect(most).toBe(LIMIT);
  });

  test("a backlog at one replica does not block the slots of another", { timeout: TIMEOUT_MS }, async () => {
    await start(2);
    const [busy, late] = replicas.map(({ queue }) => queue) as [FairQueue, FairQueue];
    const stop = new AbortController();
    const backlog = Array.from({ length: 4 }, async () => {
      while (!stop.signal.aborted) await query(busy);
    });
    await expect.poll(() => ended, { timeout: TIMEOUT_MS }).toBeGreaterThan(10);
    await query(late);
    await query(late, "other");
    stop.abort();
    await Promise.all(backlog);
    expect(most).toBe(LIMIT);
  });

  test("releases slots of a killed replica once its lease has expired, not before", { timeout: TIMEOUT_MS }, async () => {
    await start(2);
    const [killed, other] = replicas as [(typeof replicas)[number], (typeof replicas)[number]];
    const held = endless(killed.queue, LIMIT);
    await expect.poll(() => running.acme, { timeout: TIMEOUT_MS }).toBe(LIMIT);
    const waiting = query(other.queue);
    await query(other.queue, "other");
    expect(ended).toBe(1);
    await seen(killed.id, 11);
    await waiting;
    held.end();
    await held.all;
  });

  test("deletes slots of a killed replica, also of an organisation without queries", { timeout: TIMEOUT_MS }, async () => {
    const killed = randomUUID();
    await seen(killed, 11);
    await sql`INSERT INTO query_slots VALUES (${`logs:${randomUUID()}`}, 1, ${killed}::uuid)`.execute(db);
    await start(1);
    const left = async () => (await sql`SELECT FROM query_slots WHERE replica = ${killed}::uuid`.execute(db)).rows.length;
    await expect.poll(left, { timeout: TIMEOUT_MS }).toBe(0);
  });

  test("each replica runs its equal share while the database is frozen, and shares again afterwards", { timeout: TIMEOUT_MS }, async () => {
    await start(4);
    server.freeze();
    try {
      await Promise.all(replicas.map(({ queue }) => query(queue)));
      const held = replicas.map(({ queue }) => endless(queue, LIMIT));
      await expect.poll(() => running.acme, { timeout: TIMEOUT_MS }).toBe(4);
      expect(most).toBe(4);
      for (const { end } of held) end();
      server.thaw();
      await Promise.all(held.map(({ all }) => all));
    } finally {
      server.thaw();
    }
    const shares = async (): Promise<number> => {
      most = 0;
      await Promise.all(replicas.flatMap(({ queue }) => Array.from({ length: 10 }, () => query(queue))));
      return most;
    };
    await expect.poll(shares, { timeout: TIMEOUT_MS }).toBe(LIMIT);
  });
});
