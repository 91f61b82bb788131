// The routes of rules on real engines: storing and changing rules, roles, limits, and responses while an engine is unavailable.
import { randomUUID } from "node:crypto";
import type { LightMyRequestResponse } from "fastify";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { alertingApp, type AlertingApp } from "../../test/fixtures/alerting-app.ts";
import { NO_POSTGRES, postgresBinaries, PostgresServer } from "../../test/fixtures/postgres.ts";
import { openDatabase } from "../engines/relational/database.ts";
import { createLog } from "../log.ts";
import type { AlertingTables } from "./alert-rule-table.ts";

vi.setConfig({ testTimeout: 180_000 });

let service: AlertingApp;
let admin: string;
let viewer: string;
let otherAdmin: string;

beforeAll(async () => {
  service = await alertingApp();
  const orgId = await service.makeOrg();
  [admin, viewer, otherAdmin] = [`${orgId}:admin`, `${orgId}:viewer`, `${await service.makeOrg()}:admin`];
});

afterAll(async () => {
  await service?.[Symbol.asyncDispose]();
});

const body = (more: object = {}): Record<string, unknown> => ({ name: randomUUID(), severity: "warning", expr: "up == 0", ...more });
const create = async (more: object = {}, bearer = admin): Promise<LightMyRequestResponse> =>
  await service.call("POST", "/rules", bearer, body(more));
const shown = (answer: LightMyRequestResponse): unknown[] => [answer.statusCode, answer.json().error, answer.json().message];

/** Rules that are off, more than requests could create in a short time. Returns their ids. */
async function insertRules(orgId: string, count: number, annotations: object = {}): Promise<string[]> {
  const texts = { severity: "info", expr: "up == 0", for_duration: "0s", labels: "{}", annotations: JSON.stringify(annotations) } as const;
  const row = { ...texts, org_id: orgId, enabled: false, revision: 1, created_at: new Date() };
  const rows = Array.from({ length: count }, (_, n) => ({ ...row, id: randomUUID(), name: `${n}` }));
  await service.database.tables<AlertingTables>().insertInto("rules").values(rows).execute();
  return rows.map(({ id }) => id);
}

