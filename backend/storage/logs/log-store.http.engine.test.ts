import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type ClickHouse, openClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import { type HttpFront, startHttpFront } from "../../engines/clickhouse/http-front.fixture.ts";
import { applyRetention, migrate } from "../../engines/clickhouse/migrate.ts";
import { logRecord, logsBody, nanosecondsOf, signingKey } from "../../ingest/otlp/otlp-body.fixture.ts";
import { describeStores, openStores, rowsOf, type Stores } from "../../../test/conformance/telemetry-stores.ts";

describe("stores on ClickHouse's HTTP interface", () => {
  const log = pino({ level: "silent" });
  let dir: string;
  let front: HttpFront;
  let clickhouse: ClickHouse;
  let stores: Stores;

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "atherops-store-"));
    front = await startHttpFront(dir);
    clickhouse = await openClickHouse({ url: front.url, dataDir: dir, log });
    await migrate(clickhouse, log);
    await applyRetention(clickhouse, { logs: 30, spans: 30 }, log);
    stores = await openStores(clickhouse);
  });

  afterAll(async () => {
    await stores[Symbol.asyncDispose]();
    await clickhouse[Symbol.asyncDispose]();
    await front[Symbol.asyncDispose]();
    await rm(dir, { recursive: true, force: true });
  });

  describeStores(() => ({ clickhouse, stores }));

  const now = new Date();
  const records = (count: number) =>
    Array.from({ length: count }, (_, index) => logRecord(nanosecondsOf(now) + BigInt(index), `line ${index}`));
  const send = (orgId: string, count: number, by = stores) =>
    by.ingestLogs(signingKey(orgId), logsBody(records(count)), { receivedAt: now });
  const stored = async (orgId: string) =>
    rowsOf(await stores.logs.query(orgId, { range: { start: undefined, end: undefined }, limit: 500, after: undefined, labels: [] }))
      .length;

  it("stores a body whose insert was committed but not acknowledged once if it is repeated", async () => {
    const orgId = randomUUID();
    front.faults.push("cut-after-commit");
    await expect(send(orgId, 20)).rejects.toMatchObject({ code: "storage_unavailable", status: 502, retryAfterS: 5 });
    await send(orgId, 20);
    expect(await stored(orgId)).toBe(20);
  });

  it("stores a repeated body whose insert was not committed", async () => {
    const orgId = randomUUID();
    front.faults.push("cut-before-commit");
    await expect(send(orgId, 20)).rejects.toMatchObject({ code: "storage_unavailable" });
    expect(await stored(orgId)).toBe(0);
    await send(orgId, 20);
    expect(await stored(orgId)).toBe(20);
  });

  it("returns unstorable for rejected content, and stores the other bodies of the same commit", async () => {
    const orgId = randomUUID();
    // The group, then the first of its members alone.
    front.faults.push({ code: 117 }, { code: 117 });
    const sent = await Promise.allSettled([1, 2, 3].map((count) => send(orgId, count)));
    expect(sent.map(({ status }) => status)).toEqual(["rejected", "fulfilled", "fulfilled"]);
    expect(sent[0]).toMatchObject({ reason: { code: "unstorable", status: 400 } });
    expect(await stored(orgId)).toBe(5);
  });

  it("stores a body of 1,000 records once if two independent replicas get it", async () => {
    const orgId = randomUUID();
    await using other = await openStores(clickhouse);
    await send(orgId, 1000);
    await send(orgId, 1000, other);
    const page = await stores.logs.query(orgId, { range: { start: undefined, end: undefined }, limit: 2000, after: undefined, labels: [] });
    expect(rowsOf(page)).toHaveLength(1000);
    expect(front.inserts.at(-1)).toMatchObject({ async_insert: "0", insert_deduplication_token: expect.stringContaining(orgId) });
  });

  it("returns storage_unavailable if the server is unreachable", async () => {
    await using nowhere = await openClickHouse({ url: "http://127.0.0.1:1/default", dataDir: dir, log });
    await expect(nowhere.ping()).rejects.toMatchObject({ code: "storage_unavailable" });
  });
});
