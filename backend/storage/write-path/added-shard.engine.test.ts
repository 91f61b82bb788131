// Replicas on a real PostgreSQL, one of which knows a shard that was added and one does not yet: a body that is repeated at the other one is
// stored once. Each shard is an embedded engine behind HTTP in a separate process.
import { randomUUID } from "node:crypto";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openStores, type Stores } from "../../../test/conformance/telemetry-stores.ts";
import { NO_POSTGRES, postgresBinaries, PostgresServer } from "../../../test/fixtures/postgres.ts";
import { type ShardServers, startShardServers } from "../../../test/fixtures/shard-servers.ts";
import { type ClickHouse, openClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import { CLUSTER } from "../../engines/clickhouse/cluster-front.fixture.ts";
import { prepare } from "../../engines/clickhouse/prepare.ts";
import { sql } from "../../engines/clickhouse/sql.ts";
import { type Database, openDatabase } from "../../engines/relational/database.ts";
import { migrate } from "../../engines/relational/migrate.ts";
import { logRecord, logsBody, nanosecondsOf, signingKey } from "../../ingest/otlp/otlp-body.fixture.ts";
import { BodyClaims } from "../../replicas/body-claims.ts";
import { SharedReplicas } from "../../replicas/replica-set.ts";

const SENDERS = Array.from({ length: 24 }, (_, index) => `host-${index}`);
const now = new Date();
const log = pino({ level: "silent" });

describe.skipIf(!postgresBinaries)(`replicas while a shard is added${postgresBinaries ? "" : `: ${NO_POSTGRES}`}`, () => {
  const stack = new AsyncDisposableStack();
  let servers: ShardServers;
  let database: Database;
  let narrow: ClickHouse;
  let wide: ClickHouse;

  beforeAll(async () => {
    servers = stack.use(await startShardServers(3, 3));
    const postgres = stack.use(await PostgresServer.start());
    database = stack.use(await openDatabase({ url: await postgres.newDatabase(), dataDir: "unused", log }));
    await migrate(database);
    const open = (count: number) => openClickHouse({ url: servers.urlOf(count), cluster: CLUSTER, dataDir: servers.folder, log });
    narrow = stack.use(await open(2));
    wide = stack.use(await open(3));
    await prepare(wide, log);
  });
  afterAll(() => stack.disposeAsync());

  async function openReplica(clickhouse: ClickHouse): Promise<Stores & { readonly disappear: () => Promise<void> }> {
    const db = database.tables<unknown>();
    const replicas = stack.use(await SharedReplicas.open({ db, reportEveryMs: 3_600_000 }));
    const claims = stack.use(new BodyClaims({ db, replicas: { id: replicas.id, isSeen: true }, log }));
    return { ...stack.use(await openStores(clickhouse, claims)), disappear: () => replicas[Symbol.asyncDispose]() };
  }

  const moved = (orgId: string): string[] =>
    SENDERS.filter((hostId) => narrow.shardOf({ orgId, hostId }) !== wide.shardOf({ orgId, hostId }));
  const send = (stores: Stores, orgId: string, hostId: string, records: number): Promise<unknown> => {
    const body = Array.from({ length: records }, (_, index) => logRecord(nanosecondsOf(now) + BigInt(index), `${hostId} ${index}`));
    return stores.ingestLogs(signingKey(orgId, hostId), logsBody(body), { receivedAt: now });
  };
  const storedRows = async (orgId: string): Promise<number> => {
    const [row] = await wide.query<{ n: string }>(sql`SELECT count() AS n FROM logs WHERE org_id = ${orgId}`);
    return Number(row?.n);
  };

  test.each([3, 1200])(
    "store a body of %i rows once if it is repeated at a replica that knows the shard, and at one that does not",
    async (records) => {
      const orgId = randomUUID();
      const [first, second, third] = [await openReplica(narrow), await openReplica(wide), await openReplica(narrow)];
      const hosts = moved(orgId);
      expect(hosts.length).toBeGreaterThan(0);
      for (const hostId of hosts) await send(first, orgId, hostId, records);
      await first.disappear();
      for (const later of [second, third]) {
        for (const hostId of hosts) await send(later, orgId, hostId, records);
        await later.disappear();
      }
      expect(await storedRows(orgId)).toBe(hosts.length * records);
    },
  );

  test("store a large body once if it is repeated while its insert is still under way", async () => {
    const orgId = randomUUID();
    const [arrived, commit] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const insert: ClickHouse["insert"] = async (late) => {
      arrived.resolve();
      await commit.promise;
      await narrow.insert(late);
    };
    const [first, second] = [await openReplica({ ...narrow, insert }), await openReplica(wide)];
    const [hostId = ""] = moved(orgId);
    const sent = send(first, orgId, hostId, 1200);
    await arrived.promise;
    await send(second, orgId, hostId, 1200);
    commit.resolve();
    await sent;
    expect(await storedRows(orgId)).toBe(1200);
  });
});