describe("a rule", () => {
  test("is created with its defaults, listed, replaced in full and deleted", async () => {
    const bearer = `${await service.makeOrg()}:admin`;
    expect((await service.call("GET", "/rules", bearer)).json()).toEqual([]);
    const created = await create({ name: "one" }, bearer);
    expect(created.statusCode).toBe(201);
    const { id, created_at, ...rest } = created.json();
    expect(id).toMatch(/^[0-9a-f-]{36}$/);
    expect(Math.abs(Date.parse(created_at) - Date.now())).toBeLessThan(60_000);
    expect(rest).toEqual({ name: "one", severity: "warning", expr: "up == 0", for: "0s", enabled: true, labels: {}, annotations: {} });
    expect((await service.call("GET", "/rules", bearer)).json()).toEqual([created.json()]);

    const given = body({
      name: "two",
      severity: "info",
      for: "1h30m",
      enabled: false,
      labels: { team: "a" },
      annotations: { text: "{{ $value }}" },
    });
    const replaced = await service.call("PUT", `/rules/${id}`, bearer, given);
    expect([replaced.statusCode, replaced.json()]).toEqual([200, { ...given, id, created_at }]);
    const plain = await service.call("PUT", `/rules/${id}`, bearer, body({ name: "two" }));
    expect(plain.json()).toMatchObject({ for: "0s", enabled: true, labels: {}, annotations: {} });

    const deleted = await service.call("DELETE", `/rules/${id}`, bearer);
    expect([deleted.statusCode, deleted.body]).toEqual([204, ""]);
    expect((await service.call("DELETE", `/rules/${id}`, bearer)).statusCode).toBe(404);
  });

  test("has a history since any time, and since no day that no month has", async () => {
    const { id } = (await create()).json();
    const since = (start: string) => service.call("GET", `/rules/${id}/history?start=${start}`, viewer);
    expect((await since("0001-01-01T00:00:00Z")).json()).toEqual([]);
    expect(shown(await since("2026-02-30T00:00:00Z"))).toEqual([
      400,
      "invalid_parameter",
      expect.stringMatching(/^start: must be RFC 3339/),
    ]);
  });

  test("is listed oldest first", async () => {
    const bearer = `${await service.makeOrg()}:admin`;
    for (const name of ["c", "a", "b"]) await create({ name }, bearer);
    const names = (await service.call("GET", "/rules", bearer)).json<{ name: string }[]>().map((rule) => rule.name);
    expect(names).toEqual(["c", "a", "b"]);
  });

  test("has a name that is unique in its organisation and free in another", async () => {
    const first = await create({ name: "taken" });
    expect(first.statusCode).toBe(201);
    expect(shown(await create({ name: "taken" }))).toEqual([409, "conflict", expect.stringMatching(/^name: .*"taken"/)]);
    const other = await create();
    const renamed = await service.call("PUT", `/rules/${other.json().id}`, admin, body({ name: "taken" }));
    expect(renamed.statusCode).toBe(409);
    const same = await service.call("PUT", `/rules/${first.json().id}`, admin, body({ name: "taken", expr: "up == 1" }));
    expect(same.statusCode).toBe(200);
    expect((await create({ name: "taken" }, otherAdmin)).statusCode).toBe(201);
  });

  test("can be read and validated by a viewer", async () => {
    const { id } = (await create({ enabled: false })).json();
    expect((await service.call("GET", `/rules/${id}/status`, viewer)).json()).toEqual({ state: "inactive", active_alerts: 0 });
    expect((await service.call("POST", "/rules/validate", viewer, { expr: "up == 0" })).json()).toEqual({
      valid: true,
      matching_series: 0,
    });
  });

  test("can be the thousandth of its organisation but not the next one", async () => {
    const orgId = await service.makeOrg();
    await insertRules(orgId, 999);
    expect((await create({}, `${orgId}:admin`)).statusCode).toBe(201);
    expect(shown(await create({}, `${orgId}:admin`))).toEqual([400, "invalid_field", expect.stringMatching(/at most 1000/)]);
  });

  test("is limited to 16 KiB of text, counted as bytes", async () => {
    const annotations = (characters: number): object => ({
      annotations: { a: "ü".repeat(4000), b: "ü".repeat(characters), c: "x".repeat(50) },
      enabled: false,
    });
    expect((await create(annotations(4000))).statusCode).toBe(201);
    expect(shown(await create(annotations(4000 - 50 + 250)))).toEqual([400, "invalid_field", expect.stringMatching(/^annotations.*4000/)]);
    const more = { annotations: { a: "ü".repeat(4000), b: "ü".repeat(4000), c: "x".repeat(400) } };
    expect(shown(await create(more))).toEqual([
      400,
      "invalid_field",
      expect.stringMatching(/^rule: its text has 16\d{3} bytes, more than 16384/),
    ]);
  });

  test("is limited to 2 MiB with all others of its organisation: existing rules may shrink, and other organisations may add", async () => {
    const orgId = await service.makeOrg();
    const bearer = `${orgId}:admin`;
    const heavy = { a: "x".repeat(4000), b: "x".repeat(4000), c: "x".repeat(4000), d: "x".repeat(4000) };
    const ids = await insertRules(orgId, 131, heavy);
    const refused = [400, "invalid_field", expect.stringMatching(/^rules: .* at most 2097152 bytes/)];
    expect(shown(await create({ annotations: heavy }, bearer))).toEqual(refused);
    const path = `/rules/${ids[0]}`;
    const put = async (annotations: object) => await service.call("PUT", path, bearer, body({ annotations, enabled: false }));
    expect(shown(await put({ ...heavy, e: "y".repeat(300) }))).toEqual(refused);
    expect((await put({ a: "shorter" })).statusCode).toBe(200);
    for (const id of ids.slice(1, 4)) await service.call("DELETE", `/rules/${id}`, bearer);
    expect((await create({ annotations: heavy }, bearer)).statusCode).toBe(201);
  });
});

