// Replicas on a real PostgreSQL and on ClickHouse's HTTP interface: each body is stored once, although an insert may be committed after its
// replica is gone, after its client has given up, or after another replica has taken its bodies over.
import { randomUUID } from "node:crypto";
import { pino } from "pino";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { openStores, type Stores } from "../../../test/conformance/telemetry-stores.ts";
import { NO_POSTGRES, postgresBinaries, PostgresServer } from "../../../test/fixtures/postgres.ts";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { type ClickHouse, openClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import { type HttpFront, startHttpFront } from "../../engines/clickhouse/http-front.fixture.ts";
import { migrate } from "../../engines/clickhouse/migrate.ts";
import { sql } from "../../engines/clickhouse/sql.ts";
import { type Database, openDatabase } from "../../engines/relational/database.ts";
import { migrate as migrateDatabase } from "../../engines/relational/migrate.ts";
import { logRecord, logsBody, nanosecondsOf, signingKey } from "../../ingest/otlp/otlp-body.fixture.ts";
import { BodyClaims } from "../../replicas/body-claims.ts";
import { SharedReplicas } from "../../replicas/replica-set.ts";

const DAY_MS = 86_400_000;
const log = pino({ level: "silent" });
const now = new Date();

describe.skipIf(!postgresBinaries)(`replicas that take over bodies${postgresBinaries ? "" : `: ${NO_POSTGRES}`}`, () => {
  const stack = new AsyncDisposableStack();
  let front: HttpFront;
  let clickhouse: ClickHouse;
  let database: Database;
  let orgId: string;

  beforeAll(async () => {
    const { path } = stack.use(temporaryFolder());
    const postgres = stack.use(await PostgresServer.start());
    database = stack.use(await openDatabase({ url: await postgres.newDatabase(), dataDir: "unused", log }));
    await migrateDatabase(database);
    front = stack.use(await startHttpFront(path));
    clickhouse = stack.use(await openClickHouse({ url: front.url, dataDir: path, log }));
    await migrate(clickhouse, log);
  });
  afterAll(() => stack.disposeAsync());
  beforeEach(() => void (orgId = randomUUID()));

  interface Replica extends AsyncDisposable {
    readonly stores: Stores;
    /** As a killed or paused process: it does not report any more. */
    disappear(): Promise<void>;
  }

  async function openReplica(): Promise<Replica> {
    const db = database.tables<unknown>();
    await using opened = new AsyncDisposableStack();
    const replicas = opened.use(await SharedReplicas.open({ db, reportEveryMs: 3_600_000 }));
    const state = { id: replicas.id, isSeen: true };
    const stores = opened.use(await openStores(clickhouse, opened.use(new BodyClaims({ db, replicas: state, log }))));
    const owned = opened.move();
    return {
      stores,
      async disappear() {
        state.isSeen = false;
        await replicas[Symbol.asyncDispose]();
      },
      [Symbol.asyncDispose]: () => owned.disposeAsync(),
    };
  }

  /** Two records of today and one of yesterday, which are different partitions. */
  function send({ stores }: Replica, body: string, receivedAt = now): Promise<unknown> {
    const records = [0, 1, DAY_MS].map((agoMs, index) => logRecord(nanosecondsOf(now) - BigInt(agoMs) * 1_000_000n, `${body} ${index}`));
    return stores.ingestLogs(signingKey(orgId), logsBody(records), { receivedAt });
  }

  async function stored(): Promise<string[]> {
    const rows = await clickhouse.query<{ message: string }>(sql`SELECT message FROM logs WHERE org_id = ${orgId} ORDER BY message`);
    return rows.map(({ message }) => message);
  }
  const rowsOf = (...bodies: string[]): string[] => bodies.flatMap((body) => [0, 1, 2].map((index) => `${body} ${index}`));

  /** The insert after the next `earlier` ones is committed after `release`; they wait for `start`. */
  function hold(earlier: number, { isCut = false } = {}) {
    const [start, commit, end] = [0, 1, 2].map(() => Promise.withResolvers<void>()) as [Gate, Gate, Gate];
    const before = front.inserts.length;
    for (let insert = 0; insert < earlier; insert += 1) front.faults.push({ until: start.promise });
    front.faults.push({ until: commit.promise, isCut, onEnd: end.resolve });
    return {
      arrived: async () => {
        start.resolve();
        await expect.poll(() => front.inserts.length, { timeout: 30_000 }).toBe(before + earlier + 1);
      },
      release: async () => {
        commit.resolve();
        await end.promise;
      },
    };
  }

  test("store a body once if the insert of a replica that is gone is committed after another one has stored the body", async () => {
    await using gone = await openReplica();
    await using other = await openReplica();
    // While the first insert runs, the others wait for the second one.
    const held = hold(1);
    const sent = Promise.allSettled(["first", "a", "b"].map((body) => send(gone, body)));
    await held.arrived();
    await expect(send(other, "a")).rejects.toMatchObject({ code: "unavailable" });
    await gone.disappear();
    await send(other, "a");
    expect(await stored()).toEqual(expect.arrayContaining(rowsOf("a")));
    await held.release();
    // The engine has dropped the late insert, so no body of it is acknowledged.
    expect((await sent).map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
    for (const body of ["first", "a", "b"]) await send(other, body);
    expect(await stored()).toEqual(rowsOf("a", "b", "first"));
  });

  test("store a body once if it is repeated while its insert, whose client has given up, is still under way", async () => {
    await using replica = await openReplica();
    const held = hold(0, { isCut: true });
    await expect(send(replica, "a")).rejects.toMatchObject({ code: "storage_unavailable" });
    await send(replica, "a");
    await held.release();
    await send(replica, "a");
    expect(await stored()).toEqual(rowsOf("a"));
  });

  test("acknowledge a body that another replica has stored without a response", async () => {
    await using gone = await openReplica();
    await using other = await openReplica();
    front.faults.push("cut-after-commit");
    await expect(send(gone, "a")).rejects.toMatchObject({ code: "storage_unavailable" });
    await gone.disappear();
    await send(other, "a");
    expect(await stored()).toEqual(rowsOf("a"));
  });

  test("store a body once if the clock of the replica that stored it is five hours behind or ahead", async () => {
    for (const hours of [-5, 5]) {
      await using gone = await openReplica();
      await using other = await openReplica();
      await using third = await openReplica();
      await send(gone, `${hours} h`, new Date(now.getTime() + hours * 3_600_000));
      await gone.disappear();
      await send(other, `${hours} h`);
      await other.disappear();
      await send(third, `${hours} h`);
    }
    expect(await stored()).toEqual(rowsOf("-5 h", "5 h"));
  });

  test("give up the claims of refused rows", async () => {
    await using first = await openReplica();
    await using other = await openReplica();
    front.faults.push({ code: 117 });
    await expect(send(first, "a")).rejects.toMatchObject({ code: "unstorable" });
    await send(other, "a");
    expect(await stored()).toEqual(rowsOf("a"));
  });
});

type Gate = PromiseWithResolvers<void>;
