// GET /query/services on the real engine: which services are listed, for which organisation, their limits, and that the list survives
// failures.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openTracesApp, type TracesApp, type TracesOrg } from "../../../test/fixtures/traces-app.ts";
import { sql, Sql } from "../../engines/clickhouse/sql.ts";
import { migrate } from "../../engines/clickhouse/migrate.ts";
import { nanosecondsOf, signingKey, span, tracesBody } from "../../ingest/otlp/otlp-body.fixture.ts";
import { OtlpDecoder } from "../../ingest/otlp/otlp-decoder.ts";
import { createOtlpIngest } from "../../ingest/otlp/otlp-ingest.ts";
import { createLog } from "../../log.ts";
import type { ServiceRow } from "./service-rows.fixture.ts";
import { ClickHouseSpanStore } from "./span-store.ts";
import { operationsOf } from "./operations-of.ts";
import { SpanOperations } from "./span-operations.ts";

const now = new Date();
const nowNs = nanosecondsOf(now);
const DAY_S = 86_400;
const DAY_NS = BigInt(DAY_S) * 1_000_000_000n;
const today = Math.floor(now.getTime() / 1000 / DAY_S);
const one = (name: string, kind = 0, ago = 0n) => span(nowNs - ago, "a".repeat(32), "b".repeat(16), { name, kind });

let app: TracesApp;
beforeAll(async () => void (app = await openTracesApp()));
afterAll(() => app?.[Symbol.asyncDispose]());

type Listed = Pick<ServiceRow, "service" | "operations">;
const servicesOf = async (org: TracesOrg): Promise<Listed[]> => {
  const answer = await org.get("/query/services");
  expect(answer.statusCode).toBe(200);
  return answer.json<ServiceRow[]>().map(({ service, operations }) => ({ service, operations }));
};
/** Requests names like a picker: without a range, and without reading spans. */
const namesOf = async (org: TracesOrg): Promise<string[]> => (await org.get("/query/jaeger/api/services")).json().data;
const spansOf = async (org: TracesOrg): Promise<number> => (await org.get(`/query/traces?trace_id=${"a".repeat(32)}`)).json().length;
const countOf = (rows: readonly Listed[]) => rows.reduce((sum, { operations }) => sum + operations.length, 0);
/** Rows as written, without what merges took away. */
const written = async (orgId: string): Promise<number> => {
  const [row] = await app.clickhouse.query<{ n: string }>(sql`SELECT count() AS n FROM span_operations WHERE org_id = ${orgId}`);
  return Number(row?.n);
};
const rename = (from: string, to: string) => app.clickhouse.command(new Sql(`RENAME TABLE ${from} TO ${to}`));

describe("services", () => {
  it("are listed with their operations and kinds, by name, to their own organisation", async () => {
    const [red, blue] = [await app.org(), await app.org()];
    expect(await servicesOf(red)).toEqual([]);
    await red.send([one("POST /b", 2), one("GET /a", 2), one("GET /a", 3), one("GET /a", 2), one("'\\\0\n", 1)], "shop");
    await red.send([one("SELECT 1", 3)], "database");
    await blue.send([one("secret", 4)], "mine");
    expect(await servicesOf(red)).toEqual([
      { service: "database", operations: [{ operation: "SELECT 1", kinds: ["CLIENT"] }] },
      {
        service: "shop",
        operations: [
          { operation: "'\\\0\n", kinds: ["INTERNAL"] },
          { operation: "GET /a", kinds: ["CLIENT", "SERVER"] },
          { operation: "POST /b", kinds: ["SERVER"] },
        ],
      },
    ]);
    expect(await servicesOf(blue)).toEqual([{ service: "mine", operations: [{ operation: "secret", kinds: ["PRODUCER"] }] }]);
  });

  it("are written once despite repeated bodies, and a later process writes only new ones", async () => {
    const org = await app.org();
    const body = () => tracesBody([one("a"), one("b", 2)]);
    const send = () => app.stores.ingestTraces(signingKey(org.orgId), body(), { receivedAt: now });
    await Promise.all([send(), send(), send()]);
    await send();
    await org.send([one("a"), one("b", 2)]);
    expect(await written(org.orgId)).toBe(2);
    await using later = new SpanOperations(app.clickhouse);
    const operation = (name: string) => ({ service: "shop", operation: name, kind: "UNSPECIFIED" });
    await later.store(org.orgId, [{ day: today, operations: [operation("a"), operation("c")] }]);
    expect(await written(org.orgId)).toBe(3);
    expect(await servicesOf(org)).toEqual([
      expect.objectContaining({ operations: expect.arrayContaining([{ operation: "c", kinds: ["UNSPECIFIED"] }]) }),
    ]);
  });

  it("are kept until the last of their spans expires", async () => {
    const org = await app.org();
    const until = async () =>
      (
        await app.clickhouse.query<{ day: number }>(
          sql`SELECT intDiv(toUnixTimestamp(max(time)), ${DAY_S}) AS day FROM span_operations WHERE org_id = ${org.orgId}`,
        )
      )[0]?.day;
    await org.send([one("a", 0, 3n * DAY_NS)]);
    expect(await until()).toBe(today - 2);
    await org.send([one("a")]);
    expect(await until()).toBe(today + 1);
    await org.send([one("a", 0, 2n * DAY_NS)]);
    expect(await until()).toBe(today + 1);
    const [table] = await app.clickhouse.query<{ engine_full: string }>(
      sql`SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = 'span_operations'`,
    );
    expect(table?.engine_full).toContain("TTL toDateTime(time) + toIntervalDay(30)");
  });

  it("are never missing for stored spans, whichever of both cannot be written", async () => {
    const org = await app.org();
    const spans = () => spansOf(org);
    await rename("span_operations", "operations_away");
    await expect(org.send([one("GET /")])).rejects.toMatchObject({ code: "storage_unavailable" });
    await rename("operations_away", "span_operations");
    expect([await spans(), await servicesOf(org)]).toEqual([0, []]);
    await rename("spans", "spans_away");
    // Too large to be answered from the journal.
    await expect(org.send([{ ...one("GET /"), traceState: "x".repeat(1_200_000) }])).rejects.toMatchObject({ code: "storage_unavailable" });
    await rename("spans_away", "spans");
    await org.send([one("GET /")]);
    expect([await spans(), countOf(await servicesOf(org))]).toEqual([1, 1]);
  });

  it("include spans that were acknowledged while their table was unavailable; meanwhile no backup is made", async () => {
    const org = await app.org();
    await rename("spans", "spans_away");
    try {
      await org.send([one("GET /")]);
      expect(await namesOf(org)).toEqual(["shop"]);
      await expect(app.clickhouse.settle()).rejects.toMatchObject({ code: "storage_unavailable" });
    } finally {
      await rename("spans_away", "spans");
    }
    await expect.poll(() => spansOf(org), { timeout: 30_000 }).toBe(1);
    await app.clickhouse.settle();
  });

  it("of earlier spans are listed after the migration", async () => {
    const org = await app.org();
    await app.clickhouse.command(sql`DROP TABLE span_operations SYNC`);
    await app.clickhouse.command(sql`ALTER TABLE schema_migrations DELETE WHERE number = 3 SETTINGS mutations_sync = 2`);
    await app.clickhouse.command(
      sql`INSERT INTO spans (org_id, time, id, service, operation, kind) SELECT ${org.orgId}, now64(9) - number * 3600, number,
          concat('s', toString(number % 3)), if(number % 100 = 0, repeat('x', 600), 'old'), 'SERVER' FROM numbers(500)`,
    );
    await migrate(app.clickhouse, createLog("silent"));
    const operations = [{ operation: "old", kinds: ["SERVER"] }];
    expect(await servicesOf(org)).toEqual(["s0", "s1", "s2"].map((service) => ({ service, operations })));
  });
});

