// Logs on a cluster of several shards, each an embedded engine behind HTTP in a separate process: which shard stores a body, that each body
// is stored once, responses while a shard is unavailable, and adding a shard (docs/guides/clickhouse-shards.md).
import { randomUUID } from "node:crypto";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openStores, rowsOf, type Stores } from "../../../test/conformance/telemetry-stores.ts";
import { filesWith } from "../../../test/fixtures/engine-files.ts";
import { type ShardServers, startShardServers } from "../../../test/fixtures/shard-servers.ts";
import { type ClickHouse, openClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import { CLUSTER } from "../../engines/clickhouse/cluster-front.fixture.ts";
import { prepare } from "../../engines/clickhouse/prepare.ts";
import { Sql, sql } from "../../engines/clickhouse/sql.ts";
import { TENANT_TABLES } from "../../engines/clickhouse/tenant-filter.ts";
import { logRecord, logsBody, nanosecondsOf, signingKey, span, stringAttribute, tracesBody } from "../../ingest/otlp/otlp-body.fixture.ts";
import { eraseOrganisations } from "../removal/removal.ts";
import { keepMinutes } from "../traces/keep-minutes.ts";

const SENDERS = Array.from({ length: 24 }, (_, index) => `host-${index}`);
const RECORDS = 3;
const now = new Date();
const log = pino({ level: "silent" });
const [orgId, spreadOrgId] = [randomUUID(), randomUUID()];

let servers: ShardServers;
let clickhouse: ClickHouse;
let stores: Stores;
let opened: AsyncDisposableStack;

/** Starts the stores like a replica of the backend. */
async function openBackend(shardCount: number): Promise<void> {
  await opened?.disposeAsync();
  opened = new AsyncDisposableStack();
  const url = servers.urlOf(shardCount);
  clickhouse = opened.use(await openClickHouse({ url, cluster: CLUSTER, spread: [spreadOrgId], dataDir: servers.folder, log }));
  await prepare(clickhouse, log);
  stores = opened.use(await openStores(clickhouse));
}

beforeAll(async () => {
  servers = await startShardServers(3, 2);
  await openBackend(2);
});
afterAll(async () => {
  await opened?.disposeAsync();
  await servers?.[Symbol.asyncDispose]();
});

function send(hostId: string, body = "a", org = orgId): Promise<unknown> {
  const records = Array.from({ length: RECORDS }, (_, index) =>
    logRecord(nanosecondsOf(now) + BigInt(index), `${hostId} ${body} ${index}`),
  );
  return stores.ingestLogs(signingKey(org, hostId), logsBody(records), { receivedAt: now });
}

const everything = { range: { start: undefined, end: undefined }, limit: 500, after: undefined, labels: [] };
const read = async (org = orgId): Promise<{ host_id: string }[]> => rowsOf(await stores.logs.query(org, everything));
/** Rows of each shard's own table. */
const storedAt = (org = orgId): Promise<number[]> =>
  Promise.all(
    clickhouse.shards.map(async (shard) => {
      const [row] = await shard.query<{ n: string }>(sql`SELECT count() AS n FROM logs WHERE org_id = ${org}`);
      return Number(row?.n);
    }),
  );
const sum = (counts: readonly number[]): number => counts.reduce((total, count) => total + count, 0);
/** Senders whose bodies a shard stores. */
const sendersOf = (shard: number): string[] => SENDERS.filter((hostId) => clickhouse.shardOf({ orgId, hostId }) === shard);

describe("two shards", () => {
  it("store every sender on one of them, and a query reads both", async () => {
    await Promise.all(SENDERS.map((hostId) => send(hostId)));
    expect(await storedAt()).toEqual([0, 1].map((shard) => sendersOf(shard).length * RECORDS));
    expect(Math.min(...(await storedAt()))).toBeGreaterThan(0);
    expect(new Set((await read()).map(({ host_id }) => host_id))).toEqual(new Set(SENDERS));
    expect(await read()).toHaveLength(SENDERS.length * RECORDS);
  });

  it("store a repeated body once, also after a restart of the backend", async () => {
    await Promise.all(SENDERS.map((hostId) => send(hostId)));
    await openBackend(2);
    await Promise.all(SENDERS.map((hostId) => send(hostId)));
    expect(sum(await storedAt())).toBe(SENDERS.length * RECORDS);
  });

  it("share the bodies of a distributed organisation's only sender", async () => {
    for (let body = 0; body < 12; body += 1) await send("one", String(body), spreadOrgId);
    await send("one", "0", spreadOrgId);
    const counts = await storedAt(spreadOrgId);
    expect(sum(counts)).toBe(12 * RECORDS);
    expect(Math.min(...counts)).toBeGreaterThan(0);
  });

  it("return an error and never half of the rows while one is unavailable; its senders retry", { timeout: 240_000 }, async () => {
    const [[near = ""], [away = ""]] = [sendersOf(0), sendersOf(1)];
    await servers.kill(1);
    await expect(read()).rejects.toMatchObject({ code: "storage_unavailable" });
    await expect(send(away, "b")).rejects.toMatchObject({ code: "storage_unavailable" });
    await expect(clickhouse.ping()).rejects.toMatchObject({ code: "storage_unavailable" });
    await send(near, "b");
    await servers.start(1);
    await send(away, "b");
    await send(near, "b");
    expect(await read()).toHaveLength((SENDERS.length + 2) * RECORDS);
  });
});

describe("a third shard", () => {
  it("is added without lost or repeated rows, and takes over senders", { timeout: 240_000 }, async () => {
    const before = sum(await storedAt());
    await servers.start(2);
    // Its tables exist before the servers list it; replicas that know two shards continue to work.
    const wider = await openClickHouse({ url: servers.urlOf(3), cluster: CLUSTER, dataDir: servers.folder, log });
    await prepare(wider, log);
    await wider[Symbol.asyncDispose]();
    expect(await read()).toHaveLength(before);
    servers.list(3);
    expect(await read()).toHaveLength(before);
    await openBackend(3);
    await Promise.all(SENDERS.map((hostId) => send(hostId)));
    expect(await storedAt()).toEqual([expect.any(Number), expect.any(Number), 0]);
    await Promise.all(SENDERS.map((hostId) => send(hostId, "c")));
    expect((await storedAt())[2]).toBe(sendersOf(2).length * RECORDS);
    expect(sendersOf(2).length).toBeGreaterThan(0);
    expect(await read()).toHaveLength(before + SENDERS.length * RECORDS);
  });

  it("and the others contain no row and no file of an erased organisation", { timeout: 1_200_000 }, async () => {
    const secret = `secret${randomUUID().replaceAll("-", "")}`;
    const time = nanosecondsOf(new Date(now.getTime() - 3 * 86_400_000));
    await Promise.all(
      SENDERS.map((hostId, index) => {
        const spans = [span(time, `5b8aa5a2d2c872e8321cf37308d69d${10 + index}`, "051581bf3cb55c13", { name: secret })];
        return stores.ingestTraces(signingKey(orgId, hostId), tracesBody(spans, [stringAttribute("service.name", secret)]), {
          receivedAt: now,
        });
      }),
    );
    await keepMinutes(clickhouse, 30, new AbortController().signal);
    const everyTable = async (statement: (table: Sql) => Sql): Promise<void> => {
      for (const shard of clickhouse.shards) for (const table of TENANT_TABLES) await shard.command(statement(new Sql(table)));
    };
    // Eight minutes otherwise.
    await everyTable((table) => sql`ALTER TABLE ${table} MODIFY SETTING old_parts_lifetime = 1`);
    // The organisation's id also remains in ClickHouse's texts of finished mutations.
    const filesOf = (text: string): string[] => filesWith(servers.folder, text).filter((file) => !/\/mutation_\d+\.txt$/.test(file));
    for (const text of [orgId, secret])
      expect(new Set(filesOf(text).map((file) => file.split("/")[0]))).toEqual(new Set(["shard-0", "shard-1", "shard-2"]));
    await expect.poll(() => eraseOrganisations(clickhouse, [orgId]), { timeout: 180_000 }).toEqual(new Map([[orgId, {}]]));
    expect(await storedAt()).toEqual([0, 0, 0]);
    // Wakes the removal of old parts: an idle table waits longer for each next pass, up to ten minutes.
    const removeOldParts = () => everyTable((table) => sql`SYSTEM START MERGES ${table}`);
    for (const text of [orgId, secret])
      await expect
        .poll(
          async () => {
            await removeOldParts();
            return filesOf(text);
          },
          { timeout: 480_000, interval: 500 },
        )
        .toEqual([]);
    expect(sum(await storedAt(spreadOrgId))).toBe(12 * RECORDS);
    expect(filesOf(spreadOrgId)).not.toEqual([]);
  });
});