describe("during an outage", () => {
  test("of the evaluator, the status of an enabled rule is 500, of a disabled one 200, and writes are stored", async () => {
    await using other = await alertingApp();
    const bearer = `${await other.makeOrg()}:admin`;
    const enabled = (await other.call("POST", "/rules", bearer, body())).json().id;
    await other.evaluator.child[Symbol.asyncDispose]();
    expect(shown(await other.call("GET", `/rules/${enabled}/status`, bearer)).slice(0, 2)).toEqual([500, "internal"]);
    const disabled = await other.call("POST", "/rules", bearer, body({ enabled: false }));
    expect((await other.call("GET", `/rules/${disabled.json().id}/status`, bearer)).statusCode).toBe(200);
    expect((await other.call("PUT", `/rules/${enabled}`, bearer, body())).statusCode).toBe(200);
    expect((await other.call("DELETE", `/rules/${enabled}`, bearer)).statusCode).toBe(204);
  });

  test.skipIf(!postgresBinaries)(
    `of the database, every route returns 500, and works after its return (${postgresBinaries ? "PostgreSQL" : NO_POSTGRES})`,
    async () => {
      await using server = await PostgresServer.start();
      await using database = await openDatabase({ url: await server.newDatabase(), dataDir: "unused", log: createLog("silent") });
      await using other = await alertingApp({ database });
      const bearer = `${await other.makeOrg()}:admin`;
      const { id } = (await other.call("POST", "/rules", bearer, body())).json();
      await server.stop("killed");
      const asked: [string, string, object?][] = [
        ["GET", "/rules"],
        ["GET", `/rules/${id}/status`],
        ["POST", "/rules", body()],
        ["PUT", `/rules/${id}`, body()],
        ["DELETE", `/rules/${id}`],
      ];
      for (const [method, path, given] of asked) {
        const answer = await other.call(method, path, bearer, given);
        expect([method, path, answer.statusCode, answer.json().error]).toEqual([method, path, 500, "internal"]);
      }
      await server.resume();
      const made = await vi.waitFor(async () => {
        const answer = await other.call("POST", "/rules", bearer, body({ name: "after" }));
        expect(answer.statusCode).toBe(201);
        return answer.json().id as string;
      }, 60_000);
      await vi.waitFor(async () => {
        expect((await other.call("GET", `/rules/${made}/status`, bearer)).json()).toMatchObject({ last_eval: expect.any(String) });
      }, 60_000);
    },
  );

  test.skipIf(!postgresBinaries)(
    `of the database for too long, every route returns 503 with Retry-After (${postgresBinaries ? "PostgreSQL" : NO_POSTGRES})`,
    async () => {
      await using server = await PostgresServer.start();
      const url = await server.newDatabase();
      const options = { dataDir: "unused", log: createLog("silent") };
      // Simulates that half a minute has passed.
      await using database = await openDatabase({ ...options, url: `${url}?options=${encodeURIComponent("-c lock_timeout=100")}` });
      await using other = await alertingApp({ database });
      const bearer = `${await other.makeOrg()}:admin`;
      const { id } = (await other.call("POST", "/rules", bearer, body())).json();
      await using outside = await openDatabase({ ...options, url });
      const asked: [string, string, object?][] = [
        ["GET", "/rules"],
        ["GET", `/rules/${id}/status`],
        ["GET", "/prometheus/api/v1/rules"],
        ["POST", "/rules", body()],
        ["PUT", `/rules/${id}`, body()],
        ["DELETE", `/rules/${id}`],
      ];
      await outside
        .tables()
        .transaction()
        .execute(async (trx) => {
          await sql`LOCK TABLE rules`.execute(trx);
          for (const [method, path, given] of asked) {
            const answer = await other.call(method, path, bearer, given);
            const refusal = [answer.statusCode, answer.json().error, answer.headers["retry-after"]];
            expect([method, path, ...refusal]).toEqual([method, path, 503, "unavailable", "2"]);
          }
        });
      expect((await other.call("GET", "/rules", bearer)).json()).toHaveLength(1);
    },
  );

  test("of a hanging evaluator, the status of a rule returns 503 with Retry-After", async () => {
    await using other = await alertingApp();
    const bearer = `${await other.makeOrg()}:admin`;
    const { id } = (await other.call("POST", "/rules", bearer, body())).json();
    process.kill(other.evaluator.child.pid ?? 0, "SIGSTOP");
    const answer = await other.call("GET", `/rules/${id}/status`, bearer);
    process.kill(other.evaluator.child.pid ?? 0, "SIGCONT");
    expect([...shown(answer).slice(0, 2), answer.headers["retry-after"]]).toEqual([503, "unavailable", "2"]);
  });

  test("of the metrics store, writes return 503 with Retry-After because rules cannot be tested, and reads work", async () => {
    await using other = await alertingApp();
    const bearer = `${await other.makeOrg()}:admin`;
    expect((await other.call("POST", "/rules", bearer, body())).statusCode).toBe(201);
    await other.engine.child[Symbol.asyncDispose]();
    const answer = await other.call("POST", "/rules", bearer, body());
    expect([answer.statusCode, answer.json().error, answer.headers["retry-after"]]).toEqual([503, "unavailable", "2"]);
    expect((await other.call("GET", "/rules", bearer)).json()).toHaveLength(1);
  });
});