describe("an organisation that invents names", () => {
  const see = (operations: SpanOperations, orgId: string, names: readonly [service: string, operation: string][]) =>
    operations.store(orgId, [{ day: today, operations: names.map(([service, operation]) => ({ service, operation, kind: "SERVER" })) }]);

  it("is limited to 1,000 operations per service, 10,000 in all, and 1,000 services", async () => {
    const org = await app.org();
    await using operations = new SpanOperations(app.clickhouse);
    for (let service = 0; service < 12; service += 1) {
      const names = Array.from({ length: 1200 }, (_, n): [string, string] => [`s${service}`, `GET /${n}`]);
      await Promise.all([see(operations, org.orgId, names), see(operations, org.orgId, names.toReversed())]);
    }
    const full = await servicesOf(org);
    expect([full.length, countOf(full), full[0]?.operations.length]).toEqual([12, 9012, 1000]);
    await see(
      operations,
      org.orgId,
      Array.from({ length: 1100 }, (_, n): [string, string] => [`late ${n}`, "GET /"]),
    );
    await see(
      operations,
      org.orgId,
      Array.from({ length: 1100 }, (_, n): [string, string] => [`later ${n}`, "GET /"]),
    );
    const fuller = await servicesOf(org);
    expect([fuller.length, countOf(fuller)]).toEqual([1000, 10_000]);
    // Also after a restart.
    await using later = new SpanOperations(app.clickhouse);
    await see(later, org.orgId, [
      ["latest", "GET /"],
      ["s1", "one more"],
    ]);
    expect(countOf(await servicesOf(org))).toBe(10_000);
  });

  it("gets its last service although the same body has operations of known ones", async () => {
    const org = await app.org();
    await using operations = new SpanOperations(app.clickhouse);
    await see(
      operations,
      org.orgId,
      Array.from({ length: 999 }, (_, n): [string, string] => [`s${n}`, "GET /"]),
    );
    await see(operations, org.orgId, [
      ["s0", "POST /"],
      ["last", "GET /"],
    ]);
    expect((await servicesOf(org)).length).toBe(1000);
  });

  it("evicts nothing of the others if many are cached", async () => {
    await using operations = new SpanOperations(app.clickhouse, 50);
    const orgs = [await app.org(), await app.org(), await app.org()];
    for (const round of [1, 2, 3])
      for (const { orgId } of orgs)
        await see(
          operations,
          orgId,
          Array.from({ length: 20 * round }, (_, n): [string, string] => ["s", `${n}`]),
        );
    for (const org of orgs) expect([countOf(await servicesOf(org)), await written(org.orgId)]).toEqual([60, 60]);
  });
});

it("stores spans although their operations are not known yet", async () => {
  const org = await app.org();
  await using store = await ClickHouseSpanStore.open(app.clickhouse, () => 30);
  const ingested: Parameters<ClickHouseSpanStore["insert"]>[0][] = [];
  await using decoder = new OtlpDecoder(1);
  const remember = { insert: async (batch: (typeof ingested)[number]) => void ingested.push(batch) };
  const ingest = createOtlpIngest({ signal: "traces", store: remember, decoder, retentionDays: () => 30 });
  await ingest(signingKey(org.orgId), tracesBody([one("a"), one("b")]), { receivedAt: now });
  const { operations, ...batch } = ingested[0] as (typeof ingested)[number];
  expect(operations).toEqual(operationsOf(batch.sections));
  await store.insert(batch);
  expect(countOf(await servicesOf(org))).toBe(2);
});
