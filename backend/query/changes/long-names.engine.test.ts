// Names that senders choose may be as long as a body: what changed stays small, whatever they are.
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { openChangesApp } from "../../../test/fixtures/changes-app.ts";
import { sql } from "../../engines/clickhouse/sql.ts";

test("names of services, sources and operations are cut", async () => {
  await using app = await openChangesApp();
  const orgId = randomUUID();
  await app.addOrg(orgId);
  const nowS = Math.floor(Date.now() / 60_000) * 60 - 600;
  const name = (text: string) => sql`concat(repeat('x', 20000), ${text}, toString(number))`;
  // Without records before, nothing is compared.
  const before = sql`${orgId}, 'h', 'n', now(), 2, toDateTime64(${nowS - 3600}, 9, 'UTC'), 1`;
  await app.clickhouse.command(sql`INSERT INTO logs (org_id, host_id, node, received_at, body_hash, time, id, level, source, message)
    SELECT ${before}, 'info', 'before', 'one'`);
  await app.clickhouse
    .command(sql`INSERT INTO spans (org_id, host_id, node, received_at, body_hash, time, id, trace_id, span_id, parent_span_id, service, operation,
      kind, duration_ns, status_code)
    SELECT ${before}, 't', 's', 'p', 'before', 'one', 'SERVER', 1000000, 'OK'`);
  const row = sql`${orgId}, 'h', 'n', now(), 1, toDateTime64(${nowS} + each, 9, 'UTC'), number * 100 + each`;
  await app.clickhouse.command(sql`INSERT INTO logs (org_id, host_id, node, received_at, body_hash, time, id, level, source, message)
    SELECT ${row}, 'error', ${name("source ")}, concat('word', toString(number % 7)) FROM numbers(200) ARRAY JOIN range(20) AS each`);
  await app.clickhouse
    .command(sql`INSERT INTO spans (org_id, host_id, node, received_at, body_hash, time, id, trace_id, span_id, parent_span_id, service, operation,
      kind, duration_ns, status_code)
    SELECT ${row}, 't', 's', 'p', ${name("service ")}, ${name("operation ")}, 'SERVER', 1000000, 'ERROR' FROM numbers(40) ARRAY JOIN range(40) AS each`);
  const answer = await app.get(orgId, "/query/changes?limit=100");
  const { changes, missing } = answer.json<{ changes: { kind: string }[]; missing: { part: string }[] }>();
  expect(missing.map(({ part }) => part)).not.toContain("logs");
  expect(missing.map(({ part }) => part)).not.toContain("traces");
  expect(new Set(changes.map(({ kind }) => kind))).toEqual(new Set(["logs", "rate"]));
  expect(answer.body.length).toBeLessThan(1_000_000);
});
